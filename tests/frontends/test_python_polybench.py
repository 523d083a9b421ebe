"""Whole kernels as people write them: each agrees with plain Python and needs few bounds tests."""

import numpy as np
import pytest

from frontends.kernels import assert_same, bind, compiled, define
from loopwright.analysis.subscript_bounds import bounds_violation, predicate

RNG = np.random.default_rng(3)
N = 6

KERNELS: dict[str, tuple[str, tuple[object, ...]]] = {
    "lu": (
        """
        def lu(A):
            n = A.shape[0]
            for i in range(n):
                for j in range(i):
                    for k in range(j):
                        A[i, j] -= A[i, k] * A[k, j]
                    A[i, j] /= A[j, j]
                for j in range(i, n):
                    for k in range(i):
                        A[i, j] -= A[i, k] * A[k, j]
        """,
        (RNG.normal(size=(N, N)) + N * np.eye(N),),
    ),
    "durbin": (
        """
        def durbin(r, y):
            n = len(r)
            z = np.zeros(n)
            y[0] = alpha = -r[0]
            beta = 1.0
            for k in range(1, n):
                beta = (1 - alpha * alpha) * beta
                total = 0.0
                for i in range(k):
                    total += r[k - i - 1] * y[i]
                alpha = -(r[k] + total) / beta
                for i in range(k):
                    z[i] = y[i] + alpha * y[k - i - 1]
                for i in range(k):
                    y[i] = z[i]
                y[k] = alpha
            return alpha
        """,
        (RNG.normal(size=N), np.zeros(N)),
    ),
    "nussinov": (
        """
        def nussinov(seq, table):
            n = len(seq)
            for i in range(n - 1, -1, -1):
                for j in range(i + 1, n):
                    if j - 1 >= 0:
                        table[i, j] = max(table[i, j], table[i, j - 1])
                    if i + 1 < n:
                        table[i, j] = max(table[i, j], table[i + 1, j])
                    if j - 1 >= 0 and i + 1 < n:
                        if i < j - 1:
                            match = 1 if seq[i] + seq[j] == 3 else 0
                            table[i, j] = max(table[i, j], table[i + 1, j - 1] + match)
                        else:
                            table[i, j] = max(table[i, j], table[i + 1, j - 1])
                    for k in range(i + 1, j):
                        table[i, j] = max(table[i, j], table[i, k] + table[k + 1, j])
        """,
        (RNG.integers(0, 4, N), np.zeros((N, N), np.int64)),
    ),
    "seidel": (
        """
        def seidel(steps, A):
            n = A.shape[0]
            for t in range(steps):
                for i in range(1, n - 1):
                    for j in range(1, n - 1):
                        A[i, j] = (
                            A[i - 1, j - 1] + A[i - 1, j] + A[i - 1, j + 1]
                            + A[i, j - 1] + A[i, j] + A[i, j + 1]
                            + A[i + 1, j - 1] + A[i + 1, j] + A[i + 1, j + 1]
                        ) / 9.0
        """,
        (2, RNG.normal(size=(N, N)).astype(np.float32)),
    ),
    "gramschmidt": (
        """
        def gramschmidt(A, R, Q):
            m, n = A.shape
            for k in range(n):
                norm = 0.0
                for i in range(m):
                    norm += A[i, k] * A[i, k]
                R[k, k] = np.sqrt(norm)
                for i in range(m):
                    Q[i, k] = A[i, k] / R[k, k]
                for j in range(k + 1, n):
                    R[k, j] = 0.0
                    for i in range(m):
                        R[k, j] += Q[i, k] * A[i, j]
                    for i in range(m):
                        A[i, j] = A[i, j] - Q[i, k] * R[k, j]
        """,
        (RNG.normal(size=(N, 4)), np.zeros((4, 4)), np.zeros((N, 4))),
    ),
    "floyd_warshall": (
        """
        def floyd_warshall(D):
            for k in range(len(D)):
                for i in range(len(D)):
                    for j in range(len(D)):
                        D[i, j] = min(D[i, j], D[i, k] + D[k, j])
        """,
        (RNG.integers(0, 99, (N, N)),),
    ),
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernel(name: str) -> None:
    text, args = KERNELS[name]
    function = define(text)
    tree, program = compiled(function, *args)
    violation = bounds_violation(program)
    assert violation.n_basic_set() <= 8
    assert not predicate(violation)(bind(tree, args)[1])
    assert_same(function, *args)
