"""Enumerate the integer points of sets with uninterpreted functions, as NumPy columns.

Slow compared with generated code, but the definition: variables are taken in order, an equality
gives a value, inequalities give a range, what is left is a test. Everything fast is compared
with what is found here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwright.diagnostics import UsageError
from loopwright.lazy_dataclass import dataclass

from .curves import CURVES
from .uf import (
    Atom,
    AtomProduct,
    Conj,
    Constraint,
    Floor,
    Sym,
    Term,
    TupleVar,
    UFCall,
    calls,
    variables,
)

__all__ = ["IndexEnvironment", "enumerate_points", "solvable_order", "values_of"]

Ints = NDArray[np.int64]
_SAFE = 1 << 63  # sums and products whose parts stay below it are exact
_FAR = 1 << 62  # beyond every bound of a variable
_MOST_POINTS = 1 << 28


@dataclass(frozen=True)
class IndexEnvironment:
    """What names mean: symbolic constants and index arrays; known functions are always there."""

    symbols: Mapping[str, int]
    arrays: Mapping[str, NDArray[Any]]


def values_of(term: Term, columns: Mapping[str, Ints], env: IndexEnvironment) -> Ints:
    """The values of a term at every point; a term without variables has one value."""
    total = np.asarray(term.constant, np.int64)
    reach = abs(term.constant)
    for atom, factor in term.terms:
        value = _atom(atom, columns, env)
        reach += abs(factor) * _reach(value)
        if reach >= _SAFE:
            raise UsageError(f"{term} leaves the range of 64-bit numbers")
        total = total + (value if factor == 1 else value * factor)
    return total


def _atom(atom: Atom, columns: Mapping[str, Ints], env: IndexEnvironment) -> Ints:
    match atom:
        case TupleVar(name=name):
            return columns[name]
        case Sym(name=name):
            if name not in env.symbols:
                raise UsageError(
                    f"the symbol {name} has no value",
                    found=f"values for {', '.join(env.symbols) or 'no symbol'}",
                    hint=f"give {name} as well",
                )
            return np.asarray(env.symbols[name], np.int64)
        case UFCall(name=name, args=args):
            at = [values_of(argument, columns, env) for argument in args]
            return _call(atom, name, at, env)
        case Floor(x=x, by=by):
            divisor = values_of(by, columns, env)
            if (divisor <= 0).any():
                raise UsageError(f"the divisor of {atom} is not positive")
            return values_of(x, columns, env) // divisor
        case AtomProduct(factors=factors):
            product = np.asarray(1, np.int64)
            for factor in factors:
                value = _atom(factor, columns, env)
                if _reach(product) * _reach(value) >= _SAFE:
                    raise UsageError(f"{atom} leaves the range of 64-bit numbers")
                product = product * value
            return product


def _call(call: UFCall, name: str, at: list[Ints], env: IndexEnvironment) -> Ints:
    if name in CURVES and name not in env.arrays:
        return CURVES[name](*at)
    if name not in env.arrays:
        raise UsageError(
            f"the function {name} has no array",
            found=f"arrays {', '.join(env.arrays) or '(none)'}",
            hint=f"give {name} as well",
        )
    array = env.arrays[name]
    if array.ndim != len(at) or call.result:
        raise UsageError(f"{call} has {len(at)} arguments, the array {name} {array.ndim}")
    for dimension, (index, size) in enumerate(zip(at, array.shape, strict=True)):
        outside = (index < 0) | (index >= size)
        if outside.any():
            value = int(np.asarray(index)[outside].flat[0])
            where = f", subscript {dimension + 1}" if array.ndim > 1 else ""
            raise UsageError(
                f"{call} reads {name} at {value}{where}, outside its {size} places",
                hint="check the tensor: another index array leads there",
            )
    found = array[tuple(at)]
    if found.dtype == np.uint64 and (found >= _FAR).any():
        raise UsageError(f"an entry of {name} does not fit a signed 64-bit number")
    return np.asarray(found).astype(np.int64)


def _reach(values: Ints) -> int:
    """The largest absolute value."""
    if values.ndim == 0:
        return abs(int(values))
    return max(abs(int(values.min(initial=0))), abs(int(values.max(initial=0))))


def enumerate_points(conj: Conj, order: Sequence[str], env: IndexEnvironment) -> dict[str, Ints]:
    """Every point of a conjunction in the lexicographic order of the variables named.

    Refuses a variable that neither an equality nor bounds on both sides determine from those
    before it. Variables that exist come last and must be determined by equalities.
    """
    columns: dict[str, Ints] = {}
    waiting = list(conj.constraints)
    count = 1
    for name in (None, *order, *(n for n in conj.exists if n not in order)):
        if name is not None:
            count = _extend(name, waiting, columns, count, env, name in conj.exists)
        ready = [c for c in waiting if variables(c.term) <= columns.keys()]
        waiting = [c for c in waiting if c not in ready]
        # Tests on bare coordinates come first: the subscripts of others may rely on them.
        for constraint in sorted(ready, key=_calls):
            count = _keep(constraint, columns, count, env)
    assert not waiting, f"variables without an order: {waiting}"
    return columns


def solvable_order(conj: Conj, order: Sequence[str]) -> tuple[str, ...]:
    """The variables in an order in which `points` finds them: the one given, if that will do.

    The first variable that those before it determine comes next.
    """
    left = list(order)
    known: list[str] = []
    while left:
        name = next((n for n in left if _is_determined(conj, n, known)), left[0])
        left.remove(name)
        known.append(name)
    return tuple(known)


def _is_determined(conj: Conj, name: str, known: Sequence[str]) -> bool:
    usable = [c for c in conj.constraints if _is_solvable(c.term, name, known)]
    signs = {c.term.coefficient(TupleVar(name)) > 0 for c in usable}
    return len(signs) == 2 or any(c.is_equality for c in usable)


def _calls(constraint: Constraint) -> int:
    return sum(1 for _ in calls(constraint.term))


def _extend(
    name: str,
    waiting: list[Constraint],
    columns: dict[str, Ints],
    count: int,
    env: IndexEnvironment,
    must_be_equal: bool,
) -> int:
    """Add the column of a variable; return the new number of points."""
    known = columns.keys()
    usable = [c for c in waiting if _is_solvable(c.term, name, known)]
    equalities = sorted((c for c in usable if c.is_equality), key=_calls)
    if equalities:
        chosen = equalities[0]
        waiting.remove(chosen)
        factor = chosen.term.coefficient(TupleVar(name))
        rest = np.broadcast_to(values_of(chosen.term.without(TupleVar(name)), columns, env), count)
        whole = rest % factor == 0
        columns[name] = -rest // factor
        return count if whole.all() else _filter(whole, columns)
    lower = [c for c in usable if c.term.coefficient(TupleVar(name)) > 0]
    upper = [c for c in usable if c.term.coefficient(TupleVar(name)) < 0]
    if not lower or not upper or must_be_equal:
        raise UsageError(
            f"the variable {name} is not bounded by the variables before it",
            found=" && ".join(map(str, waiting)),
            hint=f"add an equality that gives {name}, or bounds on both sides",
        )
    for constraint in usable:
        waiting.remove(constraint)
    low = np.max([_bound(c, name, columns, count, env) for c in lower], axis=0, initial=-_FAR)
    high = np.min([_bound(c, name, columns, count, env) for c in upper], axis=0, initial=_FAR)
    lengths = np.maximum(high - low + 1, 0)
    total = int(lengths.sum())
    if total > _MOST_POINTS:
        raise UsageError(
            f"{total} points are too many to enumerate: {name} runs from {low[0]} to {high[0]}",
            hint="an invariant of all pairs is better declared as monotone",
        )
    ends = np.cumsum(lengths)
    for other, column in columns.items():
        columns[other] = np.repeat(column, lengths)
    columns[name] = np.arange(total) + np.repeat(low - (ends - lengths), lengths)
    return total


def _is_solvable(term: Term, name: str, known: Any) -> bool:
    """Whether the term is linear in the variable and otherwise known."""
    if not term.coefficient(TupleVar(name)):
        return False
    rest = variables(term.without(TupleVar(name)))
    return name not in rest and rest <= set(known)


def _bound(
    constraint: Constraint,
    name: str,
    columns: Mapping[str, Ints],
    count: int,
    env: IndexEnvironment,
) -> Ints:
    """The least or the greatest value that factor*name + rest >= 0 allows."""
    factor = constraint.term.coefficient(TupleVar(name))
    rest = values_of(constraint.term.without(TupleVar(name)), columns, env)
    bound = -(rest // factor) if factor > 0 else rest // -factor
    return np.broadcast_to(bound, count)


def _keep(
    constraint: Constraint, columns: dict[str, Ints], count: int, env: IndexEnvironment
) -> int:
    value = np.broadcast_to(values_of(constraint.term, columns, env), count)
    keep = value == 0 if constraint.is_equality else value >= 0
    if keep.all():
        return count
    return _filter(keep, columns) if columns else int(keep.sum())


def _filter(keep: NDArray[np.bool_], columns: dict[str, Ints]) -> int:
    for name, column in columns.items():
        columns[name] = column[keep]
    return int(keep.sum())
