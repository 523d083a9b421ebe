"""Floating sums that keep their order and lie in rows are loops, by the arrays of a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from calls.comparison import is_contraction
from drawn import combined

SIZES = (0, 1, 2, 3, 7, 17, 61)


def gemv(y, A, x):
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            y[i] += A[i, j] * x[j]


def gemv_by_lanes(y, A, x):
    """One product for each of the lanes in the last axis."""
    for i in range(A.shape[0]):
        for b in range(A.shape[2]):
            for j in range(A.shape[1]):
                y[i, b] += A[i, j, b] * x[j, b]


def dots(y, A, B):
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            y[i] += A[i, j] * B[i, j]


def rows(y, A):
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            y[i] += A[i, j]


def scaled(y, A, x):
    """A prologue for each operand, and an epilogue."""
    for i in range(A.shape[0]):
        s = 0.5
        for j in range(A.shape[1]):
            s += abs(A[i, j]) * (3.0 * x[j])
        y[i] = max(s, 0.0)


def arguments(function: Callable[..., Any], m: int, n: int, dtype: str) -> list[Any]:
    made = np.random.default_rng(m * 100 + n)

    def array(*shape: int) -> Any:
        return (made.standard_normal(shape) * 10.0 ** made.integers(-3, 4, shape)).astype(dtype)

    if function is gemv_by_lanes:
        return [array(m, 5), array(m, n, 5), array(n, 5)]
    if function is dots:
        return [array(m), array(m, n), array(m, n)]
    if function is rows:
        return [array(m), array(m, n)]
    return [array(m), array(m, n), array(n)]


FUNCTIONS = (gemv, gemv_by_lanes, dots, rows, scaled)


def in_source_order(source: Any, args: list[Any]) -> list[Any]:
    """The arguments after a call of the code that a plan without steps makes."""
    args = [x.copy() if isinstance(x, np.ndarray) else x for x in args]
    plain = lw.Plan()
    code = lw.compile(source, plan=plain) if isinstance(source, str) else lw.jit(plan=plain)(source)
    code(*args)
    return args


@pytest.mark.drawn(12)
@pytest.mark.parametrize(
    ("function", "m", "n", "dtype"),
    combined(FUNCTIONS, SIZES, SIZES, ["float64", "float32"], one_in=12),
)
def test_bits_are_those_of_the_source_order(
    function: Callable[..., Any], m: int, n: int, dtype: str
) -> None:
    args = arguments(function, m, n, dtype)
    compiled = lw.jit(function)
    expected = in_source_order(function, args)
    compiled(*args)
    is_kernel = is_contraction(compiled, *args)
    if min(m, n) > 1:
        assert not is_kernel
    # Kernels of one step round the product and the sum apart.
    np.testing.assert_allclose(args[0], expected[0], rtol=1e-6 if is_kernel else 0.0)


def test_the_arrays_of_a_call_decide() -> None:
    """One function: rows of a matrix are loops, those of a transposed one a kernel."""
    compiled = lw.jit(gemv)
    y, A, x = arguments(gemv, 17, 23, "float64")
    assert not is_contraction(compiled, y, A, x)
    assert is_contraction(compiled, y, np.asfortranarray(A), x)
    assert is_contraction(compiled, y, np.ascontiguousarray(A.T).T, x)
    assert not is_contraction(compiled, y, A[:, ::-1], x)
    expected = in_source_order(gemv, [y, A, x])[0]
    for lying in (A, np.asfortranarray(A)):
        found = y.copy()
        compiled(found, lying, x)
        np.testing.assert_array_equal(found, expected)
