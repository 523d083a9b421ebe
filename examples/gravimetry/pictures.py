"""Pictures of an inversion as SVG: surfaces shaded by their depth, and residuals step by step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["convergence_chart", "surface_picture"]

Array = np.ndarray[Any, np.dtype[np.float64]]

_PANEL = 288  # pixels of one surface
_COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd")


def surface_picture(surfaces: Mapping[str, Array]) -> str:
    """Surfaces side by side, dark where they are deep, on one scale, with their extremes."""
    low = min(float(z.min()) for z in surfaces.values())
    high = max(float(z.max()) for z in surfaces.values())
    width, height = (_PANEL + 16) * len(surfaces), _PANEL + 40
    parts = [_head(width, height)]
    for number, (name, z) in enumerate(surfaces.items()):
        left = number * (_PANEL + 16) + 8
        parts.append(_text(left, 18, f"{name}: {z.min():.2f} to {z.max():.2f} km"))
        across, down = _PANEL / z.shape[0], _PANEL / z.shape[1]
        for i, j in np.ndindex(z.shape):
            share = (z[i, j] - low) / ((high - low) or 1)
            at = f'x="{left + i * across:.2f}" y="{28 + j * down:.2f}"'
            size = f'width="{across + 0.3:.2f}" height="{down + 0.3:.2f}"'  # no gaps between them
            parts.append(f'<rect {at} {size} fill="{_shade(share)}"/>')
    return "\n".join([*parts, "</svg>", ""])


def convergence_chart(title: str, series: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Residuals on a logarithmic axis over products with J^T J + a I, or whatever x counts."""
    width, height, left, bottom, top = 640, 400, 60, 350, 40
    points = [point for line in series.values() for point in line]
    most = max(x for x, _ in points) or 1
    decades = [math.log10(y) for _, y in points]
    low = math.floor(min(decades))
    high = max(low + 1, math.ceil(max(decades) - 1e-9))

    def place(x: float, y: float) -> tuple[float, float]:
        share = (math.log10(y) - low) / (high - low)
        return left + (width - left - 20) * x / most, bottom - share * (bottom - top)

    parts = [_head(width, height), _text(left, 20, title)]
    for decade in range(low, high + 1):
        _, y = place(0, 10.0**decade)
        parts.append(
            f'<line x1="{left}" y1="{y:.1f}" x2="{width - 20}" y2="{y:.1f}" stroke="#ddd"/>'
        )
        parts.append(_text(8, y + 4, f"1e{decade}"))
    parts.append(_text(left, bottom + 20, "0"))
    parts.append(_text(width - 60, bottom + 20, f"{most:g}"))
    parts.append(_text(width // 2, bottom + 20, "products"))
    for number, (name, line) in enumerate(series.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        dots = " ".join("{:.1f},{:.1f}".format(*place(x, y)) for x, y in line)
        parts.append(f'<polyline points="{dots}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(_text(width - 220, top + 16 * (number + 1), name, colour))
    return "\n".join([*parts, "</svg>", ""])


def _shade(share: float) -> str:
    """Yellow for what is high, through green to dark blue for what is deep."""
    stops = ((253, 231, 37), (33, 145, 140), (68, 1, 84))
    at = min(1, int(2 * share))
    part = 2 * share - at
    mixed = [round(a + (b - a) * part) for a, b in zip(stops[at], stops[at + 1], strict=True)]
    return f"rgb({mixed[0]},{mixed[1]},{mixed[2]})"


def _head(width: int, height: int) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="12">\n'
        f'<rect width="{width}" height="{height}" fill="white"/>'
    )


def _text(x: float, y: float, text: str, colour: str = "black") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" fill="{colour}">{text}</text>'
