"""The dissertation's tables 4.12 to 4.16 and its figure 4.15, on this machine.

Products C <- C plus (A times B) of square matrices over seven pairs of operators, double and float,
against C compilers and numba, with 95% intervals (Student's t over the rounds) and as shares of the
pair's bound: two vector instructions a pair, the machine's multiply-subtract for [x,-], its divider
for [/,max], at the clock of the moment (peak.py). On one thread the tables of all pairs; on more
the two pairs of figure 4.15 over many sizes, Loopwright only beside what one thread of numba does.

Parts: `--kernels` names pairs as add-max, div-max, min-max, mul-max, mul-min, mul-sub, add-min;
`--size SMALL|LARGE|XL` takes n = 128, 1024, or 2000 and 4000; `--count N` takes the one size N.
With the name of a file in SEED_TABLES_ROWS rows are kept there as they are measured, and rows
that it holds are not measured again: a run may be broken off and taken up. The picture goes to
the folder that SEED_TABLES_PICTURES names.

A contestant has as many rounds as fit into `MOST_SECONDS`, and one at least; the table says how
many. Peers' loops run up to n = 2000, and beyond where `--count` asks for them.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import Bar, Outcome, Setting, Table, WrongResultError, geometric_mean
from benchmarks.peak import clock, model_operations, pair_peak
from benchmarks.seed_tables.contestants import PAIRS, Pair, contestants, installed_names
from benchmarks.seed_tables.printed import BOUNDS, SHARES, SIZES, TIMES_4_16, squarings
from benchmarks.tuning.pictures import line_chart

__all__ = ["interval", "run"]

TYPES = ("float64", "float32")
SIZE_CLASSES = {"SMALL": (128,), "LARGE": (1024,), "XL": (2000, 4000), "": SIZES}
QUICK_SIZES = (128, 1024)
FIGURE_PAIRS = ("[+,max]", "[x,max]")
FIGURE_SIZES = (
    32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2000, 2048, 3072, 4000,
)  # fmt: skip
QUICK_FIGURE = 1024
TABLE_4_16 = (32, 1024, 2048, 4000)
ROUNDS, QUICK_ROUNDS = 7, 4
MOST_SECONDS = 6.0  # of one contestant, all rounds together
MOST_FOR_LOOPS = 2000  # of peers' loops: beyond, one round takes minutes; --count lifts it
TURN = 0.02  # seconds at least of a round
SHARE_BAR = 0.85  # of the bound, from n = 1024 on
# Student's t for 95%, two-sided, by degrees of freedom.
_T = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}


def run(setting: Setting) -> Outcome:
    """The tables of one thread, or the figure of several."""
    kept = _Kept(os.environ.get("SEED_TABLES_ROWS"))
    rows = _tables(setting, kept) if setting.threads == 1 else _figure(setting, kept)
    large = [row for row in rows if row["n"] >= 1024 and row["who"] == "loopwright"]
    worst = min((row["share"] for row in large), default=math.nan)
    bars = [Bar("share of the bound from n = 1024 on, worst", worst, SHARE_BAR)] if large else []
    return Outcome(tuple(rows), tuple(bars))


def interval(seconds: Sequence[float]) -> tuple[float, float]:
    """The mean and half of its 95% interval; infinite from one number."""
    mean = statistics.fmean(seconds)
    if len(seconds) < 2:
        return mean, math.inf
    t = _T.get(len(seconds) - 1, 1.96)
    return mean, t * statistics.stdev(seconds) / math.sqrt(len(seconds))


def _tables(setting: Setting, kept: _Kept) -> list[dict[str, Any]]:
    """Tables 4.12 to 4.15."""
    print(f"contestants: {', '.join(installed_names())}")
    table = Table(
        (
            ("pair", "9s"),
            ("type", "7s"),
            ("n", "5d"),
            ("who", "10s"),
            ("GFlop/s", "8.2f"),
            ("+-", "6.2f"),
            ("rounds", "6d"),
            ("of the bound", "7.1%"),
            ("paths, s", "9.4f"),
            ("printed", "14s"),
        )
    )
    print(table.head())
    rows = []
    for pair in _chosen(setting):
        for dtype in TYPES:
            for n in _sizes(setting):
                for row in _rows(pair, dtype, n, setting, kept):
                    rows.append(row)
                    shown = row["gflops"], row["plus_minus"], len(row["seconds"])
                    shown += row["share"], row["paths_s"]
                    words = _printed(pair.name, dtype, n, row["who"])
                    print(table.row(pair.name, dtype, n, row["who"], *shown, words), flush=True)
    _sum_up(rows)
    return rows


def _sum_up(rows: list[dict[str, Any]]) -> None:
    """How many times as fast as each peer, geometric mean and least."""
    ours = {(r["pair"], r["dtype"], r["n"]): r["gflops"] for r in rows if r["who"] == "loopwright"}
    for who in dict.fromkeys(row["who"] for row in rows):
        times = [
            ours[r["pair"], r["dtype"], r["n"]] / r["gflops"]
            for r in rows
            if r["who"] == who and (r["pair"], r["dtype"], r["n"]) in ours
        ]
        if who != "loopwright" and times:
            print(
                f"times {who}: {geometric_mean(times):.2f} in the mean, {min(times):.2f} at least"
            )


def _figure(setting: Setting, kept: _Kept) -> list[dict[str, Any]]:
    """Figure 4.15 and table 4.16: two pairs in double over sizes, on all threads."""
    table = Table(
        (
            ("pair", "8s"),
            ("n", "5d"),
            ("GFlop/s", "8.2f"),
            ("+-", "6.2f"),
            ("of the bound", "7.1%"),
            ("paths, s", "10.6f"),
            ("printed: icc, AOTO", "20s"),
        )
    )
    print(table.head())
    rows = []
    sizes = [n for n in FIGURE_SIZES if not setting.quick or n <= QUICK_FIGURE]
    sizes = [setting.count] if setting.count else sizes
    for name in FIGURE_PAIRS:
        for n in sizes:
            for row in _rows(PAIRS[name], "float64", n, setting, kept, ("loopwright",)):
                rows.append(row)
                known = TIMES_4_16[name].get(n)
                words = f"{known[0]:g}, {known[1]:g}" if known else ""
                shown = row["gflops"], row["plus_minus"], row["share"], row["paths_s"]
                print(table.row(name, n, *shown, words), flush=True)
    folder = os.environ.get("SEED_TABLES_PICTURES")
    if folder:
        series = {
            f"{name}{words}": [(row["n"], row[key]) for row in rows if row["pair"] == name]
            for name in FIGURE_PAIRS
            for words, key in (("", "gflops"), (", bound", "bound"))
        }
        title = f"figure 4.15 on {setting.threads} threads of this machine, double"
        text = line_chart(title, series, "n", "GFlop/s", log_x=True)
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / "figure_4_15.svg").write_text(text, encoding="utf-8")
        print("drawn in figure_4_15.svg")
    return rows


def _rows(
    pair: Pair,
    dtype: str,
    n: int,
    setting: Setting,
    kept: _Kept,
    who: tuple[str, ...] | None = None,
) -> list[dict[str, Any]]:
    """One row for each contestant, measured in turns; those that were kept are not measured."""
    if who is None:
        is_slow = n > MOST_FOR_LOOPS and not setting.count
        who = ("loopwright",) if is_slow else installed_names()
    facts = {"pair": pair.name, "dtype": dtype, "n": n, "threads": setting.threads}
    found = {name: kept.find(facts | {"who": name}) for name in who}
    missing = tuple(name for name, row in found.items() if row is None)
    if missing:
        seconds, rate = _measured(pair, dtype, n, setting, missing)
        for name in missing:
            mean, half = interval(seconds[name])
            gflops = 2e-9 * n**3 / mean
            row = facts | {"who": name, "seconds": seconds[name], "gflops": gflops}
            row |= {"plus_minus": gflops * half / mean, "bound": rate * 1e-9}
            row |= {"share": gflops / (rate * 1e-9), "paths_s": squarings(n) * mean}
            kept.add(row)
            found[name] = row
    return [row for row in found.values() if row is not None]


def _measured(
    pair: Pair, dtype: str, n: int, setting: Setting, who: tuple[str, ...]
) -> tuple[dict[str, list[float]], float]:
    """Seconds of a call in each round, and the bound in operations a second."""
    rng = np.random.default_rng(setting.seed)
    a, b = (rng.uniform(0.5, 1.5, (n, n)).astype(dtype) for _ in range(2))
    runs = contestants(pair, a, b, who)
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for name, call in runs.items():
        start = time.perf_counter()
        result = call()
        passed = time.perf_counter() - start
        _check(pair, name, result, a, b)
        # The first call of ours compiles; that of others is a round where there is time for few.
        if name != "loopwright" and 2 * passed > MOST_SECONDS:
            seconds[name].append(passed)
    bound = 0.0
    for _ in range(QUICK_ROUNDS if setting.quick else ROUNDS):
        bound = max(bound, _bound(pair, dtype))
        for name, call in runs.items():
            known = seconds[name]
            if known and sum(known) + known[-1] > MOST_SECONDS:
                continue
            if setting.pause:
                time.sleep(setting.pause)
            known.append(_turn(call))
    return seconds, bound * setting.threads


def _turn(call: Callable[[], Any]) -> float:
    """Mean seconds of the calls of one round."""
    count, start = 0, time.perf_counter()
    while True:
        call()
        count += 1
        passed = time.perf_counter() - start
        if passed >= TURN:
            return passed / count


def _bound(pair: Pair, dtype: str) -> float:
    """Operations a second of one core: the units at the clock of the moment, or what they did."""
    plus = "add" if pair.plus == "sub" else pair.plus
    loop = pair_peak(plus, pair.times, dtype)
    loop.run()
    measured = max(loop.amount / _turn(loop.run) for _ in range(2))
    if pair.times == "div":  # machines' data have no row for dividers
        return measured
    ticks = clock()
    hertz = ticks.amount / _turn(ticks.run)
    return max(measured, hertz * model_operations(plus, pair.times, dtype))


def _check(pair: Pair, who: str, result: Any, a: Any, b: Any) -> None:
    """Some rows against NumPy; quotients and products may be rounded otherwise by peers."""
    times = {"add": np.add, "mul": np.multiply, "div": np.divide, "min": np.minimum}[pair.times]
    for i in np.linspace(0, len(a) - 1, 3).astype(int):
        products = times(a[i][:, None], b)
        if pair.plus == "sub":
            right = -products.sum(axis=0)
        else:
            right = {"max": np.maximum, "min": np.minimum}[pair.plus].reduce(products, axis=0)
        near = 64 * len(a) * np.finfo(a.dtype).eps
        if not np.allclose(result[i], right, rtol=near, atol=0):
            raise WrongResultError(f"{who} differs in row {i} of {pair.name}, {a.dtype}")


def _chosen(setting: Setting) -> list[Pair]:
    words = {f"{pair.times}-{pair.plus}": pair for pair in PAIRS.values()}
    chosen = [words[name] for name in setting.kernels if name in words]
    return chosen or list(PAIRS.values())


def _sizes(setting: Setting) -> tuple[int, ...]:
    if setting.count:
        return (setting.count,)
    return QUICK_SIZES if setting.quick and not setting.size else SIZE_CLASSES[setting.size]


def _printed(pair: str, dtype: str, n: int, who: str) -> str:
    """What the dissertation has in the place of this contestant, as a share of its bound."""
    if n not in SIZES:
        return ""
    theirs = {"loopwright": "AOTO", "numba": "icc", "clang": "gcc"}.get(who, who)
    share = SHARES[pair, dtype][theirs][SIZES.index(n)]
    return f"{theirs} {share:.1f}% of {BOUNDS[pair, dtype]:g}"


class _Kept:
    """Rows in a file of JSON lines; without a file none are kept."""

    def __init__(self, name: str | None) -> None:
        self._path = Path(name) if name else None
        self._rows: list[dict[str, Any]] = []
        if self._path is not None and self._path.exists():
            lines = self._path.read_text(encoding="utf-8").splitlines()
            self._rows = [json.loads(line) for line in lines if line]

    def find(self, facts: dict[str, Any]) -> dict[str, Any] | None:
        """The row with these facts."""
        return next((row for row in self._rows if facts.items() <= row.items()), None)

    def add(self, row: dict[str, Any]) -> None:
        self._rows.append(row)
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
