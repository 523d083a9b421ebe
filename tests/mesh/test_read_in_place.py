"""ReadInPlace: cores in step do without a copy of what an array held; what it refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loopwright.diagnostics import IllegalStep
from loopwright.ir.check import check_nest
from loopwright.ir.loops import Alloc, Barrier, Block, Copy, Space
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.ir.visit import rebuild, statements
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load_mesh import load_mesh
from loopwright.planner.mesh_plans.mesh import mesh_planner
from loopwright.transform.copy_live_in import CopyLiveIn
from loopwright.transform.mesh_mapping import MapToMesh
from loopwright.transform.plan import apply_plan
from loopwright.transform.read_in_place import ReadInPlace
from loopwright.transform.share_box import ShareBox
from loopwright.transform.stage_box import StageBox
from loopwright.transform.step import Step
from loopwright.transform.tiling import Tile
from loopwright.validate import check_translation
from loopwright.validate.difference import DifferenceKind
from programs import Do, For, program

MACHINE = load_mesh("sw26010")
SMALL = replace(MACHINE, rows=2, columns=2, scratchpad_bytes=6144, scratchpad_reserved=64)


def triangle(row: str = "i", first: str = "i + 1", stop: str = "n") -> Program:
    """B = A' B in place, of rows that are not written yet."""
    arrays = {"A": "in float64 [n, n]", "B": "inout float64 [n, n]"}
    body = Do(f"B[{row}, j]", f"B[{row}, j] + A[k, i] * B[k, j]")
    return program(
        "triangle", arrays, For("i", 0, "n", For("j", 0, "n", For("k", first, stop, body)))
    )


def copied(first: str, stop: str) -> Program:
    """The same with a copy that the program makes itself, of any rows."""
    arrays = {"A": "in float64 [n, n]", "B": "inout float64 [n, n]", "T": "local float64 [n, n]"}
    body = Do("B[i, j]", "B[i, j] + A[k, i] * T[k, j]")
    return program(
        "copied",
        arrays,
        For("x", 0, "n", For("y", 0, "n", Do("T[x, y]", "B[x, y]"))),
        For("i", 0, "n", For("j", 0, "n", For("k", first, stop, body))),
    )


def steps(copy: str, write: str = "S0", read: str = "S0_3") -> tuple[Step, ...]:
    return (
        Tile(("i", "j", "k"), (2, 3, 2)),
        MapToMesh("i_t", "row", 2, 2),
        MapToMesh("j_t", "column", 2, 2),
        StageBox("B", "j_t", (f"{write}_0", f"{write}_1"), 1),
        ShareBox(copy, "k_t", "k_t", (read,), "column"),
    )


def of_triangle(source: Program) -> Schedule:
    return apply_plan(source, (CopyLiveIn("B", ("S0_3",)), *steps("B_old"), ReadInPlace("B_old")))


def assert_right(source: Program, schedule: Schedule) -> None:
    nest = lower_schedule(schedule)
    check_nest(nest)
    sizes = [{"n": n} for n in (0, 1, 5, 13)]
    assert check_translation(source, nest, sizes) == ()


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    "source",
    [triangle(), triangle("n - 1 - i", "0", "n - 1 - i")],
    ids=["from the first row on", "from the last one"],
)
def test_no_copy_is_made(source: Program) -> None:
    schedule = of_triangle(source)
    nest = lower_schedule(schedule)
    inner = list(statements(nest.body))
    assert not any(isinstance(s, Alloc) and s.buffer.space is Space.SCRATCH for s in inner)
    moved = [s for s in inner if isinstance(s, Copy)]
    assert {s.source for s in moved if s.target == "B_old_part"} == {"B"}
    # Tiles of the next columns follow: rows of a panel are equally long, and reach into others.
    assert [one.is_closed for one in schedule.in_place] == [True]
    assert sum(isinstance(s, Barrier) for s in inner) == 2
    assert_right(source, schedule)


def test_without_the_barrier_cores_race() -> None:
    source = triangle()
    nest = lower_schedule(of_triangle(source))
    drop = rebuild(nest.body, lambda s: Block(()) if isinstance(s, Barrier) else s)
    found = check_translation(source, replace(nest, body=drop), [{"n": 13}])
    assert {one.kind for one in found} == {DifferenceKind.FAULT}


def test_a_copy_that_the_program_makes() -> None:
    source = copied("i", "n")
    schedule = apply_plan(source, (*steps("T", "S1", "S1_3"), ReadInPlace("T")))
    assert_right(source, schedule)


def test_the_planner_takes_it() -> None:
    source = triangle()
    plan, schedule = mesh_planner(source, SMALL)
    assert ReadInPlace("B_old") in plan.steps
    assert_right(source, schedule)


@pytest.mark.parametrize(
    ("source", "taken", "copy", "told"),
    [
        (copied("i", "n"), (), "X", "there is no local array 'X'"),
        (copied("i", "n"), (), "T", "some access reads 'T' from no box that cores share"),
        (
            copied("0", "n"),
            steps("T", "S1", "S1_3"),
            "T",
            "'B' is read in a turn behind one that puts the element",
        ),
        (
            copied("i", "n"),
            (*steps("T", "S1", "S1_3")[:3], steps("T", "S1", "S1_3")[4]),
            "T",
            "some access writes 'B' in no box of loop 'j_t'",
        ),
        (
            copied("i", "n"),
            (*steps("T", "S1", "S1_3"), ReadInPlace("T")),
            "T",
            "'T' is read in place already",
        ),
    ],
    ids=["unknown", "direct", "later", "no box", "twice"],
)
def test_refused(source: Program, taken: tuple[Step, ...], copy: str, told: str) -> None:
    with pytest.raises(IllegalStep) as caught:
        ReadInPlace(copy).apply(apply_plan(source, taken))
    assert str(caught.value) == f"{ReadInPlace(copy)}: {told}"
