"""What each pass of lowering makes of a small nest; `python <this file>` writes that anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from contract_steps import contract_loops
from loopwright.ir.loops import LoopNest
from loopwright.ir.program import Program
from loopwright.ir.text import stmt_text
from loopwright.lower.astgen import generate_loops
from loopwright.lower.passes import PASSES, LoopDecisions
from loopwright.transform.plan import apply_plan
from loopwright.transform.step import Step
from programs import Do, For, program
from transform.plan_corpus import read_program, read_step

FOLDER = Path(__file__).parent / "golden" / "passes"
MOST_LINES = 30
MOST_LINES_OF_A_CONTRACTION = 90
GRID = dict.fromkeys("ABC", "inout float64 [n, n]")
SQUARE = Do("C[i, j]", "C[i, j] + A[i, k] * B[k, j]")
TILE = contract_loops("i", "j", "k", tile=(1, 1, 1, 1, 0))
# Contractions have no text; the other cases stand before their nests.
CONTRACTED: dict[str, tuple[Program, tuple[Step, ...]]] = {
    "absorb_zeros": (
        program(
            "cleared",
            GRID,
            For("x", 0, "n", For("y", 0, "n", Do("C[x, y]", "0"))),
            For("i", 0, "n", For("j", 0, "n", For("k", 1, "n", SQUARE))),
        ),
        (TILE,),
    ),
    "insert_contractions": (
        program("matmul", GRID, For("i", 0, "n", For("j", 0, "n", For("k", 0, "n", SQUARE)))),
        (TILE,),
    ),
}
PASS_NAMES = list(dict.fromkeys(each.name for each in PASSES))


def case_of(name: str) -> tuple[str, Program, tuple[Step, ...]]:
    """The text of a case, its program and its steps."""
    if name in CONTRACTED:
        return "", *CONTRACTED[name]
    source, steps, _ = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").split("\n\n", 2)
    plan = tuple(read_step(line) for line in steps.splitlines())
    return f"{source}\n\n{steps}\n\n", read_program(source), plan


def before_and_after(name: str) -> tuple[LoopNest, LoopNest]:
    """The nest before and after the last pass of that name that changes it."""
    _, source, steps = case_of(name)
    schedule = apply_plan(source, steps)
    loops = generate_loops(schedule)
    nest, decisions = loops.nest, LoopDecisions.of(schedule, loops)
    changes = []
    for each in PASSES:
        before, nest = nest, each(nest, decisions)
        if each.name == name and nest != before:
            changes.append((before, nest))
    return changes[-1]


def text(name: str) -> str:
    before, after = before_and_after(name)
    return f"{stmt_text(before.body)}\n->\n{stmt_text(after.body)}\n"


@pytest.mark.parametrize("name", PASS_NAMES)
def test_pass(name: str) -> None:
    found = text(name)
    assert case_of(name)[0] + found == (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    most = MOST_LINES_OF_A_CONTRACTION if name == "insert_contractions" else MOST_LINES
    assert len(found.splitlines()) <= most


if __name__ == "__main__":
    for each_name in PASS_NAMES:
        made = case_of(each_name)[0] + text(each_name)
        (FOLDER / f"{each_name}.txt").write_text(made, encoding="utf-8")
