"""What is measured and what is sought: a grid of points, a field on it, a surface below it.

Lengths are in km, densities in g/cm^3, fields in mGal. The surface z(x, y) is the depth of the
interface, h far away from all relief; the field at a point (x_u, y_v) of the ground is

    f dsigma dx dy sum_ij [ 1 / sqrt(r^2 + z_ij^2) - 1 / sqrt(r^2 + h^2) ],
    r^2 = (x_u - x_i)^2 + (y_v - y_j)^2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["GRAVITY", "Survey", "bumps", "synthetic_survey"]

Array = np.ndarray[Any, np.dtype[np.float64]]

GRAVITY = 6.6743  # mGal km^2 / (km^3 g/cm^3)
SIDE = 32.0  # of the square that is surveyed
DEPTH = 3.0
JUMP = 0.25  # of density
# Place and width of bumps as shares of the side, height as a share of the depth: (x, y, w, a).
RELIEF = (
    (0.35, 0.40, 0.12, -0.33),
    (0.65, 0.60, 0.13, 0.27),
    (0.70, 0.25, 0.10, -0.17),
)


@dataclass(frozen=True, slots=True)
class Survey:
    """A measured field and what is known beforehand."""

    x: Array  # of the rows of the grid
    y: Array  # of its columns
    depth: float  # h, of the surface far away
    scale: float  # f dsigma dx dy
    field: Array  # [x, y]

    @property
    def points(self) -> int:
        return self.x.size * self.y.size

    @property
    def matrix_bytes(self) -> int:
        """Bytes of the derivative of the field by the surface, a dense matrix of doubles."""
        return 8 * self.points**2

    @property
    def is_even(self) -> bool:
        """Whether the rows of the grid are equally far apart, but for errors of rounding."""
        steps = np.diff(self.x)
        return bool(np.all(np.abs(steps - steps[:1]) <= 4e-16 * np.abs(self.x).max()))

    def start(self) -> Array:
        """The surface from which searches start: flat."""
        return np.full((self.x.size, self.y.size), self.depth)


def bumps(x: Array, y: Array, depth: float = DEPTH, relief: Any = RELIEF) -> Array:
    """A surface with Gaussian bumps: depth + sum a exp(-distance^2 / 2 w^2)."""
    surface = np.full((x.size, y.size), depth)
    for at_x, at_y, width, height in relief:
        square = (x[:, None] - at_x * SIDE) ** 2 + (y - at_y * SIDE) ** 2
        surface += height * depth * np.exp(-square / (2 * (width * SIDE) ** 2))
    return surface


def synthetic_survey(
    rows: int, columns: int | None = None, *, noise: float = 0.0, seed: int = 1
) -> tuple[Survey, Array]:
    """A survey of a known surface, and that surface.

    `noise` is the norm of errors drawn from a normal distribution over that of the field.
    """
    columns = rows if columns is None else columns
    x, y = (np.arange(count) * (SIDE / count) for count in (rows, columns))
    scale = GRAVITY * JUMP * (SIDE / rows) * (SIDE / columns)
    surface = bumps(x, y)
    field = np.empty((rows, columns))
    for u in range(rows):  # row by row: as much memory as the grid times one of its rows
        square = ((x[u] - x) ** 2)[None, :, None] + ((y[:, None] - y) ** 2)[:, None, :]
        near = 1 / np.sqrt(square + surface**2) - 1 / np.sqrt(square + DEPTH**2)
        field[u] = scale * near.sum(axis=(1, 2))
    if noise:
        drawn = np.random.default_rng(seed).normal(size=field.shape)
        field += noise * np.linalg.norm(field) / np.linalg.norm(drawn) * drawn
    return Survey(x, y, DEPTH, scale, field), surface
