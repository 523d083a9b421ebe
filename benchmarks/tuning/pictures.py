"""Charts as SVG, written by hand: lines with a word for each series, and boxes of quartiles."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

__all__ = ["box_chart", "line_chart"]

Points = Sequence[tuple[float, float]]

_WIDTH, _HEIGHT = 680, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 190, 36, 48
_SAMPLE = 22  # of a line, before its name
_COLOURS = (
    "#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf",
    "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#000000", "#4e79a7",
)  # fmt: skip


def line_chart(
    title: str,
    series: Mapping[str, Points],
    x: str,
    y: str,
    *,
    log_x: bool = False,
    log_y: bool = False,
) -> str:
    """A chart of series of points without those that are not finite; `x`, `y` name the axes.

    Names stand in the order in which the lines lie, by the mean of their height.
    """
    lines = {name: _drawable(points, log_x, log_y) for name, points in series.items()}
    heights = {n: sum(y for _, y in points) / len(points) for n, points in lines.items() if points}
    lines = {name: lines[name] for name in sorted(heights, key=lambda name: -heights[name])}
    every = [point for points in lines.values() for point in points]
    if not every:
        return f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}"/>\n'
    spans = [_span([point[k] for point in every]) for k in (0, 1)]

    def place(point: tuple[float, float]) -> tuple[float, float]:
        shares = [(v - low) / (high - low) for v, (low, high) in zip(point, spans, strict=True)]
        across = _LEFT + shares[0] * (_WIDTH - _LEFT - _RIGHT)
        return across, _HEIGHT - _BOTTOM - shares[1] * (_HEIGHT - _TOP - _BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        _text(_LEFT, 20, title, size=14),
        _text(_LEFT, _HEIGHT - 8, x),
        _text(6, _TOP - 6, y),
    ]
    for tick in _log_ticks(*spans[0]) if log_x else _ticks(*spans[0]):
        across, down = place((tick, spans[1][0]))
        parts.append(_line((across, _TOP), (across, down), "#dddddd"))
        parts.append(_text(across - 8, down + 16, _number(10**tick if log_x else tick)))
    for tick in _log_ticks(*spans[1]) if log_y else _ticks(*spans[1]):
        across, down = place((spans[0][0], tick))
        parts.append(_line((across, down), (_WIDTH - _RIGHT, down), "#dddddd"))
        parts.append(_text(6, down + 4, _number(10**tick if log_y else tick)))
    line = min(16.0, (_HEIGHT - _TOP) / len(lines))
    for number, (name, points) in enumerate(lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        dots = " ".join(f"{a:.1f},{b:.1f}" for a, b in map(place, points))
        # Colours come round again, then with gaps.
        gaps = ' stroke-dasharray="5 3"' if number >= len(_COLOURS) else ""
        parts.append(
            f'<polyline points="{dots}" fill="none" stroke="{colour}" stroke-width="1.8"{gaps}/>'
        )
        left, down = _WIDTH - _RIGHT + 8, _TOP + 10 + line * number
        parts.append(
            f'<line x1="{left}" y1="{down - 4:.1f}" x2="{left + _SAMPLE}" y2="{down - 4:.1f}" '
            f'stroke="{colour}" stroke-width="1.8"{gaps}/>'
        )
        parts.append(_text(left + _SAMPLE + 4, down, name, colour=colour))
    return "\n".join([*parts, "</svg>", ""])


def box_chart(title: str, series: Mapping[str, Sequence[float]], x: str) -> str:
    """For each series its least and largest value, quartiles and median, one below the other."""
    rows = {name: sorted(values) for name, values in series.items() if values}
    if not rows:
        return f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}"/>\n'
    low, high = _span([value for values in rows.values() for value in values] + [1.0])
    height = _TOP + _BOTTOM + 22 * len(rows)
    left = 150

    def place(value: float) -> float:
        return left + (value - low) / (high - low) * (_WIDTH - left - 20)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        _text(left, 20, title, size=14),
        _text(left, height - 8, x),
    ]
    for tick in _ticks(low, high):
        parts.append(_line((place(tick), _TOP), (place(tick), height - _BOTTOM), "#dddddd"))
        parts.append(_text(place(tick) - 8, height - _BOTTOM + 16, _number(tick)))
    for number, (name, values) in enumerate(rows.items()):
        colour, down = _COLOURS[number % len(_COLOURS)], _TOP + 11 + 22 * number
        first, middle, last = (_quantile(values, q) for q in (0.25, 0.5, 0.75))
        parts.append(_line((place(values[0]), down), (place(values[-1]), down), colour))
        parts.append(
            f'<rect x="{place(first):.1f}" y="{down - 6}" height="12" fill="{colour}" '
            f'width="{max(place(last) - place(first), 1):.1f}" fill-opacity="0.4"/>'
        )
        parts.append(_line((place(middle), down - 8), (place(middle), down + 8), "black"))
        parts.append(_text(6, down + 4, name, colour=colour))
    return "\n".join([*parts, "</svg>", ""])


def _quantile(values: Sequence[float], share: float) -> float:
    """Of values in order; between two of them in proportion."""
    at = share * (len(values) - 1)
    low = math.floor(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (at - low) * (values[high] - values[low])


def _drawable(points: Points, log_x: bool, log_y: bool) -> list[tuple[float, float]]:
    found = []
    for a, b in points:
        if not (math.isfinite(a) and math.isfinite(b)) or (log_x and a <= 0) or (log_y and b <= 0):
            continue
        found.append((math.log10(a) if log_x else a, math.log10(b) if log_y else b))
    return found


def _span(values: list[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers, about six."""
    rough = (high - low) / 6
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * k for k in (1, 2, 5, 10) if unit * k >= rough)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    """Logarithms of powers of ten; of 2 and 5 times them too where there are few."""
    digits = (1, 2, 5) if high - low < 3 else (1,)
    powers = range(math.floor(low), math.ceil(high) + 1)
    found = [power + math.log10(digit) for power in powers for digit in digits]
    return [tick for tick in found if low - 1e-9 <= tick <= high + 1e-9]


def _number(value: float) -> str:
    return f"{value:.3g}"


def _text(x: float, y: float, text: str, *, size: int = 11, colour: str = "black") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}">{escape(text)}</text>'


def _line(a: tuple[float, float], b: tuple[float, float], colour: str) -> str:
    ends = f'x1="{a[0]:.1f}" y1="{a[1]:.1f}" x2="{b[0]:.1f}" y2="{b[1]:.1f}"'
    return f'<line {ends} stroke="{colour}"/>'
