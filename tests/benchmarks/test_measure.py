"""The helpers of the benchmarks: turns, bars, tables, checks, drawings. Nothing is timed."""

import importlib
import math
from collections.abc import Callable

import numpy as np
import pytest
from benchmarks.__main__ import BENCHMARKS
from benchmarks.environment import (
    THREAD_VARIABLES,
    child_environment,
)
from benchmarks.measure import (
    Bar,
    Setting,
    Table,
    WrongResultError,
    check_close,
    check_equal,
    race,
    ratios,
    seconds_by_name,
)

Scripted = dict[str, list[float]]


def script(monkeypatch: pytest.MonkeyPatch, seconds: Scripted) -> list[str]:
    """Let turns last as written instead of timing them; return the log of turns."""
    log: list[str] = []
    remaining = {name: iter(turns) for name, turns in seconds.items()}

    def turn(run: Callable[[], str]) -> float:
        name = run()
        log.append(name)
        return next(remaining[name])

    monkeypatch.setattr("benchmarks.measure.fastest", turn)
    return log


def test_competitors_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    log = script(monkeypatch, {"a": [3.0, 2.0, 4.0], "b": [2.5, 2.5, 1.5]})
    times = race({"a": lambda: "a", "b": lambda: "b"}, Setting(), rounds=3)
    assert log == ["a", "b"] * 3
    assert seconds_by_name(times) == {"a": [3.0, 2.0, 4.0], "b": [2.5, 2.5, 1.5]}
    assert times["a"].best == 2.0
    assert ratios(times, ours="b") == {"a": 2.0 / 1.5}


@pytest.mark.parametrize(
    ("bar", "text"),
    [
        (Bar("speed", 1.1, 1.02), "speed: 1.1, bar at least 1.02: holds"),
        (Bar("speed", 1.02, 1.02), "speed: 1.02, bar at least 1.02: holds"),
        (Bar("speed", 0.9, 1.0), "speed: 0.9, bar at least 1: falls short by 0.1"),
        (
            Bar("first call", 312.0, 250.0, at_most=True, unit=" ms"),
            "first call: 312 ms, bar at most 250 ms: falls short by 62 ms",
        ),
        (Bar("call", 4.5, 5.0, at_most=True), "call: 4.5, bar at most 5: holds"),
        (Bar("call", math.nan, 5.0), "call: nan, bar at least 5: was not measured"),
    ],
)
def test_bars_in_words(bar: Bar, text: str) -> None:
    assert str(bar) == text


def test_table() -> None:
    table = Table((("name", "6s"), ("n", "4d"), ("times numpy", "8.2f"), ("share", "7.1%")))
    assert table.head() == "name       n  times numpy    share"
    assert table.row("a", 64, 1.239, 0.5) == "a         64         1.24    50.0%"
    assert table.row("mean", None, 1.0, None) == "mean       -         1.00        -"


def test_close_results() -> None:
    right = np.full((3, 3), 10.0)
    check_close(right * (1 + 1e-15), right, terms=4)
    with pytest.raises(WrongResultError, match="largest error"):
        check_close(right * (1 + 1e-12), right, terms=4)
    with pytest.raises(WrongResultError, match="largest error"):
        check_close(np.full((3, 3), np.nan), right, terms=4)
    with pytest.raises(WrongResultError, match=r"shape \(3,\), expected \(3, 3\)"):
        check_close(right[0], right, terms=4)


def test_equal_results() -> None:
    check_equal([1, 2], [1, 2])
    with pytest.raises(WrongResultError, match="1 of 2 elements differ"):
        check_equal([1, 3], [1, 2])


def test_child_environment_fixes_all_threads() -> None:
    made = child_environment(2, {"PATH": "/bin", "OMP_NUM_THREADS": "8"})
    fixed = {"OPENBLAS_THREAD_TIMEOUT": "20", **dict.fromkeys(THREAD_VARIABLES, "2")}
    assert made == {"PATH": "/bin", "LOOPWRIGHT_RACE": "0", **fixed}
    assert child_environment(2, {"LOOPWRIGHT_RACE": "1"})["LOOPWRIGHT_RACE"] == "1"


def test_every_benchmark_is_a_module_that_says_what_it_shows() -> None:
    for name, threads, _ in BENCHMARKS:
        assert threads
        module = importlib.import_module(f"benchmarks.{name}")
        assert (module.__doc__ or "").strip()
        assert callable(module.run)
