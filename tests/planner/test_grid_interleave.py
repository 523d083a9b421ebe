"""Loops of a contraction on a GPU in an order in which tiles hold runs of both operands."""

from __future__ import annotations

from loopwright.ir.contraction_shape import ContractionShape, Dim
from loopwright.ir.dtypes import FLOAT32, FLOAT64
from loopwright.planner.grid_plans.grid_operands import out_access, repeats_in_tiles
from loopwright.planner.grid_plans.interleave import in_tiles

ROWS, P = Dim(1024, 1024, 0, 16), Dim(1024, 1, 256, 0)


def shape(*j: Dim, p: tuple[Dim, ...] = (P,)) -> ContractionShape:
    return ContractionShape((), (ROWS,), j, p)


def test_runs_of_right_and_of_out_lie_in_a_tile() -> None:
    """Columns b of right's run and c of out's: a tile of 128 has 8 of c by 16 of b."""
    c, b = Dim(32, 0, 32, 1), Dim(32, 0, 1, 32)
    found = in_tiles(shape(c, b), 128, 32, (4, 4, 4))
    assert [d.extent for d in found.j] == [2, 4, 8, 16]
    assert found.j[2:] == (Dim(8, 0, 32, 1), Dim(16, 0, 1, 32))
    assert out_access(found, FLOAT32, 16, 128) == (4, 16)
    assert out_access(found, FLOAT64, 16, 128) == (2, 16)


def test_a_run_goes_on_over_several_loops() -> None:
    """Right lies along d, then a; out along e, then d: all of d and e are in a tile."""
    a, b, e, d = Dim(8, 0, 4, 131072), Dim(8, 0, 32, 16384), Dim(4, 0, 262144, 1), Dim(4, 0, 1, 4)
    found = in_tiles(shape(a, b, e, d), 128, 32, (4, 4, 4))
    assert found.j == (b, Dim(2, 0, 16, 524288), e, Dim(4, 0, 4, 131072), d)
    assert out_access(found, FLOAT32, 16, 128) == (4, 16)
    # Where one loop is the run of both, the next one of right is behind it.
    a, b, d = Dim(16, 0, 8, 65536), Dim(8, 0, 128, 8192), Dim(8, 0, 1, 1)
    found = in_tiles(shape(a, b, d), 128, 32, (4, 4, 4))
    assert found.j == (b, Dim(8, 0, 16, 131072), Dim(2, 0, 8, 65536), d)
    assert out_access(found, FLOAT32, 16, 128) == (4, 1)


def test_elements_that_are_not_stored_at_once() -> None:
    c, b = Dim(32, 0, 32, 1), Dim(32, 0, 1, 32)
    found = in_tiles(shape(c, b), 128, 32, (4, 4, 4))
    assert out_access(found, FLOAT32, 4, 128) == (1, 1)  # not aligned
    assert out_access(found, FLOAT32, 16, 32) == (1, 1)  # too few columns
    assert out_access(shape(Dim(8, 0, 3, 1), Dim(3, 0, 1, 8)), FLOAT32, 16, 96) == (1, 1)
    assert out_access(shape(Dim(8, 0, 1, 2)), FLOAT32, 16, 128) == (1, 1)  # no neighbours


def test_tiles_of_the_reduction_that_are_alike() -> None:
    def repeats(*extents: int, depth: int = 32) -> bool:
        return repeats_in_tiles(shape(p=tuple(Dim(n, 1, 1, 0) for n in extents)), depth)

    assert repeats(32, 32)
    assert repeats(5, 64)
    assert repeats(8, 4, 8, 4)
    assert repeats(3, 16, 4)
    assert not repeats(32, 33)
    assert not repeats(5, 5, 8)
    assert not repeats(3, 12, 4)
