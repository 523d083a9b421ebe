"""Share: strips that go to threads as one, and what it refuses."""

from __future__ import annotations

from textwrap import dedent

import pytest

from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.ir.program import Program
from loopwright.ir.text import schedule_text, stmt_text
from loopwright.lower.passes import lower_schedule
from loopwright.transform.interchange import Interchange
from loopwright.transform.loop_marks import Parallel, ParallelChunks
from loopwright.transform.plan import apply_plan, initial_schedule
from loopwright.transform.step import Step
from loopwright.transform.tiling import StripMine
from oracle import assert_same
from programs import Do, For, program

STRIPS = StripMine("j", 4), Interchange(("j_t", "i"))


def columns(stop: str = "n") -> Program:
    arrays = {"A": "in float64 [n, n]", "y": "inout float64 [n]"}
    body = For("i", 0, "n", For("j", 0, stop, Do("y[j]", "y[j] + A[i, j]")))
    return program("columns", arrays, body)


def loops_after(*steps: Step, stop: str = "n") -> str:
    """The statements of the lowered nest, proven right."""
    nest = lower_schedule(apply_plan(columns(stop), steps))
    for n, threads in ((0, 2), (1, 1), (9, 2), (30, 3)):
        assert_same(columns(stop), nest, {"n": n}, threads=threads)
    return "\n" + stmt_text(nest.body) + "\n"


def test_golden() -> None:
    assert loops_after(*STRIPS, ParallelChunks("j_t", 2)) == dedent("""
        let j_t_parts: int64 = 2 for 2 parts
        let j_t_width: int64 = max(((n + 3) // 4 + j_t_parts - 1) // j_t_parts, 1) * 4
        let j_t_end: int64 = (n + 3) // 4 * 4
        parallel for j_t in range(0, n, j_t_width):
            for i in range(n):
                for j in range(j_t, min(min(n, j_t + j_t_width), j_t_end)):
                    y[j] = y[j] + A[i, j]
        """)


def test_strips_that_other_loops_know_stay() -> None:
    """Of a triangle the rows begin with the strip."""
    told = loops_after(*STRIPS, ParallelChunks("j_t", 2), stop="i")
    assert told == loops_after(*STRIPS, Parallel("j_t"), stop="i")


def test_text() -> None:
    told = schedule_text(apply_plan(columns(), (*STRIPS, ParallelChunks("j_t", 2))))
    assert "parallel(2) for j_t" in told


@pytest.mark.parametrize("parts", [2, 3, 7])
def test_any_number_of_parts(parts: int) -> None:
    loops_after(*STRIPS, ParallelChunks("j_t", parts))


def test_is_offered_for_strips() -> None:
    assert list(ParallelChunks.candidates(initial_schedule(columns()))) == []
    assert list(ParallelChunks.candidates(apply_plan(columns(), STRIPS))) == [
        ParallelChunks("j_t", 4)
    ]


def test_loops_that_carry_are_refused() -> None:
    with pytest.raises(IllegalStep, match="loop 'i' carries flow"):
        ParallelChunks("i", 2).apply(initial_schedule(columns()))


def test_threads_are_shared_out_once() -> None:
    schedule = apply_plan(columns(), (*STRIPS, Parallel("j")))
    with pytest.raises(IllegalStep) as caught:
        ParallelChunks("j_t", 2).apply(schedule)
    told = "loop 'j' is parallel already; threads are shared out once"
    assert str(caught.value) == f"parallel_chunks(loop='j_t', parts=2): {told}"


def test_one_part_is_none() -> None:
    with pytest.raises(UsageError, match="parallel_chunks takes two or more parts"):
        ParallelChunks("j_t", 1)
