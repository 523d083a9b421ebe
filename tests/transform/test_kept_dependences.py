"""Dependences that programs share: what a step says it leaves as it was is as it was."""

from __future__ import annotations

import pytest

from loopwright.analysis import size_estimates
from loopwright.analysis.dependences import Dependences, dependences, known_dependences
from loopwright.analysis.size_estimates import average_trips, trips_at
from loopwright.ir.islkit import bounded
from loopwright.ir.schedule import Schedule
from loopwright.transform import scalar_expansion
from loopwright.transform.apply import apply_step, initial_schedule
from loopwright.transform.privatize import ExpandArray
from loopwright.transform.scalar_expansion import (
    ExpandScalar,
    SplitLiveRanges,
    iterator_range,
    known_range,
)
from loopwright.transform.schedule_legality import restarted
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


def test_what_was_whole_before_a_break_is_not_asked_for_again() -> None:
    """Attempts that are each too short for all dependences find them together."""
    source = program("rows", ARRAYS, BODY)

    def found(schedule: Schedule, operations: int) -> Dependences | None:
        derive = schedule.analyses.derive
        return bounded(lambda: derive(known_dependences), lambda _: None, operations)

    few = 1000
    while (attempt := found(initial_schedule(source), 2 * few)) is None:
        few *= 2
    assert found(initial_schedule(source), few) is None
    schedule = initial_schedule(source)
    attempts = 1
    while (kept := found(schedule, few)) is None:
        schedule = restarted(schedule)
        attempts += 1
        assert attempts < 20, "nothing was kept"
    assert attempts > 1
    assert schedule.program is kept.program is source
    for (kind, own), (_, exact) in zip(kept.kinds, attempt.kinds, strict=True):
        assert own.is_equal(exact), kind


def test_what_domains_tell_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs whose elements are kept elsewhere have the same trips and ranges of loops."""
    schedule = initial_schedule(program("rows", ARRAYS, BODY))
    sizes, orders = {"n": 7}, {"S1": ("j", "i")}
    users = schedule.program.statements[:2]
    plain = trips_at(schedule.analyses, sizes)
    assert plain == average_trips(schedule.program, sizes)
    turned = trips_at(schedule.analyses, sizes, orders)
    limits = known_range(schedule.analyses, users, "i")
    assert limits == iterator_range(list(users), "i")

    def refuse(*_: object) -> None:
        raise AssertionError("asked again")

    after = apply_step(schedule, ExpandScalar("t", ("i",)))
    after = apply_step(after, ExpandArray("row", ("i",)))
    monkeypatch.setattr(size_estimates, "average_trips_of", refuse)
    monkeypatch.setattr(scalar_expansion, "iterator_range", refuse)
    assert after.program is not schedule.program
    assert trips_at(after.analyses, sizes) == plain
    assert trips_at(after.analyses, sizes, orders) == turned
    assert known_range(after.analyses, after.program.statements[:2], "i") == limits
    with pytest.raises(AssertionError, match="asked again"):
        trips_at(after.analyses, {"n": 8})
