"""Loops over blocks and threads become boxes: before and after, and what is left out."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright.diagnostics import InternalError
from loopwright.ir.check import check_nest
from loopwright.ir.dtypes import FLOAT64
from loopwright.ir.expr import Binary, Const, Expr, Load, Var
from loopwright.ir.interpret_nest import interpret_nest
from loopwright.ir.loops import (
    Alloc,
    Axis,
    Barrier,
    BarrierScope,
    Block,
    Buffer,
    For,
    LoopNest,
    Mark,
    Space,
    Stmt,
    Store,
)
from loopwright.ir.program import Program
from loopwright.ir.text import expr_text, stmt_text
from loopwright.ir.visit import statements
from loopwright.lower.astgen import generate_loops
from loopwright.lower.grid_nests.map_to_grid import map_to_grid
from loopwright.lower.passes import PASSES, LoopDecisions, run_passes
from loopwright.transform.grid_mapping import MapToBlocks, MapToThreads
from loopwright.transform.plan import apply_plan
from loopwright.transform.step import Step
from loopwright.transform.tiling import Tile
from oracle import assert_same
from programs import Do, program
from programs import For as Loop

GRID, ROW = "inout float64 [n, n]", "inout float64 [n]"
n, i, j = Var("n"), Var("i"), Var("j")
A = Buffer("a", FLOAT64, (Const(1),), writable=True)


def rows(stop: str) -> Program:
    body = Loop("i", 0, "n", Loop("j", 0, stop, Do("A[i, j]", "2 * A[i, j]")))
    return program("rows", {"A": GRID}, body, known="n >= 1")


def tiles(*sizes: int) -> tuple[Step, ...]:
    return (
        Tile(("i", "j"), sizes),
        MapToBlocks("i_t", "y"),
        MapToBlocks("j_t", "x"),
        MapToThreads("i", "y", sizes[0]),
        MapToThreads("j", "x", sizes[1]),
    )


def mapped(var: Var, stop: Expr, body: Stmt, mark: Mark, axis: Axis = Axis.X) -> For:
    return For(var.name, Const(0), stop, body, Const(1), mark, axis=axis)


# -- grids that are bounded along y and z ----------------------------------------------------------


def bounded(source: Program, steps: tuple[Step, ...], most: int) -> LoopNest:
    """The nest of a schedule with at most so many blocks along y and z."""
    schedule = apply_plan(source, steps)
    loops = generate_loops(schedule)
    decisions = LoopDecisions.of(schedule, loops)
    before = next(k for k, one in enumerate(PASSES) if one.rewrite is map_to_grid)
    nest = run_passes(loops.nest, decisions, PASSES[:before])
    return map_to_grid(nest, decisions.factors, most)


def grid_of(nest: LoopNest) -> dict[str, str]:
    loops = [s for s in statements(nest.body) if isinstance(s, For) and s.mark is Mark.BLOCK]
    return {loop.var: expr_text(loop.stop) for loop in loops}


def cube() -> Program:
    inner = Loop("j", 0, "n", Loop("k", 0, "j + 1", Do("A[i, j, k]", "2 * A[i, j, k]")))
    shapes = {"A": "inout float64 [n, n, n]"}
    return program("cube", shapes, Loop("i", 0, "n", inner), known="n >= 1")


@pytest.mark.parametrize("stop", ["n", "i + 1"])
@pytest.mark.parametrize("most", [1, 2, 3])
def test_more_rows_than_blocks_along_y_go_on_along_z(stop: str, most: int) -> None:
    source = rows(stop)
    nest = bounded(source, tiles(2, 4), most)
    assert list(grid_of(nest)) == ["block.z", "block.y", "block.x"]
    for size in (1, 2, 5, 9):
        assert_same(source, nest, {"n": size}, threads=1)


@pytest.mark.parametrize("most", [1, 2, 3])
def test_where_z_is_taken_blocks_take_several_iterations(most: int) -> None:
    steps = (MapToBlocks("i", "z"), MapToBlocks("j", "y"), MapToBlocks("k", "x"))
    source = cube()
    nest = bounded(source, steps, most)
    assert grid_of(nest) == {
        "block.z": f"min(n, {most})",
        "block.y": f"min(n, {most})",
        "block.x": "n",
    }
    assert "for number.y in range(block.y, n" in stmt_text(nest.body)
    for size in (1, 2, 4, 7):
        assert_same(source, nest, {"n": size}, threads=1)


def test_memory_of_a_block_serves_one_iteration_after_another() -> None:
    """A barrier keeps threads from the next iteration while others read what this one stored."""
    t, held = Var("t"), Buffer("held", FLOAT64, (Const(1),), Space.SHARED)
    other = Load("held", (Const(1) - t,), FLOAT64)
    put = Store("held", (t,), Load("a", (i * 2 + t,), FLOAT64))
    meet = Barrier(BarrierScope.BLOCK)
    swap = Block((put, meet, Store("a", (i * 2 + t,), other)))
    inner = Alloc(held, (Const(2),), mapped(t, Const(2), swap, Mark.THREAD))
    plane = mapped(j, Const(1), inner, Mark.BLOCK, Axis.Z)
    nest = LoopNest("f", (A,), ("n",), mapped(i, n, plane, Mark.BLOCK, Axis.Y))
    found = map_to_grid(nest, {"t": 2}, 2)
    check_nest(found)
    data = np.arange(10.0)
    interpret_nest(found, {"a": data}, {"n": 5})
    assert data.tolist() == [1, 0, 3, 2, 5, 4, 7, 6, 9, 8]


# -- nests that no schedule makes, built by hand --------------------------------------------------


def store(at: Expr) -> Store:
    return Store("a", (at,), Load("a", (at,), FLOAT64) + Const(1.0, FLOAT64))


def rewritten(body: Stmt, **threads: int) -> str:
    return stmt_text(map_to_grid(LoopNest("f", (A,), ("n",), body), threads).body)


def test_bounds_that_nothing_bounds() -> None:
    """A number of blocks that is a product of two coordinates has no box."""
    inner = mapped(j, Binary("mul", i, i), store(j), Mark.BLOCK, Axis.Y)
    with pytest.raises(InternalError, match="a number of blocks has no bound"):
        rewritten(mapped(i, n, inner, Mark.BLOCK))
