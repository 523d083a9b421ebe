"""What the lines of an evaluation say: tables with intervals, profiles, pictures, claims."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from statistics import mean
from typing import Any

from benchmarks.measure import geometric_mean
from benchmarks.tuning.pictures import line_chart

__all__ = ["anytime_curve", "bootstrap", "performance_profile", "report"]

_DRAWS = 1000
_TAUS = [1 + k / 100 for k in range(101)]
# What LoopTune's paper says of its policy.
CLAIMS = (
    ("the policy beats every search", "88% of shapes, 1.8 times"),
    ("best of all contestants", "67%"),
    ("at least 90% of the best", "92%"),
    ("times NumPy", "0.97"),
)
_UNTUNED = ("naive", "construction", "numpy", "policy")

Rows = Sequence[dict[str, Any]]
# Shape -> contestant (with its budget) -> seconds.
Times = dict[str, dict[str, float]]


def report(rows: Rows, pictures: Path | None = None) -> str:
    """The tables of every set; pictures go to a directory."""
    parts = []
    for name in dict.fromkeys(row["set"] for row in rows):
        chosen = [row for row in rows if row["set"] == name]
        times = _times(chosen)
        parts += [f"== {name}, {len(times)} shapes", _table(chosen, times), _claims(times), ""]
        if pictures is not None:
            pictures.mkdir(parents=True, exist_ok=True)
            profile = performance_profile(times)
            chart = line_chart(
                f"{name}: performance profile", profile, "times the best", "share of shapes"
            )
            (pictures / f"{name}_profile.svg").write_text(chart, encoding="utf-8")
            curve = line_chart(
                f"{name}: best so far", anytime_curve(chosen), "seconds of tuning (log)",
                "share of the peak", log_x=True,
            )  # fmt: skip
            (pictures / f"{name}_anytime.svg").write_text(curve, encoding="utf-8")
    return "\n".join(parts)


def _label(row: dict[str, Any]) -> str:
    return row["who"] if row["who"] in _UNTUNED else f"{row['who']} {row['budget']:g} s"


def _times(rows: Rows) -> Times:
    found: Times = {}
    for row in rows:
        found.setdefault(row["shape"], {})[_label(row)] = row["seconds"]
    return found


def _table(rows: Rows, times: Times) -> str:
    columns = ("of peak", "interval", "least", "times naive", "of the best", "tuned s", "trees")
    lines = [f"{'contestant':18s}" + "".join(f"{c:>16s}" for c in columns)]
    for label in dict.fromkeys(map(_label, rows)):
        own = [row for row in rows if _label(row) == label]
        shares = [row["operations"] / row["seconds"] / row["peak"] for row in own]
        low, high = bootstrap(shares, geometric_mean)
        gains = [t["naive"] / t[label] for t in times.values() if label in t and "naive" in t]
        near = [min(t.values()) / t[label] for t in times.values() if label in t]
        cells = (
            f"{geometric_mean(shares):.3f}",
            f"{low:.3f} to {high:.3f}",
            f"{min(shares):.3f}",
            f"{geometric_mean(gains):.2f}" if gains else "-",
            f"{geometric_mean(near):.3f}",
            f"{mean(row['spent'] for row in own):.3f}",
            f"{mean(row['measurements'] for row in own):.0f}",
        )
        lines.append(f"{label:18s}" + "".join(f"{c:>16s}" for c in cells))
    return "\n".join(lines)


def bootstrap(
    values: Sequence[float], of: Callable[[Sequence[float]], float], seed: int = 0
) -> tuple[float, float]:
    """The interval in which 95% of a statistic's values lie, over shapes drawn anew."""
    random = Random(seed)
    drawn = sorted(of(random.choices(values, k=len(values))) for _ in range(_DRAWS))
    return drawn[int(0.025 * _DRAWS)], drawn[int(0.975 * _DRAWS) - 1]


def performance_profile(times: Times) -> dict[str, list[tuple[float, float]]]:
    """For every contestant the share of shapes on which it is within a factor of the best."""
    labels = dict.fromkeys(label for t in times.values() for label in t)
    found = {}
    for label in labels:
        ratios = [t[label] / min(t.values()) for t in times.values() if label in t]
        found[label] = [(tau, sum(r <= tau for r in ratios) / len(ratios)) for tau in _TAUS]
    return found


def anytime_curve(rows: Rows) -> dict[str, list[tuple[float, float]]]:
    """For every search the share of the peak of its best so far, geometric mean over shapes."""
    found = {}
    for label in dict.fromkeys(map(_label, rows)):
        own = [row for row in rows if _label(row) == label and row["trace"]]
        if not own:
            continue
        moments = sorted({round(point[0], 3) for row in own for point in row["trace"]})
        points = []
        for moment in moments:
            shares = [_share_at(row, moment) for row in own]
            if all(share > 0 for share in shares):
                points.append((moment, geometric_mean(shares)))
        found[label] = points
    return found


def _share_at(row: dict[str, Any], moment: float) -> float:
    best = [seconds for at, seconds in row["trace"] if round(at, 3) <= moment]
    return row["operations"] / min(best) / row["peak"] if best and math.isfinite(min(best)) else 0.0


def _claims(times: Times) -> str:
    """The claims of the paper beside the same numbers of ours, for policy and construction."""
    lines = [f"{'claim of LoopTune':34s}{'paper':>26s}{'policy':>20s}{'construction':>20s}"]
    ours = {who: _claimed(times, who) for who in ("policy", "construction")}
    for number, (what, paper) in enumerate(CLAIMS):
        cells = [ours[who][number] for who in ("policy", "construction")]
        lines.append(f"{what:34s}{paper:>26s}{cells[0]:>20s}{cells[1]:>20s}")
    return "\n".join(lines)


def _claimed(times: Times, who: str) -> list[str]:
    having = [t for t in times.values() if who in t]
    if not having:
        return ["not measured"] * len(CLAIMS)
    searches = [
        (min(v for k, v in t.items() if k not in _UNTUNED), t[who])
        for t in having
        if any(k not in _UNTUNED for k in t)
    ]
    beats = "no search"
    if searches:
        share = sum(own < other for other, own in searches) / len(searches)
        beats = f"{share:.0%}, {geometric_mean(other / own for other, own in searches):.2f} times"
    best = sum(t[who] <= min(t.values()) for t in having) / len(having)
    near = sum(t[who] <= min(t.values()) / 0.9 for t in having) / len(having)
    numpy = [t["numpy"] / t[who] for t in having if "numpy" in t]
    return [
        beats,
        f"{best:.0%}",
        f"{near:.0%}",
        f"{geometric_mean(numpy):.3f}" if numpy else "no NumPy",
    ]
