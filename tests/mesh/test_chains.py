"""Nests in turn whose values stay in scratchpads: what is moved, and what cores compute."""

from __future__ import annotations

import pytest

from drawn import drawn, in_all
from loopwright.ir.check import check_nest
from loopwright.ir.loops import Copy, Stmt
from loopwright.ir.program import Program
from loopwright.ir.visit import statements
from loopwright.lower.passes import lower_schedule
from loopwright.transform.loop_fusion import Fuse
from loopwright.transform.mesh_mapping import MapToMesh
from loopwright.transform.plan import apply_plan
from loopwright.transform.share_box import ShareBox
from loopwright.transform.stage_box import StageBox
from loopwright.transform.step import Step
from loopwright.transform.tiling import Tile
from loopwright.validate import check_translation
from programs import Do, For, program

# -- steps ------------------------------------------------------------------------------------


TWICE = program(
    "twice",
    {"A": "in float64 [n, n]", "T": "local float64 [n, n]", "B": "inout float64 [n, n]",
     "y": "inout float64 [n]"},
    For("i", 0, "n", For("j", 0, "n", Do("T[i, j]", "2 * A[i, j]"))),
    For("k", 0, "n", For("l", 0, "n", Do("B[k, l]", "B[k, l] + T[k, l]"))),
    For("m", 0, "n", Do("y[m]", "T[n - 1, m]")),
)  # fmt: skip
UNUSED = program(
    "unused",
    {"A": "in float64 [n, n]", "T": "local float64 [n, n]", "B": "inout float64 [n, n]"},
    For("i", 0, "n", For("j", 0, "n", Do("T[i, j]", "2 * A[i, j]"))),
    For("k", 0, "n", For("l", 0, "n", Do("B[k, l]", "B[k, l] + T[k, l]"))),
)
TOGETHER: tuple[Step, ...] = (
    Tile(("i", "j"), (3, 2)),
    Tile(("k", "l"), (3, 2)),
    Fuse("i_t", "k_t"),
    Fuse("j_t", "l_t"),
    MapToMesh("i_t", "row", 2, 2),
    MapToMesh("j_t", "column", 2, 2),
    StageBox("T", "j_t", ("S0_0", "S1_2"), 1),
)


def _moved(stmt: Stmt, array: str) -> list[Copy]:
    return [s for s in statements(stmt) if isinstance(s, Copy) and array in (s.target, s.source)]


@pytest.mark.parametrize(("source", "puts"), [(TWICE, 1), (UNUSED, 0)])
def test_boxes_of_local_arrays(source: Program, puts: int) -> None:
    schedule = apply_plan(source, TOGETHER)
    nest = lower_schedule(schedule)
    check_nest(nest)
    assert len(_moved(nest.body, "T")) == puts
    assert schedule.boxes[-1].is_put_back == bool(puts)
    assert check_translation(source, nest, [{"n": n} for n in (0, 1, 3, 7)]) == ()


ROWS_OF_TENSORS = program(
    "tensors",
    {"T": "inout float64 [n, n, n]", "A": "in float64 [n, n, n]", "W": "in float64 [n, n]"},
    For("i", 0, "n", For("j", 0, "n", For("k", 0, "n", For("l", 0, "n",
        Do("T[i, j, l]", "T[i, j, l] + A[i, j, k] * W[k, l]"))))),
)  # fmt: skip


def _tensor_steps(window: int) -> tuple[Step, ...]:
    more = (Tile(("i", "j", "k", "l"), (2, 2, window, 3)),) if window < 6 else ()
    return (
        Tile(("i", "j", "k", "l"), (2, 2, 6, 3)),
        *more,
        MapToMesh("i_t", "row", 2, 2),
        MapToMesh("j_t", "column", 2, 2),
    )


@pytest.mark.drawn(2)
@pytest.mark.parametrize("window", [6, 3, 2] if in_all() else [6, 2])
def test_boxes_of_all_cores(window: int) -> None:
    inner = "l_t_2" if window < 6 else "l_t"
    steps = (*_tensor_steps(window), ShareBox("W", "l_t", inner, (), "mesh"))
    schedule = apply_plan(ROWS_OF_TENSORS, steps)
    assert schedule.boxes[0].panel is not None
    assert schedule.boxes[0].panel.parts == 4
    assert "that the mesh of cores holds" in str(schedule.boxes[0])
    nest = lower_schedule(schedule)
    check_nest(nest)
    counts = drawn([0, 1, 3, 5, 7], 3)
    assert check_translation(ROWS_OF_TENSORS, nest, [{"n": n} for n in counts]) == ()
