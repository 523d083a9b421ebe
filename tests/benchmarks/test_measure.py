"""The helpers of the benchmarks: turns, bars, tables, checks, drawings. Nothing is timed."""

import importlib
import json
import math
from collections.abc import Callable

import numpy as np
import pytest
from benchmarks.__main__ import BENCHMARKS
from benchmarks.contractions import Contraction, mean_and_worst
from benchmarks.environment import (
    THREAD_VARIABLES,
    Activity,
    activity,
    child_environment,
    others_between,
)
from benchmarks.measure import (
    Bar,
    Setting,
    Table,
    Times,
    WrongResultError,
    check_close,
    check_equal,
    fastest,
    geometric_mean,
    race,
    ratios,
    seconds_by_name,
)
from benchmarks.peak import peak_source
from benchmarks.random_contractions import RANKS, draw
from benchmarks.tccg import suite

from loopwright.runtime.llvm_engine import compile_to_object

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


def test_slow_competitors_have_two_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    log = script(monkeypatch, {"a": [1.0] * 5, "slow": [9.0] * 5, "b": [2.0] * 5})
    runs = {name: (lambda name=name: name) for name in ("a", "slow", "b")}
    times = race(runs, Setting(), rounds=4)
    assert {name: len(t.rounds) for name, t in times.items()} == {"a": 4, "slow": 2, "b": 4}
    assert log[6:] == ["a", "b", "a", "b"]


def test_every_competitor_is_warm(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr("benchmarks.measure.fastest", lambda run: 1.0)
    race({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, Setting(), rounds=2)
    assert calls == ["a", "b"]


def test_a_turn_calls_at_least_once() -> None:
    calls: list[int] = []
    assert fastest(lambda: calls.append(1), least_seconds=0.0) >= 0.0
    assert len(calls) == 1


def test_settings() -> None:
    assert Setting(quick=True).rounds < Setting().rounds
    assert Setting().pause == 0.0 < Setting(threads=2).pause


def test_geometric_mean() -> None:
    assert geometric_mean([0.5, 2.0]) == pytest.approx(1.0)
    assert geometric_mean([3.0]) == pytest.approx(3.0)
    assert math.isnan(geometric_mean([]))


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


def test_a_bar_that_was_not_measured_does_not_hold() -> None:
    for at_most in (False, True):
        record = Bar("x", math.nan, 1.0, at_most).record()
        assert not record["holds"]
        assert json.loads(json.dumps(record, allow_nan=False))["measured"] is None


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


def test_processors_used_by_others() -> None:
    start = Activity(wall=10.0, own=5.0, machine=100.0)
    assert others_between(start, Activity(12.0, 6.0, 104.0)) == 1.5
    assert others_between(start, Activity(12.0, 7.0, 101.0)) == 0.0
    assert others_between(start, Activity(12.0, 7.0, None)) is None
    assert others_between(start, start) is None
    assert activity().wall > 0


def test_sizes_of_a_contraction() -> None:
    contraction = Contraction("aebf,dfce->abcd", dict(zip("abcdef", range(2, 8), strict=True)))
    assert contraction.sizes == (2 * 3, 4 * 5, 6 * 7)
    a, b = contraction.operands(np.random.default_rng(0))
    assert (a.shape, b.shape) == ((2, 6, 3, 7), (5, 7, 4, 6))


def test_mean_and_worst_of_a_peer() -> None:
    rows = ({"speed": {"gemm": 0.5}}, {"speed": {"gemm": 2.0, "torch.einsum": 1.0}})
    assert mean_and_worst(rows, "gemm") == pytest.approx((1.0, 0.5))
    assert all(math.isnan(x) for x in mean_and_worst(rows, "numpy.einsum"))


def test_drawn_contractions() -> None:
    rng = np.random.default_rng(5)
    drawn = [draw(rng) for _ in range(50)]
    again = np.random.default_rng(5)
    assert drawn == [draw(again) for _ in range(50)]
    for contraction in drawn:
        left, right, out = contraction.terms
        assert all(RANKS[0] <= len(term) <= RANKS[1] for term in (left, right, out))
        assert set(out) == set(left) ^ set(right)
        assert all(extent % 2 == 1 for extent in contraction.dims.values())
        assert all(30 <= size <= 3000 for size in contraction.sizes)


def test_suite_is_complete() -> None:
    contractions = suite()
    assert len({c.subscripts for c in contractions}) == 48
    for contraction in contractions:
        assert math.prod(contraction.sizes) == math.prod(contraction.dims.values())


@pytest.mark.parametrize(
    ("plus", "times", "dtype"),
    [("add", "mul", "float64"), ("min", "add", "float32"), ("or", "and", "bool"),
     ("add", "mul", "int32")],
)  # fmt: skip
def test_peak_loops_compile(plus: str, times: str, dtype: str) -> None:
    assert compile_to_object(peak_source(plus, times, dtype, 4, 10))


def test_every_benchmark_is_a_module_that_says_what_it_shows() -> None:
    for name, threads, _ in BENCHMARKS:
        assert threads
        module = importlib.import_module(f"benchmarks.{name}")
        assert (module.__doc__ or "").strip()
        assert callable(module.run)


def test_best_of_rounds() -> None:
    assert Times((3.0, 1.0, 2.0)).best == 1.0
