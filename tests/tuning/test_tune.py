"""Tuning for people: never worse than the construction, bad candidates, budgets, Ctrl-C."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import options
from loopwright.calls.einsum import einsum_task, forget_calls
from loopwright.calls.tune import tune_tasks
from loopwright.diagnostics import LoopwrightError, UsageError
from loopwright.transform.loop_marks import Unroll
from loopwright.transform.plan import Plan
from loopwright.tuning.candidate_worker import Worker, examine
from loopwright.tuning.records import Key, Log, Record, log_of_user
from loopwright.tuning.search import Progress, search
from loopwright.tuning.time_comparison import compared
from loopwright.tuning.worker_process import difference
from tuning.fake_tasks import LIMITS, HandClock, NamedTask, plan_called

pytestmark = pytest.mark.usefixtures("own_records", "warm_workers")


def searched(*names: str, budget: float = 1e6, **more: Any) -> tuple[Any, Log]:
    log = log_of_user()
    return search(NamedTask(names), log, budget, limits=LIMITS, **more), log


def test_a_bad_candidate_costs_itself_only() -> None:
    names = ("refused", "crash", "wrong", "crash_build", "fast", "slow")
    found, log = searched(*names)
    assert found.plan == plan_called("fast")
    assert dict(found.states) == {"refused": 1, "crashed": 2, "wrong": 1, "measured": 2}
    assert found.verdict is not None
    assert found.gain > 1.5
    assert {record.is_faster for record in log} == {True, False}


def test_a_plan_must_be_faster_in_a_new_process_too() -> None:
    found, log = searched("lucky", "slow")
    assert found.plan == plan_called("base")
    assert dict(found.states) == {"measured": 2}
    assert [record.is_faster for record in log] == [False, False]
    again, _ = searched("lucky", "slow")
    assert again.tried == 0, "what was refuted is not measured once more"


def test_a_hanging_candidate_is_ended_at_its_limit(hand_clock: HandClock) -> None:
    ended: list[int] = []
    hand_clock.at_hang = ended.append
    limits = replace(LIMITS, build=7.0, run=9.0)
    task = NamedTask(("hang", "hang_build", "slow"))
    found = search(task, log_of_user(), 60.0, limits=limits)
    assert dict(found.states) == {"hung": 2, "measured": 1}
    assert found.plan == plan_called("base"), "nothing was faster"
    assert hand_clock.waits == [9.0, 7.0]
    for process in ended:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


def test_a_search_goes_on_where_the_last_one_ended() -> None:
    first, log = searched("slow")
    assert first.tried == 1
    again, _ = searched("slow", "fast")
    assert again.tried == 1
    assert again.plan == plan_called("fast")
    last, _ = searched("slow", "fast")
    assert last.tried == 0
    assert last.plan == plan_called("fast")
    assert len(list(log)) == 2


def test_ctrl_c_keeps_the_best_so_far() -> None:
    def interrupted(progress: Progress) -> None:
        if progress.gain > 1:
            raise KeyboardInterrupt

    found, log = searched("slow", "fast", "hang", report=interrupted)
    assert found.is_interrupted
    assert found.plan == plan_called("fast")
    assert log.best(NamedTask(()).key) is not None


class LostExecutor(Executor):
    """Whose workers are gone."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        raise BrokenExecutor("no worker is left")


class HereExecutor(Executor):
    """Runs everything at once."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(fn(*args, **named))
        return done


@pytest.mark.parametrize("executor", [LostExecutor(), HereExecutor()])
def test_an_executor_measures_until_it_is_lost(executor: Executor) -> None:
    found, _ = searched("slow", "fast", executor=executor)
    assert found.plan == plan_called("fast")


def test_times_that_are_no_numbers_are_no_verdict() -> None:
    assert compared([1.0, 1.0], [math.nan, 1.0]) is None
    assert compared([1.0, 1.0], [0.0, 1.0]) is None
    assert compared([], []) is None


@pytest.mark.parametrize(
    ("base", "own", "is_faster"),
    [
        ([1.0] * 5, [0.9] * 5, True),
        ([1.0] * 5, [1.0] * 5, False),
        ([1.0] * 5, [0.995] * 5, False),
        ([1.0] * 4, [0.5] * 4, False),
        ([1.0, 1.3, 0.9, 1.2, 1.0], [0.9, 1.4, 0.8, 1.3, 0.7], False),
        ([1.0] * 6, [0.9, 0.9, 0.9, 0.9, 1.1, 1.1], False),
    ],
)
def test_faster_means_beyond_the_noise(
    base: list[float], own: list[float], is_faster: bool
) -> None:
    verdict = compared(base, own)
    assert verdict is not None
    assert verdict.is_faster == is_faster


def test_a_difference_is_more_than_rounding() -> None:
    one = np.ones(10, np.float32)
    assert difference(one * np.float32(1 + 1e-6), one, 100) == ""
    assert difference(np.array([math.nan]), np.array([math.nan]), 1) == ""
    wrong = one.copy()
    wrong[3] = 2
    assert difference(wrong, one, 100) == "1 of 10 elements differ from the construction's"
    words = "another result than the construction's"
    assert difference(np.array([1]), np.array([2]), 1) == words


def test_a_real_candidate_is_proven_built_and_checked() -> None:
    a = np.ones((24, 20), np.float32)
    task = einsum_task("ik,kj->ij", a, a.T, threads=1)
    plans = list(task.neighbours(task.construction()))
    assert len(plans) > 20
    with Worker(task, task.construction()) as worker:
        outcome = examine(worker, plans[0], LIMITS, 1e6)
        assert outcome.state == "measured", outcome
        step = plans[0].whole_contract
        assert step is not None
        broken = replace(step, variants=(replace(step.variants[0], lanes=3),))
        assert examine(worker, Plan((broken,)), LIMITS, 1e6).state == "refused"


# -- what people call -----------------------------------------------------------------------------


def record_for(task: Any, plan: Plan, seconds: float = 0.5) -> Record:
    when = "2026-11-16T00:00:00+00:00"
    base = task.construction().to_json()
    return Record(task.key, plan.to_json(), base, seconds, 1.0, True, when)


def test_einsum_and_jit_take_the_plan_of_a_record() -> None:
    a = np.random.default_rng(0).random((30, 30))
    task = einsum_task("ik,kj->ij", a, a, threads=1)
    other = next(p for p in task.neighbours(task.construction()))
    before = lw.einsum("ik,kj->ij", a, a, threads=1)
    log_of_user().add([record_for(task, other)])
    forget_calls()
    assert lw.einsum_plan("ik,kj->ij", a, a, threads=1) == other
    assert lw.tune("ik,kj->ij", a, a, threads=1) == other
    assert np.allclose(lw.einsum("ik,kj->ij", a, a, threads=1), before)
    with options.override(records=False):
        assert lw.einsum_plan("ik,kj->ij", a, a, threads=1) == task.construction()


def test_a_record_against_another_construction_is_set_aside() -> None:
    a = np.ones((30, 30))
    task = einsum_task("ik,kj->ij", a, a, threads=1)
    first, second = (p for p, _ in zip(task.neighbours(task.construction()), "ab", strict=False))
    stale = replace(record_for(task, first), construction=second.to_json())
    log_of_user().add([stale])
    assert lw.einsum_plan("ik,kj->ij", a, a, threads=1) == task.construction()
    assert lw.tune("ik,kj->ij", a, a, threads=1) == task.construction()


def test_a_record_that_does_not_fit_is_set_aside() -> None:
    a = np.ones((30, 30))
    task = einsum_task("ik,kj->ij", a, a, threads=1)
    log_of_user().add([record_for(task, plan_called("fast"))])
    assert lw.einsum_plan("ik,kj->ij", a, a, threads=1) == task.construction()
    assert np.array_equal(lw.einsum("ik,kj->ij", a, a, threads=1), a @ a)


@lw.jit(threads=1)
def smooth(a: Any, b: Any) -> None:
    for i in range(1, a.shape[0] - 1):
        for j in range(1, a.shape[1] - 1):
            b[i, j] = (a[i - 1, j] + a[i + 1, j]) * 0.5


SOURCE = b"""
void twice(int n, double a[n], double b[n], double c[n]) {
#pragma scop
  for (int i = 0; i < n; i++)
    b[i] = a[i] + 1;
#pragma endscop
#pragma scop
  for (int i = 1; i < n; i++)
    c[i] = c[i - 1] + b[i];
#pragma endscop
}
"""


def test_regions_share_the_budget(monkeypatch: pytest.MonkeyPatch, hand_clock: HandClock) -> None:
    compiled = lw.compile(SOURCE, threads=1)
    arrays = np.ones((3, 50))
    plans = lw.tune(compiled, 50, *arrays)
    assert isinstance(plans, tuple)
    assert plans == compiled["twice"].plans(50, *arrays)
    given: list[float] = []

    def searched(task: Any, log: Log, share: float, **named: Any) -> Any:
        given.append(share)
        hand_clock.seconds += 0.5
        return search(task, log, 0.0)

    monkeypatch.setattr("loopwright.calls.tune.search", searched)
    tune_tasks([NamedTask(())] * 4, 8.0)
    assert given == pytest.approx([2.0, 2.5, 3.5, 6.5])


def test_programs_run_by_their_records() -> None:
    compiled = lw.compile(_program(), threads=1)
    a, b = np.random.default_rng(0).random(50), np.zeros(50)
    plan = lw.tune(compiled, 50, a, b)
    task = compiled.task(50, a, b)
    assert plan == task.construction() == compiled.plan
    log_of_user().add([record_for(task, Plan(()))])
    assert lw.tune(compiled, 50, a, b) == Plan(())
    with ThreadPoolExecutor(1) as other:  # which has objects of isl of its own
        other.submit(lambda: compiled(50, a, b)).result()
    assert np.array_equal(b, a + 1)
    log_of_user().add([record_for(task, Plan((Unroll("nobody", 2),)), 0.1)])
    compiled.forget()
    b[...] = 0
    compiled(50, a, b)
    assert np.array_equal(b, a + 1)
    with pytest.raises(UsageError, match="the target 'host' and the plan 'model'"):
        lw.tune(lw.compile(_program(), plan="source"), 50, a, b)


def test_programs_are_tuned_before_their_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    budgets: list[float] = []

    def searched(task: Any, log: Log, budget: float) -> Any:
        budgets.append(budget)
        return search(task, log, 0.0)

    monkeypatch.setattr("loopwright.calls.tune_first.search", searched)
    compiled = lw.compile(_program(), threads=1, tune=2.0)
    a, b = np.random.default_rng(0).random(50), np.zeros(50)
    for _ in range(2):
        compiled(50, a, b)
    assert np.array_equal(b, a + 1)
    assert budgets == [2.0]


def _program() -> lw.Program:
    """The first region of SOURCE."""
    return lw.parse_c(SOURCE)[0]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda a: lw.tune("i->", a, by="luck"), "unknown way to tune"),
        (lambda a: lw.tune("i->", a, budget_ms=-1), "budget_ms is a number of milliseconds"),
        (lambda a: lw.tune("i,i,i->", a, a, a), "a plan is for one contraction"),
        (lambda a: lw.tune(len, a), "tune takes the text of an einsum"),
        (lambda a: lw.einsum("i->", a, tune="rules"), "unknown way to tune"),
        (lambda a: lw.einsum("i->", a, tune="hard"), "unknown way to tune"),
        (lambda a: lw.einsum("i->", a, tune=1, plan=Plan(())), "exclude each other"),
        (lambda a: lw.jit(tune=math.nan)(len), "jit takes a function"),
        (lambda a: lw.jit(tune=math.nan)(smooth.py_func), "unknown way to tune"),
        (lambda a: lw.jit(tune=1, plan=Plan(())), "exclude each other"),
        (lambda a: lw.compile(SOURCE, "openmp", tune=1), "tune= is for the target 'host'"),
    ],
)
def test_refusals_say_what_there_is(call: Callable[[Any], object], words: str) -> None:
    with pytest.raises(LoopwrightError, match=words):
        call(np.ones(4))


def test_a_call_without_records_pays_one_stat(monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of_user()
    assert log.is_empty()
    asked: list[str] = []
    found = os.stat

    def counted(path: str, *rest: Any, **named: Any) -> os.stat_result:
        asked.append(str(path))
        return found(path, *rest, **named)

    monkeypatch.setattr(os, "stat", counted)
    monkeypatch.setattr("builtins.open", None)
    monkeypatch.setattr(Path, "open", None)
    log.best(Key("x", "y", (), 1, ""))
    assert asked == [str(log.path)]
