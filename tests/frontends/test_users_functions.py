"""Forty functions as ordinary users write them: read whole, they mean what Python computes."""

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from frontends.kernels import define
from procedure_oracle import agree, compare

RANDOM = np.random.default_rng(0)
WEIGHTS = np.array([0.25, 0.5, 0.25])
OFFSETS = [(-1, 0), (1, 0), (0, -1), (0, 1)]
SCALE = 2.5


def time_warping(a, b):
    n, m = len(a), len(b)
    cost = np.full((n + 1, m + 1), np.inf)
    cost[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            d = abs(a[i - 1] - b[j - 1])
            cost[i, j] = d + min(cost[i - 1, j], cost[i, j - 1], cost[i - 1, j - 1])
    return cost[n, m]


def k_means(points, centers, rounds):
    labels = np.zeros(len(points), dtype=np.int64)
    for _ in range(rounds):
        for i, p in enumerate(points):
            labels[i] = np.argmin(((centers - p) ** 2).sum(axis=1))
        sums = np.zeros_like(centers)
        counts = np.zeros(len(centers))
        for i in range(len(points)):
            sums[labels[i]] += points[i]
            counts[labels[i]] += 1
        for k in range(len(centers)):
            if counts[k] > 0:
                centers[k] = sums[k] / counts[k]
    return labels


def life_by_slices(grid, steps):
    for _ in range(steps):
        n = np.zeros(grid.shape, dtype=np.int64)
        n[1:-1, 1:-1] = (
            grid[:-2, :-2]
            + grid[:-2, 1:-1]
            + grid[:-2, 2:]
            + grid[1:-1, :-2]
            + grid[1:-1, 2:]
            + grid[2:, :-2]
            + grid[2:, 1:-1]
            + grid[2:, 2:]
        )
        birth = (n == 3) & (grid == 0)
        survive = ((n == 2) | (n == 3)) & (grid == 1)
        grid[...] = 0
        grid[birth | survive] = 1
    return grid


def weighted(x):
    out = x.copy()
    for i in range(1, len(x) - 1):
        out[i] = np.dot(WEIGHTS, x[i - 1 : i + 2])
    return out * SCALE


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


def runge_kutta(y, t, dt, steps):
    def f(t, y):
        return np.array([y[1], -math.sin(y[0]) - 0.1 * y[1]])

    for _ in range(steps):
        k1 = f(t, y)
        k2 = f(t + dt / 2, y + dt / 2 * k1)
        k3 = f(t + dt / 2, y + dt / 2 * k2)
        k4 = f(t + dt, y + dt * k3)
        y = y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        t += dt
    return t, y


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


def is_prime(n):
    if n < 2:
        return False
    if n in (2, 3):
        return True
    if n % 2 == 0:
        return False
    i = 3
    while i * i <= n:
        if n % i == 0:
            return False
        i += 2
    return True


def primes_below(n):
    count = 0
    for k in range(n):
        if is_prime(k):
            count += 1
    return count


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


def count_votes(votes, weights):
    tally = np.zeros(5)
    np.add.at(tally, votes, weights)
    order = [int(v) for v in (tally[0], tally[1], tally[2])]
    return tally, tally.argmax(), sum(order)


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


def softmax_loss(x, w, y):
    z = x @ w
    z -= z.max(axis=1, keepdims=True)
    p = np.exp(z)
    p /= p.sum(axis=1, keepdims=True)
    n = len(y)
    return -np.log(p[np.arange(n), y]).mean(), p


def convolve2d(image, kernel):
    kh, kw = kernel.shape
    padded = np.pad(image, ((kh // 2, kh // 2), (kw // 2, kw // 2)), mode="edge")
    out = np.zeros_like(image)
    for i in range(kh):
        for j in range(kw):
            out += kernel[i, j] * padded[i : i + image.shape[0], j : j + image.shape[1]]
    return out


def lagrange(xs, ys, x):
    total = 0.0
    for i in range(len(xs)):
        term = ys[i]
        for j in range(len(xs)):
            if j != i:
                term *= (x - xs[j]) / (xs[i] - xs[j])
        total += term
    return total


def knapsack(weights, values, capacity):
    best = np.zeros(capacity + 1, dtype=np.int64)
    for w, v in zip(weights, values, strict=True):
        for c in range(capacity, w - 1, -1):
            best[c] = max(best[c], best[c - w] + v)
    return best[capacity]


def shortest_paths(d):
    n = d.shape[0]
    for k in range(n):
        d[:] = np.minimum(d, d[:, k][:, None] + d[k])
    return d


def monte_carlo_pi(points):
    return 4.0 * np.sum(points[:, 0] ** 2 + points[:, 1] ** 2 <= 1.0) / len(points)


def rle(x):
    values = np.zeros_like(x)
    lengths = np.zeros(len(x), dtype=np.int64)
    count = 0
    for i in range(len(x)):
        if i > 0 and x[i] == x[i - 1]:
            lengths[count - 1] += 1
        else:
            values[count] = x[i]
            lengths[count] = 1
            count += 1
    return values, lengths, count


def exponential_average(x, alpha=0.3):
    out = np.empty_like(x)
    out[0] = x[0]
    for i in range(1, x.shape[0]):
        out[i] = alpha * x[i] + (1 - alpha) * out[i - 1]
    return out


def normalise(a, axis=0):
    return (a - a.mean(axis=axis, keepdims=True)) / a.std(axis=axis, keepdims=True)


def standardise_rows(a):
    return normalise(a, axis=1), normalise(a)


def rotate(points, angle):
    c, s = math.cos(angle), math.sin(angle)
    r = np.array([[c, -s], [s, c]])
    return points @ r.T


def bilinear(image, y, x):
    y0, x0 = int(np.floor(y)), int(np.floor(x))
    y1, x1 = min(y0 + 1, image.shape[0] - 1), min(x0 + 1, image.shape[1] - 1)
    fy, fx = y - y0, x - x0
    top = image[y0, x0] * (1 - fx) + image[y0, x1] * fx
    bottom = image[y1, x0] * (1 - fx) + image[y1, x1] * fx
    return top * (1 - fy) + bottom * fy


def pairwise(points):
    delta = points[:, None, :] - points[None, :, :]
    return np.sqrt((delta**2).sum(-1))


def wave(u, steps, c=0.5):
    before = u.copy()
    now = u.copy()
    for _ in range(steps):
        after = np.zeros_like(now)
        after[1:-1] = 2 * now[1:-1] - before[1:-1] + c**2 * (now[2:] - 2 * now[1:-1] + now[:-2])
        before, now = now, after
    return now


def trapezoids(f_values, a, b):
    h = (b - a) / (len(f_values) - 1)
    return h * (f_values.sum() - 0.5 * (f_values[0] + f_values[-1]))


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


def clipped_histogram(x, edges):
    idx = np.searchsorted(edges, x) - 1
    idx = np.clip(idx, 0, len(edges) - 2)
    h = np.zeros(len(edges) - 1, dtype=int)
    for k in idx:
        h[k] += 1
    return h


def upper_pairs(n):
    found = np.zeros((n * (n - 1) // 2, 2), dtype=np.int64)
    k = 0
    for i in range(n):
        for j in range(i + 1, n):
            found[k] = (i, j)
            k += 1
    return found


def checked_mean(x, kind=1):
    if x.size == 0:
        raise ValueError("empty")
    if kind == 1:
        return x.mean()
    elif kind == 2:
        return x.sum()
    return x.max()


def lattice(f, steps):
    cx = np.array([0, 1, 0, -1, 0, 1, -1, -1, 1])
    cy = np.array([0, 0, 1, 0, -1, 1, 1, -1, -1])
    w = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4)
    for _ in range(steps):
        for i in range(9):
            f[i] = np.roll(np.roll(f[i], cx[i], axis=0), cy[i], axis=1)
        rho = f.sum(axis=0)
        ux = (f * cx[:, None, None]).sum(axis=0) / rho
        uy = (f * cy[:, None, None]).sum(axis=0) / rho
        for i in range(9):
            cu = 3 * (cx[i] * ux + cy[i] * uy)
            feq = rho * w[i] * (1 + cu + 0.5 * cu**2 - 1.5 * (ux**2 + uy**2))
            f[i] += -0.6 * (f[i] - feq)
    return f


M = RANDOM.random((6, 6)) + 6 * np.eye(6)
CALLS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (time_warping, (RANDOM.random(8), RANDOM.random(9))),
    (k_means, (RANDOM.random((20, 2)), RANDOM.random((3, 2)), 4)),
    (life_by_slices, (RANDOM.integers(0, 2, (8, 9)), 3)),
    (weighted, (RANDOM.random(9),)),
    (flood, (RANDOM.integers(0, 2, (6, 7)), 2, 3)),
    (runge_kutta, (np.array([1.0, 0.0]), 0.0, 0.1, 5)),
    (newton, (3, 1.5)),
    (horner, (np.array([1.0, 2.0, 3.0]), 0.5)),
    (is_prime, (97,)),
    (is_prime, (91,)),
    (primes_below, (60,)),
    (matrix_power, (M / 7, 5)),
    (gauss, (RANDOM.random((5, 5)), RANDOM.random(5))),
    (count_votes, (RANDOM.integers(0, 5, 30), RANDOM.random(30))),
    (jacobi, (M, RANDOM.random(6), 1e-10)),
    (softmax_loss, (RANDOM.random((5, 4)), RANDOM.random((4, 3)), np.array([0, 2, 1, 1, 0]))),
    (convolve2d, (RANDOM.random((7, 8)), RANDOM.random((3, 3)))),
    (lagrange, (np.arange(4.0), RANDOM.random(4), 1.5)),
    (knapsack, (np.array([1, 3, 4]), np.array([15, 20, 30]), 6)),
    (shortest_paths, (RANDOM.random((6, 6)),)),
    (monte_carlo_pi, (RANDOM.random((40, 2)),)),
    (rle, (np.array([1, 1, 2, 3, 3, 3]),)),
    (exponential_average, (RANDOM.random(7),)),
    (standardise_rows, (RANDOM.random((4, 5)),)),
    (rotate, (RANDOM.random((5, 2)), 0.3)),
    (bilinear, (RANDOM.random((5, 6)), 2.3, 4.9)),
    (pairwise, (RANDOM.random((5, 3)),)),
    (wave, (RANDOM.random(9), 4)),
    (trapezoids, (RANDOM.random(9), 0.0, 2.0)),
    (first_true, (np.array([False, False, True]),)),
    (first_true, (np.zeros(3, bool),)),
    (small_table, (2**3 * 3 * 11 * 13,)),
    (bisect_all, (3.0, np.zeros(5), np.ones(5))),
    (varargs, (RANDOM.random(3), RANDOM.random(3))),
    (clipped_histogram, (RANDOM.random(20), np.linspace(0, 1, 6))),
    (upper_pairs, (5,)),
    (checked_mean, (RANDOM.random(5),)),
    (checked_mean, (RANDOM.random(0),)),
    (lattice, (RANDOM.random((9, 4, 5)) + 1, 2)),
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
