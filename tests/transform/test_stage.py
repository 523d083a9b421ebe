"""StageArray: what it rewrites, everything that it refuses, and that it changes no result."""

from __future__ import annotations

import pytest

from loopwright.ir.loops import Alloc, LoopNest, Space
from loopwright.ir.program import Program
from loopwright.ir.text import stmt_text
from loopwright.ir.visit import statements
from loopwright.lower.passes import lower_schedule
from loopwright.transform.grid_mapping import MapToBlocks, MapToThreads
from loopwright.transform.plan import apply_plan
from loopwright.transform.register_promotion import PromoteToRegisters
from loopwright.transform.stage import StageArray
from loopwright.transform.step import Step
from loopwright.transform.tiling import StripMine
from oracle import assert_same
from programs import Do, For, program

ROWS = (StripMine("i", 4), MapToBlocks("i_t", "x"), MapToThreads("i", "x", 4), StripMine("j", 4))
A = StageArray("A", "j_t", "shared", 1)
SIZES = ({"n": 0, "m": 0}, {"n": 1, "m": 5}, {"n": 8, "m": 8}, {"n": 5, "m": 9}, {"n": 7, "m": 3})


def rows(
    subscripts: str = "i, j",
    *,
    start: str | int = 0,
    stop: str = "m",
    where: str = "",
    dtype: str = "float64",
) -> Program:
    arrays = {
        "A": f"in {dtype} [3 * n + 3, 2 * m + n + 3]",
        "x": f"in {dtype} [m + n]",
        "y": f"inout {dtype} [n]",
    }
    body = Do("y[i]", f"y[i] + A[{subscripts}] * x[j]", where)
    loops = For("i", 0, "n", For("j", start, stop, body))
    return program("rows", arrays, loops, params="n m")


def is_staged(nest: LoopNest) -> bool:
    memory = [s.buffer.space for s in statements(nest.body) if isinstance(s, Alloc)]
    return Space.SHARED in memory


def assert_staged(source: Program, *steps: Step) -> LoopNest:
    """The nest of some steps brings boxes in, and computes what the program does."""
    nest = lower_schedule(apply_plan(source, steps))
    assert is_staged(nest), stmt_text(nest.body)
    for sizes in SIZES:
        assert_same(source, nest, {name: sizes.get(name, 6) for name in source.params})
    return nest


def test_boxes_that_come_while_others_are_used() -> None:
    text = stmt_text(assert_staged(rows(), *ROWS, StageArray("A", "j_t", "shared", 3)).body)
    assert "alloc shared A_box: float64[3, 4, 4] strides [16, 4, 1]" in text
    assert "let slot: int64 = j_t // 4 % 3" in text
    assert "async copy [1] to A_box[(slot + 2) % 3, r, thread.x]" in text


@pytest.mark.parametrize("buffers", [1, 2])
def test_registers_last_for_all_strips(buffers: int) -> None:
    """The sum of a thread stays in its register across the barriers."""
    steps = (PromoteToRegisters("S0", "j_t"), PromoteToRegisters("S0", "j"))
    nest = assert_staged(rows(), *ROWS, StageArray("A", "j_t", "shared", buffers), *steps)
    lines = [line.strip() for line in stmt_text(nest.body).splitlines()]
    assert lines.index("y_r[] = y[i]") < lines.index("for j_t in range(0, m, 4):")
    assert lines.index("y[i] = y_r[]") == len(lines) - 1
    assert lines.count("y_r[] = y[i]") == 1


def test_lanes_that_walk_columns_get_padding() -> None:
    steps = (StripMine("i", 32), MapToBlocks("i_t", "x"), MapToThreads("i", "x", 32))
    strip = StripMine("j", 32)
    found = apply_plan(rows(), (*steps, strip, A)).staged[0]
    assert (found.extents, found.padding, found.shape) == ((32, 32), 1, (32, 33))
    across = apply_plan(rows("j, i"), (*steps, strip, A)).staged[0]
    assert (across.extents, across.padding) == ((32, 32), 0)
