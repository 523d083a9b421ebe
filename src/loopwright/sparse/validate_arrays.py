"""Fast validation of index arrays: what generated code needs to stay within its arrays.

`validate_tensor` reports all that is wrong with a tensor; this module only ensures that every index
is in range, every pointer ascends and every invariant holds, in about one read of each array for
each of them, before code runs on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import BOOL, DType, dtype_of
from loopwright.ir.expr import Binary, Const, Load, Var
from loopwright.ir.program import Role
from loopwright.lazy_dataclass import dataclass
from loopwright.runtime.code_memory import keeps_code

from .bounds_proof import reads_inside
from .check_invariants import has_no_violations, packed_bits, quantified_invariants_hold
from .format import Format, Index
from .formats.canonical_formats import is_verified
from .invariants import loop_facts
from .quick_check import ends_check_of, is_plain, quick_check_of
from .sortedness import unsigned
from .spf.compile_computation import CompiledComputation, compile_computation
from .spf.computation import Computation, DataSpace, Stmt
from .tensor import SparseTensor
from .uf import Term, UFCall, atoms, evaluate, symbols
from .uf import TupleVar as Name
from .validate_tensor import validate_tensor

__all__ = [
    "ends_check",
    "index_names",
    "invariants_hold",
    "limits",
    "quick_check",
    "require_valid_arrays",
]

_COUNT = "N"
_NOTHING: Mapping[str, int] = MappingProxyType({})


def require_valid_arrays(
    tensor: SparseTensor, largest: Mapping[str, int] | None = None, threads: int = 1
) -> None:
    """Raise UsageError that names the place unless code may be run on a tensor.

    The full validation reports what is wrong; it runs only when something is. `largest` holds what
    is known of index arrays already: their largest elements, read as unsigned.
    """
    names, arrays = index_names(tensor.format), tensor.arrays
    dtypes = tuple([arrays[name].dtype for name in names])
    is_known = largest is not None and len(largest) == len(names)
    quick = quick_check_of(
        tensor.format, dtypes, is_known, False, packed_bits(tensor.format, tensor.shape)
    )
    given = arrays, tensor.symbols, tensor.values, largest or _NOTHING, threads
    if (
        quick is not None
        and quick.is_fine(*given)
        and (not quick.rest or has_no_violations(quick.rest, tensor, threads))
    ):
        return
    is_inside = _is_valid(tensor, largest or {}, threads)
    kept = quantified_invariants_hold(tensor, threads) if is_inside else False
    is_open = _is_nested(tensor.format) or not reads_inside(tensor.format)
    if kept is False or (kept is None and is_open):
        validate_tensor(tensor)
    if not is_inside:
        raise UsageError(f"the index arrays of this {tensor.format.name} leave their ranges")


def quick_check(tensor: SparseTensor) -> Callable[[SparseTensor, int], bool]:
    """Whether code that was made for a tensor still stays inside its arrays: f(tensor, threads).

    It runs before every call on arrays that others can write. False also where the quick check
    cannot decide: only for verified formats do the invariants imply that code stays in bounds.
    """
    format, arrays = tensor.format, tensor.arrays
    if not is_verified(format):
        return _never
    dtypes = tuple([arrays[name].dtype for name in index_names(format)])
    quick = quick_check_of(format, dtypes, False, True, packed_bits(format, tensor.shape))
    if quick is None:
        return _is_whole
    is_fine, rest = quick.is_fine, quick.rest

    def is_inside(given: SparseTensor, threads: int) -> bool:
        if not is_fine(given.arrays, given.symbols, given.values, _NOTHING, threads):
            return False
        return not rest or has_no_violations(rest, given, threads)

    return is_inside


def ends_check(tensor: SparseTensor) -> Callable[[SparseTensor], bool] | None:
    """The part of the quick check for code that validates all elements by itself (levels).

    It is left with shapes, with the ends of pointers, and with invariants of single elements. None
    where the quick check tests more than that.
    """
    format, arrays = tensor.format, tensor.arrays
    dtypes = tuple([arrays[name].dtype for name in index_names(format)])
    if not is_verified(format) or packed_bits(format, tensor.shape):
        return None
    quick = quick_check_of(format, dtypes, False, True)
    is_fine = None if quick is None or quick.rest else ends_check_of(format)
    if is_fine is None:
        return None
    return lambda given: is_fine(given.arrays, given.symbols, given.values)


def _is_whole(tensor: SparseTensor, threads: int) -> bool:
    """The same array by array, where one function cannot ask for all of them."""
    try:
        require_valid_arrays(tensor, None, threads)
    except UsageError:
        return False
    return True


def _never(tensor: SparseTensor, threads: int) -> bool:
    return False


def invariants_hold(tensor: SparseTensor, threads: int = 1) -> bool | None:
    """Whether index arrays are in range, monotone as declared, and satisfy all invariants, by code.

    None where code does not tell all of that: padding, inverses, arrays of several dimensions.
    """
    if not all(is_plain(index) and not index.inverse for index in tensor.format.indices):
        return None
    return (
        quantified_invariants_hold(tensor, threads)
        if _is_valid(tensor, _NOTHING, threads)
        else False
    )


@lru_cache(maxsize=256)
def index_names(format: Format) -> tuple[str, ...]:
    """The names of the index arrays of a format."""
    return tuple(index.name for index in format.indices)


@lru_cache(maxsize=256)
def _is_nested(format: Format) -> bool:
    """Whether places are read that index arrays add up to: ranges alone do not bound those."""
    inner = (a for call in (*format.map.calls, *format.access.calls) for a in call.args)
    places = (c.term for conj in format.access.conjs for c in conj.constraints)
    return any(isinstance(x, UFCall) for term in (*inner, *places) for x in atoms(term))


def _is_valid(tensor: SparseTensor, largest: Mapping[str, int], threads: int) -> bool:
    format = tensor.format
    wanted = _wanted(format, tuple(sorted(tensor.symbols.items())))
    for index, (shape, ends) in zip(format.indices, wanted.indices, strict=True):
        array = tensor.arrays[index.name]
        if array.ndim != index.rank or array.dtype.kind not in "iu" or array.shape != shape:
            return False
        known = largest.get(index.name)
        if array.size and not _in_range(index, tensor, ends, known, threads):
            return False
    for rule in format.invariants:
        if not rule.variables and not _holds(rule.conclusion[0], tensor):
            return False
    return len(tensor.values) == wanted.places


_Ends: TypeAlias = tuple[tuple[int, int], ...]  # (a, b): a*y + b >= 0 for every element y


@dataclass(frozen=True)
class _Wanted:
    """What the symbols of a tensor say of its arrays."""

    indices: tuple[tuple[tuple[int, ...], _Ends], ...]  # shape and range
    places: int


@lru_cache(maxsize=256)
def _wanted(format: Format, symbols: tuple[tuple[str, int], ...]) -> _Wanted:
    known = dict(symbols)
    found = []
    for index in format.indices:
        (name,) = index.range.variables
        terms = [c.term for conj in index.range.conjs for c in conj.constraints]
        rests = [evaluate(term.without(Name(name)), {**known, name: 0}, {}) for term in terms]
        factors = [term.coefficient(Name(name)) for term in terms]
        shape = tuple(evaluate(extent, known, {}) for extent in index.extents)
        found.append((shape, tuple(zip(factors, rests, strict=True))))
    return _Wanted(tuple(found), evaluate(format.places, known, {}))


def _in_range(
    index: Index, tensor: SparseTensor, ends: _Ends, largest: int | None, threads: int
) -> bool:
    """Whether an index array lies in its range, where it has no padding, and ascends as it says."""
    array = tensor.arrays[index.name]
    if index.pad is not None:
        low, high = _domain_limits(index, tensor, threads)
        if not _fits(ends, low, high):
            return False
        return not index.monotone or index.rank > 1 or _ascends(array, index.is_strict, threads)
    is_pointer = index.rank == 1 and index.monotone.endswith("increasing")
    if is_pointer:
        if not _ascends(array, index.is_strict, threads):
            return False
        return _fits(ends, int(array[0]), int(array[-1]))
    if index.monotone and index.rank == 1 and not _ascends(array, index.is_strict, threads):
        return False
    # Read as unsigned, what is negative is larger than any index: one comparison tells both ends.
    high = largest if largest is not None else _largest(array, threads)
    is_natural = high <= np.iinfo(array.dtype).max
    return (is_natural and _fits(ends, 0, high)) or _fits(ends, *limits(array, threads))


def _fits(ends: _Ends, low: int, high: int) -> bool:
    """Whether the range of an index array holds all from `low` to `high`."""
    return low > high or all(a * (low if a > 0 else high) + b >= 0 for a, b in ends)


def _holds(conj: Any, tensor: SparseTensor) -> bool:
    for constraint in conj.constraints:
        value = evaluate(constraint.term, tensor.symbols, tensor.arrays)
        if (value != 0) if constraint.is_equality else (value < 0):
            return False
    return True


def _ascends(array: NDArray[Any], is_strict: bool, threads: int) -> bool:
    """Whether each element is at least, or more than, the one before."""
    if len(array) < 2:
        return True
    flat = np.ascontiguousarray(array)
    out = np.zeros(1, np.bool_)
    code = _ascends_code(dtype_of(flat.dtype), is_strict)
    code.run({"a0": flat, "out": out}, {_COUNT: len(flat)}, threads)
    return not out[0]


def _largest(array: NDArray[Any], threads: int) -> int:
    """The largest element of an array that has some, read as unsigned."""
    flat = unsigned(np.ascontiguousarray(array).reshape(-1))
    out = np.zeros(1, flat.dtype)
    code = _largest_code(dtype_of(flat.dtype))
    code.run({"a": flat, "out": out}, {_COUNT: flat.size}, threads)
    return int(out[0])


def limits(array: NDArray[Any], threads: int = 1) -> tuple[int, int]:
    """The least and the largest element of an array that has some, in one read."""
    if not array.flags.c_contiguous:
        return int(array.min()), int(array.max())
    out = np.empty(2, array.dtype)
    flat = array.reshape(-1)
    out[:] = flat[0]
    code = _limits_code(dtype_of(array.dtype))
    code.run({"a": flat, "out": out}, {_COUNT: flat.size}, threads)
    return int(out[0]), int(out[1])


def _domain_limits(index: Index, tensor: SparseTensor, threads: int) -> tuple[int, int]:
    """The least and the largest element of a padded array in its domain, where it has no padding.

    The arrays that bound the domain come before it and have been found to lie in their ranges.
    """
    names = (index.name, *(call.name for conj in index.domain.conjs for call in conj.calls))
    arrays = {name: np.ascontiguousarray(tensor.arrays[name]) for name in dict.fromkeys(names)}
    dtypes = tuple(dtype_of(array.dtype) for array in arrays.values())
    info = np.iinfo(arrays[index.name].dtype)
    out = np.array([info.max, info.min], arrays[index.name].dtype)
    code = _domain_limits_code(tensor.format, index, dtypes)
    values = {s: tensor.symbols[s] for s in code.computation.symbols}
    code.run(arrays | {"out": out}, values, threads)
    return int(out[0]), int(out[1])


@keeps_code
@lru_cache(maxsize=32)
def _limits_code(dtype: DType) -> CompiledComputation:
    spaces = (
        DataSpace.of("a", dtype, (_COUNT,), Role.IN),
        DataSpace.of("out", dtype, (2,), Role.INOUT),
    )
    value = Load("a", (Var("e"),), dtype)
    domain = f"{{[e] : 0 <= e < {_COUNT}}}"
    statements = tuple(
        Stmt.of(
            op, domain, ("e", at), f"out({at})", Binary(op, Load("out", (Const(at),), dtype), value)
        )
        for at, op in enumerate(("min", "max"))
    )
    return compile_computation(Computation("limits", spaces, tuple(statements), (_COUNT,)))


@keeps_code
@lru_cache(maxsize=32)
def _largest_code(dtype: DType) -> CompiledComputation:
    spaces = (
        DataSpace.of("a", dtype, (_COUNT,), Role.IN),
        DataSpace.of("out", dtype, (1,), Role.INOUT),
    )
    more = Binary("max", Load("out", (Const(0),), dtype), Load("a", (Var("e"),), dtype))
    stmt = Stmt.of("max", f"{{[e] : 0 <= e < {_COUNT}}}", ("e",), "out(0)", more)
    return compile_computation(Computation("largest", spaces, (stmt,), (_COUNT,)))


@keeps_code
@lru_cache(maxsize=64)
def _ascends_code(dtype: DType, is_strict: bool) -> CompiledComputation:
    """Whether some a(e) > a(e+1), or a(e) >= a(e+1)."""
    spaces = (
        DataSpace.of("a0", dtype, (_COUNT,), Role.IN),
        DataSpace.of("out", BOOL, (1,), Role.INOUT),
    )
    here, there = (Load("a0", (Var("e") + step,), dtype) for step in (0, 1))
    fails = Binary("ge" if is_strict else "gt", here, there)
    found = Binary("or", Load("out", (Const(0),), BOOL), fails)
    stmt = Stmt.of("fails", f"{{[e] : 0 <= e < {_COUNT}-1}}", ("e",), "out(0)", found)
    return compile_computation(Computation("ascends", spaces, (stmt,), (_COUNT,)))


@keeps_code
@lru_cache(maxsize=32)
def _domain_limits_code(
    format: Format, index: Index, dtypes: tuple[DType, ...]
) -> CompiledComputation:
    """The least and the largest element over the domain of an index array."""
    bounding = (call.name for conj in index.domain.conjs for call in conj.calls)
    names = tuple(dict.fromkeys((index.name, *bounding)))
    spaces = [
        DataSpace(name, dtype, format.index(name).extents, Role.IN)
        for name, dtype in zip(names, dtypes, strict=True)
    ]
    spaces.append(DataSpace.of("out", dtypes[0], (2,), Role.INOUT))
    times = tuple(Term.of(Name(v)) for v in index.domain.variables)
    value = Load(index.name, tuple(map(Var, index.domain.variables)), dtypes[0])
    statements = tuple(
        Stmt(
            op,
            index.domain,
            (*times, Term.of(at)),
            "out",
            (Term.of(at),),
            Binary(op, Load("out", (Const(at),), dtypes[0]), value),
        )
        for at, op in enumerate(("min", "max"))
    )
    wanted = {s for stmt in statements for s in stmt.domain.symbols}
    wanted |= {s for space in spaces for extent in space.shape for s in symbols(extent)}
    facts = loop_facts(format)
    return compile_computation(
        Computation("inside", tuple(spaces), statements, tuple(sorted(wanted)), facts)
    )
