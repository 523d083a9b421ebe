"""The pictures of an evaluation: performance profile, anytime curve, the seed's figures.

NAME_profile    share of shapes on which a contestant is within a factor of the best
NAME_anytime    best so far of the searches, as a share of the peak
NAME_figure9    distribution of speed-ups over the naive nest (LoopTune's figure 9)
NAME_figure10a  best state with at most so many actions (figure 10, above)
NAME_figure10b  when the last state with so many actions was met (figure 10, below)
NAME_figure11a  seconds of tuning of each contestant, shapes in order (figure 11a)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from benchmarks.measure import geometric_mean
from benchmarks.tuning.pictures import box_chart, line_chart
from benchmarks.tuning.results import Row

__all__ = ["anytime_curve", "depth_curves", "draw_figures", "performance_profile", "speed_ups"]

_TAUS = [1 + k / 100 for k in range(101)]
_MOMENTS = 60  # points of an anytime curve

Curves = dict[str, list[tuple[float, float]]]
Attempts = Mapping[tuple[str, str], Row]


def draw_figures(
    name: str, judged: Mapping[str, Row], attempts: Attempts, directory: Path
) -> list[Path]:
    """Write the pictures of a set; those without anything to draw are left out."""
    directory.mkdir(parents=True, exist_ok=True)
    rates, times = depth_curves(judged, attempts)
    profile, curve = performance_profile(judged), anytime_curve(judged, attempts)
    charts = {
        "profile": line_chart(
            f"{name}: performance profile", profile, "times the best", "share of shapes"
        ),
        "figure9": box_chart(
            f"{name}: speed-up over the naive nest", speed_ups(judged), "times the naive nest"
        ),
    }
    if curve:
        charts["anytime"] = line_chart(
            f"{name}: best so far", curve, "seconds of tuning (log)", "share of the peak",
            log_x=True,
        )  # fmt: skip
    if rates:
        charts["figure10a"] = line_chart(
            f"{name}: best state with at most so many actions", rates, "actions",
            "share of the peak",
        )  # fmt: skip
        charts["figure10b"] = line_chart(
            f"{name}: when the last state with so many actions was met", times, "actions",
            "seconds (log)", log_y=True,
        )  # fmt: skip
    spent = tuning_times(attempts, judged)
    if spent:
        charts["figure11a"] = line_chart(
            f"{name}: time of tuning", spent, "share of shapes", "seconds (log)", log_y=True
        )
    files = [directory / f"{name}_{kind}.svg" for kind in charts]
    for file, chart in zip(files, charts.values(), strict=True):
        file.write_text(chart, encoding="utf-8")
    return files


def performance_profile(judged: Mapping[str, Row]) -> Curves:
    """For every contestant the share of shapes on which it is within a factor of the best."""
    found: Curves = {}
    for label in dict.fromkeys(label for row in judged.values() for label in row["times"]):
        times = [row["times"] for row in judged.values() if label in row["times"]]
        ratios = [t[label] / min(t.values()) for t in times]
        found[label] = [(tau, sum(r <= tau for r in ratios) / len(ratios)) for tau in _TAUS]
    return found


def _searched(judged: Mapping[str, Row], attempts: Attempts) -> dict[str, list[tuple[Row, Row]]]:
    """Attempts with a trace of several points beside the judge's lines, by label."""
    found: dict[str, list[tuple[Row, Row]]] = {}
    for (shape, label), row in attempts.items():
        if shape in judged and row["trace"]:
            found.setdefault(label, []).append((row, judged[shape]))
    return found


def anytime_curve(judged: Mapping[str, Row], attempts: Attempts) -> Curves:
    """For every search the share of the peak of its best so far, geometric mean over shapes."""
    found: Curves = {}
    for label, pairs in _searched(judged, attempts).items():
        begin = max(row["trace"][0][0] for row, _ in pairs)  # from here on every shape has a best
        end = max(row["trace"][-1][0] for row, _ in pairs)
        ratio = (max(end, begin) / begin) ** (1 / _MOMENTS) if begin > 0 else 1.0
        moments = [begin * ratio**k for k in range(_MOMENTS + 1)]
        found[label] = [
            (moment, geometric_mean(_share_at(row, one, moment) for row, one in pairs))
            for moment in dict.fromkeys(moments)
        ]
    return found


def _share_at(row: Row, judged: Row, moment: float) -> float:
    best = min(t for at, t in row["trace"] if at <= moment * (1 + 1e-9))
    return float(judged["operations"] / best / judged["peak"])


def speed_ups(judged: Mapping[str, Row]) -> dict[str, list[float]]:
    """How many times as fast as the naive nest every contestant is, by shape."""
    found: dict[str, list[float]] = {}
    for row in judged.values():
        for label, seconds in row["times"].items():
            if "naive" in row["times"] and label != "naive":
                found.setdefault(label, []).append(row["times"]["naive"] / seconds)
    return found


def depth_curves(judged: Mapping[str, Row], attempts: Attempts) -> tuple[Curves, Curves]:
    """By number of actions: share of the peak of the best state so deep, and when it was met.

    Means over shapes; a search that did not come so deep on a shape has there what it had before.
    """
    rates: Curves = {}
    times: Curves = {}
    for label, pairs in _searched(judged, attempts).items():
        pairs = [pair for pair in pairs if pair[0].get("depths")]
        if not pairs:
            continue
        deepest = max(point[0] for row, _ in pairs for point in row["depths"])
        rates[label], times[label] = [], []
        for depth in range(deepest + 1):
            shares, moments = [], []
            for row, one in pairs:
                points = [point for point in row["depths"] if point[0] <= depth]
                best = min((p[1] for p in points), default=math.inf)
                if math.isfinite(best):
                    shares.append(one["operations"] / best / one["peak"])
                    moments.append(max(p[2] for p in points))
            if shares:
                rates[label].append((depth, geometric_mean(shares)))
                times[label].append((depth, sum(moments) / len(moments)))
    return rates, times


def tuning_times(attempts: Attempts, judged: Mapping[str, Row]) -> Curves:
    """Seconds of tuning of every contestant on its shapes, from the quickest to the slowest."""
    spent: dict[str, list[float]] = {}
    for (shape, label), row in attempts.items():
        if shape in judged and row["spent"] > 0:
            spent.setdefault(label, []).append(row["spent"])
    return {
        label: [((k + 1) / len(values), value) for k, value in enumerate(sorted(values))]
        for label, values in spent.items()
    }
