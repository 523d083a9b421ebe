"""What may go wrong while plans are searched: the search goes on or ends, and keeps its best."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from drawn import combined
from loopwright.calls.einsum import einsum_task
from loopwright.calls.tune import tasks_of
from loopwright.diagnostics import UsageError
from loopwright.transform.plan import Plan
from loopwright.tuning.candidate_worker import Limits, Worker
from loopwright.tuning.oracle_check import oracle_of
from loopwright.tuning.recall import plan_digest
from loopwright.tuning.records import Key, Log, Record, log_of_user
from loopwright.tuning.search import Tuned, search
from loopwright.tuning.worker_process import difference
from tuning.fake_tasks import LIMITS, HandClock, NamedTask, plan_called

FAST, BASE = plan_called("fast"), plan_called("base")


pytestmark = pytest.mark.usefixtures("own_records", "warm_workers")


def searched(*names: str, log: Log | None = None, budget: float = 1e6, **more: Any) -> Tuned:
    where = log_of_user() if log is None else log
    return search(NamedTask(names), where, budget, limits=LIMITS, **more)


# -- candidates and workers -----------------------------------------------------------------------


@pytest.mark.usefixtures("started_workers")
def test_a_child_that_hangs_does_not_outlive_a_parent_that_was_killed() -> None:
    """As if killed: it asks for a time and neither reads the answer nor ends the child."""
    with Worker(NamedTask(("hang",)), BASE) as worker:
        worker.start(LIMITS)
        assert worker.build(plan_called("hang"), LIMITS) == ""
        child = worker._child
        assert child is not None
        worker._connection.send((0.1, ("time", 5, False, 1.0)))
        assert child.process.wait() == -signal.SIGALRM


@pytest.mark.parametrize("name", ["leave", "killed"])
def test_a_worker_that_is_gone_is_followed_by_another(name: str) -> None:
    found = searched(name, "fast")
    assert dict(found.states) == {"crashed": 1, "measured": 1}
    assert found.plan == FAST


@pytest.mark.usefixtures("started_workers")
def test_a_system_without_processes_ends_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*words: object, **named: object) -> None:
        raise OSError(errno.EAGAIN, "no processes")

    monkeypatch.setattr(subprocess, "Popen", refused)
    found = searched("fast", "slow", "a", "b")
    assert dict(found.states) == {"lost": 3}
    assert found.plan == BASE


def test_ctrl_c_while_a_candidate_hangs_ends_its_process(hand_clock: HandClock) -> None:
    ended: list[int] = []

    def interrupt(process: int) -> None:
        ended.append(process)
        signal.raise_signal(signal.SIGINT)

    hand_clock.at_hang = interrupt
    found = searched("fast", "hang")
    assert found.is_interrupted
    assert found.plan == FAST
    with pytest.raises(ProcessLookupError):
        os.kill(ended[0], 0)
    assert log_of_user().best(NamedTask(()).key) is not None


# -- executors ------------------------------------------------------------------------------------


# -- records --------------------------------------------------------------------------------------


def record(key: Key, *, seconds: float = 0.5, name: str = "fast", cold: bool = False) -> Record:
    plans = plan_called(name).to_json(), BASE.to_json()
    return Record(key, *plans, seconds, 1.0, True, "2026-11-17T00:00:00+00:00", cold)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no disk that is always full")
def test_a_full_disk_costs_the_record_only() -> None:
    found = searched("fast", log=Log(Path("/dev/full")))
    assert found.plan == FAST
    assert not found.is_recorded


def test_half_a_record_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, key = Log(tmp_path / "log"), NamedTask(()).key
    assert log.add([record(key)])
    before = log.path.read_bytes()
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, data[:40]))
    assert not log.add([record(key, seconds=0.25)])
    monkeypatch.undo()
    assert log.path.read_bytes() == before


# -- cold and warm; other constructions -----------------------------------------------------------


def test_cold_is_an_option_of_people(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def watched(task: Any, log: Log, share: float, *, limits: Limits, **named: Any) -> Tuned:
        asked.append(limits.is_cold)
        return search(task, log, 0.0)

    monkeypatch.setattr("loopwright.calls.tune.search", watched)
    a = np.ones((8, 8))
    for cold in (False, True):
        lw.tune("ik,kj->ij", a, a, by="search", budget_ms=1, cold=cold)
    assert asked == [False, True]
    with pytest.raises(UsageError, match="cold is True or False"):
        lw.tune("ik,kj->ij", a, a, cold=1)


@lw.jit(threads=1)
def halved(a: Any, b: Any) -> None:
    for i in range(1, a.shape[0] - 1):
        for j in range(a.shape[1]):
            b[i, j] = (a[i - 1, j] + a[i + 1, j]) * 0.5


def test_records_of_loops_against_another_construction_are_set_aside() -> None:
    a, b = np.ones((30, 30)), np.zeros((30, 30))
    code, task = halved.task(a, b)
    assert task is not None
    construction = task.construction()
    assert construction != Plan(())
    stale = replace(
        record(task.key, seconds=0.1), plan=Plan(()).to_json(), construction=Plan(()).to_json()
    )
    log_of_user().add([stale])
    code.forget()
    assert halved.plan(a, b) == construction
    # A newer record is taken, also where one of another construction claims a greater gain.
    log_of_user().add([replace(stale, construction=construction.to_json(), seconds=0.5)])
    code.forget()
    assert halved.plan(a, b) == Plan(())
    assert plan_digest(construction.to_json()) == plan_digest(
        json.loads(json.dumps(construction.to_json()))
    )


# Data of plans in whole lines: of no kind, of another version, no plan, illegal for all tasks here.
DAMAGED = [
    {"version": BASE.to_json()["version"], "steps": [{"kind": "none"}]},
    {"version": 99, "steps": []},
    {},
    plan_called("nobody").to_json(),
]


@pytest.mark.drawn(2)
@pytest.mark.parametrize(("what", "damaged"), combined(["contraction", "loops"], DAMAGED, one_in=2))
def test_a_plan_that_was_damaged_in_the_log_is_set_aside(
    what: str, damaged: dict[str, Any]
) -> None:
    a, b = np.ones((30, 30)), np.zeros((30, 30))
    call = ("ik,kj->ij", a, a) if what == "contraction" else (halved, a, b)
    named = {"threads": 1} if what == "contraction" else {}
    (task,) = tasks_of(call[0], call[1:], named)[1]
    construction = task.construction()
    untouched = [lw.tune(*call, by=by, **named) for by in ("model", "policy")]
    log_of_user().add(
        [replace(record(task.key), plan=damaged, construction=construction.to_json())]
    )
    assert [lw.tune(*call, by=by, **named) for by in ("model", "policy")] == untouched
    found = search(task, log_of_user(), 0.0)
    assert (found.plan, found.gain) == (construction, 1.0)


# -- the oracle -----------------------------------------------------------------------------------


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    "subscripts", ["ik,kj->ij", "ijk,kl->jil", "i,ij->j", "ij,j->i", "ij->ji", "bij,bjk->bik"]
)
def test_candidates_are_compared_with_the_interpreter(subscripts: str) -> None:
    terms = subscripts.partition("->")[0].split(",")
    arrays = [np.ones([23] * len(term), np.float32) for term in terms]
    task = einsum_task(subscripts, *arrays, threads=1)
    oracle = oracle_of(task)
    assert oracle is not None
    plans = [task.construction(), *islice(task.neighbours(task.construction()), 3)]
    for plan in plans:
        found = oracle.found(plan)
        assert found is not None
        assert difference(found[0], oracle.expected[0], oracle.bench.terms, "the oracle's") == ""
    found[0][0] += 1
    told = difference(found[0], oracle.expected[0], 1, "the oracle's")
    assert re.match("1 of .* elements differ from the oracle's", told)


def test_numbers_without_dimensions_reach_the_code_of_the_oracle() -> None:
    """A part of an array of rank 0 is no array: a kernel that was given one crashed."""
    text = """void scaled(int n, double alpha, double x[n], double y[n])
    {
    #pragma scop
        for (int i = 0; i < n; i++)
            y[i] = alpha * x[i];
    #pragma endscop
    }"""
    compiled = lw.compile(text.replace("    ", ""), threads=1)
    x = np.arange(100.0)
    _, (task,) = tasks_of(compiled, (100, 0.5, x, np.zeros(100)), {})
    oracle = oracle_of(task)
    assert oracle is not None
    assert all(isinstance(array, np.ndarray) for array in oracle.bench.arrays())
    found = oracle.found(task.construction())
    assert found is not None
    assert np.array_equal(found[0], oracle.expected[0])
