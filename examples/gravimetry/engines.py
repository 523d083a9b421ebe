"""Who computes fields and products with the derivative: Loopwright, with or without J, or NumPy."""

from __future__ import annotations

import os
from typing import Any, Protocol

import numpy as np
from examples.gravimetry import kernels
from examples.gravimetry.survey import Survey

import loopwright as lw

__all__ = ["DenseEngine", "Engine", "MatrixFreeEngine", "NumpyEngine", "available_bytes", "fitting"]

Array = np.ndarray[Any, np.dtype[np.float64]]


class Engine(Protocol):
    """The operator A and its derivative J at the last surface it was linearised at."""

    name: str

    def field(self, z: Array) -> Array:
        """A(z)."""

    def linearise(self, z: Array) -> None:
        """Make J = A'(z) what products are taken with."""

    def normal(self, p: Array) -> Array:
        """J^T J p."""

    def transposed(self, w: Array) -> Array:
        """J^T w."""


class DenseEngine:
    """J in memory, loops and products by Loopwright."""

    def __init__(self, survey: Survey) -> None:
        self.name, self.survey = "loopwright", survey
        shape = survey.x.size, survey.y.size
        self._four = np.empty((*shape, *shape))  # J[u, v, i, j]
        self._matrix = self._four.reshape(survey.points, survey.points)
        self._between = np.empty(survey.points)
        # Mirrored rows are written far apart. Vectors of two doubles compute for longer than that
        # takes (Neoverse N1: 0.85 of the time), those of eight do not (x86-64: twice the time).
        self._mirrors = survey.is_even and lw.host().vector_bytes <= 16
        self._flat = _attraction(survey, survey.start())

    def field(self, z: Array) -> Array:
        return _attraction(self.survey, z) - self._flat

    def linearise(self, z: Array) -> None:
        s = self.survey
        make = kernels.assemble_mirrored if self._mirrors else kernels.assemble_quickly
        make(s.x, s.y, z, s.scale, self._four)

    def normal(self, p: Array) -> Array:
        found = np.empty_like(p)
        kernels.normal(self._matrix, p.ravel(), self._between, found.ravel())
        return found

    def transposed(self, w: Array) -> Array:
        return lw.einsum("ri,r->i", self._matrix, w.ravel()).reshape(w.shape)


class MatrixFreeEngine:
    """Elements of J are computed in each product: for grids whose J does not fit into memory."""

    def __init__(self, survey: Survey) -> None:
        self.name, self.survey = "matrix-free", survey
        self._z = survey.start()
        self._flat = _attraction(survey, self._z)

    def field(self, z: Array) -> Array:
        return _attraction(self.survey, z) - self._flat

    def linearise(self, z: Array) -> None:
        self._z = z.copy()

    def normal(self, p: Array) -> Array:
        s, between = self.survey, np.empty_like(p)
        kernels.forward(s.x, s.y, self._z, s.scale, p, between)
        return self.transposed(between)

    def transposed(self, w: Array) -> Array:
        s, found = self.survey, np.empty_like(w)
        kernels.transposed(s.x, s.y, self._z, s.scale, w, found)
        return found


class NumpyEngine:
    """The same program as NumPy users write it, products by its BLAS.

    `form` says how the derivative is assembled: `as_written`; `in_place`, which takes the power
    apart and reuses memory; `mirrored`, which computes rows of equal distance once.
    """

    def __init__(self, survey: Survey, *, form: str = "in_place") -> None:
        self.name, self.survey = "numpy", survey
        self.linearise = {
            "as_written": self._linearise_as_written,
            "in_place": self._linearise_in_place,
            "mirrored": self._linearise_mirrored,
        }[form]
        across = (survey.x[:, None] - survey.x) ** 2
        along = (survey.y[:, None] - survey.y) ** 2
        self._across, self._along = across[:, None, :, None], along[None, :, None, :]
        shape = survey.x.size, survey.y.size
        self._four = np.empty((*shape, *shape))
        self._matrix = self._four.reshape(survey.points, survey.points)
        self._flat = self._attraction(survey.start())

    def field(self, z: Array) -> Array:
        return self._attraction(z) - self._flat

    def _attraction(self, z: Array) -> Array:
        found = np.empty_like(z)
        for u in range(z.shape[0]):  # row by row: temporaries of a row stay in cache
            square = self._across[u] + self._along[0] + z**2
            found[u] = (1 / np.sqrt(square)).sum(axis=(1, 2))
        return self.survey.scale * found

    def _linearise_as_written(self, z: Array) -> None:
        square = self._across + self._along + z**2
        self._four[...] = -self.survey.scale * z / square**1.5

    def _linearise_in_place(self, z: Array) -> None:
        # A row of the grid at a time, so that the second root finds its operand in cache.
        numerator = -self.survey.scale * z
        for u in range(z.shape[0]):
            part = self._four[u]
            np.add(self._across[u], self._along[0], out=part)
            part += z**2
            part *= np.sqrt(part)
            np.divide(numerator, part, out=part)

    def _linearise_mirrored(self, z: Array) -> None:
        numerator, rows = -self.survey.scale * z, z.shape[0]
        part, root = np.empty((z.shape[1], z.shape[1])), np.empty((z.shape[1], z.shape[1]))
        for i in range(rows):
            near = self._along[0, :, 0] + z[i] ** 2
            for d in range(max(i + 1, rows - i)):
                np.add(near, self._across[d, 0, 0, 0], out=part)
                part *= np.sqrt(part, out=root)
                np.divide(numerator[i], part, out=part)
                if d <= i:
                    self._four[i - d, :, i] = part
                if d < rows - i:
                    self._four[i + d, :, i] = part

    def normal(self, p: Array) -> Array:
        return (self._matrix.T @ (self._matrix @ p.ravel())).reshape(p.shape)

    def transposed(self, w: Array) -> Array:
        return (self._matrix.T @ w.ravel()).reshape(w.shape)


def fitting(survey: Survey, limit: int | None = None) -> Engine:
    """Loopwright with J in memory where J takes at most `limit` bytes, else without J.

    Three quarters of the memory that is free are the limit where none is given.
    """
    limit = available_bytes() * 3 // 4 if limit is None else limit
    return DenseEngine(survey) if survey.matrix_bytes <= limit else MatrixFreeEngine(survey)


def available_bytes() -> int:
    """Memory that programs may still take, as Linux tells it; else what is free."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")


def _attraction(survey: Survey, z: Array) -> Array:
    found = np.empty_like(z)
    kernels.attraction(survey.x, survey.y, z, survey.scale, found)
    return found
