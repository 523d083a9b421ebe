"""Floating sums that keep their order and lie in rows are loops, by the arrays of a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from calls.comparison import is_contraction
from drawn import combined
from loopwright.tuning.tasks import ContractionTask, ProgramTask

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
C_TEXT = """
void gemv(int m, int n, double y[m], double A[m][n], double x[n]) {
#pragma scop
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++)
      y[i] += A[i][j] * x[j];
#pragma endscop
}
"""


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


@pytest.mark.drawn(4)
@pytest.mark.parametrize(("m", "n"), combined(SIZES, SIZES, one_in=3))
def test_bits_of_functions_in_c(m: int, n: int) -> None:
    args = [m, n, *arguments(gemv, m, n, "float64")]
    compiled = lw.compile(C_TEXT)
    expected = in_source_order(C_TEXT, args)
    compiled(*args)
    is_kernel = "no kernel: sums in source order lie" not in compiled.explain(*args)
    assert is_kernel == (n <= 1 or m == 0)
    np.testing.assert_allclose(args[2], expected[2], rtol=1e-6 if is_kernel else 0.0)


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


def test_columns_keep_their_kernel() -> None:
    def columns(y, A, x):
        for i in range(A.shape[0]):
            for j in range(A.shape[1]):
                y[j] += A[i, j] * x[i]

    _, A, _ = arguments(gemv, 17, 23, "float64")
    assert is_contraction(lw.jit(columns), np.zeros(23), A, np.ones(17))
    assert not is_contraction(lw.jit(columns), np.zeros(23), np.asfortranarray(A), np.ones(17))


def test_sums_in_any_order_keep_their_kernel() -> None:
    args = arguments(gemv, 17, 23, "float64")
    assert is_contraction(lw.jit(reassoc=True)(gemv), *args)
    whole = [x.astype(np.int64) for x in args]
    assert is_contraction(lw.jit(gemv), *whole)


def test_reports_plans_and_tuning_agree() -> None:
    """All of them are about the loops that a call runs, or about its kernel."""
    y, A, x = arguments(gemv, 17, 23, "float64")
    compiled = lw.jit(gemv)
    for lying, is_kernel in ((A, False), (np.asfortranarray(A), True)):
        args = y, lying, x
        plan = compiled.plan(*args)
        assert (plan.whole_contract is not None) == is_kernel
        assert ("no kernel: " in compiled.explain(*args)) != is_kernel
        _, task = compiled.task(*args)
        assert isinstance(task, ContractionTask if is_kernel else ProgramTask)
        assert compiled.inspect_loops(*args)


def test_a_plan_for_the_kernel_is_followed() -> None:
    """... on any arrays: the rule is for what nobody has decided."""
    y, A, x = arguments(gemv, 17, 23, "float64")
    plan = lw.jit(gemv).plan(y, np.asfortranarray(A), x)
    planned = lw.jit(plan=plan)(gemv)
    assert is_contraction(planned, y, np.asfortranarray(A), x)
    expected = in_source_order(gemv, [y, A, x])[0]
    planned(y, np.asfortranarray(A), x)
    np.testing.assert_array_equal(y, expected)


def box(b, a):
    for i in range(b.shape[0]):
        for j in range(b.shape[1]):
            s = 0
            for u in range(3):
                for w in range(5):
                    s += a[i + u, j + w]
            b[i, j] = s


def moving_sum(y, x, k):
    for i in range(y.shape[0]):
        for t in range(k):
            y[i] += x[2 * i + t]


@pytest.mark.drawn(2)
@pytest.mark.parametrize("dtype", ["uint8", "int32", "float64"])
@pytest.mark.parametrize("n", SIZES)
def test_windows_are_loops(n: int, dtype: str) -> None:
    """Also of integers, whose sums may be taken in any order."""
    made = np.random.default_rng(n)
    a, found = made.integers(0, 9, (n + 2, 23)).astype(dtype), np.zeros((n, 19), dtype)
    compiled = lw.jit(box)
    compiled(found, a)
    wanted = sum(a[u : u + n, w : w + 19] for u in range(3) for w in range(5))
    assert np.array_equal(found, wanted)
    if n > 1:
        assert not is_contraction(compiled, found, a)


@pytest.mark.parametrize(("function", "k", "is_kernel"), [(moving_sum, 3, 0), (moving_sum, 2, 1)])
def test_which_sums_overlap(function: Callable[..., Any], k: int, is_kernel: int) -> None:
    """Windows two elements apart overlap where they have three elements, not two."""
    x, y = np.arange(70, dtype=np.int64), np.zeros(30, dtype=np.int64)
    compiled = lw.jit(function)
    compiled(y, x, k)
    assert np.array_equal(y, [x[2 * i : 2 * i + k].sum() for i in range(30)])
    assert is_contraction(compiled, y, x, k) == bool(is_kernel)
