"""Tiles where columns are used again and again, and nowhere else."""

from __future__ import annotations

from loopwright.ir.program import Program
from loopwright.lower.passes import lower_schedule
from loopwright.planner.draft import Draft
from loopwright.planner.loop_plans.affine import tile_columns
from loopwright.transform.schedule_legality import initial_schedule
from loopwright.transform.tiling import Tile
from oracle import assert_same
from programs import Do, For, program


def tiled(source: Program) -> list[object]:
    draft = Draft(initial_schedule(source))
    tile_columns(draft)
    nest = lower_schedule(draft.schedule)
    for n in (0, 1, 6):
        assert_same(source, nest, {"n": n})
    return list(draft.steps)


def folding(value: str) -> Program:
    arrays = {"A": "inout int64 [n, n]", "B": "in int64 [n, n]"}
    inner = For("k", 0, "n", Do("A[i, j]", value))
    body = For("j", 0, "n", For("i", 0, "n", Do("A[i, j]", "A[i, j] + 1"), inner))
    return program("folding", arrays, body)


def test_columns_are_tiled() -> None:
    assert tiled(folding("max(A[i, j], B[i, k] + B[k, j])")) == [Tile(("j", "i"), (64, 64))]


def test_tiles_that_would_reverse_dependences_are_not_taken() -> None:
    """Rows are read that later iterations of i write: the loops cannot be interchanged."""
    assert tiled(folding("max(A[i, j], A[n - 1 - i, k] + B[k, j])")) == []


def test_rows_are_left_alone() -> None:
    assert tiled(folding("max(A[i, j], B[i, k] + B[j, k])")) == []
    assert tiled(folding("A[i, j] + B[i, k]")) == []


def test_short_loops_are_left_alone() -> None:
    arrays = {"A": "inout int64 [8, 8]", "B": "in int64 [n, 8]"}
    inner = For("k", 0, "n", Do("A[i, j]", "A[i, j] + B[k, j]"))
    body = For("j", 0, 8, For("i", 0, 8, Do("A[i, j]", "0"), inner))
    assert tiled(program("short", arrays, body)) == []
