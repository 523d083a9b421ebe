"""Races of compiled functions against their source order: bits, memory, what switches them off.

Codes move a clock of the test on by what they are said to take; threads are run on the spot.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from backends.c_compiled import needs_cc
from loopwright import options
from loopwright.calls import call_race, compiler_code, source_race
from loopwright.calls.call_race import CallRace
from loopwright.calls.compiled_program import PlannedCode
from loopwright.calls.jit import JitFunction
from loopwright.calls.launches import Launches
from loopwright.diagnostics import ToolchainError, UsageError, WrongTypeError
from loopwright.planner import plan_choice
from loopwright.tuning.records import best_of, log_of_user

COLUMNS = """
void f(int n, double a[n][n], double b[n][n]) {
#pragma scop
  for (int j = 0; j < n; j++)
    for (int i = 0; i < n; i++)
      a[i][j] = a[i][j] + b[i][j];
#pragma endscop
}
"""


class Track:
    """Times of codes in the order in which they are first seen: the plan, then the source order."""

    def __init__(self) -> None:
        self.now = 0.0
        self.seen: list[Any] = []
        self.times = [0.02, 0.01]
        self.served: list[int] = []

    def run(self, code: Any) -> None:
        found = [k for k, other in enumerate(self.seen) if other is code]
        if not found:
            self.seen.append(code)
            found = [len(self.seen) - 1]
        self.served.append(found[0])
        self.now += self.times[min(found[0], len(self.times) - 1)]


@pytest.fixture
def track(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Track]:
    found = Track()
    run_launches, run_planned = Launches.__call__, PlannedCode.__call__

    def launched(self: Launches, arrays: Any) -> None:
        found.run(self)
        run_launches(self, arrays)

    def planned(self: PlannedCode, args: Any, threads: int) -> None:
        found.run(self)
        run_planned(self, args, threads)

    def at_once(work: Any, *, at_exit: bool = False) -> bool:
        work()
        return True

    monkeypatch.setattr(Launches, "__call__", launched)
    monkeypatch.setattr(PlannedCode, "__call__", planned)
    monkeypatch.setattr(call_race, "_clock", lambda: found.now)
    monkeypatch.setattr(call_race, "in_background", at_once)
    rivals = {"race": True, "race_compiler": False}
    with options.override(**rivals, data_dir=str(tmp_path / "data")):
        yield found


def columns() -> Any:
    @lw.jit(threads=1)
    def add_columns(a, b):
        for j in range(a.shape[1]):
            for i in range(a.shape[0]):
                a[i, j] = a[i, j] + b[i, j]

    return add_columns


def serving(f: Any, track: Track) -> int:
    """Which code serves the calls of a function, natively or not: 0 the plan, 1 the source."""
    (code,) = f._found.values() if isinstance(f, JitFunction) else f._codes
    (ready,) = code._ready.values()
    return track.seen.index(ready.run)


def arrays(n: int = 24) -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    return random.random((n, n)), random.random((n, n))


def test_the_source_order_is_kept_and_remembered(track: Track) -> None:
    f = columns()
    a, b = arrays()
    wanted = a.copy()
    for _ in range(60):
        f(a, b)
        wanted += b
        assert a.tobytes() == wanted.tobytes()
    assert track.served[:8] == [0] * 8
    assert serving(f, track) == 1
    (record,) = list(log_of_user())
    assert record.is_raced
    assert record.is_faster
    assert record.gain == pytest.approx(2.0)
    assert "race against another order: the source order is kept" in f.explain(a, b)
    again = columns()
    again(a, b)
    assert "another order, 2.00 times as fast as the construction in a race" in again.explain(a, b)
    assert len(again.plan(a, b)) < len(columns().plan(*arrays(25)))
    served = len(track.served)
    for _ in range(40):
        again(a, b)
    assert len(set(track.served[served:])) == 1  # no second race


@needs_cc
@pytest.mark.parametrize(
    ("times", "winner", "words"),
    [
        ([0.02, 0.01, 0.005, 0.03], 2, "the C compiler's code of the plan is kept"),
        ([0.02, 0.01, 0.03, 0.004], 3, "the C compiler's code of the source order is kept"),
        ([0.02, 0.03, 0.03, 0.01], 3, "the C compiler's code of the source order is kept"),
        ([0.02, 0.01, 0.03, 0.03], 1, "the source order is kept"),
        ([0.02, 0.03, 0.03, 0.03], 0, "the plan is kept"),
    ],
)
def test_the_c_compiler_meets_what_has_won(
    track: Track, times: list[float], winner: int, words: str
) -> None:
    track.times = times
    with options.override(race_compiler=True):
        f = columns()
        a, b = arrays()
        wanted = a.copy()
        for _ in range(120):
            f(a, b)
            wanted += b
            assert a.tobytes() == wanted.tobytes()
        assert serving(f, track) == winner
        assert words in f.explain(a, b)
        records = list(log_of_user())
        assert [record.by_compiler for record in records] == [False, True, True]
        best = best_of(records)
        if winner == 0:
            assert best is None
        else:
            assert best is not None
            assert best.by_compiler is (winner > 1)
            assert best.gain == pytest.approx(times[0] / times[winner])
        # Another process begins with what has won, and does not race again.
        again, before = columns(), len(track.seen)
        for _ in range(60):
            again(a, b)
            wanted += b
        assert a.tobytes() == wanted.tobytes()
        assert len(track.seen) == before + 1
        if winner > 1:
            assert "the C compiler's code, " in again.explain(a, b)
            assert "kernel_call" in again.inspect_asm(a, b)


@needs_cc
@pytest.mark.parametrize("asked", [{"race_compiler": False}, {"boundscheck": True}])
def test_records_of_the_compiler_wait_where_it_is_left_out(
    track: Track, asked: dict[str, bool]
) -> None:
    """And where accesses are to be checked, which its code does not do."""
    track.times = [0.02, 0.03, 0.01, 0.03]
    with options.override(race_compiler=True):
        f, (a, b) = columns(), arrays()
        for _ in range(120):
            f(a, b)
        assert serving(f, track) == 2
        again = columns()
        again(a, b)
        assert "the C compiler's code, " in again.explain(a, b)
        assert "C compiler" in again.inspect_llvm(a, b)
    with options.override(**asked):
        other = columns()
        other(a, b)
        assert "the C compiler's code, " not in other.explain(a, b)
        assert "define " in other.inspect_llvm(a, b)


@needs_cc
def test_without_a_compiler_its_records_are_set_aside(
    track: Track, monkeypatch: pytest.MonkeyPatch
) -> None:
    track.times = [0.02, 0.03, 0.01, 0.03]
    with options.override(race_compiler=True, cache=False):
        f, (a, b) = columns(), arrays()
        for _ in range(120):
            f(a, b)
        assert serving(f, track) == 2

        def none(name: str | None = None) -> Any:
            raise ToolchainError(("cc",), "", "there is no C compiler here")

        monkeypatch.setattr(compiler_code, "find_compiler", none)
        again, wanted = columns(), a + b
        again(a, b)
        assert a.tobytes() == wanted.tobytes()


@needs_cc
def test_arrays_with_gaps_and_functions_are_left_to_llvm(track: Track) -> None:
    @lw.jit(threads=1)
    def waves(a, b):
        for j in range(a.shape[1]):
            for i in range(a.shape[0]):
                a[i, j] = a[i, j] + np.exp(b[i, j])

    with options.override(race_compiler=True):
        for f, (a, b) in ((columns(), arrays()), (waves, arrays())):
            given = (a, b) if f is waves else (a.T, b.T)
            for _ in range(120):
                f(*given)
    assert not any(record.by_compiler for record in log_of_user())


def test_a_plan_that_wins_is_not_raced_again(track: Track) -> None:
    track.times = [0.01, 0.02]
    f = columns()
    a, b = arrays()
    for _ in range(60):
        f(a, b)
    assert serving(f, track) == 0
    (record,) = list(log_of_user())
    assert record.is_raced
    assert not record.is_faster
    track.seen.clear()
    again = columns()
    for _ in range(60):
        again(a, b)
    assert len(track.seen) == 1
    assert len(list(log_of_user())) == 1


def test_sizes_race_for_themselves(track: Track) -> None:
    f = columns()
    for n in (20, 21):
        track.seen.clear()
        for _ in range(60):
            f(*arrays(n))
    assert [record.key.sizes[:2] for record in log_of_user()] == [(20, 20), (21, 21)]


def test_without_records_the_race_is_forgotten(track: Track) -> None:
    a, b = arrays()
    with options.override(records=False):
        f = columns()
        for _ in range(60):
            f(a, b)
    assert serving(f, track) == 1
    assert not list(log_of_user())


@pytest.mark.parametrize("how", ["option", "argument", "tune", "plan", "careful"])
def test_what_switches_races_off(track: Track, how: str) -> None:
    a, b = arrays()
    f = columns()
    if how == "argument":
        f = lw.jit(race=False, threads=1)(f.py_func)
    elif how == "plan":
        f = lw.jit(plan=f.plan(a, b), threads=1)(f.py_func)
    elif how == "tune":
        f = lw.jit(tune="model", threads=1)(f.py_func)
    changes = {"option": {"race": False}, "careful": {"boundscheck": True}}.get(how, {})
    with options.override(**changes):
        for _ in range(60):
            f(a, b)
    assert set(track.served) <= {0}


def scaled() -> Any:
    def scale_columns(a, b):
        for j in range(a.shape[1]):
            for i in range(a.shape[0]):
                a[i, j] = a[i, j] * 0.5 + b[i, j] * 0.25

    return scale_columns


def test_sums_of_products_are_raced_like_others(track: Track) -> None:
    a, b = arrays()
    for race, reassoc, sides in ((None, False, {0, 1}), (False, False, {0}), (None, True, {0, 1})):
        track.seen.clear()
        track.served.clear()
        f = lw.jit(race=race, reassoc=reassoc, threads=1)(scaled())
        for _ in range(60):
            f(a, b)
        assert set(track.served) == sides, (race, reassoc)


def test_a_rival_that_the_model_is_sure_of_is_not_tried(
    track: Track, monkeypatch: pytest.MonkeyPatch
) -> None:
    costs = iter([100.0, 1.0])  # of the source order, then of the plan
    monkeypatch.setattr(source_race, "expected_seconds", lambda *_, **__: next(costs))
    f = columns()
    for _ in range(60):
        f(*arrays())
    assert set(track.served) == {0}


def test_a_plan_that_the_model_declined_is_tried(
    track: Track, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_choice, "_WORTH", 0.0)  # nothing is worth another order
    f = columns()
    a, b = arrays()
    wanted = a.copy()
    for _ in range(60):
        f(a, b)
        wanted += b
    assert a.tobytes() == wanted.tobytes()
    assert serving(f, track) == 1
    (record,) = list(log_of_user())
    assert record.is_faster
    assert "reschedule" in str(record.plan)
    assert "reschedule" not in str(record.construction)
    assert "the declined plan is kept" in f.explain(a, b)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_functions_of_c(track: Track, threads: int) -> None:
    f = lw.compile(COLUMNS, threads=threads)
    a, b = arrays()
    wanted = a.copy()
    for _ in range(60):
        f(24, a, b)
        wanted += b
    assert a.tobytes() == wanted.tobytes()
    assert serving(f["f"], track) == 1
    assert [record.key.threads for record in log_of_user()] == [threads]


def test_programs(track: Track) -> None:
    (program,) = lw.parse_c(COLUMNS)
    f = lw.compile(program, threads=1)
    a, b = arrays()
    wanted = a.copy()
    for _ in range(60):
        f(a, b)
        wanted += b
    assert a.tobytes() == wanted.tobytes()
    assert set(track.served[-20:]) == {1}
    assert len(list(log_of_user())) == 1
    served = len(track.served)
    again = lw.compile(program, threads=1)
    again(a, b)
    assert len(track.served) == served + 1
    assert len(track.seen) == 3  # the code of the record


def test_an_error_in_the_background(track: Track, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any) -> Any:
        raise ValueError("a fault")

    monkeypatch.setattr(source_race, "source_order", failing)
    f = columns()
    a, b = arrays()
    for _ in range(40):
        f(a, b)
    assert set(track.served) == {0}


def test_tuning_takes_over(track: Track) -> None:
    """Records of races are no reason to leave out a search."""
    from loopwright.calls import tune_first

    f = columns()
    a, b = arrays()
    for _ in range(60):
        f(a, b)
    code, task = f.task(a, b)
    assert task is not None
    searched: list[object] = []

    class Found:
        tried, gain = 0, 1.0

    def search(*given: object, **named: object) -> Found:
        searched.append(given)
        return Found()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tune_first, "search", search)
        assert tune_first.tune_once(task, 1.0)
    assert searched
    code.forget()
    f(a, b)


def test_native_calls_begin_when_it_is_decided(track: Track) -> None:
    from loopwright.ir.call_dispatch import STATE
    from loopwright.kernels import dispatcher

    here = dispatcher()
    if here is None:
        pytest.skip("another layout of objects")
    f = columns()
    a, b = arrays()
    for _ in range(80):
        f(a, b)
    here.words[STATE["countdown"]] = 100
    served = len(track.served)
    f(a, b)
    assert int(here.words[STATE["countdown"]]) == 99
    assert len(track.served) == served


def test_arguments_are_checked() -> None:
    with pytest.raises(WrongTypeError):
        lw.jit(race="yes")
    with pytest.raises(UsageError):
        lw.compile(COLUMNS, target="c", race=True)
    lw.compile(COLUMNS, target="host", race=False)


def test_races_are_remembered_across_processes(tmp_path: Path) -> None:
    """A race with real threads, whose clock is a counter; the second process begins by its end."""
    script = f"""
import itertools, threading
import numpy as np
import loopwright as lw
from loopwright.calls import call_race
from loopwright.calls.launches import Launches
now, seen, run = [0.0], [], Launches.__call__
def launched(self, arrays):
    if self not in seen: seen.append(self)
    now[0] += (0.02, 0.01)[seen.index(self)]
    run(self, arrays)
Launches.__call__ = launched
call_race._clock = lambda: now[0]
f = lw.compile({COLUMNS!r}, threads=1)
a, b = np.zeros((24, 24)), np.ones((24, 24))
for k in range(80):
    f(24, a, b)
    for t in threading.enumerate():
        if t.name == "loopwright race": t.join()
assert (a == 80).all()
print(len(seen), "race of calls" in f["f"].explain(24, a, b))
"""
    told = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
            env=_environment(tmp_path),
        )
        assert done.returncode == 0, done.stderr
        told.append(done.stdout.split())
    assert told == [["2", "True"], ["1", "True"]]


def test_functions_may_go_while_their_rivals_are_made(tmp_path: Path) -> None:
    """A race holds the code of both sides; one that nobody calls any more ends without a word."""
    script = f"""
import gc, time
import numpy as np
import loopwright as lw
from loopwright.calls import call_race

call_race._SHORT, call_race._CALLS, call_race._SECONDS = 0.0, 2, 0.0
text = {COLUMNS!r}
for factor, pause in ((1, 0.0), (2, 0.0), (3, 0.3), (4, 0.0)):
    f = lw.compile(text.replace("+ b", "+ " + str(factor) + " * b"))
    a, b = np.ones((40, 40)), np.ones((40, 40))
    for _ in range(4):
        f(40, a, b)
    time.sleep(pause)
    for _ in range(9):
        f(40, a, b)
    assert (a == 1 + 13 * factor).all()
    del f
    gc.collect()
"""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", script],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env=_environment(tmp_path),
    )
    assert (done.returncode, done.stderr) == (0, "")


def _environment(tmp_path: Path) -> dict[str, str]:
    import os

    return {
        **os.environ,
        options.variable("race"): "1",
        options.variable("race_compiler"): "0",
        options.variable("data_dir"): str(tmp_path / "data"),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }


def test_race_is_a_call_race() -> None:
    f = columns()
    a, b = arrays()
    with options.override(race=True):
        f(a, b)
        (code,) = f._found.values()
        (ready,) = code._ready.values()
        assert isinstance(ready.run, CallRace) == code.is_racing((a, b), 1)
