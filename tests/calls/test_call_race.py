"""Races between two codes of a call: who serves which call, who wins, what never happens.

The clock is a number that the codes themselves move on, and threads are lists of work to do.
"""

from __future__ import annotations

import _imp
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from loopwright import options
from loopwright.calls import call_race
from loopwright.calls.call_race import CallRace, Rival, checked_race, in_background
from loopwright.diagnostics import WrongTypeError
from loopwright.tuning.time_comparison import TimeComparison
from loopwright.undisturbed import release_import_lock

MS = 1e-3


class Course:
    """A race on a clock of its own; every call appends who served it."""

    def __init__(
        self, plan: float | list[float], rival: float | list[float], ratio: float = 1.0
    ) -> None:
        self.now = 0.0
        self.served: list[str] = []
        self.settled: list[str] = []
        self.work: list[Callable[[], None]] = []
        self.kept: list[TimeComparison] = []
        self.can_start = True
        self.plan, self.rival = self._code("plan", plan), self._code("rival", rival)
        self.ratio = ratio
        self.race = CallRace(
            self.plan, self.prepare, self.settle, clock=lambda: self.now, start=self.start
        )

    def _code(self, name: str, seconds: float | list[float]) -> Callable[..., None]:
        times = iter(seconds) if isinstance(seconds, list) else None

        def run(*args: Any) -> None:
            self.served.append(name)
            self.now += next(times) if times is not None else float(seconds)  # type: ignore[arg-type]

        return run

    def prepare(self) -> Rival | None:
        return Rival(self.rival, "the source order", self.ratio, self.kept.append)

    def settle(self, run: Callable[..., None], *, told: str) -> None:
        self.settled.append("plan" if run is self.plan else "rival")

    def start(self, work: Callable[[], None], *, at_exit: bool = False) -> bool:
        if self.can_start:
            self.work.append(work)
        return self.can_start

    def call(self, times: int = 1) -> None:
        for _ in range(times):
            if not self.settled:
                self.race("array")

    def work_off(self) -> None:
        while self.work:
            self.work.pop(0)()


NOISE = [10 * MS, 14 * MS, 9 * MS, 13 * MS]


@pytest.mark.parametrize(
    ("plan", "rival", "winner"),
    [
        (10 * MS, 5 * MS, "rival"),
        (10 * MS, 9.7 * MS, "rival"),
        (10 * MS, 9.85 * MS, "plan"),  # below 2%
        (10 * MS, 10 * MS, "plan"),
        (9.7 * MS, 10 * MS, "plan"),
        (10 * MS, 500 * MS, "plan"),
        (10 * MS, [30 * MS, *[5 * MS] * 40], "rival"),  # a slow first run is forgiven
        ([10 * MS] * 8 + NOISE * 20, [x * 0.97 for x in NOISE[::-1]] * 20, "plan"),
    ],
)
def test_the_faster_is_kept(
    plan: float | list[float], rival: float | list[float], winner: str
) -> None:
    course = Course(plan, rival)
    course.call(8)
    course.work_off()
    course.call(100)
    assert course.settled == [winner]
    course.work_off()
    (kept,) = course.kept
    assert kept.is_faster is (winner == "rival")
    raced = course.served[8:]
    if rival == 500 * MS:
        assert raced.count("rival") == 1
    elif isinstance(plan, float):
        assert raced[:6] == ["plan", "rival", "rival", "plan", "plan", "rival"]
        assert abs(raced.count("plan") - raced.count("rival")) <= 1
        if isinstance(rival, float):
            assert kept.base_seconds == pytest.approx(plan)
            assert kept.seconds == pytest.approx(rival)


def test_when_a_race_begins() -> None:
    """With eight calls and fifty milliseconds; calls that are short are not raced at all."""
    for seconds, before in ((10 * MS, 7), (1 * MS, 49)):
        course = Course(seconds, 1 * MS)
        course.call(before)
        assert not course.work
        course.call(20)
        assert course.served == ["plan"] * (before + 20)  # while the rival is made
        assert len(course.work) == 1
    course = Course([30e-6, 19e-6], 1e-6)
    course.call()
    assert not course.settled
    course.call()
    assert course.settled == ["plan"]
    assert course.race.is_settled
    assert not course.work


def chain(course: Course, *others: float) -> dict[str, Callable[..., None]]:
    """Has rivals with these times follow the first one; their codes by name."""
    codes = {str(k): course._code(str(k), seconds) for k, seconds in enumerate(others)}

    def maker(k: int) -> Callable[[], Rival | None]:
        then = maker(k + 1) if k + 1 < len(others) else None
        return lambda: Rival(codes[str(k)], str(k), 1.0, course.kept.append, then)

    first = Rival(course.rival, "the source order", course.ratio, course.kept.append, maker(0))
    course.race._prepare = lambda: first
    return codes


@pytest.mark.parametrize(
    ("plan", "rival", "others", "winner"),
    [
        (10 * MS, 5 * MS, (2 * MS, 4 * MS), "0"),
        (10 * MS, 5 * MS, (6 * MS, 4 * MS), "1"),
        (10 * MS, 50 * MS, (60 * MS, 4 * MS), "1"),
        (3 * MS, 5 * MS, (6 * MS, 4 * MS), "plan"),
        (10 * MS, 3 * MS, (6 * MS, 4 * MS), "rival"),
    ],
)
def test_the_next_rival_meets_what_has_won(
    plan: float, rival: float, others: tuple[float, ...], winner: str
) -> None:
    course = Course(plan, rival)
    codes = chain(course, *others)
    settled: list[Any] = []
    course.race._settle = lambda run, *, told: settled.append((run, told))  # type: ignore[assignment]
    for _ in range(200):
        if not settled:
            course.race("array")
        course.work_off()
    ((run, told),) = settled
    assert run is {"plan": course.plan, "rival": course.rival, **codes}[winner]
    assert len(course.kept) == 3
    assert told.count("is kept") == 3
    assert course.kept[-1].base_seconds == pytest.approx(
        min(plan, rival, others[0]) if min(plan, rival) != others[0] else others[0]
    )


def test_a_trial_waits_until_as_much_was_computed() -> None:
    course = Course(10 * MS, 9 * MS, ratio=15.0)
    course.call(8)
    course.work_off()
    course.call(7)
    assert course.served == ["plan"] * 15
    course.call(6)
    assert "rival" in course.served


@pytest.mark.parametrize("error", [None, OSError("x"), KeyError("x"), MemoryError("x")])
@pytest.mark.parametrize("strict", [False, True])
def test_whatever_fails_in_the_background_costs_the_race_only(
    error: Exception | None, strict: bool
) -> None:
    course = Course(10 * MS, 1 * MS)

    def failing() -> Rival | None:
        if error is not None:
            raise error
        return None

    course.race = CallRace(
        course.plan, failing, course.settle, clock=lambda: course.now, start=course.start
    )
    with options.override(strict=strict, cache=False):  # no fault is written down for others
        course.call(8)
        course.work_off()
    assert course.settled == ["plan"]


def test_no_thread_to_be_had() -> None:
    course = Course(10 * MS, 1 * MS)
    course.can_start = False
    course.call(20)
    assert not course.settled
    course.can_start = True
    course.call()
    assert len(course.work) == 1
    course = Course(1e-4, 1 * MS)
    course.can_start = False
    course.call(5000)
    assert course.settled == ["plan"]


def test_a_call_that_is_broken_off_does_not_count() -> None:
    course = Course(10 * MS, 9 * MS)
    course.call(8)
    course.work_off()
    course.call(2)
    served = len(course.served)
    broken = CallRace.__call__

    def interrupted(*args: Any) -> None:
        raise KeyboardInterrupt

    whole = course.race._rival
    assert whole is not None
    course.race._rival = Rival(interrupted, "the source order", 1.0, whole.keep)
    with pytest.raises(KeyboardInterrupt):
        broken(course.race, "array")
    course.race._rival = whole
    assert len(course.race._times[0]) == len(course.race._times[1]) == 1
    course.call(100)
    assert course.settled == ["rival"]
    assert len(course.served) > served


def test_times_of_calls_that_overlap_do_not_count() -> None:
    course = Course(10 * MS, 1 * MS)
    race = course.race
    is_inside = [False]

    def nested(*args: Any) -> None:
        course.now += 10 * MS
        if not is_inside[0]:
            is_inside[0] = True
            race("array")
            is_inside[0] = False

    race._plan = nested
    for _ in range(50):
        race("array")
    assert not course.work
    assert not course.settled


def test_a_race_without_end_is_ended() -> None:
    course = Course(10 * MS, 9 * MS)
    course.call(8)
    course.work_off()
    race = course.race
    for _ in range(300):
        if not course.settled:
            race._ended = -5  # as if others were under way
            race("array")
    assert course.settled == ["plan"]
    course.work_off()
    assert not course.kept


def test_a_child_process_goes_on_by_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    course = Course(10 * MS, 1 * MS)
    course.call(8)
    assert not course.settled
    monkeypatch.setattr("os.getpid", lambda: -1)
    course.call()
    assert course.settled == ["plan"]


def test_race_is_checked() -> None:
    assert [checked_race(x) for x in (None, True, False)] == [None, True, False]
    with pytest.raises(WrongTypeError):
        checked_race("yes")


# -- threads --------------------------------------------------------------------------------------


def test_work_may_import_after_an_import_was_broken_off() -> None:
    imported = threading.Event()

    def work() -> None:
        import wave  # noqa: F401

        imported.set()

    sys.modules.pop("wave", None)
    _imp.acquire_lock()  # what a handler leaves that raises in an import
    try:
        assert in_background(work)
        assert imported.wait(10)
    finally:
        release_import_lock()


def test_only_few_threads_wait(capfd: pytest.CaptureFixture[str]) -> None:
    """They end with their work, whose errors are nobody's."""
    go, began = threading.Event(), threading.Event()

    def wait() -> None:
        began.set()
        go.wait(30)
        raise ValueError("inside")

    started = [in_background(wait) for _ in range(6)]
    began.wait(30)
    go.set()
    assert started == [True] * 4 + [False] * 2
    for thread in threading.enumerate():
        if thread.name == "loopwright race":
            thread.join(30)
    assert not call_race._waiting
    assert "inside" not in capfd.readouterr().err


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_waits_for_the_thread_and_the_child_has_none() -> None:
    script = """
import os, threading
from loopwright.calls import call_race
go, began, done = threading.Event(), threading.Event(), []
def work():
    began.set(); go.wait(30); done.append(1)
assert call_race.in_background(work)
began.wait(30)
threading.Timer(0.2, go.set).start()
child = os.fork()
if child == 0:
    ok = done == [1] and not call_race._waiting and not call_race._working.locked()
    ok = ok and call_race.in_background(lambda: done.append(2))
    for t in threading.enumerate():
        if t.name == "loopwright race": t.join(30)
    os._exit(0 if ok and done == [1, 2] else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert done == [1]
print("fine")
"""
    assert _run(script) == "fine"


def test_a_process_ends_with_work_undone() -> None:
    script = """
import threading
from loopwright.calls import call_race
began, ends = threading.Event(), threading.main_thread()
def slow():
    began.set(); ends.join(); print("first", flush=True)
assert call_race.in_background(slow)
began.wait(30)
assert call_race.in_background(lambda: print("never", flush=True))
assert call_race.in_background(lambda: print("record", flush=True), at_exit=True)
"""
    assert sorted(_run(script).split()) == ["first", "record"]


def _run(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
