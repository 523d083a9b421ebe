"""Register tiles that bounds of rows cut: triangles in every position, to the bit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drawn import drawn
from loopwright.ir.check import check_nest
from loopwright.ir.expr import Const, Var
from loopwright.ir.loops import For as Loop
from loopwright.ir.loops import If, LoopNest, Stmt, Store
from loopwright.ir.program import Program
from loopwright.lower.linear_forms import normal
from loopwright.lower.mesh_nests.edge_tiles import ends_of_rows, steps_of_rows
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load_mesh import load_mesh
from loopwright.planner.mesh_plans.mesh import mesh_planner
from loopwright.planner.mesh_plans.mesh_work import integer_function
from loopwright.validate import check_translation
from programs import Do, For, program

MACHINE = replace(load_mesh("sw26010"), rows=2, columns=2, scratchpad_bytes=20 << 10)
# What each row has: along the lanes, and of steps.
TRIANGLES = {
    "lower": ("0", "i + 1", "0", "n"),
    "strictly lower": ("0", "i", "0", "n"),
    "upper": ("i", "n", "0", "n"),
    "steps below": ("0", "n", "0", "i"),
    "steps above": ("0", "n", "i + 1", "n"),
    "both": ("0", "i + 1", "0", "i + 1"),
}


def triangle(name: str) -> Program:
    first, last, begin, end = TRIANGLES[name]
    return program(
        "triangle",
        {"C": "inout float64 [n, n]", "A": "in float64 [n, n]", "B": "in float64 [n, n]"},
        For("i", 0, "n", For("j", first, last, For("k", begin, end,
            Do("C[i, j]", "C[i, j] + A[i, k] * B[k, j]")))),
    )  # fmt: skip


def nest_of(name: str) -> LoopNest:
    nest = lower_schedule(mesh_planner(triangle(name), MACHINE)[1])
    check_nest(nest)
    return nest


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", drawn(TRIANGLES, 4))
def test_triangles(name: str) -> None:
    sizes = [{"n": n} for n in drawn([0, 1, 5, 13, 19, 30], 3)]
    assert check_translation(triangle(name), nest_of(name), sizes) == ()


ROW = Var("i")
STEPS = Loop("k", Var("w").max(ROW + 1), Var("w") + 8, Store("x", (), Const(0)), Const(1))


def test_ends_of_rows() -> None:
    found = ends_of_rows(STEPS, ("i", Var("r"), 4))
    assert found is not None
    widest, common = found
    assert widest.start == normal(Var("w").max(Var("r") + 1))
    assert common.start == normal(Var("w").max(Var("r") + 4))
    assert widest.stop == common.stop == normal(Var("w") + 8)
    down = replace(STEPS, start=Const(0), stop=normal(10 - ROW))
    found = ends_of_rows(down, ("i", Var("r"), 4))
    assert found is not None
    assert (found[0].stop, found[1].stop) == (normal(10 - Var("r")), normal(7 - Var("r")))
    # A bound that goes up with one part of it and down with another has its extremum anywhere.
    assert ends_of_rows(replace(STEPS, start=ROW.max(9 - ROW)), ("i", Var("r"), 4)) is None


def test_steps_of_rows_come_once_and_in_order() -> None:
    """Every row runs through its own steps, whatever the place of the window."""
    for first, window in ((0, 0), (0, 8), (3, 2), (6, 0), (9, 0)):
        done: dict[int, list[int]] = {row: [] for row in range(4)}
        marks: dict[int, list[int]] = {}

        def body(rows: object, marks: dict[int, list[int]] = marks) -> Stmt:
            marks[len(marks)] = list(rows)  # type: ignore[call-overload]
            return Store("x", (), Const(len(marks) - 1))

        made = steps_of_rows(STEPS, ("i", Const(first), 4), body)
        _run(made, {"w": window}, marks, done)
        for row, steps in done.items():
            assert steps == list(range(max(window, first + row + 1), window + 8)), (first, window)


def _run(
    stmt: Stmt, env: dict[str, int], marks: dict[int, list[int]], done: dict[int, list[int]]
) -> None:

    match stmt:
        case Loop(var=var, start=start, stop=stop, body=inner):
            for value in range(integer_function(start)(env), integer_function(stop)(env)):
                _run(inner, {**env, var: value}, marks, done)
        case If(cond=cond, body=inner):
            if integer_function(cond)(env):
                _run(inner, env, marks, done)
        case Store(value=Const(value=number)):
            for row in marks[int(number.real)]:
                done[row].append(env["k"])
        case _:
            for part in stmt.body:  # type: ignore[union-attr]
                _run(part, env, marks, done)
