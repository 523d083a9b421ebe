"""Dependences that programs share: what a step says it leaves as it was is as it was."""

from __future__ import annotations

import pytest

from loopwright.analysis.dependences import dependences, known_dependences
from loopwright.transform.apply import apply_step, initial_schedule
from loopwright.transform.privatize import ExpandArray
from loopwright.transform.scalar_expansion import (
    ExpandScalar,
    SplitLiveRanges,
)
from loopwright.transform.step import Step
from programs import Do, For, program

ARRAYS = {
    "A": "inout float64 [n, n]",
    "B": "inout float64 [n, n]",
    "t": "local float64 []",
    "row": "local float64 [n]",
}
# Both arrays and the scalar order the two statements that use all of them.
BODY = For(
    "i",
    1,
    "n",
    Do("t", "A[i - 1, 0]"),
    For("j", 0, "n", Do("row[j]", "t + B[i - 1, j]"), Do("A[i, j]", "row[j] + A[i - 1, j]")),
    Do("t", "B[i, 0]"),
    For("k", 0, "n", Do("B[i, k]", "t + row[k]")),
)


@pytest.mark.parametrize(
    "steps",
    [
        (SplitLiveRanges("t"),),
        (SplitLiveRanges("t"), ExpandScalar("t", ("i",))),
        (ExpandScalar("t", ("i",)),),
        (ExpandArray("row", ("i",)),),
        (ExpandScalar("t", ("i",)), ExpandArray("row", ("i",))),
    ],
    ids=str,
)
def test_dependences_after_steps(steps: tuple[Step, ...]) -> None:
    schedule = initial_schedule(program("rows", ARRAYS, BODY))
    for step in steps:
        schedule.analyses.derive(known_dependences)
        schedule = apply_step(schedule, step)
    found = schedule.analyses.derive(known_dependences)
    assert found.program is schedule.program
    for (kind, own), (_, exact) in zip(
        found.kinds, dependences(schedule.program).kinds, strict=True
    ):
        assert own.is_equal(exact), kind
