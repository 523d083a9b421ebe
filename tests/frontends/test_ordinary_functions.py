"""Functions as users of numba write them: compiled whole, they do what Python does, to the bit."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopwright as lw

RANDOM = np.random.default_rng(0)
VECTOR, MATRIX = RANDOM.random(20), RANDOM.random((6, 8))


def mandelbrot(xs, ys, most, out):
    for i in range(len(ys)):
        for j in range(len(xs)):
            x = y = 0.0
            n = 0
            while x * x + y * y <= 4.0 and n < most:
                x, y = x * x - y * y + xs[j], 2 * x * y + ys[i]
                n += 1
            out[i, j] = n


def histogram(x, low, high, bins):
    counts = np.zeros(bins, dtype=np.int64)
    for v in x:
        if low <= v < high:
            counts[int((v - low) / (high - low) * bins)] += 1
    return counts


def sparse_product(first, columns, values, x):
    y = np.zeros(len(first) - 1)
    for i in range(len(first) - 1):
        for k in range(first[i], first[i + 1]):
            y[i] += values[k] * x[columns[k]]
    return y


def sparse_rows(first, columns, values, x):
    y = np.empty(first.size - 1)
    for i in range(y.size):
        row = slice_of(values, first, i)
        y[i] = (row * x[slice_of(columns, first, i)]).sum()
    return y


def slice_of(array, first, i):
    return array[first[i] : first[i + 1]]


def cubic(x):
    return x * x * x - 2 * x - 5


def bisection(a, b, tolerance):
    at_a = cubic(a)
    while b - a > tolerance:
        middle = 0.5 * (a + b)
        value = cubic(middle)
        if value == 0:
            return middle
        if at_a * value < 0:
            b = middle
        else:
            a, at_a = middle, value
    return 0.5 * (a + b)


def sieve(n):
    is_prime = np.ones(n + 1, dtype=np.bool_)
    is_prime[:2] = False
    for i in range(2, int(n**0.5) + 1):
        if is_prime[i]:
            is_prime[i * i :: i] = False
    return is_prime


def longest_collatz(n):
    longest, at = 0, 0
    for start in range(1, n):
        k, length = start, 1
        while k != 1:
            k = k // 2 if k % 2 == 0 else 3 * k + 1
            length += 1
        if length > longest:
            longest, at = length, start
    return at, longest


def divisor(a, b):
    while b:
        a, b = b, a % b
    return a


def bubble_sort(x):
    for i in range(len(x)):
        swapped = False
        for j in range(len(x) - 1 - i):
            if x[j] > x[j + 1]:
                x[j], x[j + 1] = x[j + 1], x[j]
                swapped = True
        if not swapped:
            break
    return x


def binary_search(x, wanted):
    low, high = 0, len(x)
    while low < high:
        middle = (low + high) // 2
        if x[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


def find(x, wanted):
    for i, v in enumerate(x):
        if v == wanted:
            return i
    return -1


def edit_distance(a, b):
    before = np.arange(b.size + 1)
    for i in range(1, a.size + 1):
        now = np.empty(b.size + 1, dtype=before.dtype)
        now[0] = i
        for j in range(1, b.size + 1):
            changed = before[j - 1] + (a[i - 1] != b[j - 1])
            now[j] = min(before[j] + 1, now[j - 1] + 1, changed)
        before = now
    return before[b.size]


def life(cells, generations):
    for _ in range(generations):
        rows = np.roll(cells, 1, 0) + cells + np.roll(cells, -1, 0)
        around = np.roll(rows, 1, 1) + rows + np.roll(rows, -1, 1) - cells
        cells = ((around == 3) | ((cells == 1) & (around == 2))).astype(cells.dtype)
    return cells


def without_outliers(x, width):
    mean, deviation = x.mean(), x.std()
    x[np.abs(x - mean) > width * deviation] = mean
    return x


def moving_average(x, n):
    sums = np.cumsum(x)
    sums[n:] = sums[n:] - sums[:-n]
    return sums[n - 1 :] / n


def draws(n, seed):
    inside = 0
    for _ in range(n):
        seed = (1103515245 * seed + 12345) % 2147483648
        x = seed / 2147483648
        seed = (1103515245 * seed + 12345) % 2147483648
        y = seed / 2147483648
        while x > 1:
            x -= 1
        if x * x + y * y < 1:
            inside += 1
    return 4 * inside / n


LETTERS = RANDOM.integers(0, 4, 12)
ROWS = np.array([0, 2, 2, 5, 6]), np.array([0, 3, 1, 2, 0, 3]), RANDOM.random(6), RANDOM.random(4)
CALLS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (mandelbrot, (np.linspace(-2, 0.6, 9), np.linspace(-1, 1, 7), 30, np.zeros((7, 9), int))),
    (histogram, (RANDOM.normal(size=50), -2.0, 2.0, 10)),
    (sparse_product, ROWS),
    (sparse_rows, ROWS),
    (bisection, (1.0, 3.0, 1e-9)),
    (sieve, (200,)),
    (longest_collatz, (60,)),
    (divisor, (84, 36)),
    (bubble_sort, (VECTOR,)),
    (binary_search, (np.sort(VECTOR), 0.4)),
    (find, (LETTERS, 3)),
    (find, (LETTERS, 9)),
    (edit_distance, (LETTERS, LETTERS[::-2])),
    (life, (RANDOM.integers(0, 2, (6, 8)), 3)),
    (without_outliers, (VECTOR, 1.2)),
    (moving_average, (VECTOR, 4)),
    (draws, (200, 42)),
]


@pytest.mark.parametrize(("function", "given"), CALLS, ids=[f.__name__ for f, _ in CALLS])
def test_function(function: Callable[..., Any], given: tuple[Any, ...]) -> None:
    one, other = copy.deepcopy(given), copy.deepcopy(given)
    expected, found = function(*one), lw.jit(function)(*other)
    for x, y in zip((*one, expected), (*other, found), strict=True):
        assert type(x) is type(y)
        assert getattr(x, "dtype", None) == getattr(y, "dtype", None)
        assert np.array_equal(x, y)
