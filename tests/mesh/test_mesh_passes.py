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
from loopwright.planner.mesh_plans.mesh import mesh_planner
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


def test_passes_by_rows_come_first() -> None:
    _, schedule = mesh_planner(source("bicg", reassoc=False), PRO)
    assert passes(schedule)[-2:] == [{"S3"}, {"S2"}]


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


@pytest.mark.drawn(2)
@pytest.mark.parametrize("seed", range(400) if HUNTS else range(3 if in_all() else 2))
def test_random_nests(seed: int) -> None:
    wanted = random_nests(seed)
    nest = lower_schedule(mesh_planner(wanted, SMALL)[1])
    check_nest(nest)
    sizes = [{"n": n, "m": m} for n, m in ((0, 3), (1, 1), (5, 13), (20, 23), (17, 9))]
    assert check_translation(wanted, nest, sizes) == ()


# -- sizes by the model ---------------------------------------------------------------------------
