"""Functions as ordinary users write them: read whole, they mean what Python computes."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from frontends.kernels import define
from procedure_oracle import agree, compare

RANDOM = np.random.default_rng(0)
OFFSETS = [(-1, 0), (1, 0), (0, -1), (0, 1)]


def flood(image, row, column):
    stack = np.empty((image.size * 4, 2), dtype=np.int64)
    stack[0] = row, column
    count, filled = 1, 0
    while count > 0:
        count -= 1
        r, c = stack[count]
        if image[r, c] != 0:
            continue
        image[r, c] = 2
        filled += 1
        for dr, dc in OFFSETS:
            if 0 <= r + dr < image.shape[0] and 0 <= c + dc < image.shape[1]:
                stack[count] = r + dr, c + dc
                count += 1
    return filled


def newton(f_degree, x, tolerance=1e-12):
    def value(x):
        return x**f_degree - 2.0

    slopes = (lambda x: f_degree * x ** (f_degree - 1),)
    for k in range(50):
        step = value(x) / slopes[0](x)
        x -= step
        if abs(step) < tolerance:
            return x, k
    else:
        return x, -1


def horner(coefficients, x):
    result = 0.0
    for c in reversed(coefficients):
        result = result * x + c
    return result


def matrix_power(a, n):
    result = np.eye(len(a))
    while n > 0:
        if n & 1:
            result = result @ a
        a = a @ a
        n >>= 1
    return result


def gauss(a, b):
    n = len(b)
    for k in range(n):
        p = k + np.argmax(np.abs(a[k:, k]))
        if p != k:
            for j in range(n):
                a[k, j], a[p, j] = a[p, j], a[k, j]
            b[k], b[p] = b[p], b[k]
        for i in range(k + 1, n):
            m = a[i, k] / a[k, k]
            a[i, k:] -= m * a[k, k:]
            b[i] -= m * b[k]
    x = np.zeros(n)
    for i in range(n - 1, -1, -1):
        x[i] = (b[i] - a[i, i + 1 :] @ x[i + 1 :]) / a[i, i]
    return x


def jacobi(a, b, tolerance):
    x = np.zeros_like(b)
    d = np.diag(a)
    r = a - np.diag(d)
    for k in range(100):
        new = (b - r @ x) / d
        if np.abs(new - x).max() < tolerance:
            return new, k
        x = new
    return x, -1


def knapsack(weights, values, capacity):
    best = np.zeros(capacity + 1, dtype=np.int64)
    for w, v in zip(weights, values, strict=True):
        for c in range(capacity, w - 1, -1):
            best[c] = max(best[c], best[c - w] + v)
    return best[capacity]


def first_true(mask):
    for i, m in enumerate(mask):  # noqa: B007, it is read behind the loop
        if m:
            break
    else:
        i = -1
    return i


def small_table(n):
    primes = [2, 3, 5, 7, 11]
    powers = [0] * 5
    for k in range(5):
        while n % primes[k] == 0:
            n //= primes[k]
            powers[k] += 1
    return powers[0], powers[1], powers[4], n


def bisect_all(f, lows, highs):
    out = np.zeros(len(lows))
    for i in lw.prange(len(lows)):
        lo, hi = lows[i], highs[i]
        for _ in range(60):
            mid = (lo + hi) / 2
            if f * mid - 1.0 < 0:
                lo = mid
            else:
                hi = mid
        out[i] = lo
    return out


def joined(*parts):
    total = 0.0
    for p in parts:
        total += p.sum()
    return total


def varargs(a, b):
    return joined(a, b, a * b), joined(*(a, b))


M = RANDOM.random((6, 6)) + 6 * np.eye(6)
CALLS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (flood, (RANDOM.integers(0, 2, (6, 7)), 2, 3)),
    (newton, (3, 1.5)),
    (horner, (np.array([1.0, 2.0, 3.0]), 0.5)),
    (matrix_power, (M / 7, 5)),
    (gauss, (RANDOM.random((5, 5)), RANDOM.random(5))),
    (jacobi, (M, RANDOM.random(6), 1e-10)),
    (knapsack, (np.array([1, 3, 4]), np.array([15, 20, 30]), 6)),
    (first_true, (np.array([False, False, True]),)),
    (first_true, (np.zeros(3, bool),)),
    (small_table, (2**3 * 3 * 11 * 13,)),
    (bisect_all, (3.0, np.zeros(5), np.ones(5))),
    (varargs, (RANDOM.random(3), RANDOM.random(3))),
]


@pytest.mark.parametrize(("function", "given"), CALLS, ids=[f.__name__ for f, _ in CALLS])
def test_function(function: Callable[..., Any], given: tuple[Any, ...]) -> None:
    bound = inspect.signature(function).bind(*given)
    bound.apply_defaults()
    agree(function, *bound.args, wanted="", slack=1e-13)


def test_arrays_from_outside_are_looked_at_in_every_call() -> None:
    table = np.zeros(4)

    def kernel(x: Any, i: int) -> Any:
        return table[i] * x

    def total(x: Any) -> Any:
        table[0] += 1
        return kernel(x, 0) + kernel(x, 1) + table.sum()

    compiled = lw.jit(total)
    for number in (1.0, 5.0):
        table[1] = number
        before = table.copy()
        found, after = compiled(2.0), table.copy()
        table[:] = before
        compare(found, total(2.0))
        compare(after, table)
    table = np.arange(3, dtype=np.int32)
    compare(compiled(2.0), np.float64(8.0))


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        ("a[i] = a[i] * 2 + b[0]", "is proven to be independent"),
        ("row = m[i]\n        row[:] = row + i", "is proven to be independent"),
        ("a[idx[i]] += 1", "stays in order: iterations may meet in 'a'"),
        ("s += a[i]", "stays in order: a number is handed from one iteration to the next"),
    ],
)
def test_claims_of_prange(body: str, verdict: str) -> None:
    function = _claimed(body)
    given = np.ones(4), np.ones(4), np.ones((4, 3)), np.array([1, 1, 2, 0])
    agree(function, *given)
    assert f"prange {verdict}" in lw.jit(function).explain(*given)


@pytest.mark.parametrize(
    ("body", "conflict"),
    [
        ("a[i] = a[i - 1]", "iterations i and i + 1 write and read the same element of 'a'"),
        ("b[2] = i", "iterations i and i + 1 write the same element of 'b'"),
        ("b[i // 2] = 1.0\n        b[0] = 1.0", "iterations i and i + 1 write"),
    ],
)
def test_a_wrong_claim_is_refused(body: str, conflict: str) -> None:
    given = np.ones(4), np.ones(4), np.ones((4, 3)), np.array([1, 1, 2, 0])
    with pytest.raises(lw.SourceError, match=r"prange is not independent \[LW196\]") as caught:
        lw.jit(_claimed(body))(*given)
    assert f"note: found {conflict}" in str(caught.value)


def _claimed(body: str) -> Callable[..., Any]:
    text = f"""
    def f(a, b, m, idx):
        s = 0.0
        for i in lw.prange(1, len(idx)):
            {body.replace(chr(10) + "        ", chr(10) + "            ")}
        return np.sqrt(s)
    """
    return define(text, lw=lw)
