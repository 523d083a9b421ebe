"""Shortest routes on a grid of roads with barriers, and a picture of one of them.

Run it with `python examples/road_grid.py [PICTURE.svg]`. Crossings are vertices; roads between
neighbours have lengths that vary, barriers take crossings away.
"""

import sys
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np

import loopwright as lw

SIDE = 24


def main(picture: str | None = None) -> None:
    """Make the grid, find all shortest routes, draw one of them."""
    rng = np.random.default_rng(7)
    is_open = np.ones((SIDE, SIDE), bool)
    for column in range(4, SIDE - 1, 5):  # walls with one gap each, at alternating ends
        is_open[:, column] = False
        gap = rng.integers(1, 5)
        is_open[gap if column % 2 else SIDE - 1 - gap, column] = True
    weights = np.full((SIDE * SIDE, SIDE * SIDE), np.inf)
    for row in range(SIDE):
        for column in range(SIDE):
            for down, right in ((0, 1), (1, 0)):
                to = row + down, column + right
                if max(to) < SIDE and is_open[row, column] and is_open[to]:
                    ends = row * SIDE + column, to[0] * SIDE + to[1]
                    weights[ends] = weights[ends[::-1]] = 1 + rng.random()
    needed = lw.paths.bytes_needed(len(weights), weights.dtype, predecessors=True)
    print(f"{len(weights)} crossings, {np.isfinite(weights).sum() // 2} roads, {needed:,} bytes")
    routes = lw.paths.shortest(weights, predecessors=True)
    start, goal = 0, SIDE * SIDE - 1
    path = routes.path(start, goal)
    length = sum(weights[i, j] for i, j in pairwise(path))
    print(f"from corner to corner: {routes.distances[start, goal]:.3f} over {len(path)} crossings")
    assert np.isclose(length, routes.distances[start, goal])
    reached = np.isfinite(routes.distances[start])
    print(f"{reached.sum()} crossings are reached, {(~is_open).sum()} are barred")
    place = Path(picture or Path(tempfile.mkdtemp()) / "road_grid.svg")
    place.write_text(_drawing(is_open, routes.distances[start], path), encoding="utf-8")
    print(f"drawn in {place.name}")


def _drawing(is_open: np.ndarray, distance: np.ndarray, path: list[int]) -> str:
    """Crossings shaded by their distance from the start, barriers black, the route a line."""
    size = 20
    most = distance[np.isfinite(distance)].max()
    parts = []
    for place, value in enumerate(distance.tolist()):
        row, column = divmod(place, SIDE)
        shade = 255 - int(170 * value / most) if is_open[row, column] else 0
        colour = f"rgb({shade},{shade},{255 if is_open[row, column] else 0})"
        at = f'x="{column * size}" y="{row * size}" width="{size - 1}" height="{size - 1}"'
        parts.append(f'<rect {at} fill="{colour}"/>')
    points = " ".join(f"{v % SIDE * size + size // 2},{v // SIDE * size + size // 2}" for v in path)
    parts.append(f'<polyline points="{points}" fill="none" stroke="red" stroke-width="4"/>')
    side = SIDE * size
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{side}" height="{side}">\n{body}\n</svg>\n'
    )


if __name__ == "__main__":
    main(*sys.argv[1:2])
