"""SplitIndexSet: points near a loop around, then those beyond; what it refuses."""

from __future__ import annotations

from textwrap import dedent

import pytest

from contract_steps import contract_loops
from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.ir.program import Program
from loopwright.ir.text import stmt_text
from loopwright.lower.passes import lower_schedule
from loopwright.transform.index_set_splitting import SplitIndexSet
from loopwright.transform.interchange import Interchange
from loopwright.transform.loop_marks import Parallel
from loopwright.transform.plan import apply_plan
from loopwright.transform.schedule_legality import initial_schedule
from loopwright.transform.step import Step
from loopwright.transform.tiling import StripMine
from oracle import assert_same
from programs import Do, For, matmul, program


def solve() -> Program:
    """Forward substitution by columns: every x[k] goes into all rows below."""
    arrays = {"A": "in float64 [n, n]", "x": "inout float64 [n]"}
    body = For("i", "k + 1", "n", Do("x[i]", "x[i] - A[i, k] * x[k]"))
    return program("solve", arrays, For("k", 0, "n", body))


def chained() -> Program:
    """Every y[k] needs the one before when all of its sum is there."""
    arrays = {"A": "in float64 [n, n]", "y": "inout float64 [n]"}
    body = For("i", "k", "n", Do("y[k]", "y[k] + A[i, k] * y[k - 1]"))
    return program("chained", arrays, For("k", 1, "n", body))


CUT = StripMine("k", 4)
SPLIT = SplitIndexSet("k", "i", "k_t", 4)


def loops_after(source: Program, *steps: Step) -> str:
    """The statements of the lowered nest, proven right."""
    nest = lower_schedule(apply_plan(source, steps))
    for n in (0, 1, 4, 5, 11):
        assert_same(source, nest, dict.fromkeys(source.params, n), threads=2)
    return "\n" + stmt_text(nest.body) + "\n"


def test_golden() -> None:
    assert loops_after(solve(), CUT, SPLIT) == dedent("""
        for k_t in range(0, n - 1, 4):
            for k in range(k_t, min(n - 1, k_t + 3)):
                for i in range(k + 1, min(n, k_t + 4)):
                    x[i] = x[i] - A[i, k] * x[k]
            for k_2 in range(k_t, k_t + 4):
                for i_2 in range(k_t + 4, n):
                    x[i_2] = x[i_2] - A[i_2, k_2] * x[k_2]
        """)


def test_what_is_far_runs_in_parallel() -> None:
    turned = Interchange(("i_2", "k_2"))
    loops_after(solve(), CUT, SPLIT, turned, Parallel("i_2"))
    with pytest.raises(IllegalStep, match="loop 'i' carries"):
        apply_plan(solve(), [CUT, Interchange(("i", "k")), Parallel("i")])


def test_candidates_fit_the_shape() -> None:
    found = list(SplitIndexSet.candidates(apply_plan(solve(), [CUT])))
    assert found == [SplitIndexSet("k", "i", "k_t", 32)]
    assert list(SplitIndexSet.candidates(initial_schedule(solve()))) == []


CORE = contract_loops("i", "j", "k")
OUT = Interchange(("i_t", "k_t", "i", "j", "k"))
REFUSED: tuple[tuple[Program, tuple[Step, ...], str], ...] = (
    (chained(), (CUT, SPLIT), "would reverse flow"),
    (solve(), (CUT, SplitIndexSet("i", "k", "k_t", 4)), "loop 'k' is not in the nest of 'i'"),
    (solve(), (CUT, SplitIndexSet("k", "i", "i", 4)), "loop 'i' does not stand around 'k'"),
    (solve(), (CUT, SplitIndexSet("k", "k", "k_t", 4)), "nothing in the nest is far"),
    (solve(), (CUT, Parallel("i"), SPLIT), "loop 'i' is marked parallel"),
    (
        matmul(),
        (StripMine("i", 4), CUT, OUT, CORE, SplitIndexSet("k_t", "k_t", "i_t", 4)),
        "the contraction of S0 is in the nest",
    ),
)


@pytest.mark.parametrize(("source", "steps", "reason"), REFUSED, ids=range(len(REFUSED)))
def test_refused(source: Program, steps: tuple[Step, ...], reason: str) -> None:
    with pytest.raises(IllegalStep) as error:
        apply_plan(source, steps)
    assert f"{steps[-1]}: {reason}" in str(error.value)


def test_distances_are_not_negative() -> None:
    with pytest.raises(UsageError, match="a distance of at least 0"):
        SplitIndexSet("k", "i", "k_t", -1)
