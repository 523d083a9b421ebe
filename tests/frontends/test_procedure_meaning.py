"""Whole NumPy functions mean as Procedures what Python computes, bit for bit."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from frontends.kernels import define
from procedure_oracle import agree

RANDOM = np.random.default_rng(1)
A = RANDOM.normal(size=(5, 7))
B = RANDOM.normal(size=(5, 7))
V = RANDOM.normal(size=7)
W = RANDOM.normal(size=5)
N = np.arange(12, dtype=np.int32).reshape(3, 4) - 5


def overlapping(a: Any) -> Any:
    a[1:] = a[:-1]
    a[1:] += a[:-1]
    a[:] = a[::-1]
    return a


def transposed_sum(a: Any) -> Any:
    a += a.T
    return a


def views(a: Any) -> Any:
    x = a[1:, ::2]
    x += 1
    y = x.T[::-1]
    y[0] = 5.0
    return x[1, 1], y, a.T


def negative(a: Any) -> Any:
    return a[-1], a[-2::-1] - a[1:], a[..., None] * a[None, -3:]


def clamped(a: Any, k: int) -> Any:
    s = 0.0
    for i in range(a.shape[0]):
        s += a[i - k : i + k].sum()
        s -= a[: i - 3].sum()
    return s, a[2:100].copy(), a[-100:3].copy(), a[5:2].copy(), a[10:2:-3].copy()


def promoted(a: Any, n: Any, f: Any, k: int) -> Any:
    return a * k, n + 1.5, n * np.float32(2), n // 2, n % 3, f + 1, f * k, n / 2, f**2


def typed(n: Any) -> Any:
    h = n.astype(np.float32)
    c = n + 1j
    return h, c, abs(c), np.sqrt(n), n > 1, ~(n > 1), (n > 1) & (n < 3), np.where(n > 1, n, 0)


def carried(a: Any) -> Any:
    x = 1
    y = 0
    for i in range(a.shape[0]):
        x = x + a[i]
        if a[i] > 0:
            y += 1
        else:
            y -= 2
            continue
        if y > 3:
            break
    return x, y


def collatz(n: int) -> Any:
    count = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        count += 1
    return count


def found_at(a: Any, x: float) -> Any:
    for i in range(len(a)):
        if a[i] == x:
            return i
    return -1


def sign_of(x: float) -> Any:
    if x > 0:
        return 1
    if x < 0:
        return -1
    return 0


def squared(x: Any, k: float = 2.0) -> Any:
    return x * x * k


def smoothed(a: Any, out: Any) -> None:
    out[1:-1] = (a[:-2] + a[2:]) / 2


def with_helpers(a: Any) -> Any:
    b = np.zeros_like(a)
    smoothed(a, b)
    return squared(b) + squared(a, k=3.0) + sign_of(a[0])


def swapped(u: Any, steps: int) -> Any:
    a = u.copy()
    b = np.zeros_like(a)
    for _ in range(steps):
        b[1:-1] = (a[:-2] + a[2:]) / 2
        a, b = b, a
    return a, b


def rebound(a: Any, steps: int) -> Any:
    x = a * 1.0
    for _ in range(steps):
        y = x + 1
        x = y * 0.5
    return x


def reductions(a: Any) -> Any:
    m = a.mean(axis=0)
    return (
        a.sum(), a.sum(axis=0), np.sum(a, axis=1, keepdims=True), a[1:, 1:-1].sum(),
        (a * a).sum(), a.T.sum(axis=0), m, np.max(a, axis=-1), a.min(),
        np.std(a, axis=0), np.var(a), np.prod(a[0]),
        np.all(a > -9), np.any(a > 9, axis=1), np.sum(a > 0), np.mean(a > 0),
    )  # fmt: skip


def constructed(n: int) -> Any:
    a = np.zeros((n, 2), dtype=np.int32)
    a[:, 0] = np.arange(n)
    a[:, 1] = np.arange(n, 0, -1)
    e = np.eye(n, k=1)
    return (
        a,
        e,
        np.linspace(0, 1, n),
        np.full(3, n),
        np.ones(n) * 2,
        np.triu(e, 1),
        np.array([n, 1]),
    )


def products(a: Any, b: Any, v: Any) -> Any:
    return np.outer(v, v), np.add.outer(v, v), np.dot(2.0, v), np.hstack((a, b)), np.flip(v)


def gathered(v: Any, idx: Any) -> Any:
    h = np.zeros(8)
    for i in range(len(idx)):
        h[idx[i]] += v[idx[i]]
    return v[idx], h


def masked(a: Any) -> Any:
    a[a > 1] = 1.0
    a[a < -1] += 1
    return a


def masked_both(a: Any, b: Any) -> Any:
    m = a > 0
    a[m] = a[m] ** 2 + b[m] * 3
    a[a < 0] = 1.0 / a[a < 0]
    chosen = b[m]
    return a, chosen.sum(), len(chosen), np.sqrt(np.abs(a[b > 0])).mean()


def grid(n: int) -> Any:
    i, j = np.mgrid[0:n, 1:4]
    return i * 10 + j


def out_of_bounds(a: Any, n: int) -> None:
    for i in range(n):
        a[i] = i


def divided(n: int) -> Any:
    return 1.0 / n, 7 // n, 7 % n


def loops_over_arrays(a: Any, v: Any) -> Any:
    s = 0.0
    for row in a:
        for k, x in enumerate(row):
            s += x * k
    for x, y in zip(v, v[::-1], strict=False):
        s = s * 0.5 + x * y
    for i in reversed_range(v):
        s += v[i] * i
    return s


def reversed_range(v: Any) -> Any:
    return v[1:].astype(np.int64) * 0


def shapes(a: Any) -> Any:
    n, m = a.shape
    b = np.empty((m, n))
    b[...] = a.T
    b[0], b[1] = b[1], b[0]
    return b, a.ndim, a.size, len(a), a.dtype == np.float64


def broadcast(a: Any, v: Any, w: Any) -> Any:
    return a + v, a * w[:, None], v + w[:, np.newaxis], a + np.ones((1, 1, 7))


def special_powers(a: Any) -> Any:
    return a**2, a**-1, abs(a) ** 0.5, a**1, 1 / a


def shifts(n: Any, k: int) -> Any:
    crc = 0xFFFF
    for b in n:
        crc = (crc >> 1) ^ (b & 0xFF) ^ k
    return crc, n << 2, n >> 70, 1 << k


CASES: list[tuple[Callable[..., Any], tuple[Any, ...], str]] = [
    (overlapping, (V,), "trusting"),
    (overlapping, (V[:1],), "trusting"),
    (transposed_sum, (A[:, :5],), "trusting"),
    (views, (A,), "trusting"),
    (views, (np.asfortranarray(A),), "trusting"),
    (negative, (A,), "python"),
    (negative, (A[:4, :4],), "python"),
    (clamped, (V, 2), "exact"),
    (promoted, (A, N, A.astype(np.float32), 3), "trusting"),
    (promoted, (A, N.astype(np.uint8), A.astype(np.float32), 3), "trusting"),
    (typed, (N,), "trusting"),
    (carried, (V,), "trusting"),
    (collatz, (27,), "trusting"),
    (found_at, (V, float(V[4])), "trusting"),
    (found_at, (V, 2.0), "trusting"),
    (sign_of, (-2.5,), "trusting"),
    (sign_of, (float("nan"),), "trusting"),
    (with_helpers, (V,), "trusting"),
    (swapped, (V, 3), "trusting"),
    (rebound, (A, 3), "trusting"),
    (rebound, (A, 0), "trusting"),
    (reductions, (A,), "trusting"),
    (reductions, (A[::2, ::3],), "trusting"),
    (reductions, (RANDOM.normal(size=(9, 300)).astype(np.float32),), "trusting"),
    (constructed, (4,), "trusting"),
    (products, (A, B, V), "trusting"),
    (gathered, (V, np.array([1, 3, 3, -1])), "trusting"),
    (gathered, (V, np.array([1, 30])), "trusting"),
    (masked, (A,), "trusting"),
    (masked_both, (A, B), "trusting"),
    (masked_both, (A, B[:4]), "python"),
    (grid, (3,), "trusting"),
    (out_of_bounds, (V, 7), "trusting"),
    (out_of_bounds, (V, 9), "exact"),
    (divided, (3,), "trusting"),
    (divided, (0,), "python"),
    (shapes, (A,), "trusting"),
    (broadcast, (A, V, W), "trusting"),
    (broadcast, (A[:, :1], V, W), "trusting"),
    (special_powers, (A,), "trusting"),
    (shifts, (N[0], 3), "trusting"),
]


@pytest.mark.parametrize(("function", "args", "wanted"), CASES)
def test_meaning(function: Callable[..., Any], args: tuple[Any, ...], wanted: str) -> None:
    agree(function, *args, wanted=wanted)


def exported(a: Any, steps: int) -> Any:
    for i in range(steps):
        last = a[i] * 2
        row = a * i
        part = row[1:]
    return last, row, part, i


def rolled(a: Any, k: int) -> Any:
    return np.roll(a, k, axis=0), np.roll(a, (1, -k), axis=(0, 1)), np.roll(a[0], -3)


def sieve(n: int) -> Any:
    a = np.ones(n, dtype=np.bool_)
    for i in range(2, n):
        if i * i < n and a[i]:
            a[i * i :: i] = False
    return a


def narrow(n: Any, k: int) -> Any:
    return n + k


def prelude(a: Any, v: Any) -> Any:
    return np.argmax(v), v.argmin(), np.cumsum(v), v.cumprod(), np.diff(v), np.trace(a)


def page_rank(src: Any, dst: Any, n: int) -> Any:
    r = np.full(n, 1.0 / n)
    change = 1.0
    steps = 0
    while change > 1e-3 and steps < 50:
        new = np.full(n, 0.15 / n)
        for e in range(len(src)):
            new[dst[e]] += 0.85 * r[src[e]]
        change = np.abs(new - r).sum()
        r = new
        steps += 1
    return r, steps


def listed(v: Any) -> Any:
    w = [0.25, 0.5, 0.25]
    out = np.zeros_like(v)
    for i in range(1, len(v) - 1):
        for k in range(3):
            out[i] += w[k] * v[i + k - 1]
    return out


def extremes(n: Any) -> Any:
    return n - np.maximum(2, 0.5), np.minimum(2, 0.5)


def doubled(a: Any) -> Any:
    a *= 2
    return a[0]


def written_between(a: Any) -> Any:
    x = (a + 1) + np.multiply(a, 2, out=a)
    y = a[0] + doubled(a) + a[0]
    np.add(a, 1, a)
    return x, y, np.sqrt(np.abs(a), out=a)


MORE: list[tuple[Callable[..., Any], tuple[Any, ...], str]] = [
    (exported, (V, 3), "trusting"),
    (exported, (V, 0), "python"),
    (carried, (V[:0],), "python"),
    (written_between, (V,), "trusting"),
    (extremes, (N.astype(np.uint8),), "trusting"),
    (rolled, (A, 2), "trusting"),
    (rolled, (A, -9), "trusting"),
    (sieve, (50,), "trusting"),
    (listed, (V,), "trusting"),
    (prelude, (A, V), "trusting"),
    (prelude, (N, np.array([2, 1, 7, 7, 1], np.int8)), "trusting"),
    (prelude, (A, np.array([2, np.nan, 7, np.nan])), "trusting"),
    (prelude, (A, V[:0]), "python"),
    (page_rank, (np.array([0, 1, 2, 2]), np.array([1, 2, 0, 1]), 3), "trusting"),
    (narrow, (N.astype(np.uint8), 200), "trusting"),
    (narrow, (N.astype(np.uint8), 300), "python"),
    (special_powers, (np.array([1.5, 0.0, -2.0]),), "trusting"),
]


@pytest.mark.parametrize(("function", "args", "wanted"), MORE)
def test_more_of_the_meaning(
    function: Callable[..., Any], args: tuple[Any, ...], wanted: str
) -> None:
    agree(function, *args, wanted=wanted)


def test_arrays_that_change_names_in_a_loop() -> None:
    """What NumPy does to an argument under another name is never missed."""

    def swapped(u, n):  # type: ignore[no-untyped-def]
        v = u.copy()
        for _ in range(n):
            v[1:-1] = (u[2:] + u[:-2]) / 2
            u, v = v, u
        return u

    def kept(u, n):  # type: ignore[no-untyped-def]
        before = u.copy()
        for _ in range(n):
            before = u
            u = before * 2 + 1
        return u + before

    def locals_swapped(u, n):  # type: ignore[no-untyped-def]
        v, w = u.copy(), np.zeros_like(u)
        for k in range(n):
            w[:] = v * 2 + k
            v, w = w, v
        return v, w

    for function, n in itertools.product((swapped, kept, locals_swapped), range(4)):
        u, v = np.arange(6.0), np.arange(6.0)
        found, wanted = lw.jit(function)(u, n), function(v, n)
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(u, v)


def test_branches_that_may_return_are_read_once() -> None:
    """Copies of what stands behind them would double with each."""
    lines = ["def f(a, n):", "    x = a[0]"]
    for k in range(40):
        lines += [
            f"    if n > {k}:",
            f"        if a[1] > {k}:",
            "            return x",
            "    x += n",
        ]
    function = define("\n".join([*lines, "    return x", ""]))
    for a in (np.array([0.5, 1.0]), np.array([0.5, -1.0])):
        assert lw.jit(function)(a, 2) == function(a, 2)


EXTENTS = (0, 1, 2, 5)


@pytest.mark.parametrize("first", EXTENTS)
@pytest.mark.parametrize("second", EXTENTS)
def test_extents_that_data_decide_broadcast(first: int, second: int) -> None:
    """Whether an extent is 1 is seen when the function runs; where NumPy raises, it raises."""
    text = "def f(a, b, y):\n    for k in range(1, 2):\n        x = a[a > 0] * 3\n"
    whole = define(text + "        y += x + b[k:]\n    return y\n")
    agree(whole, np.arange(first + 1.0), np.arange(second + 1.0), np.ones((2, 2)))


@pytest.mark.parametrize("values", [0, 1, 2, 3])
def test_elements_by_a_mask_are_given_a_vector(values: int) -> None:
    """One element for each true one, or one for all; another number raises before it writes."""
    text = "def f(a, b):\n    a[a > 1] = b\n    a[a > 2] += b[b > 0]\n    a[a > 2] *= a[a > 2]\n"
    agree(define(text), np.array([[1.0, 2.0], [3.0, 0.0]]), np.arange(values))
    agree(define(text), np.array([[1, 2], [3, 4]], np.int8), np.arange(1, values + 1, dtype=int))
