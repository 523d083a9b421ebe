"""Kernels with contractions among other statements, and what the planner makes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class CoreKernel:
    """A Python kernel, its arguments by shape, and the cores in it."""

    text: str
    arguments: str  # of ARGUMENTS
    cores: int
    covered: tuple[str, ...]  # statements that cores run


def _matrices(count: int, scalars: int = 0) -> Callable[[int], tuple[object, ...]]:
    return lambda n: (*[2.0] * scalars, *(np.zeros((n, n)) for _ in range(count)))


ARGUMENTS: dict[str, Callable[[int], tuple[object, ...]]] = {
    "one matrix": _matrices(1),
    "two matrices": _matrices(2),
    "two scalars, two matrices": _matrices(2, 2),
    "two scalars, three matrices": _matrices(3, 2),
    "five matrices": _matrices(5),
    "tensor, matrix, line": lambda n: (np.zeros((n, n, n)), np.zeros((n, n)), np.zeros(n)),
    "matrix, three vectors": lambda n: (np.zeros((n, n)), *(np.zeros(n) for _ in range(3))),
}

KERNELS: dict[str, CoreKernel] = {
    "gemm": CoreKernel(
        """
        def gemm(alpha, beta, C, A, B):
            for i in range(C.shape[0]):
                for j in range(C.shape[1]):
                    C[i, j] *= beta
                for k in range(A.shape[1]):
                    for j in range(C.shape[1]):
                        C[i, j] += alpha * A[i, k] * B[k, j]
        """,
        "two scalars, three matrices",
        1,
        ("S1",),
    ),
    "two products": CoreKernel(
        """
        def two(T, A, B, C, D):
            n = A.shape[0]
            for i in range(n):
                for j in range(n):
                    T[i, j] = 0.0
                    for k in range(n):
                        T[i, j] += A[i, k] * B[k, j]
            for i in range(n):
                for j in range(n):
                    for k in range(n):
                        D[i, j] += T[i, k] * C[k, j]
        """,
        "five matrices",
        2,
        ("S1", "S2"),
    ),
    "syrk": CoreKernel(
        """
        def syrk(alpha, beta, C, A):
            for i in range(C.shape[0]):
                for j in range(i + 1):
                    C[i, j] *= beta
                for k in range(A.shape[1]):
                    for j in range(i + 1):
                        C[i, j] += alpha * A[i, k] * A[j, k]
        """,
        "two scalars, two matrices",
        1,
        ("S1",),
    ),
    "syr2k": CoreKernel(
        """
        def syr2k(alpha, beta, C, A, B):
            for i in range(C.shape[0]):
                for k in range(A.shape[1]):
                    for j in range(i + 1):
                        C[i, j] += A[j, k] * alpha * B[i, k] + B[j, k] * alpha * A[i, k]
        """,
        "two scalars, three matrices",
        1,
        ("S0",),
    ),
    "trmm": CoreKernel(
        """
        def trmm(A, B):
            for i in range(B.shape[0]):
                for j in range(B.shape[1]):
                    for k in range(i + 1, B.shape[0]):
                        B[i, j] += A[k, i] * B[k, j]
                    B[i, j] = 2.0 * B[i, j]
        """,
        "two matrices",
        1,
        ("S0",),
    ),
    "symm": CoreKernel(
        """
        def symm(alpha, beta, C, A, B):
            for i in range(C.shape[0]):
                for j in range(C.shape[1]):
                    above = 0.0
                    for k in range(i):
                        C[k, j] += alpha * B[i, j] * A[i, k]
                        above += B[k, j] * A[i, k]
                    C[i, j] = beta * C[i, j] + alpha * B[i, j] * A[i, i] + alpha * above
        """,
        "two scalars, three matrices",
        2,
        ("S1", "S2"),
    ),
    "doitgen": CoreKernel(
        """
        def doitgen(A, C, line):
            for r in range(A.shape[0]):
                for q in range(A.shape[1]):
                    for p in range(line.shape[0]):
                        line[p] = 0.0
                        for s in range(line.shape[0]):
                            line[p] += A[r, q, s] * C[s, p]
                    for p in range(line.shape[0]):
                        A[r, q, p] = line[p]
        """,
        "tensor, matrix, line",
        1,
        ("S1",),
    ),
    "covariance": CoreKernel(
        """
        def covariance(data, cov):
            n = data.shape[0]
            m = data.shape[1]
            for i in range(m):
                for j in range(i, m):
                    cov[i, j] = 0.0
                    for k in range(n):
                        cov[i, j] += data[k, i] * data[k, j]
                    cov[i, j] /= 4.0
                    cov[j, i] = cov[i, j]
        """,
        "two matrices",
        1,
        ("S1",),
    ),
    "lu": CoreKernel(
        """
        def lu(A):
            n = A.shape[0]
            for i in range(n):
                for j in range(i):
                    for k in range(j):
                        A[i, j] -= A[i, k] * A[k, j]
                    A[i, j] += A[j, j]
                for j in range(i, n):
                    for k in range(i):
                        A[i, j] -= A[i, k] * A[k, j]
        """,
        "one matrix",
        3,
        ("S0", "S2"),
    ),
    "cholesky": CoreKernel(
        """
        def cholesky(A):
            n = A.shape[0]
            for i in range(n):
                for j in range(i):
                    for k in range(j):
                        A[i, j] -= A[i, k] * A[j, k]
                    A[i, j] += A[j, j]
                for k in range(i):
                    A[i, i] -= A[i, k] * A[i, k]
                A[i, i] = 2.0 * A[i, i]
        """,
        "one matrix",
        2,
        ("S0", "S2"),
    ),
    "ludcmp": CoreKernel(
        """
        def ludcmp(A, b, x, y):
            n = A.shape[0]
            for i in range(n):
                for j in range(i):
                    w = A[i, j]
                    for k in range(j):
                        w -= A[i, k] * A[k, j]
                    A[i, j] = w + A[j, j]
                for j in range(i, n):
                    w = A[i, j]
                    for k in range(i):
                        w -= A[i, k] * A[k, j]
                    A[i, j] = w
            for i in range(n):
                w = b[i]
                for j in range(i):
                    w -= A[i, j] * y[j]
                y[i] = w
        """,
        "matrix, three vectors",
        4,
        ("S1", "S4"),
    ),
}
