"""Passes over matrices for a mesh: which nests run together, their tree, and what they compute."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import kernels
from drawn import HUNTS, combined, in_all
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import program_of
from loopwright.ir.check import check_nest
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import bands, nodes_of
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load_mesh import load_mesh
from loopwright.planner.mesh_plans.mesh import mesh_planner, mesh_planner_of, scratchpad_room
from loopwright.planner.mesh_plans.mesh_pass_sizes import PassWork, pass_sizes
from loopwright.planner.mesh_plans.mesh_tiles import MovedBox, NestWork, TiledLoop, best_sizes
from loopwright.transform.hand_on import HandOn
from loopwright.transform.partial_sums import PartialSums
from loopwright.transform.plan import Plan
from loopwright.validate import check_translation
from loopwright.validate.problem_sizes import pick_sizes
from mesh.random_nests import random_nests
from programs import Do, For, program

MACHINE, PRO = load_mesh("sw26010"), load_mesh("sw26010pro")
FOLDER = Path(kernels.__file__).parent
SMALL = replace(MACHINE, rows=2, columns=2, scratchpad_bytes=2048 + 640, scratchpad_reserved=64)
NAMES = ("mvt", "atax", "bicg", "gemver", "gesummv")


@cache
def source(name: str, *, reassoc: bool) -> Program:
    (region,) = read_c(FOLDER / f"{name}.c").regions
    return program_of(region.tree, reassoc=reassoc)


@cache
def planned(name: str, *, reassoc: bool) -> tuple[Plan, Schedule]:
    return mesh_planner(source(name, reassoc=reassoc), MACHINE)


def passes(schedule: Schedule) -> list[set[str]]:
    """The statements of every loop that is dealt out."""
    loops = {loop for loop, _ in schedule.axes}
    return [set(band.statements) for band in bands(nodes_of(schedule)) if band.loop in loops]


@pytest.mark.drawn(2)
@pytest.mark.parametrize(("name", "reassoc"), combined(NAMES, [False, True], one_in=5))
def test_passes_compute_what_they_say(name: str, reassoc: bool) -> None:
    wanted = source(name, reassoc=reassoc)
    nest = lower_schedule(mesh_planner(wanted, SMALL)[1])
    check_nest(nest)
    sizes = pick_sizes(wanted, values=(0, 1, 5, 13, 37), most=5_000, count=4, seed=3)
    assert check_translation(wanted, nest, sizes) == ()


def test_sums_in_free_order_are_gathered_by_each_block_of_rows() -> None:
    plan, schedule = planned("mvt", reassoc=True)
    (sums,) = [step for step in plan.steps if isinstance(step, PartialSums)]
    assert (sums.statement, sums.iterator) == ("S1", "j_1")  # along rows of A
    assert passes(schedule) == [{"S0", "S1", "S1_start"}, {"S1_total"}]
    (matrix,) = [box for box in schedule.boxes if box.array == "A"]
    assert matrix.accesses == ("S0_2", "S1_2")
    (parts,) = [box for box in schedule.boxes if "S1_start_0" in box.accesses]
    assert not parts.is_brought_in


def test_sums_keep_their_order_without_reassoc() -> None:
    plan, schedule = planned("mvt", reassoc=False)
    assert not any(isinstance(step, PartialSums) for step in plan.steps)
    assert passes(schedule) == [{"S0", "S1"}]  # of one matrix, by cores in a circle
    plan, schedule = mesh_planner(source("mvt", reassoc=False), PRO)
    assert not any(isinstance(step, PartialSums | HandOn) for step in plan.steps)
    assert passes(schedule) == [{"S0"}, {"S1"}]


def test_a_matrix_that_is_changed_and_summed_up_is_moved_once() -> None:
    _, schedule = planned("gemver", reassoc=False)
    assert passes(schedule)[0] == {"S0", "S1"}  # by columns: the order of sums stays
    first = next(box for box in schedule.boxes if box.array == "A")
    assert (first.is_brought_in, first.is_put_back) == (True, True)
    assert first.accesses == ("S0_0", "S0_1", "S1_2")


def test_passes_by_rows_come_first() -> None:
    _, schedule = mesh_planner(source("bicg", reassoc=False), PRO)
    assert passes(schedule)[-2:] == [{"S3"}, {"S2"}]


def whole_row(extent: int, *, reassoc: bool = True) -> Program:
    """y += A^T (A x): the second sum takes a row times what the first one makes of it."""
    found = program(
        "twice",
        {
            "A": f"in float64 [{extent}, {extent}]", "x": f"in float64 [{extent}]",
            "t": f"inout float64 [{extent}]", "y": f"inout float64 [{extent}]",
        },
        For("i", 0, "n", For("j", 0, "n", Do("t[i]", "t[i] + A[i, j] * x[j]"))),
        For("k", 0, "n", For("l", 0, "n", Do("y[l]", "y[l] + A[k, l] * t[k]"))),
    )  # fmt: skip
    return replace(found, reassoc=reassoc)


def test_rows_that_are_used_when_their_sum_is_whole_are_not_cut() -> None:
    _, schedule = mesh_planner(whole_row(1200), MACHINE)
    assert passes(schedule)[0] == {"S0", "S1", "S1_start"}
    (matrix,) = [box for box in schedule.boxes if box.array == "A"]
    assert matrix.extents[1] == 1200
    # Three rows of 5000 elements do not fit: the matrix is read twice.
    _, schedule = mesh_planner(whole_row(5000), MACHINE)
    assert passes(schedule)[0] == {"S0"}
    assert len([box for box in schedule.boxes if box.array == "A"]) == 2


@pytest.mark.parametrize(
    ("first", "second"),
    [
        # The second nest reads another part of the matrix than A[r][c].
        ("t[i] + A[i, j] * x[j]", "y[l] + A[k, l] * A[l, k]"),
        # What the first nest sums up is read by columns.
        ("t[i] + A[i, j] * x[j]", "y[l] + A[k, l] * t[l]"),
        # The sum reads itself elsewhere: no reduction.
        ("t[i] + A[i, j] * x[j]", "y[k] + A[k, l] * x[k]"),
    ],
)
def test_nests_that_cannot_run_together_stay_apart(first: str, second: str) -> None:
    arrays = dict.fromkeys(("t", "y"), "inout float64 [300]")
    found = program(
        "apart",
        {"A": "in float64 [300, 300]", "x": "in float64 [300]", **arrays},
        For("i", 0, "n", For("j", 0, "n", Do("t[i]", first))),
        For("k", 0, "n", For("l", 0, "n", Do("y[l]", second))),
    )
    found = replace(found, reassoc=True)
    _, schedule = mesh_planner(found, SMALL)
    assert not any({"S0", "S1"} <= names for names in passes(schedule))
    nest = lower_schedule(schedule)
    sizes = pick_sizes(found, values=(0, 1, 5, 13), most=5_000, count=3, seed=3)
    assert check_translation(found, nest, sizes) == ()


def test_passes_in_a_loop() -> None:
    found = program(
        "power",
        {"A": "in float64 [300, 300]", "x": "inout float64 [300]", "y": "inout float64 [300]"},
        For(
            "t", 0, "s",
            For("i", 0, "n", Do("y[i]", "0")),
            For("j", 0, "n", For("k", 0, "n", Do("y[j]", "y[j] + A[j, k] * x[k]"))),
            For("l", 0, "n", Do("x[l]", "y[l]")),
        ),
        params="s n",
    )  # fmt: skip
    _, schedule = mesh_planner(found, MACHINE)
    loops = [band.loop for band in bands(nodes_of(schedule))]
    assert loops[:1] == ["t"]
    assert "j_s" in loops
    (matrix,) = [box for box in schedule.boxes if box.array == "A"]
    assert matrix.loop == "j_s"
    nest = lower_schedule(mesh_planner(found, SMALL)[1])
    sizes = [{"s": s, "n": n} for s, n in ((0, 4), (1, 1), (2, 7), (3, 13))]
    assert check_translation(found, nest, sizes) == ()


def test_triangles_and_single_nests_of_matrices_are_no_passes() -> None:
    found = program(
        "others",
        {"A": "inout float64 [300, 300]", "x": "in float64 [300]", "t": "inout float64 [300]"},
        For("i", 0, "n", For("j", 0, "n", Do("A[i, j]", "2 * A[i, j]"))),
        For("k", 0, "n", For("l", 0, "k", Do("t[k]", "t[k] + A[k, l] * x[l]"))),
    )
    _, schedule = mesh_planner(found, MACHINE)
    assert not any(loop.endswith("_s") for loop, _ in schedule.axes)
    assert not any(band.loop.endswith("_s") for band in bands(nodes_of(schedule)))


@pytest.mark.drawn(2)
@pytest.mark.parametrize("seed", range(400) if HUNTS else range(3 if in_all() else 2))
def test_random_nests(seed: int) -> None:
    wanted = random_nests(seed)
    nest = lower_schedule(mesh_planner(wanted, SMALL)[1])
    check_nest(nest)
    sizes = [{"n": n, "m": m} for n, m in ((0, 3), (1, 1), (5, 13), (20, 23), (17, 9))]
    assert check_translation(wanted, nest, sizes) == ()


# -- sizes by the model ---------------------------------------------------------------------------


WORK = PassWork(2000, 2000, 8, (1,), (2, 1), (1,), 1, 9.5, is_known=True, is_whole=True)


def test_whole_rows_are_one_block_where_they_fit() -> None:
    best, *others = pass_sizes(WORK, MACHINE, 64, scratchpad_room(MACHINE), [True])
    assert (best.column_block, best.buffers) == (0, 1)
    assert best.cycles < min(other.cycles for other in others)
    wide = replace(WORK, columns=4000)
    assert all(other.column_block for other in
               pass_sizes(wide, MACHINE, 64, scratchpad_room(MACHINE), [True]))  # fmt: skip


def test_columns_have_long_blocks_and_few_cores() -> None:
    work = replace(WORK, row_vectors=(1,), column_vectors=(2,), partial_vectors=0, cycles=2.0)
    best = pass_sizes(work, MACHINE, 64, scratchpad_room(MACHINE), [False])[0]
    assert best.buffers == 2
    assert best.column_block * 8 >= 2048
    slow = replace(work, cycles=20.0)
    other = pass_sizes(slow, MACHINE, 64, scratchpad_room(MACHINE), [False])[0]
    assert other.column_block < best.column_block  # more cores


@pytest.mark.parametrize(("mapped", "trips"), [(("i",), 4_000_000), (("i", "j"), 2000)])
def test_nests_that_use_nothing_twice_have_long_blocks(mapped: tuple[str, ...], trips: int) -> None:
    axes = (0, 1) if len(mapped) > 1 else (2,)
    loops = [TiledLoop(name, trips, axis) for name, axis in zip(mapped, axes, strict=True)]
    sides = tuple((((name, 1),), 0) for name in mapped)
    boxes = [MovedBox(8, sides, len(mapped), ways, is_ahead=False) for ways in (1, 2)]
    work = NestWork(float(trips) ** len(mapped), is_vector=True)
    found = best_sizes(loops, boxes, work, MACHINE, (8, 8), scratchpad_room(MACHINE))
    assert found is not None
    assert found.tiles[mapped[-1]] >= 1024


def test_nothing_fits_into_no_room() -> None:
    assert pass_sizes(WORK, MACHINE, 64, 128, [True, False]) == []


def test_shapes_of_cores() -> None:
    _, schedule = mesh_planner_of((1, 16))(source("atax", reassoc=True), MACHINE, 1)
    assert schedule.mesh == (1, 16)
    assert {axis.value for _, axis in schedule.axes} == {"mesh"}
