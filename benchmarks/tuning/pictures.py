"""Line charts as SVG, written by hand: axes, ticks, one polyline and one word per series."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

__all__ = ["line_chart"]

Points = Sequence[tuple[float, float]]

_WIDTH, _HEIGHT = 640, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 150, 36, 48
_COLOURS = (
    "#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf",
    "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#000000", "#4e79a7",
)  # fmt: skip


def line_chart(
    title: str, series: Mapping[str, Points], x: str, y: str, *, log_x: bool = False
) -> str:
    """A chart of series of points without those that are not finite; `x`, `y` name the axes."""
    lines = {name: _drawable(points, log_x) for name, points in series.items()}
    lines = {name: points for name, points in lines.items() if points}
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
    for tick in _ticks(*spans[0]):
        across, down = place((tick, spans[1][0]))
        parts.append(_line((across, _TOP), (across, down), "#dddddd"))
        parts.append(_text(across - 8, down + 16, _number(10**tick if log_x else tick)))
    for tick in _ticks(*spans[1]):
        across, down = place((spans[0][0], tick))
        parts.append(_line((across, down), (_WIDTH - _RIGHT, down), "#dddddd"))
        parts.append(_text(6, down + 4, _number(tick)))
    for number, (name, points) in enumerate(lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        dots = " ".join(f"{a:.1f},{b:.1f}" for a, b in map(place, points))
        parts.append(
            f'<polyline points="{dots}" fill="none" stroke="{colour}" stroke-width="1.8"/>'
        )
        parts.append(_text(_WIDTH - _RIGHT + 8, _TOP + 10 + 16 * number, name, colour=colour))
    return "\n".join([*parts, "</svg>", ""])


def _drawable(points: Points, log_x: bool) -> list[tuple[float, float]]:
    found = []
    for a, b in points:
        if math.isfinite(a) and math.isfinite(b) and not (log_x and a <= 0):
            found.append((math.log10(a) if log_x else a, b))
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


def _number(value: float) -> str:
    return f"{value:.3g}"


def _text(x: float, y: float, text: str, *, size: int = 11, colour: str = "black") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}">{escape(text)}</text>'


def _line(a: tuple[float, float], b: tuple[float, float], colour: str) -> str:
    ends = f'x1="{a[0]:.1f}" y1="{a[1]:.1f}" x2="{b[0]:.1f}" y2="{b[1]:.1f}"'
    return f'<line {ends} stroke="{colour}"/>'
