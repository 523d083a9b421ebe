"""Levenberg and Marquardt's method, with one of two solvers for the system of each step.

A step takes d from (J^T J + a I) d = J^T (A(z) - F) and z - d for z. J^T J is never formed: a
product with it is one with J and one with J^T. `as_printed` solves for the new surface from 0, as
the dissertation prints it, with the same relative residual: that is small beside z itself and not
beside the correction, and the method stalls.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from examples.gravimetry.engines import Engine
from examples.gravimetry.survey import Survey

__all__ = ["SOLVERS", "Inversion", "Step", "conjugate_gradients", "invert", "minimal_residuals"]

Array = np.ndarray[Any, np.dtype[np.float64]]
Product = Callable[[Array], Array]

INNER = 1e-5  # residual of the inner system over its right side
OUTER = 1e-3  # residual of the field over the field
DAMPING = 1.0  # a, in (mGal / km)^2: J^T J has norm (2 pi f dsigma)^2, about 60 to 100
MOST_INNER = 5000


@dataclass(frozen=True, slots=True)
class Step:
    """Where the method stood before a step, and what the step took."""

    residual: float  # of the field, over the field
    inner: int  # products with J^T J + a I; 0 after the last step
    seconds: float  # since the start


@dataclass(frozen=True, slots=True)
class Inversion:
    """The surface that was found, and how."""

    surface: Array
    steps: tuple[Step, ...]

    @property
    def residual(self) -> float:
        return self.steps[-1].residual

    @property
    def inner(self) -> int:
        return sum(step.inner for step in self.steps)

    @property
    def seconds(self) -> float:
        return self.steps[-1].seconds


def minimal_residuals(product: Product, b: Array, accuracy: float = INNER) -> tuple[Array, int]:
    """x with B x = b by x <- x - <B r, r> / |B r|^2 r, r = B x - b, from 0; and its products."""
    x, r, size = np.zeros_like(b), -b, np.linalg.norm(b)
    count = 0
    while np.linalg.norm(r) > accuracy * size and count < MOST_INNER:
        image = product(r)
        step = np.vdot(image, r) / np.vdot(image, image)
        x -= step * r
        r -= step * image
        count += 1
    return x, count


def conjugate_gradients(product: Product, b: Array, accuracy: float = INNER) -> tuple[Array, int]:
    """x with B x = b for symmetric positive definite B, from 0; and its products."""
    x, r = np.zeros_like(b), b.copy()
    p, square = r.copy(), np.vdot(r, r)
    limit = (accuracy * np.linalg.norm(b)) ** 2
    count = 0
    while square > limit and count < MOST_INNER:
        image = product(p)
        step = square / np.vdot(p, image)
        x += step * p
        r -= step * image
        square, before = np.vdot(r, r), square
        p = r + square / before * p
        count += 1
    return x, count


SOLVERS = {"minimal_residuals": minimal_residuals, "conjugate_gradients": conjugate_gradients}


def invert(
    survey: Survey,
    engine: Engine,
    solver: str = "minimal_residuals",
    *,
    most_steps: int = 30,
    accuracy: float = OUTER,
    damping: float = DAMPING,
    as_printed: bool = False,
    report: Callable[[str], None] = lambda line: None,
) -> Inversion:
    """Find the surface whose field is the measured one; a line for each step goes to `report`."""
    solve = SOLVERS[solver]
    start, z = time.perf_counter(), survey.start()
    steps: list[Step] = []
    while True:
        misfit = engine.field(z) - survey.field
        residual = float(np.linalg.norm(misfit) / np.linalg.norm(survey.field))
        is_last = residual <= accuracy or len(steps) == most_steps
        inner = 0
        if not is_last:
            engine.linearise(z)
            product = partial(_damped, engine, damping)
            gradient = engine.transposed(misfit)
            if as_printed:
                z, inner = solve(product, product(z) - gradient)
            else:
                correction, inner = solve(product, gradient)
                z = z - correction
        steps.append(Step(residual, inner, time.perf_counter() - start))
        report(
            f"step {len(steps) - 1}: residual {residual:.2e}, {inner} inner, "
            f"{steps[-1].seconds:.2f} s"
        )
        if is_last:
            return Inversion(z, tuple(steps))


def _damped(engine: Engine, damping: float, p: Array) -> Array:
    """(J^T J + a I) p."""
    return engine.normal(p) + damping * p
