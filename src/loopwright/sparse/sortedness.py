"""The sortedness of a list of coordinates: in order, without repetitions, its largest elements."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import lru_cache, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwright.ir.dtypes import DTYPES, INT64, DType, dtype_of
from loopwright.ir.expr import Binary, Cast, Const, Expr, Load, Var
from loopwright.ir.loops import Mark
from loopwright.ir.program import Role
from loopwright.lazy_dataclass import dataclass
from loopwright.runtime.code_memory import keeps_code

from .spf.chunk_plan import LEAST_LIGHT
from .spf.compile_computation import CompiledComputation, compile_computation
from .spf.computation import Computation, DataSpace, Stmt

__all__ = ["Sortedness", "ascent", "find_sortedness", "unsigned"]

_COUNT, _CHUNKS = "N", "SHARES"
_UINT64 = DTYPES["uint64"]
# Lists up to here are short. Of a longer one a quarter of this shows whether it can be in order.
_SHORT = 1 << 12


@dataclass(frozen=True)
class Sortedness:
    """Whether a list of tuples ever descends, whether it repeats, and its largest elements."""

    descends: bool
    repeats: bool
    largest: tuple[int, ...] | None = None  # of each array read as unsigned, where all was read
    skips: bool = True  # whether the first entries of tuples may leave out a number between two


def find_sortedness(arrays: Sequence[NDArray[Any]], threads: int = 1) -> Sortedness:
    """Whether a list of tuples of natural numbers descends somewhere, and whether it repeats.

    A list in any order shows that in its first entries. One that ascends strictly, which most
    lists in order do, is read once by code that asks for nothing else.
    """
    count = len(arrays[0])
    if count < 2:
        return Sortedness(False, False)
    whole = [np.ascontiguousarray(array) for array in arrays]
    # For few entries the call dominates: one call finds everything.
    is_short = count <= _SHORT
    out = np.zeros(3 + len(whole), np.uint64)
    short = _short_code(tuple([array.dtype for array in whole]))
    short.alone(*whole, out, count if is_short else _SHORT // 4)
    descents, repetitions, steps, *tops = out.tolist()
    if is_short:
        return Sortedness(descents > 0, repetitions > 0, tuple(tops), steps > 0)
    if descents:
        return Sortedness(True, repetitions > 0)
    plain = [*map(unsigned, whole)]
    is_strict, largest, skips = _scanned(plain, count, threads)
    if is_strict:
        return Sortedness(False, False, largest, skips)
    descents, repetitions = ascent(plain, threads)
    return Sortedness(descents > 0, repetitions > 0, largest)


def _scanned(
    plain: Sequence[NDArray[Any]], count: int, threads: int
) -> tuple[bool, tuple[int, ...], bool]:
    """One read of the first tuples of a list, two or more: what a Sortedness tells of them.

    Whether each is known to be larger than the one before, the largest elements, and whether the
    first ones skip a number.
    """
    code, outs, halves = _strict_code(tuple([array.dtype for array in plain]))
    chunks = max(1, min(threads, count // LEAST_LIGHT))
    seen = [np.zeros(chunks, dtype) for dtype in outs]
    cut = np.array([(count - 1) * t // chunks for t in range(chunks + 1)], np.int64)
    if chunks == 1:
        code.alone(*plain, *seen, cut, count, 1)
        rises, steps, *tops = [value.item() for value in seen]
    else:
        names = (space.name for space in code.computation.spaces)
        arrays = dict(zip(names, (*plain, *seen, cut), strict=True))
        code.run(arrays, {_COUNT: count, _CHUNKS: chunks}, chunks)
        rises, steps = (reduce(operator.or_, value.tolist()) for value in seen[:2])
        tops = [max(value.tolist()) for value in seen[2:]]
    is_strict, lead = rises < halves[0], plain[0]
    # No element lies further than all steps together; where it might, the maximum is computed.
    is_low = is_strict and lead.item(0) + (count - 1) * steps < halves[0]
    largest = [lead.item(count - 1) if is_low else lead[:count].max().item()]
    largest += [max(x, array.item(count - 1)) for x, array in zip(tops, plain[1:], strict=True)]
    # Differences tell the order of numbers in the lower half of their type alone.
    is_strict = is_strict and all(map(operator.lt, largest[:-1], halves))
    return is_strict, tuple(largest), steps > 1


def ascent(arrays: Sequence[NDArray[Any]], threads: int = 1) -> tuple[int, int]:
    """How often a list of tuples descends, and how often it repeats, from one to the next."""
    count = len(arrays[0])
    if count < 2:
        return 0, 0
    plain = [np.ascontiguousarray(array) for array in arrays]
    out = np.zeros(2, np.int64)
    code = _ascent_code(tuple([array.dtype for array in plain]))
    held = {f"a{k}": array for k, array in enumerate(plain)}
    code.run(held | {"out": out}, {_COUNT: count}, threads)
    return out.item(0), out.item(1)


def unsigned(array: NDArray[Any]) -> NDArray[Any]:
    """The same bits read as natural numbers: what is negative is larger than any index."""
    return array.view(_natural(array.dtype))


@lru_cache(maxsize=64)
def _natural(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(f"u{dtype.itemsize}")


@keeps_code
@lru_cache(maxsize=64)
def _strict_code(
    types: tuple[np.dtype[Any], ...],
) -> tuple[CompiledComputation, tuple[np.dtype[Any], ...], tuple[int, ...]]:
    """Whether some a(e) >= a(e+1), tuples compared in order, and how far they reach.

    With d_k = a_k(e+1) - a_k(e) of numbers below half of their type, a tuple is followed by a
    larger one iff
        r_0 >= 0,   r_k = d_k - (1 if r_k+1 < 0 else 0),   r_last = -1 if d_last <= 0 else 0
    and `rises`, the bits of all r_0, has no highest bit then. For two arrays these are four
    operations on whole vectors; comparisons would take ten, on truth values that are narrowed
    first. `steps`, the bits of all d_0, is no less than any of them. Of the other arrays, which
    need not ascend, the largest element but the last is found. One loop, so that memory is read
    once. Each of the chunks, pairs from cut(t) to before cut(t+1), has results of its own. The
    types of what is found come along, and the halves of the types of the arrays.
    """
    dtypes = [dtype_of(of) for of in types]
    halves = tuple(1 << (dtype.bits - 1) for dtype in dtypes)
    arrays = [DataSpace.of(f"a{k}", dtype, (_COUNT,), Role.IN) for k, dtype in enumerate(dtypes)]
    tops: list[tuple[str, str, Expr]] = []
    fails: Expr | None = None
    for k, array in reversed([*enumerate(arrays)]):
        dtype = array.dtype
        here, there = (Load(array.name, (Var("e") + after,), dtype) for after in (0, 1))
        if k:
            tops.append((f"top{k}", "max", here))
        step: Expr = Binary("sub", there, here)
        if fails is None:
            fails = Binary("ge", here, there)
            rise: Expr = Binary("sub", Const(0, dtype), Cast(fails, dtype))
        else:
            rise = Binary("sub", step, Cast(fails, dtype))
            fails = Binary("ge", rise, Const(halves[k], dtype))
    updates = [("rises", "or", rise), ("steps", "or", step), *reversed(tops)]
    spaces, statements = [*arrays], []
    inner = f"t >= 0 && t < {_CHUNKS} && e >= cut(t) && e < cut(t+1)"
    for at, (name, op, value) in enumerate(updates):
        spaces.append(DataSpace.of(name, value.dtype, (_CHUNKS,), Role.INOUT))
        new = Binary(op, Load(name, (Var("t"),), value.dtype), value)
        times = ("t", "e", at)
        statements.append(Stmt.of(name, f"{{[t, e] : {inner}}}", times, f"{name}(t)", new))
    spaces.append(DataSpace.of("cut", INT64, (f"{_CHUNKS}+1",), Role.IN))
    marks = tuple((stmt.name, 1, Mark.PARALLEL) for stmt in statements)
    symbols = (_COUNT, _CHUNKS)
    code = compile_computation(
        Computation("strict", tuple(spaces), tuple(statements), symbols, marks=marks)
    )
    return code, tuple(value.dtype.numpy for _, _, value in updates), halves


@keeps_code
@lru_cache(maxsize=64)
def _ascent_code(types: tuple[np.dtype[Any], ...]) -> CompiledComputation:
    """Counts of e with a(e) > a(e+1) and of e with a(e) = a(e+1), tuples compared in order."""
    dtypes = [dtype_of(of) for of in types]
    pairs = [
        (Load(f"a{k}", (Var("e"),), dtype), Load(f"a{k}", (Var("e") + 1,), dtype))
        for k, dtype in enumerate(dtypes)
    ]
    return _reduced("ascent", dtypes, INT64, [("add", test, 1) for test in _order(pairs)])


@keeps_code
@lru_cache(maxsize=64)
def _short_code(types: tuple[np.dtype[Any], ...]) -> CompiledComputation:
    """The same counts, how often the first of a tuple skips a number, and the largest elements.

    All elements are read as unsigned.
    """
    dtypes = [dtype_of(of) for of in types]
    naturals = [DTYPES[f"uint{dtype.bits}"] for dtype in dtypes]
    pairs = [
        (
            Cast(Load(f"a{k}", (Var("e"),), dtype), natural),
            Cast(Load(f"a{k}", (Var("e") + 1,), dtype), natural),
        )
        for k, (dtype, natural) in enumerate(zip(dtypes, naturals, strict=True))
    ]
    here, there = pairs[0]
    skips = Binary("gt", Binary("sub", there, here), Const(1, naturals[0]))
    updates: list[tuple[str, Expr, int]] = [("add", test, 1) for test in (*_order(pairs), skips)]
    updates += [("max", own, 0) for own, _ in pairs]
    return _reduced("short", dtypes, _UINT64, updates)


def _order(pairs: Sequence[tuple[Expr, Expr]]) -> tuple[Expr, Expr]:
    """Whether a tuple is larger than the next one, and whether they are equal."""
    descends: Expr | None = None
    equal: Expr | None = None
    for here, there in pairs:
        less: Expr = Binary("gt", here, there)
        same: Expr = Binary("eq", here, there)
        descends = less if equal is None or descends is None else _or(descends, _and(equal, less))
        equal = same if equal is None else _and(equal, same)
    assert descends is not None, "a tuple has entries"
    assert equal is not None
    return descends, equal


def _reduced(
    name: str, dtypes: Sequence[DType], dtype: DType, updates: Sequence[tuple[str, Expr, int]]
) -> CompiledComputation:
    """out[n] op= value at e < N - after, for the n-th operator, value and number `after`."""
    spaces = [DataSpace.of(f"a{k}", own, (_COUNT,), Role.IN) for k, own in enumerate(dtypes)]
    spaces.append(DataSpace.of("out", dtype, (len(updates),), Role.INOUT))
    statements = []
    for at, (op, value, after) in enumerate(updates):
        new = Binary(op, Load("out", (Const(at),), dtype), Cast(value, dtype))
        domain = f"{{[e] : 0 <= e < {_COUNT}-{after}}}"
        statements.append(Stmt.of(f"count{at}", domain, (-after, "e", at), f"out({at})", new))
    return compile_computation(Computation(name, tuple(spaces), tuple(statements), (_COUNT,)))


def _and(x: Expr, y: Expr) -> Expr:
    return Binary("and", x, y)


def _or(x: Expr, y: Expr) -> Expr:
    return Binary("or", x, y)
