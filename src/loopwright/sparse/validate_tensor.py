"""Full validation of a tensor: every invariant of its format; a violation is located."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from loopwright.diagnostics import DtypeError, UsageError

from .enumerate_sets import IndexEnvironment, enumerate_points, values_of
from .format import Format, Index, Invariant
from .format_symbols import check_sizes, fixed_symbols, value_of
from .tensor_entries import Entries, StoredTensor, entries, environment_of, require_within
from .uf import Atom, Conj, Formula, IntegerSet, Term, TupleVar, UFCall, calls

__all__ = ["check_lengths", "check_order", "is_in_order", "satisfies", "validate_tensor"]

Ints = NDArray[np.int64]
_FAR = 1 << 63


def validate_tensor(tensor: StoredTensor) -> None:
    """Raise a UsageError that names array, position and value where an invariant is violated.

    Lengths and types come first, then the range and order of each index array, the
    invariants that connect them, the places that are reached, and last the order of the entries.
    """
    check_lengths(tensor)
    env = IndexEnvironment(tensor.symbols, tensor.arrays)
    for index in tensor.format.indices:
        _check_range(tensor.format, index, env)
    # Inverses exist only of what has just been found to lie in range.
    env = environment_of(tensor)
    for index in tensor.format.indices:
        _check_monotone(tensor.format, index, env)
    for rule in tensor.format.invariants:
        _check_invariant(tensor.format, rule, env)
    found = entries(tensor)
    require_within(tensor, found)
    _check_places(tensor, found)
    _check_order(tensor, found, env)


def check_lengths(tensor: StoredTensor) -> None:
    """Check what can be seen without looking into an array: names, types, shapes, symbols."""
    format = tensor.format
    if len(tensor.shape) != format.rank:
        spelled = " x ".join(map(str, tensor.shape))
        raise UsageError(
            f"{format.name} holds tensors of {format.rank} dimensions", f"shape {spelled}"
        )
    check_sizes(format, tensor.shape)
    wanted = [index.name for index in format.indices]
    if set(tensor.arrays) != set(wanted):
        raise UsageError(
            f"{format.name} has the index arrays {', '.join(wanted)}",
            found=", ".join(tensor.arrays) or "none",
        )
    _check_symbols(format, tensor.shape, tensor.symbols)
    for index in format.indices:
        _check_array(format, index, tensor.arrays[index.name], tensor.symbols)
    _check_values(tensor)


def satisfies(format: Format, promise: Index | Invariant, env: IndexEnvironment) -> bool:
    """Whether an index array has its declared range and monotonicity, or an invariant holds."""
    try:
        if isinstance(promise, Invariant):
            _check_invariant(format, promise, env)
        else:
            _check_range(format, promise, env)
            _check_monotone(format, promise, env)
    except UsageError:
        return False
    return True


def is_in_order(tensor: StoredTensor) -> bool:
    """Whether the entries are in the order of the format; nothing else is checked."""
    found = entries(tensor)
    return found.count < 2 or not _descent(tensor.format, found, environment_of(tensor)).any()


def check_order(tensor: StoredTensor, found: Entries) -> None:
    """Check that entries stand in the order of their format, and no coordinate twice if it says so.

    `found` are the entries of the tensor.
    """
    _check_order(tensor, found, environment_of(tensor))


def _check_symbols(format: Format, shape: tuple[int, ...], symbols: Mapping[str, int]) -> None:
    fixed = fixed_symbols(format, shape)
    for name in (*fixed, *format.counts):
        if name not in symbols:
            raise UsageError(f"{format.name}: the symbol {name} has no value")
        if symbols[name] < 0:
            raise UsageError(f"{format.name}: {name} is {symbols[name]}, sizes are not negative")
        if symbols[name] != fixed.get(name, symbols[name]):
            raise UsageError(
                f"{format.name}: {name} is {symbols[name]}, the shape makes it {fixed[name]}"
            )


def _check_array(
    format: Format, index: Index, array: NDArray[Any], symbols: Mapping[str, int]
) -> None:
    if array.dtype.kind not in "iu":
        raise DtypeError(
            f"{format.name}: the index array {index.name} must hold integers",
            found=str(array.dtype),
        )
    if index.dtype and array.dtype != np.dtype(index.dtype):
        raise DtypeError(
            f"{format.name}: the index array {index.name} must be {index.dtype}",
            found=str(array.dtype),
        )
    shape = tuple(value_of(extent, symbols) for extent in index.extents)
    if array.shape != shape:
        extents = ", ".join(map(str, index.extents))
        raise UsageError(
            f"{format.name}: {index.name} has shape {array.shape}, it needs {shape}",
            hint=f"its extents are ({extents}) with {_spelled(symbols)}",
        )


def _check_values(tensor: StoredTensor) -> None:
    places = value_of(tensor.format.places, tensor.symbols)
    if tensor.values.ndim != 1 or len(tensor.values) != places:
        raise UsageError(
            f"{tensor.format.name}: the values have shape {tensor.values.shape}, "
            f"they need ({places},)",
            hint=f"{tensor.format.places} places with {_spelled(tensor.symbols)}",
        )


def _spelled(symbols: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in symbols.items())


def _domain(index: Index, env: IndexEnvironment) -> list[Ints]:
    """The columns of all points of the domain of an index array, in lexicographic order."""
    found = [enumerate_points(c, index.domain.variables, env) for c in index.domain.conjs]
    return [
        np.concatenate([columns[name] for columns in found])
        for name in (index.domain.variables if found else ())
    ]


def _check_range(format: Format, index: Index, env: IndexEnvironment) -> None:
    at = _domain(index, env)
    if not at:
        return
    array = env.arrays[index.name]
    value = _elements(format, index, at, array)
    wrong = ~_is_member(value, index.range, env)
    if wrong.any():
        n = int(np.argmax(wrong))
        raise UsageError(
            f"{format.name}: {_element(index, at, n)} = {value[n]} is outside its range",
            found=f"{_spelled(env.symbols)}",
            hint=f"allowed are {index.range}",
        )
    if index.pad is not None:
        _check_pads(format, index, at, array)


def _elements(format: Format, index: Index, at: list[Ints], array: NDArray[Any]) -> NDArray[Any]:
    """The elements at the points of the domain, which must lie within the array."""
    outside = np.zeros(len(at[0]), np.bool_)
    for column, extent in zip(at, array.shape, strict=True):
        outside |= (column < 0) | (column >= extent)
    if outside.any():
        extents = ", ".join(map(str, index.extents))
        raise UsageError(
            f"{format.name}: {_element(index, at, int(np.argmax(outside)))} is in the domain of "
            f"{index.name}, which has shape {array.shape}",
            found=f"domain {index.domain}, extents ({extents})",
            hint="a domain within the extents",
        )
    return array[tuple(at)]


def _check_pads(format: Format, index: Index, at: list[Ints], array: NDArray[Any]) -> None:
    is_pad = np.ones(array.shape, np.bool_)
    is_pad[tuple(at)] = False
    if len(at[0]) == array.size:
        return
    wrong = is_pad & (array != index.pad)
    if wrong.any():
        place = [np.asarray([p]) for p in np.unravel_index(int(np.argmax(wrong)), array.shape)]
        value = array[tuple(place)][0]
        raise UsageError(
            f"{format.name}: {_element(index, place, 0)} = {value} is padding",
            hint=f"it must be {index.pad}",
        )


def _is_member(values: NDArray[Any], allowed: IntegerSet, env: IndexEnvironment) -> Any:
    name = allowed.variables[0]
    terms = [c.term for conj in allowed.conjs for c in conj.constraints]
    # Numbers with which a term would leave 64 bits; no range reaches as far.
    far = min((_far(term, name, env) for term in terms), default=_FAR)
    small = values < far
    if values.dtype.kind == "i":
        small &= values > -far
    kept = np.where(small, values, 0).astype(np.int64)
    return small & _is_true(allowed.conjs, {name: kept}, env)


def _far(term: Term, name: str, env: IndexEnvironment) -> int:
    """The least number that makes a term too large for `values_of`."""
    rest = term.without(TupleVar(name))
    reach = abs(rest.constant)
    reach += sum(abs(f * value_of(Term.of(a), env.symbols)) for a, f in rest.terms)
    return max((_FAR - reach) // max(abs(term.coefficient(TupleVar(name))), 1), 0)


def _is_true(formula: Formula, columns: Mapping[str, Ints], env: IndexEnvironment) -> Any:
    """Where a formula holds, for every point of the columns."""
    count = len(next(iter(columns.values()))) if columns else 1
    result = np.zeros(count, np.bool_)
    for conj in formula:
        result |= _holds(conj, columns, env, count)
    return result


def _holds(conj: Conj, columns: Mapping[str, Ints], env: IndexEnvironment, count: int) -> Any:
    if conj.exists:
        raise UsageError(f"an invariant with 'exists' cannot be checked: {conj}")
    result = np.ones(count, np.bool_)
    for constraint in conj.constraints:
        value = values_of(constraint.term, columns, env)
        result &= (value == 0) if constraint.is_equality else (value >= 0)
    return result


def _element(index: Index, at: Iterable[Ints], n: int) -> str:
    return f"{index.name}[{', '.join(str(column[n]) for column in at)}]"


def _check_monotone(format: Format, index: Index, env: IndexEnvironment) -> None:
    if not index.monotone:
        return
    at = _domain(index, env)
    if not at or len(at[0]) < 2:
        return
    value = _elements(format, index, at, env.arrays[index.name])
    together = np.ones(len(value) - 1, np.bool_)
    for column in at[:-1]:
        together &= column[1:] == column[:-1]
    before, after = value[:-1], value[1:]
    if "decreasing" in index.monotone:
        before, after = after, before
    fine = before < after if index.is_strict else before <= after
    wrong = together & ~fine
    if wrong.any():
        n = int(np.argmax(wrong))
        raise UsageError(
            f"{format.name}: {index.name} is not {index.monotone}",
            found=f"{_element(index, at, n)} = {value[n]} "
            f"and {_element(index, at, n + 1)} = {value[n + 1]}",
            hint=_REMEDY,
        )


_REMEDY = "sort the entries, or name a format without a required order, such as coo"


def _check_invariant(format: Format, rule: Invariant, env: IndexEnvironment) -> None:
    for premise in rule.premise:
        columns = enumerate_points(_meaningful(format, rule, premise), rule.variables, env)
        if premise.is_false or (columns and not len(next(iter(columns.values())))):
            continue
        wrong = ~_is_true(rule.conclusion, columns, env)
        if wrong.any():
            _report_invariant(format, rule, columns, int(np.argmax(wrong)), env)


@lru_cache(maxsize=1024)
def _meaningful(format: Format, rule: Invariant, premise: Conj) -> Conj:
    """The premise where all of it has a meaning: it does not hold where f(x+1) has none."""
    stepped = [
        call
        for call in premise.calls
        if all(isinstance((a - a.constant).atom, TupleVar) for a in call.args)
    ]
    return _bounded(format, within_domains(format, rule, premise), stepped)


@lru_cache(maxsize=1024)
def within_domains(format: Format, rule: Invariant, premise: Conj) -> Conj:
    """The premise, bounded by the domains of functions that are called on a bare variable."""
    bare = [
        call
        for conj in (premise, *rule.conclusion)
        for call in conj.calls
        if all(isinstance(a.atom, TupleVar) for a in call.args)
    ]
    return _bounded(format, premise, bare)


def _bounded(format: Format, joined: Conj, over: Iterable[UFCall]) -> Conj:
    """A conjunction where calls of index arrays lie in their domains."""
    known = {index.name: index for index in format.indices}
    for call in over:
        domain = known[call.name].domain if call.name in known else None
        if domain is not None and len(domain.conjs) == 1:
            spelled: dict[Atom, Term] = dict(
                zip(map(TupleVar, domain.variables), call.args, strict=True)
            )
            joined = joined.conjoined(domain.conjs[0].substitute(spelled).constraints)
    return joined


def _report_invariant(
    format: Format, rule: Invariant, columns: Mapping[str, Ints], n: int, env: IndexEnvironment
) -> NoReturn:
    point = {name: column[n : n + 1] for name, column in columns.items()}
    seen = [f"{name} = {column[0]}" for name, column in point.items()]
    told = [c for conj in rule.conclusion for k in conj.constraints for c in calls(k.term)]
    for call in dict.fromkeys(told):
        value = np.broadcast_to(values_of(Term.of(call), point, env), 1)[0]
        seen.append(f"{call} = {value}")
    raise UsageError(
        f"{format.name}: an invariant is violated: {rule}",
        found=", ".join(seen),
        hint=_REMEDY if rule.variables else "check how the arrays were built",
    )


def _check_places(tensor: StoredTensor, found: Entries) -> None:
    """Check that no two tuples share a place, and that other places hold the padding."""
    format, count = tensor.format, len(tensor.values)
    uses = np.bincount(found.places, minlength=count)
    if (uses > 1).any():
        raise UsageError(f"{format.name}: two entries share the place {int(np.argmax(uses > 1))}")
    unused = uses == 0
    if unused.any() and format.padding is None:
        place = int(np.argmax(unused))
        raise UsageError(
            f"{format.name}: no index leads to place {place} of the values",
            hint="check the pointers and lengths",
        )
    if format.padding is not None:
        wrong = unused & (tensor.values != format.padding.fill)
        if wrong.any():
            place = int(np.argmax(wrong))
            raise UsageError(
                f"{format.name}: place {place} is padding and holds {tensor.values[place]}",
                hint=f"it must be {format.padding.fill}",
            )


def _check_order(tensor: StoredTensor, found: Entries, env: IndexEnvironment) -> None:
    format = tensor.format
    if found.count < 2:
        return
    wrong = _descent(format, found, env)
    if wrong.any():
        n = int(np.argmax(wrong))
        raise UsageError(
            f"{format.name}: the entries are not in the order of "
            f"{', '.join(map(str, format.order))}",
            found=f"{_coordinate(found, n)} before {_coordinate(found, n + 1)}",
            hint=_REMEDY,
        )
    if format.is_unique:
        _check_unique(format, found)


def _descent(format: Format, found: Entries, env: IndexEnvironment) -> Any:
    """Where an entry comes before the one it follows, by the order of the format."""
    columns = dict(zip(format.coordinates, found.coordinates, strict=True))
    keys = [np.broadcast_to(values_of(k, columns, env), found.count) for k in format.order]
    return ~_ascends(keys, is_strict=False) if keys else np.zeros(found.count - 1, np.bool_)


def _check_unique(format: Format, found: Entries) -> None:
    order = np.lexsort(found.coordinates[::-1])
    again = np.ones(found.count - 1, np.bool_)
    for column in found.coordinates:
        again &= column[order][1:] == column[order][:-1]
    if again.any():
        n = int(order[int(np.argmax(again))])
        raise UsageError(
            f"{format.name}: the entry {_coordinate(found, n)} is stored twice",
            hint="sum what belongs to one coordinate, or use coo, which allows it",
        )


def _ascends(keys: list[Ints], *, is_strict: bool) -> Any:
    """Whether each entry comes after the one before it, by the keys in turn."""
    less = np.zeros(len(keys[0]) - 1, np.bool_)
    equal = np.ones(len(keys[0]) - 1, np.bool_)
    for key in keys:
        less |= equal & (key[:-1] < key[1:])
        equal &= key[:-1] == key[1:]
    return less if is_strict else less | equal


def _coordinate(found: Entries, n: int) -> str:
    return f"({', '.join(str(column[n]) for column in found.coordinates)})"
