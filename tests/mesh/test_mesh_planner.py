"""Plans for a mesh of cores: kernels compute what they say, and data go through scratchpads."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import kernels
from drawn import HUNTS, drawn
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import program_of
from loopwright.ir.check import check_nest
from loopwright.ir.expr import Load
from loopwright.ir.loops import Axis, Barrier, Copy, LoopNest, Store
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.ir.visit import loads, statements
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load_mesh import load_mesh
from loopwright.planner.mesh_plans.mesh import (
    mesh_planner,
    mesh_planner_of,
    scratchpad_bytes,
    scratchpad_room,
)
from loopwright.transform.plan import Plan
from loopwright.transform.share_box import ShareBox
from loopwright.transform.stage_box import StageBox
from loopwright.validate import check_translation
from loopwright.validate.problem_sizes import pick_sizes
from programs import Do, For, program

MACHINE = load_mesh("sw26010")
FOLDER = Path(kernels.__file__).parent
# Of so small a scratchpad tiles are small, too: a few of them make small arrays.
SMALL = replace(MACHINE, rows=2, columns=2, scratchpad_bytes=2048 + 640, scratchpad_reserved=64)
NAMES = (
    "gemm", "gemver", "gesummv", "symm", "syrk", "syr2k", "trmm", "2mm", "3mm", "atax", "bicg",
    "doitgen", "mvt",
)  # fmt: skip


@cache
def source(name: str) -> Program:
    (region,) = read_c(FOLDER / f"{name}.c").regions
    return program_of(region.tree, reassoc=False)


@cache
def plan_and_schedule(name: str) -> tuple[Plan, Schedule]:
    return mesh_planner(source(name), MACHINE)


def planned(name: str) -> Schedule:
    return plan_and_schedule(name)[1]


@cache
def lowered(name: str) -> LoopNest:
    nest = lower_schedule(mesh_planner(source(name), SMALL)[1])
    check_nest(nest)
    return nest


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", drawn(NAMES, 6))
def test_kernels_compute_what_they_say(name: str) -> None:
    wanted = source(name)
    count = 8 if HUNTS else 4
    sizes = pick_sizes(wanted, values=(0, 1, 5, 13), most=5_000, count=count, seed=3)
    assert check_translation(wanted, lowered(name), sizes) == ()


def test_boxes_of_a_loop_that_isl_leaves_out_for_some_statements() -> None:
    """Of the innermost loop of ludcmp, S2 has the iteration 0 and others have loops beside it."""
    wanted = source("ludcmp")
    sizes = pick_sizes(wanted, values=(0, 1, 5), most=5_000, count=3, seed=3)
    assert check_translation(wanted, lowered("ludcmp"), sizes) == ()


def copies_after_puts(name: str) -> int:
    nest = lower_schedule(planned(name))
    return sum(stmt.after_puts for stmt in statements(nest.body) if isinstance(stmt, Copy))


def test_gets_of_what_a_core_has_put_come_after_puts() -> None:
    # A column of ludcmp's A is put by the core that gets it in the same iteration; the boxes of a
    # product are different ones in each.
    assert copies_after_puts("ludcmp") > 0
    assert copies_after_puts("gemm") == 0


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", drawn(NAMES, 6, 3))
def test_boxes_fit_and_take_all_accesses(name: str) -> None:
    schedule = planned(name)
    assert 0 < scratchpad_bytes(schedule) <= scratchpad_room(MACHINE)
    nest = lower_schedule(schedule)
    main = {array.name for array in schedule.program.arrays if array.rank}
    far = {
        load.array
        for stmt in statements(nest.body)
        if isinstance(stmt, Store)
        for load in (Load(stmt.buffer, stmt.index, stmt.value.dtype), *loads(stmt.value))
    }
    assert not far & main


def test_a_product_is_mapped_to_rows_and_columns() -> None:
    axes = {loop: axis.value for loop, axis in planned("gemm").axes}
    assert set(axes.values()) == {"row", "column"}
    assert {axis.value for _, axis in planned("gesummv").axes} == {"mesh"}


def test_shapes_of_one_row_are_mapped_along_one_loop() -> None:
    plan, schedule = mesh_planner_of((1, 64))(source("gemm"), MACHINE, 1)
    assert schedule.mesh == (1, 64)
    assert {axis.value for _, axis in schedule.axes} == {"mesh"}
    assert len(plan)


def test_results_stay_in_the_scratchpad_over_the_reduction() -> None:
    boxes = {box.accesses: box for box in planned("gemm").boxes}
    result = boxes["S0_0", "S0_1", "S1_0", "S1_1"]  # tiles of both nests run together
    factors = [boxes[("S1_2",)], boxes[("S1_3",)]]
    panels = [box.panel for box in factors]
    assert panels[0] is not None
    assert panels[1] is not None
    assert result.loop != panels[0].loop == panels[1].loop
    assert result.buffers == 1
    assert result.panel is None


def test_factors_of_a_product_are_broadcast() -> None:
    boxes = {box.accesses: box for box in planned("gemm").boxes}
    left, right = boxes[("S1_2",)], boxes[("S1_3",)]
    assert (left.axis, right.axis) == (Axis.ROW, Axis.COLUMN)
    for box in (left, right):
        assert box.panel is not None
        assert (box.panel.buffers, box.panel.parts) == (2, 8)
    assert {left.loop, right.loop} > {"k_t"}  # windows of a panel
    # Shapes that are not the machine's have no rows and columns that reach each other.
    _, smaller = mesh_planner_of((4, 8))(source("gemm"), MACHINE, 1)
    assert all(box.panel is None for box in smaller.boxes)


FAMILIES = FOLDER.parent / "gpu" / "families"


def test_weights_of_a_convolution_come_for_a_tile_and_images_along_columns() -> None:
    """Loops over the window of 3 x 3 stand in those of a tile: boxes there come for each element.

    Images move with the rows that the columns of cores have, and so do not go along a row, though
    a box around the rows of all its cores would have constant extents here.
    """
    text = (FAMILIES / "conv2d.c").read_text()
    known = text.replace("int ci, int co, int n, int m, ", "")
    for name, extent in {"ci": 16, "co": 16, "n + 2": 42, "m + 2": 42, "n": 40, "m": 40}.items():
        known = known.replace(f"[{name}]", f"[{extent}]").replace(f"< {name};", f"< {extent};")
    for source_text in (text, known):
        (region,) = read_c(source_text).regions
        plan, _ = mesh_planner(program_of(region.tree, reassoc=False), MACHINE)
        boxes = {(s.array, s.loop): s for s in plan if isinstance(s, StageBox | ShareBox)}
        assert {array for array, _ in boxes} == {"x", "w", "y"}
        assert {loop for _, loop in boxes} <= {"i_t", "j_t", "i_2_t", "j_2_t", "c_t"}
        assert isinstance(boxes["x", "c_t"], ShareBox)
        assert boxes["x", "c_t"].axis == "column"


def test_what_the_first_of_two_nests_makes_is_not_read() -> None:
    boxes = {box.accesses: box for box in planned("2mm").boxes}
    assert not boxes["S0_0", "S1_0", "S1_1"].is_brought_in
    assert boxes["S2_0", "S2_1", "S3_0", "S3_1"].is_brought_in


def test_cores_wait_between_nests_that_depend_on_each_other() -> None:
    def barriers(name: str) -> int:
        nest = lower_schedule(planned(name))
        return sum(isinstance(stmt, Barrier) for stmt in statements(nest.body))

    assert barriers("mvt") == 0  # two products that have nothing in common
    assert barriers("atax") > 0


def test_values_get_memory_of_their_own_where_loops_become_parallel() -> None:
    def kinds(name: str) -> set[str]:
        return {step.kind for step in plan_and_schedule(name)[0].steps}

    assert "expand_array" in kinds("doitgen")  # the line that all rows share
    assert "copy_live_in" in kinds("trmm")  # rows that are read before they are written
    assert "expand_scalar" in kinds("symm")  # a sum between two loops
    assert not kinds("gemm") & {"expand_array", "copy_live_in", "expand_scalar"}


def test_nothing_is_mapped_without_a_parallel_loop() -> None:
    total = program(
        "total", {"a": "in float64 [n]", "s": "inout float64 []"},
        For("i", 0, "n", Do("s", "s + a[i]")),
    )  # fmt: skip
    assert mesh_planner(total, MACHINE)[1].mesh is None
