"""Tuning for people: never worse than the construction, bad candidates, budgets, Ctrl-C."""

from __future__ import annotations

import math
import os
import pickle
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
from loopwright.ir.text import program_text
from loopwright.transform.loop_marks import Unroll
from loopwright.transform.plan import Plan
from loopwright.tuning.candidate_worker import Lost, Worker, examine
from loopwright.tuning.records import Key, Log, Record, log_of_user
from loopwright.tuning.search import Progress, search
from loopwright.tuning.tasks import Run
from loopwright.tuning.time_comparison import compared
from loopwright.tuning.worker_process import difference, timed_pair
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


def test_a_child_process_that_hangs_is_ended_by_the_clock_of_the_system() -> None:
    """A limit that really passes: what does not come at all is late whatever the machine does."""
    with Worker(NamedTask(("hang",)), plan_called("base")) as worker:
        worker.start(LIMITS)
        assert worker.build(plan_called("hang"), LIMITS) == ""
        with pytest.raises(Lost, match="hung"):
            worker.time(5, replace(LIMITS, run=0.1))


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


def test_the_budget_ends_the_search(hand_clock: HandClock) -> None:
    found, log = searched("hang", "hang_build", "fast", budget=0.5)
    assert dict(found.states) == {"unfinished": 1}
    assert found.plan == plan_called("base")
    assert log.is_empty()
    assert hand_clock.waits == [0.5]


def test_a_budget_is_spent_by_answers(hand_clock: HandClock) -> None:
    """Of a start, and of two for each candidate: the third has no time left."""
    hand_clock.per_answer = 1.0
    found, _ = searched("slow_1", "slow_2", "slow_3", "slow_4", budget=4.5)
    assert dict(found.states) == {"measured": 2}
    hand_clock.seconds = 0.0
    assert searched("slow_1", "slow_2", "slow_3", "slow_4", budget=60.0)[0].tried == 2


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


def test_runs_alternate_and_stop_early(hand_clock: HandClock) -> None:
    calls: list[str] = []

    def run(name: str, seconds: float) -> Run:
        def one() -> None:
            calls.append(name)
            hand_clock.seconds += seconds

        return one

    base, own = timed_pair(run("a", 1e-3), run("b", 3e-3), lambda: None, 20, 10.0)
    assert base == pytest.approx([1e-3] * 2)
    assert own == pytest.approx([3e-3] * 2)
    assert "".join(calls) == "ab" + "baab", "one of each that says how long they take"
    calls.clear()
    timed_pair(run("a", 1e-3), run("b", 1e-3), lambda: None, 4, 10.0, is_cold=True)
    assert "".join(calls) == "baabbaab"
    calls.clear()
    timed_pair(run("a", 1e-3), run("b", 1e-3), lambda: None, 4, 3e-3, is_cold=True)
    assert "".join(calls) == "baab", "after the second pair its time is over"


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


def test_loops_take_the_plan_of_a_record_and_explain_it() -> None:
    a, b = np.random.default_rng(0).random((40, 40)), np.zeros((40, 40))
    code, task = smooth.task(a, b)
    assert task is not None
    log_of_user().add([record_for(task, Plan(()))])
    code.forget()
    assert smooth.plan(a, b) == Plan(())
    smooth(a, b)
    expected = np.zeros((40, 40))
    expected[1:-1, 1:-1] = (a[:-2, 1:-1] + a[2:, 1:-1]) * 0.5
    assert np.array_equal(b, expected)
    assert smooth.explain(a, b).splitlines()[-1] == (
        "plan of a tuning record: 2.00 times as fast as the construction (500 ms against 1 s, "
        "measured in turn, beyond the noise, 2026-11-16)"
    )
    illegal = Plan((Unroll("nobody", 2),))
    log_of_user().add([record_for(task, illegal, 0.1)])
    code.forget()
    b[...] = 0
    smooth(a, b)
    assert np.array_equal(b, expected)
    code.forget()


def test_contractions_of_functions_explain_their_record() -> None:
    @lw.jit(threads=1, reassoc=True)
    def product(a: Any, b: Any, c: Any) -> None:
        for i in range(a.shape[0]):
            for j in range(b.shape[1]):
                for k in range(a.shape[1]):
                    c[i, j] += a[i, k] * b[k, j]

    a, c = np.ones((32, 32)), np.zeros((32, 32))
    _, task = product.task(a, a, c)
    assert task is not None
    assert "tuning record" not in product.explain(a, a, c)
    log_of_user().add([record_for(task, next(task.neighbours(task.construction())))])
    assert "plan of a tuning record: 2.00 times" in product.explain(a, a, c)
    product(a, a, c)
    assert np.array_equal(c, a @ a)


def test_neighbours_of_loops_are_legal_and_right() -> None:
    a, b = np.random.default_rng(0).random((20, 20)), np.zeros((20, 20))
    _, task = smooth.task(a, b)
    assert task is not None
    bench = task.bench()
    bench.build(task.construction())()
    expected = bench.results()[0].copy()
    plans = list(task.neighbours(task.construction()))
    assert len(plans) >= 4
    for plan in plans[:: max(1, len(plans) // 6)]:
        bench.restore()
        bench.build(plan)()
        assert np.array_equal(bench.results()[0], expected)


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


def test_programs_travel_to_other_processes() -> None:
    program = _program()
    again = pickle.loads(pickle.dumps(program))
    assert program_text(again) == program_text(program)
    assert again.statements[0].domain.is_equal(program.statements[0].domain)


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


def test_a_child_process_measures_a_program() -> None:
    a, b = np.random.default_rng(0).random(50), np.zeros(50)
    task = lw.compile(_program(), threads=1).task(50, a, b)
    with Worker(task, task.construction()) as worker:
        assert examine(worker, Plan(()), LIMITS, 1e6).state == "measured"
    assert not b.any()


def _program() -> lw.Program:
    """The first region of SOURCE."""
    return lw.parse_c(SOURCE)[0]


def test_a_short_search_from_outside(hand_clock: HandClock) -> None:
    hand_clock.per_answer = 0.5
    a = np.random.default_rng(0).random((17, 19)).astype(np.float32)
    plan = lw.tune("ik,jk->ij", a, a, by="search", budget_ms=4000, threads=1)
    assert isinstance(plan, Plan)
    assert plan == lw.einsum_plan("ik,jk->ij", a, a, threads=1)
    assert np.allclose(lw.einsum("ik,jk->ij", a, a, threads=1, tune="model"), a @ a.T)


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
