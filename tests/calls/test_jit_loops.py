"""Compiled functions that are no single contraction: stencils, solvers, recurrences, branches."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from calls.comparison import assert_as_python, is_contraction, whole
from drawn import drawn

DTYPES = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def positive(n: int) -> np.ndarray:
    """A symmetric positive definite matrix."""
    half = normal(n, n)
    return half @ half.T + n * np.eye(n)


# -- kernels of textbooks ----------------------------------------------------------------------


def jacobi(x, y, steps):
    n = x.shape[0]
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                y[i, j] = 0.25 * (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1])
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                x[i, j] = y[i, j]


def seidel(x, steps):
    n = x.shape[0]
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                x[i, j] = (x[i - 1, j] + x[i, j - 1] + x[i, j] + x[i, j + 1] + x[i + 1, j]) / 5


def lu(A):
    n = A.shape[0]
    for k in range(n):
        for i in range(k + 1, n):
            A[i, k] /= A[k, k]
            for j in range(k + 1, n):
                A[i, j] -= A[i, k] * A[k, j]


def cholesky(A):
    n = A.shape[0]
    for i in range(n):
        for j in range(i):
            for k in range(j):
                A[i, j] -= A[i, k] * A[j, k]
            A[i, j] /= A[j, j]
        for k in range(i):
            A[i, i] -= A[i, k] * A[i, k]
        A[i, i] = math.sqrt(A[i, i])


def solve_lower(L, x, b):
    n = L.shape[0]
    for i in range(n):
        x[i] = b[i]
        for j in range(i):
            x[i] -= L[i, j] * x[j]
        x[i] = x[i] / L[i, i]


def floyd_warshall(W):
    n = W.shape[0]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                W[i, j] = min(W[i, j], W[i, k] + W[k, j])


def prefix_sums(x):
    for i in range(1, x.shape[0]):
        x[i] += x[i - 1]


def two_products(D, C, A, B):
    n = A.shape[0]
    for i in range(n):
        for j in range(n):
            C[i, j] = 0.0
            for k in range(n):
                C[i, j] += A[i, k] * B[k, j]
    for i in range(n):
        for j in range(n):
            for k in range(n):
                D[i, j] += C[i, k] * B[k, j]


TEXTBOOK: dict[Callable[..., Any], tuple[Any, ...]] = {
    jacobi: (normal(14, 14), normal(14, 14, seed=1), 3),
    seidel: (normal(14, 14), 3),
    lu: (positive(13),),
    cholesky: (positive(12),),
    solve_lower: (positive(12), normal(12), normal(12, seed=1)),
    floyd_warshall: (whole(13, 13) + 5,),
    prefix_sums: (whole(33),),
    two_products: (whole(9, 9), whole(9, 9), whole(9, 9, seed=1), whole(9, 9, seed=2)),
}


def some_teams(number: int) -> list[int]:
    """One thread or two, in turn; in the hunt both."""
    return drawn((2, 1), 2, number)


@pytest.mark.drawn(4)
@pytest.mark.parametrize(("number", "function"), list(enumerate(TEXTBOOK)))
def test_textbook(number: int, function: Callable[..., Any]) -> None:
    args = TEXTBOOK[function]
    exact = function in (floyd_warshall, prefix_sums, two_products)
    rtol = 0.0 if exact else 1e-12
    compiled = assert_as_python(function, *args, threads=some_teams(number), rtol=rtol)
    assert not is_contraction(compiled, *args)


@pytest.mark.drawn(6)
@pytest.mark.parametrize("function", [floyd_warshall, lu, two_products, prefix_sums])
@pytest.mark.parametrize("extent", [0, 1, 2])
def test_small_sizes(function: Callable[..., Any], extent: int) -> None:
    args = [a[tuple(slice(extent) for _ in a.shape)] for a in TEXTBOOK[function]]
    assert_as_python(function, *args, threads=some_teams(list(TEXTBOOK).index(function)))


@pytest.mark.parametrize("threads", [3, 5])
def test_more_threads_than_cores(threads: int) -> None:
    assert_as_python(jacobi, whole(40, 40), whole(40, 40, seed=1), 4, threads=[threads])


# -- shapes of control -------------------------------------------------------------------------


def imperfect(A, B):
    n = A.shape[0]
    for i in range(n):
        B[i] = A[i, 0]
        for j in range(1, n):
            B[i] = B[i] * 2 + A[i, j] - B[i]
            A[i, j] = B[i]
        B[i] = -B[i]


def branches(A, B):
    n = B.shape[0]
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            if i < j:
                A[i, j] = 1.0
            elif i == j and n > 3:
                A[i, j] = 2.0
            else:
                A[i, j] += 3.0


def downwards(A, B):
    n = B.shape[0]
    for i in range(n - 2, -1, -1):
        B[i] = B[i + 1] + A[i, 0]
    for i in range(n - 1, 0, -2):
        B[i] = B[i] - 1


def strided(A, B):
    for i in range(1, A.shape[0], 3):
        for j in range(i, A.shape[1], 2):
            A[i, j] = B[j] - A[i, j]


def triangle(A, B):
    for i in range(A.shape[0]):
        for j in range(i, A.shape[1]):
            B[i] += A[i, j] * B[j]


def ternaries(A, B):
    for i in range(B.shape[0]):
        B[i] = A[i, 0] if A[i, 0] > 0 else -A[i, 0] * 2
        B[i] = B[i - 1] + B[i] if i > 0 else B[i]


def swaps(A, B):
    n = B.shape[0]
    for i in range(n // 2):
        B[i], B[n - 1 - i] = B[n - 1 - i], B[i]


def local_scalars(A, B):
    for i in range(A.shape[0]):
        low = A[i, 0]
        high = A[i, 0]
        for j in range(A.shape[1]):
            low = min(low, A[i, j])
            high = max(high, A[i, j])
        B[i] = high - low


def local_arrays(A, B):
    sums = np.zeros(B.shape[0])
    parts = np.empty((B.shape[0], 3))
    for i in range(B.shape[0]):
        for j in range(3):
            parts[i, j] = A[i, j] * j
    for i in range(B.shape[0]):
        for j in range(3):
            sums[B.shape[0] - 1 - i] += parts[i, j]
    for i in range(B.shape[0]):
        B[i] = sums[i]


CONTROL = (
    *(imperfect, branches, downwards, strided, triangle, ternaries, swaps),
    *(local_scalars, local_arrays),
)


@pytest.mark.drawn(3)
@pytest.mark.parametrize(("number", "function"), list(enumerate(CONTROL)))
def test_control(number: int, function: Callable[..., Any]) -> None:
    assert_as_python(function, whole(13, 13), whole(13, seed=1), threads=some_teams(number))


# -- values ------------------------------------------------------------------------------------


def recurrence(A, B):
    for i in range(1, A.shape[0]):
        for j in range(A.shape[1]):
            A[i, j] = A[i - 1, j] + B[i, j] * A[i, j]


def shifted(A, B):
    for i in range(1, A.shape[0]):
        for j in range(A.shape[1]):
            A[i, j] = B[i - 1, j]


@pytest.mark.drawn(4)
@pytest.mark.parametrize(("number", "dtype"), list(enumerate(DTYPES)))
def test_dtypes(number: int, dtype: str) -> None:
    A, B = whole(7, 19, dtype=dtype), whole(7, 19, dtype=dtype, seed=1)
    tame = B % 2 if np.dtype(dtype).kind in "iu" else B
    assert_as_python(recurrence, A, tame, threads=some_teams(number))


def test_booleans() -> None:
    assert_as_python(shifted, whole(7, 19, dtype="bool"), whole(7, 19, dtype="bool", seed=1))


def stencil(A, B):
    for i in range(1, A.shape[0] - 1):
        for j in range(1, A.shape[1] - 1):
            A[i, j] = B[i - 1, j] + B[i, j + 1] - 2 * B[i, j]


VIEWS = {
    "steps": (whole(24, 34)[::2, ::2], whole(36, 51)[::3, ::3]),
    "backwards": (whole(12, 17)[::-1], whole(12, 17)[:, ::-1]),
    "Fortran": (np.asfortranarray(whole(12, 17)), whole(17, 12).T),
    "unit stride at last": (whole(17, 12).T, whole(12, 34)[:, ::2]),
    "broadcast": (whole(12, 17), np.broadcast_to(whole(17), (12, 17))),
    "slices": (whole(12, 3, 17)[:, 1], whole(12, 17, 3)[:, :, 2]),
}


@pytest.mark.parametrize(("number", "views"), list(enumerate(VIEWS.values())), ids=VIEWS)
def test_views(number: int, views: tuple[np.ndarray, ...]) -> None:
    assert_as_python(stencil, *views, threads=some_teams(number))


def test_functions_of_math() -> None:
    def f(y, x):
        for i in range(x.shape[0]):
            y[i] = math.exp(x[i]) * math.sin(x[i]) + math.cos(x[i]) + math.tanh(x[i])
            y[i] += math.sqrt(abs(x[i])) + math.log(abs(x[i]) + 1) + math.floor(x[i])

    assert_as_python(f, np.zeros(19), normal(19), rtol=1e-13)


def test_functions_of_numpy_keep_the_type() -> None:
    def f(y, x):
        for i in range(x.shape[0]):
            y[i] = np.sqrt(abs(x[i])) + np.exp(x[i]) * np.log(abs(x[i]) + 1)

    x = normal(19).astype("float32")
    assert_as_python(f, np.zeros(19, "float32"), x, rtol=2e-6)


def test_integers_wrap() -> None:
    def f(x):
        for i in range(x.shape[0]):
            x[i] = x[i] * x[i] + x[i]

    assert_as_python(f, np.array([100, 127, -128, 3], "int8"))


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint16", "float64"])
def test_division_rounds_down(dtype: str) -> None:
    def f(y, x, d):
        for i in range(x.shape[0]):
            y[i] = x[i] // d[i] + x[i] % d[i]

    x, d = whole(40, dtype=dtype), whole(40, dtype=dtype, seed=1)
    assert_as_python(f, np.zeros(40, dtype), x, np.where(d == 0, 1, d).astype(dtype))
