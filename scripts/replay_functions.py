"""Functions of Python that replay.py compiles, with arguments of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["FUNCTIONS"]

Array = np.ndarray[Any, np.dtype[Any]]


def matmul(a: Array, b: Array, c: Array) -> None:
    n, m = c.shape
    for i in range(n):
        for j in range(m):
            c[i, j] = 0.0
            for k in range(a.shape[1]):
                c[i, j] += a[i, k] * b[k, j]


def matmul_bias_relu(a: Array, b: Array, bias: Array, c: Array) -> None:
    n, m = c.shape
    for i in range(n):
        for j in range(m):
            c[i, j] = bias[j]
            for k in range(a.shape[1]):
                c[i, j] += a[i, k] * b[k, j]
            c[i, j] = max(c[i, j], 0.0)


def batched_transposed(a: Array, b: Array, c: Array) -> None:
    for s in range(c.shape[0]):
        for i in range(c.shape[1]):
            for j in range(c.shape[2]):
                for k in range(a.shape[1]):
                    c[s, i, j] += a[s, k, i] * b[s, j, k]


def matvec(a: Array, x: Array, y: Array) -> None:
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            y[i] += a[i, j] * x[j]


def shortest(a: Array, b: Array, c: Array) -> None:
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            for k in range(a.shape[1]):
                c[i, j] = min(c[i, j], a[i, k] + b[k, j])


def convolution(image: Array, weights: Array, out: Array) -> None:
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = 0.0
            for p in range(weights.shape[0]):
                for q in range(weights.shape[1]):
                    out[i, j] += image[i + p, j + q] * weights[p, q]


def jacobi(a: Array, b: Array, steps: int) -> None:
    n = a.shape[0]
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                b[i, j] = 0.2 * (a[i, j] + a[i, j - 1] + a[i, j + 1] + a[i - 1, j] + a[i + 1, j])
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                a[i, j] = b[i, j]


def prefix_sums(x: Array, y: Array) -> None:
    for i in range(x.shape[0]):
        y[i, 0] = x[i, 0]
        for j in range(1, x.shape[1]):
            y[i, j] = y[i, j - 1] + x[i, j]


def triangular_solve(a: Array, b: Array) -> None:
    n = a.shape[0]
    for j in range(b.shape[1]):
        for i in range(n):
            for k in range(i):
                b[i, j] -= a[i, k] * b[k, j]
            b[i, j] = b[i, j] / a[i, i]


def symmetric_update(a: Array, c: Array) -> None:
    for i in range(c.shape[0]):
        for j in range(i + 1):
            for k in range(a.shape[1]):
                c[i, j] += a[i, k] * a[j, k]


def row_norms(a: Array, norms: Array) -> None:
    for i in range(a.shape[0]):
        total = 0.0
        for j in range(a.shape[1]):
            total += a[i, j] * a[i, j]
        norms[i] = np.sqrt(total)


def alternate(x: Array, y: Array) -> None:
    for i in range(0, x.shape[0] - 1, 2):
        y[i] = min(x[i], x[i + 1])
        y[i + 1] = x[i] + x[i + 1]


def _made(dtype: str, *shapes: tuple[int, ...]) -> tuple[Any, ...]:
    return tuple(np.zeros(shape, dtype) for shape in shapes)


FUNCTIONS: tuple[tuple[Callable[..., None], tuple[Any, ...]], ...] = (
    (matmul, _made("float64", (200, 300), (300, 250), (200, 250))),
    (matmul_bias_relu, _made("float32", (128, 256), (256, 512), (512,), (128, 512))),
    (batched_transposed, _made("float32", (8, 64, 96), (8, 48, 64), (8, 96, 48))),
    (matvec, _made("float64", (1000, 700), (700,), (1000,))),
    (shortest, _made("int32", (150, 170), (170, 190), (150, 190))),
    (convolution, _made("float32", (66, 130), (3, 3), (64, 128))),
    (jacobi, (*_made("float64", (120, 120), (120, 120)), 10)),
    (prefix_sums, _made("int64", (90, 400), (90, 400))),
    (triangular_solve, _made("float64", (80, 80), (80, 40))),
    (symmetric_update, _made("float64", (120, 60), (120, 120))),
    (row_norms, _made("float64", (300, 500), (300,))),
    (alternate, _made("int16", (1001,), (1001,))),
)
