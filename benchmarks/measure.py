"""Timing competitors side by side in one run, and comparing what was found with a bar.

Competitors take turns (A, B, C, A, B, C, ...), so that a change of the machine's state meets all
of them. A turn repeats a call until it has lasted long enough; the best call of a turn counts, and
of several rounds the best turn: whatever disturbs a call only makes it longer.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

__all__ = [
    "Bar",
    "Outcome",
    "Setting",
    "Table",
    "Times",
    "WrongResultError",
    "check_close",
    "check_equal",
    "fastest",
    "geometric_mean",
    "race",
    "ratios",
    "seconds_by_name",
    "summary",
    "values_of",
]

TURN_SECONDS = 0.02
_MUCH_SLOWER = 3.0  # than the fastest: such a competitor is measured in two rounds only

Call = Callable[[], Any]


class WrongResultError(AssertionError):
    """A competitor computed something else than the reference."""


@dataclass(frozen=True, slots=True)
class Setting:
    """How thorough a run is; threads are already fixed by the environment."""

    quick: bool = False  # small sizes and few rounds
    threads: int = 1
    seed: int = 1  # of everything drawn at random
    kernels: tuple[str, ...] = ()  # of the corpus, by name; empty: all that the benchmark races
    size: str = ""  # class of sizes of the corpus; empty: what the benchmark thinks right
    count: int = 0  # of random programs; 0: what the benchmark thinks right
    families: tuple[str, ...] = ()  # of the wide corpus, by name; empty: all
    aside: bool = False  # of the wide corpus the programs that are set aside, and no others
    reassoc: bool = False  # sums may be regrouped, by peers as well
    net: bool = False  # also what `cc --measure` and the race of calls make of it
    rows: str = ""  # a file that rows are added to as they come, and whose rows are not repeated
    folder: str = ""  # a checkout of somebody else's programs
    presets: tuple[str, ...] = ()  # of those programs; empty: what the benchmark thinks right
    check: bool = False  # only whether results are right
    jobs: int = 1  # programs that are prepared side by side
    minutes: float = 0.0  # after which no further program begins; 0: all of them

    @property
    def rounds(self) -> int:
        return 3 if self.quick else 7

    @property
    def pause(self) -> float:
        """Seconds between turns: workers of BLAS spin for a while after a call (environment.py)."""
        return 0.1 if self.threads > 1 else 0.0


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of one competitor, the best call of each round."""

    rounds: tuple[float, ...]

    @property
    def best(self) -> float:
        return min(self.rounds)


@dataclass(frozen=True, slots=True)
class Bar:
    """A number we hold ourselves to, beside the number measured."""

    what: str
    measured: float  # NaN when it could not be measured
    wanted: float
    at_most: bool = False  # a limit from above; else from below
    unit: str = ""

    @property
    def holds(self) -> bool:
        return self.measured <= self.wanted if self.at_most else self.measured >= self.wanted

    @property
    def verdict(self) -> str:
        """Whether the bar holds, in words."""
        if math.isnan(self.measured):
            return "was not measured"
        if self.holds:
            return "holds"
        return f"falls short by {_short(abs(self.measured - self.wanted))}{self.unit}"

    def __str__(self) -> str:
        limit = "at most" if self.at_most else "at least"
        bar = f"{limit} {_short(self.wanted)}{self.unit}"
        return f"{self.what}: {_short(self.measured)}{self.unit}, bar {bar}: {self.verdict}"

    def record(self) -> dict[str, Any]:
        """Plain data for JSON, which has no NaN."""
        facts = asdict(self) | {"holds": self.holds, "verdict": self.verdict}
        return facts | {"measured": None if math.isnan(self.measured) else self.measured}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a benchmark found."""

    rows: tuple[dict[str, Any], ...]  # raw numbers, plain data
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Lines of aligned cells, to be printed one by one as they are measured."""

    columns: tuple[tuple[str, str], ...]  # title and format, such as 8.2f; 20s aligns to the left

    def head(self) -> str:
        return self._line([title for title, _ in self.columns])

    def row(self, *values: Any) -> str:
        """One line; None is a dash."""
        cells = [
            "-" if value is None else format(value, spec)
            for value, (_, spec) in zip(values, self.columns, strict=True)
        ]
        return self._line(cells)

    def _line(self, cells: Sequence[str]) -> str:
        parts = []
        for cell, (title, spec) in zip(cells, self.columns, strict=True):
            width = max(len(title), int(spec.partition(".")[0].rstrip("dfs%") or 0))
            parts.append(cell.strip().ljust(width) if spec.endswith("s") else cell.rjust(width))
        return "  ".join(parts).rstrip()


def race(runs: Mapping[str, Call], setting: Setting, rounds: int | None = None) -> dict[str, Times]:
    """Time every call in turns; each is called once before, so that it is compiled and warm."""
    for run in runs.values():
        run()
    found: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(max(2, setting.rounds if rounds is None else rounds)):
        limit = _MUCH_SLOWER * min((min(x) for x in found.values() if x), default=math.inf)
        for name, run in runs.items():
            if number >= 2 and min(found[name]) > limit:
                continue
            if setting.pause:
                time.sleep(setting.pause)
            found[name].append(fastest(run))
    return {name: Times(tuple(seconds)) for name, seconds in found.items()}


def fastest(run: Call, least_seconds: float = TURN_SECONDS) -> float:
    """Seconds of the fastest call among as many as fit into one turn, one at least."""
    best = math.inf
    clock = time.perf_counter
    end = clock() + least_seconds
    while True:
        start = clock()
        run()
        stop = clock()
        best = min(best, stop - start)
        if stop >= end:
            return best


def ratios(times: Mapping[str, Times], ours: str = "loopwright") -> dict[str, float]:
    """How many times as fast `ours` is as each other competitor."""
    return {name: t.best / times[ours].best for name, t in times.items() if name != ours}


def geometric_mean(values: Iterable[float]) -> float:
    """The geometric mean; NaN of nothing."""
    logs = [math.log(value) for value in values]
    return math.exp(math.fsum(logs) / len(logs)) if logs else math.nan


def values_of(rows: Iterable[Mapping[str, Any]], key: str) -> list[float]:
    """What the rows say under `key`, of those that know it."""
    return [row[key] for row in rows if row[key] is not None]


def summary(
    rows: Sequence[Mapping[str, Any]], key: str, pick: Callable[[list[float]], Any]
) -> float:
    """One number for all rows; NaN when a row lacks it, for then the bar was not met by all."""
    found = values_of(rows, key)
    return float(pick(found)) if len(found) == len(rows) else math.nan


def seconds_by_name(times: Mapping[str, Times]) -> dict[str, list[float]]:
    """All rounds of all competitors, as plain data."""
    return {name: list(t.rounds) for name, t in times.items()}


def check_close(result: Any, reference: Any, terms: int) -> None:
    """Raise WrongResultError unless the arrays agree up to the rounding of sums of products.

    `terms` is how many products each sum has. Meant for non-negative operands, whose sums bound
    every partial sum.
    """
    found, right = np.asarray(result), np.asarray(reference)
    _check_shape(found, right)
    scale = float(np.max(np.abs(right), initial=0.0))
    allowed = 8 * math.sqrt(terms) * float(np.finfo(found.dtype).eps) * scale
    error = float(np.max(np.abs(found - right), initial=0.0))
    if not error <= allowed:  # a NaN is wrong too
        raise WrongResultError(f"largest error {error:g}, where {allowed:g} is rounding")


def check_equal(result: Any, reference: Any) -> None:
    """Raise WrongResultError unless the arrays are equal."""
    found, right = np.asarray(result), np.asarray(reference)
    _check_shape(found, right)
    wrong = int(np.count_nonzero(found != right))
    if wrong:
        raise WrongResultError(f"{wrong} of {found.size} elements differ")


def _check_shape(found: Any, right: Any) -> None:
    if found.shape != right.shape:
        raise WrongResultError(f"shape {found.shape}, expected {right.shape}")


def _short(value: float) -> str:
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
