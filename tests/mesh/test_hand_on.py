"""HandOn: sums of columns go from core to core; what the step refuses, and what nests compute."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from drawn import combined
from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.ir.check import check_nest
from loopwright.ir.loops import Axis, Block, LoopNest, MeshMessage, Stmt
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.ir.text import nest_text
from loopwright.ir.visit import rebuild, statements
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load_mesh import load_mesh
from loopwright.planner.mesh_plans.mesh import mesh_planner_of
from loopwright.transform.hand_on import HandOn
from loopwright.transform.plan import apply_plan
from loopwright.transform.stage_box import StageBox
from loopwright.transform.step import Step
from loopwright.transform.tiling import StripMine, Tile
from loopwright.validate import check_translation
from programs import Do, For, program

SW, PRO = load_mesh("sw26010"), load_mesh("sw26010pro")
SUM = "y[j] + A[i, j] * x[i]"


def columns(*body: For | Do, width: str = "20", rows: str = "n") -> Program:
    """Sums of the columns of a matrix of constant width, or of any."""
    arrays = {
        "A": f"in float64 [{rows}, {width}]", "x": f"in float64 [{rows}]",
        "y": f"inout float64 [{width}]", "z": f"inout float64 [{width}]",
    }  # fmt: skip
    return program("columns", arrays, *(body or (summed("y"),)), params="n m")


def summed(target: str, end: str = "m") -> For:
    value = f"{target}[j] + A[i, j] * x[i]"
    return For("i", 0, "n", For("j", 0, end, Do(f"{target}[j]", value)))


TILES: tuple[Step, ...] = (Tile(("i", "j"), (2, 4)),)
ON = HandOn("i_t", ("y",), ("j_t",), 1, 8)
BOX = StageBox("y", "j_t", (), 1)
SIZES = tuple({"n": n, "m": m} for n, m in ((0, 3), (1, 1), (2, 20), (5, 7), (17, 20), (40, 19)))


def lowered(*steps: Step, of: Program | None = None) -> LoopNest:
    nest = lower_schedule(apply_plan(of or columns(), steps))
    check_nest(nest)
    return nest


@pytest.mark.drawn(3)
@pytest.mark.parametrize("rows", [4, 1, 2])
def test_sums_keep_their_order_from_core_to_core(rows: int) -> None:
    nest = lowered(*TILES, replace(ON, rows=rows), BOX, StageBox("A", "i_t", (), 1))
    assert check_translation(columns(), nest, SIZES) == ()
    assert {s.cores for s in messages(nest)} == {(rows, 8)}


def messages(nest: LoopNest) -> list[MeshMessage]:
    return [stmt for stmt in statements(nest.body) if isinstance(stmt, MeshMessage)]


def test_the_text_of_a_nest() -> None:
    text = nest_text(lowered(*TILES, ON, BOX))
    lines = [line.strip() for line in text.splitlines()]
    at = lines.index("take over [y_box_by0] to y_box[0]")
    assert lines[at - 3 : at] == [
        "if i_t == 0:", "copy [y_box_by0] to y_box[0] from y[j_t]", "else:",
    ]  # fmt: skip
    assert "hand on [y_box_by0] from y_box[0]" in lines


def test_schedules_say_it() -> None:
    schedule = apply_plan(columns(), (*TILES, ON, BOX))
    assert schedule.axis("i_t") is Axis.CIRCLE
    (box,) = schedule.boxes
    told = "up to 4 elements of y in scratchpads in j_t, from core to core along i_t"
    assert str(box) == told


# -- what is refused ------------------------------------------------------------------------------

TWICE = columns(For("i", 0, "n", For("j", 0, "m", Do("y[j]", SUM), Do("z[j]", "z[j] + y[j]"))))
BESIDE = columns(For("i", 0, "n", Do("z[i]", "y[0]"), For("j", 0, "m", Do("y[j]", SUM))), rows="20")
NEAR = columns(For("i", 0, "n", For("j", 0, "m", Do("y[j]", f"{SUM} + y[j + 1]"))), width="21")
ANY = columns(width="m")

REFUSED: dict[str, tuple[Program, tuple[Step, ...], str]] = {
    "no vector": (
        columns(), (*TILES, HandOn("i_t", ("A",), ("j_t",), 1, 8)),
        "there is no vector 'A'",
    ),
    "not directly inside": (
        columns(), (*TILES, HandOn("i_t", ("y",), ("i",), 1, 8)),
        "loop 'i' does not stand directly in 'i_t'",
    ),
    "beside the parts": (
        BESIDE, (StripMine("j", 4), HandOn("i", ("y",), ("j_t",), 1, 8)),
        "'y' is accessed in 'i' beside 'j_t'",
    ),
    "a triangle": (
        columns(summed("y", "i + 1")), (StripMine("j", 4), HandOn("i", ("y",), ("j_t",), 1, 8)),
        "iterations of 'i' access different parts of 'y'",
    ),
    "parts that overlap": (
        NEAR, (StripMine("j", 4), HandOn("i", ("y",), ("j_t",), 1, 8)),
        "parts of 'y' are not apart, or have gaps",
    ),
    "any number of parts": (
        ANY, (*TILES, ON),
        "nobody knows how many parts 'y' has",
    ),
    "as many parts as cores": (
        columns(), (*TILES, replace(ON, columns=5)),
        "5 parts of vectors are not less than 5 cores",
    ),
    "other sums": (
        TWICE, (StripMine("j", 4), HandOn("i", ("y",), ("j_t",), 1, 8)),
        "loop 'i' carries flow S1[0, 0] -> S1[1, 0] (columns.py:2 -> columns.py:2)",
    ),
    "another mesh": (
        columns(), (*TILES, ON, replace(ON, loop="j")),
        "loop 'i_t' is mapped to the mesh already",
    ),
    "another box": (
        columns(), (*TILES, ON, StageBox("y", "i_t", (), 1)),
        "'y' is handed on along 'i_t' by the boxes of 'j_t'",
    ),
    "the box of some accesses": (
        columns(), (*TILES, ON, StageBox("y", "j_t", ("S0_0",), 1)),
        "'y' is handed on along 'i_t' by the boxes of 'j_t'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    wanted, steps, told = REFUSED[name]
    with pytest.raises(IllegalStep) as error:
        apply_plan(wanted, steps)
    assert str(error.value) == f"{steps[-1]}: {told}"


def test_arguments() -> None:
    with pytest.raises(UsageError) as error:
        HandOn("i", ("y",), (), 8, 8)
    assert str(error.value).startswith("hand_on takes one or more arrays, and a loop for each")
    for shape in ((3, 8), (2, 4), (1, 1), (1, 16)):
        with pytest.raises(UsageError) as error:
            HandOn("i", ("y",), ("j",), *shape)
        told = "hand_on takes 2 to 8 cores of a row, or an even number of whole rows"
        assert str(error.value).startswith(told)


def test_a_vector_without_boxes_is_not_lowered() -> None:
    with pytest.raises(UsageError) as error:
        lowered(*TILES, ON)
    assert str(error.value) == (
        "'y' is handed on along 'i_t', and has no boxes\ntry: stage_box(array='y', loop='j_t')"
    )


# -- the interpreter ------------------------------------------------------------------------------


def changed(nest: LoopNest, *, is_sent: bool) -> LoopNest:
    """A nest without the messages that are sent, or taken."""

    def visit(stmt: Stmt) -> Stmt:
        is_gone = isinstance(stmt, MeshMessage) and stmt.is_sent == is_sent
        return Block(()) if is_gone else stmt

    return replace(nest, body=rebuild(nest.body, visit))


@pytest.mark.parametrize(
    ("is_sent", "told"),
    [
        (True, "cores wait for messages that nobody sends"),
        (False, "y_box[0] is read before it is written"),
    ],
)
def test_missing_messages_are_found(is_sent: bool, told: str) -> None:
    nest = changed(lowered(*TILES, ON, BOX), is_sent=is_sent)
    assert told in str(check_translation(columns(), nest, ({"n": 9, "m": 7},)))


# -- the planner ----------------------------------------------------------------------------------


@cache
def both_ways(rows: int, width: int, *, is_known: bool = True) -> Program:
    """Sums of rows and of columns of one matrix."""
    extents = (str(rows), str(width)) if is_known else ("n", "m")
    arrays = {
        "A": f"in float64 [{extents[0]}, {extents[1]}]",
        "x": f"in float64 [{extents[1]}]", "r": f"in float64 [{extents[0]}]",
        "q": f"inout float64 [{extents[0]}]", "s": f"inout float64 [{extents[1]}]",
    }  # fmt: skip
    return program(
        "both", arrays,
        For("i", 0, "n", For("j", 0, "m",
            Do("q[i]", "q[i] + A[i, j] * x[j]"), Do("s[j]", "s[j] + A[i, j] * r[i]"))),
        params="n m",
    )  # fmt: skip


def planned(of: Program, shape: tuple[int, int], room: int = 0) -> Schedule:
    machine = SW if not room else replace(SW, scratchpad_bytes=room, scratchpad_reserved=64)
    return mesh_planner_of(shape)(of, machine, 1)[1]


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("shape", "room", "is_known", "n"),
    combined([(8, 8), (4, 8), (2, 8)], [0, 9000, 4096], [True, False], [5, 43], one_in=6),
)
def test_plans_compute_what_they_say(
    shape: tuple[int, int], room: int, is_known: bool, n: int
) -> None:
    wanted = both_ways(43, 47, is_known=is_known)
    nest = lower_schedule(planned(wanted, shape, room))
    check_nest(nest)
    assert check_translation(wanted, nest, ({"n": n, "m": 31}, {"n": 3, "m": 47})) == ()
