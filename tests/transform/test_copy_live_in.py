"""CopyLiveIn: what it makes of a program, that it is right, what it refuses."""

from __future__ import annotations

from textwrap import dedent

import pytest

from loopwright.diagnostics import IllegalStep
from loopwright.ir.check import check_program
from loopwright.ir.program import Program
from loopwright.ir.text import stmt_text
from loopwright.lower.passes import lower_schedule
from loopwright.transform.copy_live_in import CopyLiveIn
from loopwright.transform.loop_marks import Parallel
from loopwright.transform.plan import apply_plan, candidates, initial_schedule
from loopwright.transform.step import Step
from oracle import assert_same
from programs import Do, For, program


def triangle(first: str = "i + 1", stop: str = "n") -> Program:
    """B = A' B in place, A lower triangular with ones on its diagonal."""
    arrays = {"A": "in float64 [n, n]", "B": "inout float64 [n, n]"}
    body = Do("B[i, j]", "B[i, j] + A[k, i] * B[k, j]")
    return program(
        "triangle", arrays, For("i", 0, "n", For("j", 0, "n", For("k", first, stop, body)))
    )


SHIFT = program(
    "shift",
    {"x": "inout float64 [n]", "y": "out float64 [n]"},
    For("i", 1, "n", Do("x[i - 1]", "x[i] + x[0]"), Do("y[i]", "x[i]")),
)


def loops_after(source: Program, *steps: Step) -> str:
    """The statements of the lowered nest, proven right."""
    schedule = apply_plan(source, steps)
    check_program(schedule.program)
    nest = lower_schedule(schedule)
    for n in (0, 1, 2, 7):
        assert_same(source, nest, {"n": n}, threads=2)
    return "\n" + stmt_text(nest.body) + "\n"


def test_golden() -> None:
    steps = CopyLiveIn("B", ("S0_3",)), Parallel("i")
    assert loops_after(triangle(), *steps) == dedent("""
        alloc scratch B_old: float64[n, n] strides [n, 1]
        parallel for once in range(1):
            for B_0 in range(1, n):
                for B_1 in range(n):
                    B_old[B_0, B_1] = B[B_0, B_1]
        barrier
        let i_count: int64 = n - 1
        let i_team: int64 = 2 for 2 parts
        parallel for i_fold in range(i_count):
            let i_pair: int64 = i_fold // 2 * 2 if i_fold // 2 * 2 < i_count // 2 else (i_count // 2 - i_fold // 2) * 2 - 1 if i_fold // 2 < i_count // 2 else i_count // 2
            let i: int64 = i_fold if i_team < 2 else i_pair if i_fold % 2 == 0 else i_count - 1 - i_pair
            for j in range(n):
                for k in range(i + 1, n):
                    B[i, j] = B[i, j] + A[k, i] * B_old[k, j]
        """)  # noqa: E501 (one line of the nest)


def test_without_the_copy_the_loop_is_not_parallel() -> None:
    with pytest.raises(IllegalStep, match="loop 'i' carries anti"):
        apply_plan(triangle(), [Parallel("i")])


def test_all_reads_of_an_array() -> None:
    loops_after(SHIFT, CopyLiveIn("x", ("S0_1", "S1_1")))


def test_reads_behind_a_write_are_no_candidates() -> None:
    """x[0] is written in the first iteration and read in the next one."""
    offered = [s for s in candidates(initial_schedule(SHIFT)) if s.kind == CopyLiveIn.kind]
    assert offered == [CopyLiveIn("x", ("S0_1", "S1_1"))]
    assert not list(CopyLiveIn.candidates(initial_schedule(triangle("0", "i"))))


@pytest.mark.parametrize(
    ("source", "step", "told"),
    [
        (triangle(), CopyLiveIn("Z", ("S0_3",)), "there is no array 'Z'"),
        (triangle(), CopyLiveIn("B", ()), "there are no accesses"),
        (
            triangle(),
            CopyLiveIn("B", ("S0_1",)),
            "S0_1 is no read of live-in values of 'B': S0_3",
        ),
        (
            triangle("0", "i"),
            CopyLiveIn("B", ("S0_3",)),
            "S0_3 is no read of live-in values of 'B': none",
        ),
    ],
    ids=["unknown", "nothing", "own", "new"],
)
def test_refused(source: Program, step: CopyLiveIn, told: str) -> None:
    with pytest.raises(IllegalStep) as caught:
        step.apply(initial_schedule(source))
    assert str(caught.value) == f"{step}: {told}"
