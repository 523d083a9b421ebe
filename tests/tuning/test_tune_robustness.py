"""What may go wrong while plans are searched: the search goes on or ends, and keeps its best."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
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
from loopwright.tuning import records
from loopwright.tuning.candidate_worker import Limits, Worker
from loopwright.tuning.oracle_check import oracle_of
from loopwright.tuning.recall import plan_digest
from loopwright.tuning.records import Key, Log, Record, best_of, log_of_user
from loopwright.tuning.search import Tuned, search
from loopwright.tuning.worker_process import difference
from tuning.fake_tasks import LIMITS, HandClock, NamedTask, plan_called

FAST, BASE = plan_called("fast"), plan_called("base")


pytestmark = pytest.mark.usefixtures("own_records", "warm_workers")


def searched(*names: str, log: Log | None = None, budget: float = 1e6, **more: Any) -> Tuned:
    where = log_of_user() if log is None else log
    return search(NamedTask(names), where, budget, limits=LIMITS, **more)


# -- candidates and workers -----------------------------------------------------------------------


def test_a_time_that_is_no_number_is_no_gain() -> None:
    found = searched("no_time", "slow")
    assert dict(found.states)["wrong"] >= 1
    assert found.plan == BASE


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


def test_a_search_ends_where_no_worker_starts() -> None:
    task = NamedTask(tuple("abcdefgh"), is_dead=True)
    found = search(task, log_of_user(), 60.0, limits=LIMITS)
    assert dict(found.states) == {"lost": 3}
    assert found.plan == task.construction()


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


class DyingExecutor(Executor):
    """Takes work, and is lost, or shut down, or never answers."""

    def __init__(self, how: str) -> None:
        self._how = how

    def submit(self, fn: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        job: Future[Any] = Future()
        if self._how == "broken":
            job.set_exception(BrokenExecutor("a worker has died"))
        elif self._how == "cancelled":
            job.cancel()
            job.set_running_or_notify_cancel()
        return job


@pytest.mark.parametrize("how", ["broken", "cancelled"])
def test_what_a_dying_executor_leaves_is_measured_here(how: str) -> None:
    found = searched("slow", "fast", executor=DyingExecutor(how))
    assert found.plan == FAST
    assert found.tried == 2


def test_an_executor_that_was_shut_down_is_done_without() -> None:
    with ThreadPoolExecutor(1) as pool:
        pass
    assert searched("fast", executor=pool).plan == FAST


def test_an_executor_that_never_answers_does_not_hold_the_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("loopwright.tuning.search._GRACE", 0.1)
    found = searched("fast", executor=DyingExecutor("silent"), budget=0.5)
    assert found.plan == BASE


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


def test_a_folder_that_cannot_be_written_costs_the_record_only(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    found = searched("fast", log=Log(tmp_path / "file" / "tuning.jsonl"))
    assert found.plan == FAST
    assert not found.is_recorded


@pytest.mark.only_in_all("two searches that start workers; test_records has two writers of one log")
def test_two_processes_tune_into_one_log(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from tuning.fake_tasks import LIMITS, HandClock, NamedTask
from loopwright.tuning.records import Log
from loopwright.tuning.search import search
found = search(NamedTask(("slow", "fast")), Log(Path(sys.argv[1])), 1e6, limits=LIMITS)
assert found.is_recorded and found.gain > 1.5, found
"""
    path = tmp_path / "tuning.jsonl"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", program, str(path)]
    both = [subprocess.Popen(command, env=environment) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    log = Log(path)
    best = log.best(NamedTask(()).key)
    assert best is not None
    assert best.plan == FAST.to_json()
    assert len(list(log)) == 4
    assert log.damaged == 0


def watched_reads(monkeypatch: pytest.MonkeyPatch) -> tuple[list[bytes], list[int]]:
    """The lines of records that are parsed from now on, and bytes that are read from files."""
    parsed: list[bytes] = []
    read: list[int] = []
    parse = records._record

    class Watched(io.FileIO):
        def readinto(self, buffer: Any) -> int | None:
            found = super().readinto(buffer)
            read.append(found or 0)
            return found

    def opened(path: Path, mode: str) -> Any:
        return io.BufferedReader(Watched(path, mode))

    def counted(line: bytes) -> Record | None:
        parsed.append(line)
        return parse(line)

    monkeypatch.setattr(Path, "open", opened)
    monkeypatch.setattr(records, "_record", counted)
    return parsed, read


def test_of_a_long_log_the_lines_of_a_key_are_found_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """10,000 records: a call parses those of its own key only, and later reads only what is new."""
    log = Log(tmp_path / "log")
    line = json.dumps(record(Key("other", "here", (4,), 1, "float64")).to_json())
    first, second = line.split('"sizes": [4]')
    with log.path.open("w", encoding="utf-8") as file:
        file.writelines(f'{first}"sizes": [{n}]{second}\n' for n in range(10_000))
    key = NamedTask(()).key
    log.add([record(key)])
    parsed, read = watched_reads(monkeypatch)
    assert log.of(key) == (record(key),)
    assert len(parsed) == 1
    read.clear()
    log.add([record(key, seconds=0.25)])
    assert len(log.of(key)) == 2
    assert len(parsed) == 3
    assert sum(read) < 4 * io.DEFAULT_BUFFER_SIZE < log.path.stat().st_size / 10
    parsed.clear()
    read.clear()
    assert log.of(key) is log.of(key)
    assert parsed == read == []


def test_a_log_that_was_written_anew_is_read_anew(tmp_path: Path) -> None:
    log, key = Log(tmp_path / "log"), NamedTask(()).key
    log.add([record(key), record(key, seconds=0.25)])
    assert len(log.of(key)) == 2
    log.path.write_text("# begun again, by hand" + "\n" * 2000, encoding="utf-8")
    log.add([record(key)])
    assert log.of(key) == (record(key),)
    compact = json.dumps(record(key, seconds=0.125).to_json(), separators=(",", ":"))
    with log.path.open("a", encoding="utf-8") as file:
        file.write(compact)  # in other words, and its line does not end
    assert [found.seconds for found in log.of(key)] == [0.5, 0.125]
    log.add([record(key, seconds=0.25)])
    assert sorted(found.seconds for found in log.of(key)) == [0.125, 0.25, 0.5]


# -- cold and warm; other constructions -----------------------------------------------------------


def test_cold_and_warm_times_are_not_compared() -> None:
    key = NamedTask(()).key
    warm, cold = record(key, seconds=0.1), record(key, seconds=0.5, cold=True)
    assert Record.from_json(cold.to_json()) == cold
    assert best_of([warm, cold]) == cold
    assert best_of([cold, warm]) == warm
    log = log_of_user()
    log.add([warm])
    task = NamedTask(("fast",))
    limits = replace(LIMITS, is_cold=True)
    assert search(task, log, 60.0, limits=limits).tried == 1, "warm, it was measured already"
    assert [found.is_cold for found in log.of(key)] == [False, True]


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


def test_records_of_contractions_against_another_construction_hide_no_newer_one() -> None:
    a = np.ones((30, 30))
    task = einsum_task("ik,kj->ij", a, a, threads=1)
    other, stale = (p for p, _ in zip(task.neighbours(task.construction()), "ab", strict=False))
    good = replace(
        record(task.key), plan=other.to_json(), construction=task.construction().to_json()
    )
    log_of_user().add([replace(good, construction=stale.to_json(), seconds=0.01), good])
    assert lw.einsum_plan("ik,kj->ij", a, a, threads=1) == other


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


def test_loops_are_compared_with_the_interpreter_on_a_corner() -> None:
    a, b = np.random.default_rng(0).random((300, 200)), np.zeros((300, 200))
    _, task = halved.task(a, b)
    assert task is not None
    oracle = oracle_of(task)
    assert oracle is not None
    assert oracle.expected[0].size < 200
    assert oracle.expected[0].any()
    for plan in (task.construction(), Plan(())):
        found = oracle.found(plan)
        assert found is not None
        assert np.array_equal(found[0], oracle.expected[0])


def test_what_has_no_small_instance_has_no_oracle() -> None:
    assert oracle_of(NamedTask(())) is None
