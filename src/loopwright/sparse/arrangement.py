"""How a list of coordinates is arranged: in order, without repetitions, and how far it reaches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwright.ir.dtypes import BOOL, INT64, DType, dtype_of
from loopwright.ir.expr import Binary, Cast, Const, Expr, Load, Var
from loopwright.ir.program import Role

from .spf.compile import CompiledComputation, compile_computation
from .spf.computation import Computation, DataSpace, Stmt

__all__ = ["Arrangement", "arrangement", "ascent", "unsigned"]

_COUNT = "N"
_dtype = lru_cache(maxsize=64)(dtype_of)
_PROBE = 1 << 12  # entries of a list that tell first whether it can be in order


@dataclass(frozen=True)
class Arrangement:
    """How a list of tuples goes on from one to the next, and what was seen on the way."""

    descends: bool
    repeats: bool
    largest: tuple[int, ...] | None = None  # of each array read as unsigned, where all was read


def arrangement(arrays: Sequence[NDArray[Any]], threads: int = 1) -> Arrangement:
    """Whether a list of tuples of natural numbers descends somewhere, and whether it repeats.

    A list in any order shows that in its first entries. One that ascends strictly, which most
    lists in order do, is read once by code that asks for nothing else.
    """
    first = ascent([array[:_PROBE] for array in arrays])
    if first[0] or len(arrays[0]) <= _PROBE:
        return Arrangement(first[0] > 0, first[1] > 0)
    plain = [unsigned(np.ascontiguousarray(array)) for array in arrays]
    held = {f"a{k}": array for k, array in enumerate(plain)}
    tops = {f"top{k}": np.zeros(1, array.dtype) for k, array in enumerate(plain)}
    out = np.zeros(1, np.bool_)
    code = _strict_code(tuple(_dtype(array.dtype) for array in plain))
    code.run(held | tops | {"out": out}, {_COUNT: len(plain[0])}, threads)
    largest = tuple(
        max(int(top[0]), int(array[-1])) for top, array in zip(tops.values(), plain, strict=True)
    )
    if not out[0]:
        return Arrangement(False, False, largest)
    descents, repetitions = ascent(plain, threads)
    return Arrangement(descents > 0, repetitions > 0, largest)


def ascent(arrays: Sequence[NDArray[Any]], threads: int = 1) -> tuple[int, int]:
    """How often a list of tuples descends, and how often it repeats, from one to the next."""
    count = len(arrays[0])
    if count < 2:
        return 0, 0
    plain = [np.ascontiguousarray(array) for array in arrays]
    out = np.zeros(2, np.int64)
    code = _ascent_code(tuple(_dtype(array.dtype) for array in plain))
    held = {f"a{k}": array for k, array in enumerate(plain)}
    code.run(held | {"out": out}, {_COUNT: count}, threads)
    return int(out[0]), int(out[1])


def unsigned(array: NDArray[Any]) -> NDArray[Any]:
    """The same bits read as natural numbers: what is negative is larger than any index."""
    return array.view(f"u{array.dtype.itemsize}")


@lru_cache(maxsize=64)
def _strict_code(dtypes: tuple[DType, ...]) -> CompiledComputation:
    """Whether some a(e) >= a(e+1), tuples compared in order, and the largest elements but the last.

    One loop, so that memory is read once.
    """
    spaces = [DataSpace.of(f"a{k}", dtype, (_COUNT,), Role.IN) for k, dtype in enumerate(dtypes)]
    spaces += [DataSpace.of(f"top{k}", dtype, (1,), Role.INOUT) for k, dtype in enumerate(dtypes)]
    spaces.append(DataSpace.of("out", BOOL, (1,), Role.INOUT))
    domain = f"{{[e] : 0 <= e < {_COUNT}-1}}"
    statements = []
    fails: Expr | None = None
    for k, dtype in reversed([*enumerate(dtypes)]):
        here, there = (Load(f"a{k}", (Var("e") + step,), dtype) for step in (0, 1))
        least: Expr = Binary("ge", here, there)
        fails = least if fails is None else _or(Binary("gt", here, there), _and(least, fails))
        top = Binary("max", Load(f"top{k}", (Const(0),), dtype), here)
        statements.append(Stmt.of(f"top{k}", domain, ("e", k), f"top{k}(0)", top))
    assert fails is not None, "a tuple has entries"
    found = _or(Load("out", (Const(0),), BOOL), fails)
    statements.append(Stmt.of("fails", domain, ("e", len(dtypes)), "out(0)", found))
    return compile_computation(Computation("strict", tuple(spaces), tuple(statements), (_COUNT,)))


@lru_cache(maxsize=64)
def _ascent_code(dtypes: tuple[DType, ...]) -> CompiledComputation:
    """Counts of e with a(e) > a(e+1) and of e with a(e) = a(e+1), tuples compared in order."""
    spaces = [DataSpace.of(f"a{k}", dtype, (_COUNT,), Role.IN) for k, dtype in enumerate(dtypes)]
    spaces.append(DataSpace.of("out", INT64, (2,), Role.INOUT))
    descends: Expr | None = None
    equal: Expr | None = None
    for k, dtype in enumerate(dtypes):
        here, there = (Load(f"a{k}", (Var("e") + step,), dtype) for step in (0, 1))
        less: Expr = Binary("gt", here, there)
        same: Expr = Binary("eq", here, there)
        descends = less if equal is None or descends is None else _or(descends, _and(equal, less))
        equal = same if equal is None else _and(equal, same)
    assert descends is not None, "a tuple has entries"
    assert equal is not None
    statements = []
    for at, test in enumerate((descends, equal)):
        more = Load("out", (Const(at),), INT64) + Cast(test, INT64)
        domain = f"{{[e] : 0 <= e < {_COUNT}-1}}"
        statements.append(Stmt.of(f"count{at}", domain, ("e", at), f"out({at})", more))
    return compile_computation(Computation("ascent", tuple(spaces), tuple(statements), (_COUNT,)))


def _and(x: Expr, y: Expr) -> Expr:
    return Binary("and", x, y)


def _or(x: Expr, y: Expr) -> Expr:
    return Binary("or", x, y)
