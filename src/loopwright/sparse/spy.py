"""A picture of where the entries of a tensor lie, as an SVG that needs nothing else."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["occupancy", "spy_svg"]

_CELLS = 64
_PIXELS = 192


def occupancy(
    shape: Sequence[int], coordinates: Sequence[NDArray[np.int64]], cells: int = _CELLS
) -> NDArray[np.int64]:
    """How many entries fall into each cell of a grid over the first two dimensions.

    Further dimensions are projected away; a dimension shorter than the grid has a cell per index.
    """
    sizes = [*shape, 1, 1][:2]
    places = [*coordinates][:2]
    while len(places) < 2:
        places.append(np.zeros_like(places[0]) if places else np.zeros(0, np.int64))
    counts = [min(max(size, 1), cells) for size in sizes]
    # In floating point a huge index times the number of cells cannot overflow.
    at = [
        np.minimum((place * (count / max(size, 1))).astype(np.int64), count - 1)
        for place, size, count in zip(places, sizes, counts, strict=True)
    ]
    flat = np.bincount(at[0] * counts[1] + at[1], minlength=counts[0] * counts[1])
    return flat.reshape(counts)


def spy_svg(shape: Sequence[int], coordinates: Sequence[NDArray[np.int64]], title: str) -> str:
    """The picture, darker where more entries lie; `title` is read to those who cannot see it."""
    grid = occupancy(shape, coordinates)
    rows, columns = grid.shape
    side = _PIXELS / max(rows, columns)
    height, width = round(rows * side, 2), round(columns * side, 2)
    most = max(int(grid.max(initial=0)), 1)
    runs = [
        f'<rect x="{start}" y="{row}" width="{stop - start}" height="1" opacity="{shade}"/>'
        for row in range(rows)
        for start, stop, shade in _runs(grid[row], most)
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" height="{height}" '
        f'viewBox="0 0 {columns} {rows}" shape-rendering="crispEdges">'
        f"<title>{title}</title>"
        f'<rect width="{columns}" height="{rows}" fill="none" stroke="currentColor" '
        'stroke-width="1" vector-effect="non-scaling-stroke"/>'
        f'<g fill="currentColor">{"".join(runs)}</g></svg>'
    )


def _runs(row: NDArray[np.int64], most: int) -> list[tuple[int, int, float]]:
    """(start, stop, shade) of neighbouring cells of one shade; few rectangles draw fast."""
    # A lone entry must stay visible beside a dense block.
    shades = np.where(row > 0, np.round(0.3 + 0.7 * np.sqrt(row / most), 2), 0.0)
    edges = np.flatnonzero(np.diff(shades)) + 1
    bounds = [0, *edges.tolist(), len(row)]
    return [
        (start, stop, float(shades[start]))
        for start, stop in itertools.pairwise(bounds)
        if shades[start] > 0
    ]
