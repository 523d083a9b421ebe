"""Loops with dependences over distances that only a call knows: what is planned, and its bits."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import loopwright as lw
from loopwright import machine, parse_c
from loopwright.analysis.dependences import known_dependences
from loopwright.ir.loops import Mark
from loopwright.ir.text import stmt_text
from loopwright.lower.passes import lower_schedule
from loopwright.planner.draft import Draft
from loopwright.planner.loop_plans.far_strips import split_by_distances
from loopwright.planner.plan_choice import choose_plan
from loopwright.transform.distance_splitting import SplitByDistance
from loopwright.transform.plan import initial_schedule

X86 = machine("sapphirerapids")
UP, DOWN = "int s = a; s < n - a; s++", "int s = n - a - 1; s >= a; s--"
SUM = "t[s] = t[s] + g * t[s - d];"
GREATEST = "{{ {type} x = t[s - d] + g; if (x > t[s]) t[s] = x; }}"
TWO = "t[s] = t[s] + g * t[s - d] + t[s + d];"
CASES = tuple(product(("int", "double"), (UP, DOWN), (SUM, GREATEST, TWO)))


def text_of(kind: str, loop: str, body: str) -> str:
    body = body.replace("{{", "{").replace("}}", "}").replace("{type}", kind)
    return (
        f"void f(int n, int a, int d, {kind} g, {kind} t[n]) {{\n#pragma scop\n"
        f"  for ({loop})\n    {body}\n#pragma endscop\n}}\n"
    )


PARTITIONS = """
void partitions(int n, int t[n]) {
#pragma scop
  for (int c = 1; c < n; c++)
    for (int s = c; s < n; s++) t[s] += t[s - c];
#pragma endscop
}
"""
# The distance is one; and the iteration that all others read is another matter (loop_plans/pivots).
NEAR = PARTITIONS.replace("t[s - c]", "t[s - 1]")
PIVOT = PARTITIONS.replace("t[s - c]", "t[c]")


def splits(text: str) -> list[SplitByDistance]:
    (program,) = parse_c(text)
    plan = choose_plan(program, X86, 1).plan
    return [step for step in plan if isinstance(step, SplitByDistance)]


def test_loops_of_unknown_distances_have_strips_of_vectors() -> None:
    (program,) = parse_c(PARTITIONS)
    chosen = choose_plan(program, X86, 1)
    assert [step.loop for step in splits(PARTITIONS)] == ["s"]
    assert chosen.schedule.mark("s") is Mark.SIMD
    assert splits(NEAR) == splits(PIVOT) == []
    in_text = choose_plan(program, X86, 1, text=True).plan  # C compilers split such loops too
    assert not [step for step in in_text if isinstance(step, SplitByDistance)]


@pytest.mark.parametrize("text", [PARTITIONS.replace("t[s - c]", "t[s - 40]"), NEAR])
def test_distances_that_are_known_ask_for_no_dependence(text: str) -> None:
    (program,) = parse_c(text)
    schedule = initial_schedule(program)
    draft = Draft(schedule)
    assert split_by_distances(draft) == frozenset()
    assert not draft.steps
    assert schedule.analyses.known(known_dependences) is None


def test_threads_get_no_waves_of_the_strips_of_one_loop() -> None:
    (program,) = parse_c(text_of("double", UP, SUM))
    plan = choose_plan(program, X86, 2).plan
    assert any(isinstance(step, SplitByDistance) for step in plan)


def test_scalars_of_an_iteration_need_no_memory() -> None:
    (program,) = parse_c(text_of("int", UP, GREATEST))
    nest = lower_schedule(choose_plan(program, X86, 1).schedule)
    assert "simd" in stmt_text(nest.body)
    assert "scratch" not in stmt_text(nest.body)


def in_order(loop: str, body: str, a: int, d: int, t: np.ndarray) -> np.ndarray:
    """What the text means with g = 1, by which products are exact, element by element."""
    g, places = t.dtype.type(1), range(a, len(t) - a)
    for s in places if loop == UP else reversed(places):
        if body == SUM:
            t[s] = t[s] + g * t[s - d]
        elif body == TWO:
            t[s] = (t[s] + g * t[s - d]) + t[s + d]
        else:
            t[s] = max(t[s], t[s - d] + g)
    return t


@pytest.mark.drawn(6)
@pytest.mark.parametrize("target", ["host", "c"])
@pytest.mark.parametrize(("kind", "loop", "body"), CASES)
def test_bits(kind: str, loop: str, body: str, target: str) -> None:
    source = text_of(kind, loop, body)
    assert splits(source)
    run = lw.compile(source, target, threads=1)
    random = np.random.default_rng(7)
    dtype = np.dtype(np.int32 if kind == "int" else np.float64)
    for d in (0, 1, -1, 2, 31, -31, 32, -32, 33, 40, -41):
        for n in (0, 2 * abs(d) + 1, 2 * abs(d) + 33, 211):
            t = (100 * random.random(n)).astype(dtype)
            expected = in_order(loop, body, abs(d), d, t.copy())
            run(n, abs(d), d, dtype.type(1).item(), t)
            np.testing.assert_array_equal(t, expected, err_msg=f"{n} {d}")
