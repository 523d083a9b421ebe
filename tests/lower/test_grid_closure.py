"""Blocked closures for a GPU by the interpreter: bit for bit, also where the algebra fails.

Blocks and strips are small, so that few elements reach every kernel and every edge.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from drawn import combined
from loopwright.analysis.find_closures import find_closure
from loopwright.ir.check import check_nest
from loopwright.ir.closure import GridClosure
from loopwright.ir.grid_kernel import GridVariant
from loopwright.ir.loops import LoopNest
from loopwright.ir.program import Program
from loopwright.lower.grid_nests import grid_closure
from loopwright.lower.grid_nests.grid_closure import lower_grid_closure
from loopwright.lower.grid_nests.split_kernels import split_kernels
from loopwright.lower.simplify import simplify
from oracle import assert_same_on
from transform.test_blocked_closure import closure

BLOCK = 4
VARIANT = GridVariant(8, 8, 2, 2, 2, True, False, 1, 1, piece=2, warp_rows=4)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"_THREADS": 8, "_BLOCKS": 3, "_STRIP": 4, "_SUB": 2}.items():
        monkeypatch.setattr(grid_closure, name, value)


def lowered(source: Program, variant: GridVariant = VARIANT) -> LoopNest:
    found = find_closure(source)
    assert not isinstance(found, str)
    nest = simplify(lower_grid_closure(source, GridClosure(found, BLOCK, variant)))
    check_nest(nest)
    return nest


KINDS = (
    ("min_plus", "int32"),
    ("max_plus", "int64"),
    ("max_min", "float32"),
    ("min_max", "float64"),
    ("or_and", "bool"),
    ("or_and", "uint32"),
)


@pytest.mark.drawn(3)
@pytest.mark.parametrize(("pair", "size"), combined(KINDS, (1, 2, 4, 5, 8, 11), one_in=2))
def test_meaning(pair: tuple[str, str], size: int) -> None:
    kind, dtype = pair
    source = closure(kind, dtype)
    data = np.random.default_rng(size).integers(0, 2 if dtype == "bool" else 9, (size, size))
    data = -data if kind == "max_plus" else data
    assert_same_on({"a": data.astype(dtype)}, source, lowered(source), {"n": size})


@pytest.mark.parametrize("place", [(0, 0), (5, 5), (8, 8), (3, 7)])
def test_one_negative_cycle(place: tuple[int, int]) -> None:
    """Blocks before the cycle are kept, the square that found it is left as it was."""
    source = closure("min_plus", "int32")
    data = np.random.default_rng(1).integers(1, 20, (9, 9)).astype(np.int32)
    data[place] = data[place[::-1]] = -30
    assert_same_on({"a": data}, source, lowered(source), {"n": 9})


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_special_floats(value: float) -> None:
    source = closure("min_plus", "float64", reassoc=True)
    data = np.random.default_rng(3).integers(1, 20, (6, 6)).astype(np.float64)
    data[2, 5] = data[4, 1] = value
    assert_same_on({"a": data}, source, lowered(source), {"n": 6})


def test_kernels() -> None:
    """Guards of sums are two kernels before the blocks and one behind them."""
    guarded = split_kernels(replace(lowered(closure("min_plus", "int32")), name="f"))
    plain = split_kernels(replace(lowered(closure("max_min", "int32")), name="f"))
    assert (len(guarded.kernels), len(plain.kernels)) == (7, 4)
    assert [kernel.block[0] for kernel in plain.kernels] == [8, 4, 4, 16]
