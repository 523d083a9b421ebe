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
from loopwright.ir.loops import Copy, LoopNest, Store
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.ir.visit import loads, statements
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load_mesh import load_mesh
from loopwright.planner.mesh_plans.mesh import (
    mesh_planner,
    scratchpad_bytes,
    scratchpad_room,
)
from loopwright.transform.plan import Plan
from loopwright.transform.share_box import ShareBox
from loopwright.transform.stage_box import StageBox
from loopwright.validate import check_translation
from loopwright.validate.problem_sizes import pick_sizes

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


def test_values_get_memory_of_their_own_where_loops_become_parallel() -> None:
    def kinds(name: str) -> set[str]:
        return {step.kind for step in plan_and_schedule(name)[0].steps}

    assert "expand_array" in kinds("doitgen")  # the line that all rows share
    assert "copy_live_in" in kinds("trmm")  # rows that are read before they are written
    assert "expand_scalar" in kinds("symm")  # a sum between two loops
    assert not kinds("gemm") & {"expand_array", "copy_live_in", "expand_scalar"}
