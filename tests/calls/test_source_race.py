"""Races of compiled functions against their source order: bits, memory, what switches them off.

Codes move a clock of the test on by what they are said to take; threads are run on the spot.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from backends.c_compiled import needs_cc
from loopwright import options
from loopwright.calls import call_race, source_race
from loopwright.calls.compiled_program import PlannedCode
from loopwright.calls.jit import JitFunction
from loopwright.calls.launches import Launches
from loopwright.diagnostics import UsageError, WrongTypeError
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


def test_a_rival_that_the_model_is_sure_of_is_not_tried(
    track: Track, monkeypatch: pytest.MonkeyPatch
) -> None:
    costs = iter([100.0, 1.0])  # of the source order, then of the plan
    monkeypatch.setattr(source_race, "expected_seconds", lambda *_, **__: next(costs))
    f = columns()
    for _ in range(60):
        f(*arrays())
    assert set(track.served) == {0}


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


def test_arguments_are_checked() -> None:
    with pytest.raises(WrongTypeError):
        lw.jit(race="yes")
    with pytest.raises(UsageError):
        lw.compile(COLUMNS, target="c", race=True)
    lw.compile(COLUMNS, target="host", race=False)


def test_an_error_in_the_background(track: Track, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any) -> Any:
        raise ValueError("a fault")

    monkeypatch.setattr(source_race, "source_order", failing)
    f = columns()
    a, b = arrays()
    for _ in range(40):
        f(a, b)
    assert set(track.served) == {0}
