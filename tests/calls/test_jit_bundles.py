"""Compiled contractions of fewer and more loops than a matrix product, with any subscripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from calls.comparison import (
    assert_as_python,
    assert_contraction,
    is_contraction,
    one_team,
    whole,
)
from drawn import combined

# -- fewer and more loops ----------------------------------------------------------------------


def dot(x, y):
    s = 0
    for i in range(x.shape[0]):
        s += x[i] * y[i]
    return s


def total(x):
    s = 0
    for i in range(x.shape[0]):
        s += x[i]
    return s


def product(x):
    s = 1.0
    for i in range(x.shape[0]):
        s *= x[i]
    return s


def square(x):
    s = 0
    for i in range(x.shape[0]):
        s += x[i] * x[i]
    return s


def gemv(y, A, x):
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            y[i] += A[i, j] * x[j]


def gemv_transposed(y, A, x):
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            y[j] += A[i, j] * x[i]


def outer(C, x, y):
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            C[i, j] += x[i] * y[j]


def batched(C, A, B):
    for t in range(C.shape[0]):
        for i in range(C.shape[1]):
            for j in range(C.shape[2]):
                for k in range(A.shape[2]):
                    C[t, i, j] += A[t, i, k] * B[t, k, j]


def trace(A):
    s = 0
    for i in range(A.shape[0]):
        s += A[i, i]
    return s


def diagonal_by_rows(y, A, B):
    for i in range(A.shape[0]):
        for k in range(A.shape[0]):
            y[i] += A[i, i] * B[k, i]


def rows(y, A):
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            y[i] += A[i, j]


def largest_of_columns(y, A):
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            y[j] = max(y[j], A[i, j])


def everything(A):
    s = 0
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            s += A[i, j]
    return s


def gram(C, A):
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            for k in range(A.shape[1]):
                C[i, j] += A[i, k] * A[j, k]


def rank5(C, A, B):
    for a in range(3):
        for b in range(4):
            for c in range(5):
                for d in range(2):
                    for e in range(3):
                        for f in range(6):
                            C[a, b, c, d, e] += A[e, f, b, a, d] * B[c, f]


def filter_of_rows(y, x, w):
    for i in range(y.shape[0]):
        for j in range(y.shape[1]):
            for a in range(w.shape[0]):
                for b in range(w.shape[1]):
                    y[i, j] += x[i + a, j + b] * w[a, b]


SHAPES: dict[Callable[..., Any], tuple[tuple[int, ...], ...]] = {
    dot: ((101,), (101,)),
    total: ((101,),),
    square: ((17,),),
    gemv: ((17,), (17, 23), (23,)),
    gemv_transposed: ((23,), (17, 23), (17,)),
    outer: ((11, 13), (11,), (13,)),
    batched: ((3, 5, 7), (3, 5, 4), (3, 4, 7)),
    trace: ((11, 11),),
    diagonal_by_rows: ((11,), (11, 11), (11, 11)),
    rows: ((11,), (11, 13)),
    largest_of_columns: ((13,), (11, 13)),
    everything: ((11, 13),),
    gram: ((9, 9), (9, 7)),
    rank5: ((3, 4, 5, 2, 3), (3, 6, 4, 3, 2), (5, 6)),
}

# Those whose sums lie in rows: in order, floating numbers are added by loops.
IN_ROWS = (dot, total, square, gemv, trace, diagonal_by_rows, rows, everything)


@pytest.mark.drawn(2)
@pytest.mark.parametrize(("function", "dtype"), combined(SHAPES, ["float64", "int32"], one_in=2))
def test_other_contractions(function: Callable[..., Any], dtype: str) -> None:
    arrays = [whole(*s, dtype=dtype, seed=k) for k, s in enumerate(SHAPES[function])]
    is_kernel = dtype == "int32" or function not in IN_ROWS
    compiled = assert_as_python(function, *arrays, threads=one_team(function.__name__, dtype))
    assert is_contraction(compiled, *arrays) == is_kernel


@pytest.mark.parametrize(
    ("function", "extent"),
    combined([dot, total, gemv, gemv_transposed, outer, rows, batched], [0, 1, 2], one_in=2),
)
def test_other_contractions_of_small_sizes(function: Callable[..., Any], extent: int) -> None:
    arrays = [whole(*(min(n, extent) for n in s)) for s in SHAPES[function]]
    is_kernel = extent < 2 or function not in IN_ROWS
    threads = one_team(function.__name__, extent)
    compiled = assert_as_python(function, *arrays, threads=threads)
    assert is_contraction(compiled, *arrays) == is_kernel
    assert_contraction(function, *arrays, threads=threads, reassoc=True)


def test_product_of_elements() -> None:
    assert_contraction(product, whole(9) / 2, reassoc=True)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("function", IN_ROWS)
def test_sums_in_any_order(function: Callable[..., Any]) -> None:
    arrays = [whole(*s, dtype="float32") for s in SHAPES[function]]
    assert_contraction(function, *arrays, threads=one_team(function.__name__), reassoc=True)


def test_large_terms_cancel_in_source_order() -> None:
    """2^60 swallows small terms that stand before its end, and no others."""
    x = np.array([2.0**60, 1.0, -(2.0**60), 1.0, 2.0, 3.0, 4.0, 5.0, 6.0] * 3)
    assert_as_python(total, x)
    assert_as_python(dot, x, np.ones_like(x))
    columns = np.stack([x, np.roll(x, 1), -x, x + 1.0], axis=1)
    for lying in (columns, np.asfortranarray(columns)):
        assert_as_python(gemv_transposed, np.zeros(4), lying, np.ones_like(x))
    assert_contraction(gemv_transposed, np.zeros(4), columns, np.ones_like(x))


def test_zero_has_no_sign() -> None:
    """0.0 + -0.0 is 0.0."""
    compiled = assert_as_python(total, np.array([-0.0, -0.0]))
    assert not np.signbit(compiled(np.array([-0.0, -0.0])))


# -- subscripts --------------------------------------------------------------------------------


def offsets(C, A, B):
    n = C.shape[0]
    for i in range(n):
        for j in range(n):
            for k in range(n):
                C[i, j] += A[i + 1, 2 * k] * B[n - 1 - k, 3 * j + 2]


def inner_parts(C, A, B):
    n = A.shape[0]
    for i in range(2, n - 1):
        for j in range(1, n):
            for k in range(3, n - 2):
                C[i - 2, n - 1 - j] += A[i + 1, k - 3] * B[k + 1, j - 1]


def downwards(C, A, B):
    n = C.shape[0]
    for i in range(n - 1, -1, -1):
        for j in range(n):
            for k in range(n - 1, -1, -1):
                C[i, j] += A[i, k] * B[k, j]


def divided(C, A, B):
    n = C.shape[0]
    for i in range(n):
        for j in range(n):
            for k in range(n):
                C[i, j] += A[i // 2, k] * B[k % 3, min(j, 3)]


def divided_out(C, A, B):
    for i in range(2 * C.shape[1]):
        for j in range(C.shape[2]):
            for k in range(A.shape[1]):
                C[i % 2, i // 2, j] += A[i, k] * B[k, j]


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (offsets, ((7, 7), (8, 14), (7, 30))),
        (inner_parts, ((12, 12), (12, 12), (12, 12))),
        (downwards, ((12, 12), (12, 12), (12, 12))),
        (divided, ((12, 12), (6, 12), (3, 4))),
        (divided_out, ((2, 6, 5), (12, 4), (4, 5))),
    ],
)
def test_subscripts(function: Callable[..., Any], shapes: tuple[tuple[int, ...], ...]) -> None:
    arrays = [whole(*shape, seed=k) for k, shape in enumerate(shapes)]
    assert_contraction(function, *arrays, threads=one_team(function.__name__))


def test_two_contractions_run_as_loops() -> None:
    def f(D, C, A, B):
        for i in range(C.shape[0]):
            for j in range(C.shape[1]):
                for k in range(A.shape[1]):
                    C[i, j] += A[i, k] * B[k, j]
        for i in range(C.shape[0]):
            for j in range(C.shape[1]):
                for k in range(C.shape[1]):
                    D[i, j] += C[i, k] * B[k, j]

    args = tuple(whole(9, 9, seed=k) for k in range(4))
    assert not is_contraction(assert_as_python(f, *args), *args)


def test_filters_run_as_loops() -> None:
    args = whole(10, 12), whole(12, 14, seed=1), whole(3, 3, seed=2)
    assert not is_contraction(assert_as_python(filter_of_rows, *args), *args)


def test_updates_of_elements_run_as_loops() -> None:
    def f(y, x, a):
        for i in range(y.shape[0]):
            y[i] += a * x[i]

    args = whole(9), whole(9, seed=1), 2.0
    assert not is_contraction(assert_as_python(f, *args), *args)
