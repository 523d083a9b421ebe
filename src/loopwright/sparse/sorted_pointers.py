"""Pointers of a sorted list: where the entries of each first coordinate end.

A list of coordinates in order, without repetitions, is most of the new tensor already: often all
that is missing are pointers. The stages of such a conversion say what these are (see
synthesis/assembly); here they are made by code that relies on the sortedness of the list.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwright.ir.dtypes import INT64, dtype_of
from loopwright.ir.expr import Binary, Cast, Load, Var
from loopwright.ir.loops import Mark
from loopwright.ir.program import Role
from loopwright.runtime.code_memory import keeps_code

from .sortedness import Sortedness, unsigned
from .spf.chunk_plan import LEAST_LIGHT
from .spf.compile_computation import CompiledComputation, compile_computation
from .spf.computation import Computation, DataSpace, Stmt
from .synthesis.conversion import FROM, Conversion
from .synthesis.driver import ConversionResult

__all__ = ["convert_by_pointers", "store_pointers"]

Array = NDArray[Any]
# Entries that are written out one after the other: what is left to do for each is to load a number
# and to store another, and a loop around that would take as long.
_BESIDE = 8


def convert_by_pointers(
    conversion: Conversion,
    arrays: Mapping[str, Array],
    values: Array,
    symbols: Mapping[str, int],
    sortedness: Sortedness,
    threads: int = 1,
) -> ConversionResult | None:
    """A conversion that makes pointers and nothing else; None for any other.

    The list is `arranged` so, and all its indices are known to lie inside.
    """
    ends = conversion.pointer
    is_strict = not (sortedness.descends or sortedness.repeats) and sortedness.largest is not None
    if ends is None or not is_strict:
        return None
    first, last = conversion.frame
    held, known = first(arrays, values, symbols)
    for step in conversion.bare_steps:
        step.prepare(held, known, np.empty)
    parents = unsigned(arrays[ends.parents.removeprefix(FROM)])
    store_pointers(parents, held[ends.pointer], sortedness.skips, threads)
    return last(held, known)


def store_pointers(parents: Array, pointer: Array, skips: bool, threads: int = 1) -> None:
    """pointer[x] = how many of `parents` lie below x.

    Parents are unsigned and ascend; without `skips` none is left out between two of them, so that
    only pointers up to the first are to be cleared: what another core has cleared has to travel.
    """
    count = len(parents)
    pointer[: None if skips or not count else parents.item(0) + 1] = 0
    if not count:
        return
    chunks = max(1, min(threads, count // LEAST_LIGHT))
    # Shares begin where a parent does, so that no two of them store one element.
    inner = [parents.searchsorted(parents[count * t // chunks]) for t in range(1, chunks)]
    cut = [0, *map(int, inner), count]
    blocks = [(end - start) // _BESIDE for start, end in pairwise(cut)]
    ends = pointer[1:]
    told = parents, np.array(cut, np.int64), np.array(blocks, np.int64), ends
    code, sizes = _ends_code(parents.dtype, pointer.dtype), (count, len(ends), chunks)
    if chunks == 1:
        code.alone(*told, *sizes)
    else:
        names = code.computation.symbols
        arrays = dict(zip(("parents", "cut", "blocks", "ends"), told, strict=True))
        code.run(arrays, dict(zip(names, sizes, strict=True)), chunks)
    if skips:
        _running_max_code(pointer.dtype).run({"pointer": pointer}, {"M": len(ends)}, threads)
    else:
        ends[parents.item(count - 1) :] = count


@keeps_code
@lru_cache(maxsize=32)
def _ends_code(of_parents: np.dtype[Any], of_ends: np.dtype[Any]) -> CompiledComputation:
    """ends[parents[e]] = e + 1 for all entries: of each parent the last store stays.

    Nothing is loaded or compared: which entries are the last ones is hard to foresee.
    """
    index, dtype = dtype_of(of_parents), dtype_of(of_ends)
    spaces = (
        DataSpace.of("parents", index, ("N",), Role.IN),
        DataSpace.of("cut", INT64, ("SHARES+1",), Role.IN),
        DataSpace.of("blocks", INT64, ("SHARES",), Role.IN),
        DataSpace.of("ends", dtype, ("M",), Role.INOUT),
    )
    start = Load("cut", (Var("t"),), INT64)
    inner = "t >= 0 && t < SHARES && b >= 0 && b < blocks(t)"
    block = Stmt.of(
        "block",
        f"{{[t, b, k] : {inner} && k >= 0 && k < {_BESIDE}}}",
        (0, "t", 0, "b", "k"),
        f"ends(parents(cut(t)+{_BESIDE}*b+k))",
        Cast(start + Var("b") * _BESIDE + Var("k") + 1, dtype),
    )
    rest = Stmt.of(
        "rest",
        f"{{[t, e] : t >= 0 && t < SHARES && e >= cut(t)+{_BESIDE}*blocks(t) && e < cut(t+1)}}",
        (0, "t", 1, "e"),
        "ends(parents(e))",
        Cast(Var("e") + 1, dtype),
    )
    marks = tuple((stmt.name, 1, Mark.PARALLEL) for stmt in (block, rest))
    return compile_computation(
        Computation("ends", spaces, (block, rest), ("N", "M", "SHARES"), marks=marks)
    )


@keeps_code
@lru_cache(maxsize=32)
def _running_max_code(of_pointer: np.dtype[Any]) -> CompiledComputation:
    """pointer[x+1] = max(pointer[x+1], pointer[x]): parents without entries end where others do."""
    dtype = dtype_of(of_pointer)
    here, there = (Load("pointer", (Var("x") + after,), dtype) for after in (0, 1))
    stmt = Stmt.of("most", "{[x] : 0 <= x < M}", ("x",), "pointer(x+1)", Binary("max", there, here))
    space = DataSpace.of("pointer", dtype, ("M+1",), Role.INOUT)
    return compile_computation(Computation("most", (space,), (stmt,), ("M",)))
