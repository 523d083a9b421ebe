"""What the lines of an evaluation say: tables with intervals, bars, the seed's claims, pictures.

Times are those of the judge's lines, in which all contestants of a shape were measured in turns;
what tuning took is from the attempts.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import median

from benchmarks.measure import geometric_mean
from benchmarks.tuning.claims import bars_text, claims_text
from benchmarks.tuning.figures import draw_figures
from benchmarks.tuning.intervals import bootstrap
from benchmarks.tuning.results import Row, Rows, attempts_of, judged_of

__all__ = ["report"]

_COLUMNS = ("of peak", "interval", "least", "x naive", "x numpy", "interval", "of best", "tuned s")


def report(rows: Rows, pictures: Path | None = None) -> str:
    """The tables of every set; pictures go to a directory."""
    parts = []
    for name in dict.fromkeys(row["set"] for row in rows):
        judged, attempts = judged_of(rows, name), attempts_of(rows, name)
        if not judged:
            continue
        parts += [_head(name, judged), _table(judged, attempts), ""]
        parts += [claims_text(judged, attempts), ""]
        parts += [line for line in (bars_text(judged, attempts),) if line]
        refused = {why: who for row in judged.values() for who, why in row["refused"].items()}
        parts += [f"refused: {who}: {why}" for why, who in refused.items()]
        parts.append("")
        if pictures is not None:
            draw_figures(name, judged, attempts, pictures)
    return "\n".join(parts)


def _head(name: str, judged: Mapping[str, Row]) -> str:
    noise = [row["noise"] for row in judged.values() if "noise" in row]
    machines = ", ".join(dict.fromkeys(row.get("machine", "?") for row in judged.values()))
    peak = median(row["peak"] for row in judged.values()) / 1e9
    words = f"== {name}: {len(judged)} shapes, {machines}, peak {peak:.1f} GFLOPS"
    if noise:
        middle, worst = median(n[0] for n in noise), max(n[1] for n in noise)
        words += f"; halves of the rounds differ by {middle:.1%} (median), {worst:.1%} (worst)"
    return words


def _table(judged: Mapping[str, Row], attempts: Mapping[tuple[str, str], Row]) -> str:
    widths = [9, 16, 8, 9, 9, 16, 9, 10]
    head = "".join(f"{c:>{w}s}" for c, w in zip(_COLUMNS, widths, strict=True))
    lines = [f"{'contestant':23s}{'shapes':>7s}{head}{'trees':>7s}"]
    for label in labels_of(judged):
        own = {shape: row for shape, row in judged.items() if label in row["times"]}
        shares = [row["operations"] / row["times"][label] / row["peak"] for row in own.values()]
        tuned = [attempts[shape, label] for shape in own if (shape, label) in attempts]
        best = [min(row["times"].values()) / row["times"][label] for row in own.values()]
        naive, _ = _against(own, label, "naive")
        numpy, wide = _against(own, label, "numpy")
        cells = [
            f"{geometric_mean(shares):.3f}",
            _interval(bootstrap(shares, geometric_mean)),
            f"{min(shares):.3f}",
            naive,
            numpy,
            wide,
            f"{geometric_mean(best):.3f}",
            f"{median(row['spent'] for row in tuned):.3g}" if tuned else "-",
        ]
        trees = f"{median(row['measurements'] for row in tuned):.0f}" if tuned else "-"
        row = "".join(f"{c:>{w}s}" for c, w in zip(cells, widths, strict=True))
        lines.append(f"{label:23s}{len(own):7d}{row}{trees:>7s}")
    return "\n".join(lines)


def labels_of(judged: Mapping[str, Row]) -> list[str]:
    """Every contestant that has a time on some shape."""
    return list(dict.fromkeys(label for row in judged.values() for label in row["times"]))


def _against(own: Mapping[str, Row], label: str, other: str) -> tuple[str, str]:
    """How many times as fast as another one, paired by shape, with the interval."""
    times = [row["times"] for row in own.values() if other in row["times"]]
    if not times:
        return "-", "-"
    ratios = [t[other] / t[label] for t in times]
    return f"{geometric_mean(ratios):.3f}", _interval(bootstrap(ratios, geometric_mean))


def _interval(pair: tuple[float, float]) -> str:
    return f"{pair[0]:.3f}-{pair[1]:.3f}"
