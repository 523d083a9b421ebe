"""ShareFrom: loops that threads share inside serial ones, in two versions by what they do."""

from __future__ import annotations

from textwrap import dedent

import pytest

from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.ir.program import Program
from loopwright.ir.text import stmt_text
from loopwright.lower.passes import lower_schedule
from loopwright.transform.loop_marks import Parallel, ShareFrom
from loopwright.transform.plan import apply_plan, initial_schedule
from loopwright.transform.step import Step
from oracle import assert_same
from programs import Do, For, program

MADE = 4096  # statements of the one that is offered


def steps_of_time(start: str | int = 0) -> Program:
    arrays = {"u": "inout float64 [n]", "v": "inout float64 [n]"}
    sweeps = (
        For("i", start, "n", Do("v[i]", "2 * u[i]")),
        For("j", 0, "n", Do("u[j]", "v[j] + 1")),
    )
    return program("steps", arrays, For("t", 0, "n", *sweeps))


def loops_after(source: Program, *steps: Step) -> str:
    """The statements of the lowered nest, proven right on both sides of the number."""
    nest = lower_schedule(apply_plan(source, steps))
    for n, threads in ((0, 2), (1, 1), (5, 2), (30, 3)):
        assert_same(source, nest, {"n": n}, threads=threads)
    return "\n" + stmt_text(nest.body) + "\n"


def test_golden() -> None:
    told = loops_after(steps_of_time(), Parallel("i"), Parallel("j"), ShareFrom("t", 10))
    assert told == dedent("""
        if max(n, 0) * 2 >= 20:
            for t in range(n):
                parallel for i in range(n):
                    v[i] = 2.0 * u[i]
                barrier
                parallel for j in range(n):
                    u[j] = v[j] + 1.0
                barrier
        else:
            parallel for once in range(1):
                for t in range(n):
                    for i in range(n):
                        v[i] = 2.0 * u[i]
                    for j in range(n):
                        u[j] = v[j] + 1.0
            barrier
        """)


def test_what_one_thread_does_beside_is_a_meeting_too() -> None:
    told = loops_after(steps_of_time(), Parallel("i"), ShareFrom("t", 10))
    assert "if max(n, 0) >= 20:" in told


def test_triangles_count_in_their_middle() -> None:
    told = loops_after(steps_of_time("t"), Parallel("i"), Parallel("j"), ShareFrom("t", 10))
    assert "if max(n - n // 2, 0) + max(n, 0) >= 20:" in told


def test_is_offered_for_outermost_loops_with_parallel_ones_inside() -> None:
    assert list(ShareFrom.candidates(initial_schedule(steps_of_time()))) == []
    shared = apply_plan(steps_of_time(), (Parallel("i"),))
    assert list(ShareFrom.candidates(shared)) == [ShareFrom("t", MADE)]
    assert list(ShareFrom.candidates(ShareFrom("t", MADE).apply(shared))) == []


@pytest.mark.parametrize("loop", ["t", "i"])
def test_loops_without_parallel_ones_are_refused(loop: str) -> None:
    schedule = apply_plan(steps_of_time(), (Parallel("i"),) if loop == "i" else ())
    with pytest.raises(IllegalStep, match="is no outermost one with parallel loops inside"):
        ShareFrom(loop, 1).apply(schedule)


def test_one_number_is_enough() -> None:
    schedule = apply_plan(steps_of_time(), (Parallel("i"), ShareFrom("t", 10)))
    with pytest.raises(IllegalStep, match="says already from where on threads share"):
        ShareFrom("t", 20).apply(schedule)


def test_no_statement_is_none() -> None:
    with pytest.raises(UsageError, match="share_from takes one or more statements"):
        ShareFrom("t", 0)
