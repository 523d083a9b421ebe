"""Ten functions as people bring them to numba, life in two spellings."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.numpy_functions import sources  # noqa: F401, isort: skip, finds the tests

from numpy_programs.program import Program

__all__ = ["PROGRAMS"]


def mandelbrot(real, imag, most):
    counts = np.zeros((len(imag), len(real)), dtype=np.int64)
    for i in range(len(imag)):
        for j in range(len(real)):
            x, y, count = 0.0, 0.0, 0
            while count < most and x * x + y * y <= 4.0:
                x, y = x * x - y * y + real[j], 2.0 * x * y + imag[i]
                count += 1
            counts[i, j] = count
    return counts


def histogram(values, bins):
    counts = np.zeros(bins, dtype=np.int64)
    low, high = values.min(), values.max()
    width = (high - low) / bins
    for i in range(len(values)):
        place = int((values[i] - low) / width)
        if place == bins:
            place = bins - 1
        counts[place] += 1
    return counts


def csr_product(first, columns, entries, x):
    y = np.zeros(len(first) - 1)
    for i in range(len(y)):
        total = 0.0
        for k in range(first[i], first[i + 1]):
            total += entries[k] * x[columns[k]]
        y[i] = total
    return y


def bisection(targets, tolerance):
    roots = np.empty(len(targets))
    for i in range(len(targets)):
        low, high = 0.0, 10.0
        while high - low > tolerance:
            middle = (low + high) / 2
            if middle * middle * middle + middle < targets[i]:
                low = middle
            else:
                high = middle
        roots[i] = (low + high) / 2
    return roots


def sieve(limit):
    is_prime = np.ones(limit, dtype=np.bool_)
    is_prime[:2] = False
    k = 2
    while k * k < limit:
        if is_prime[k]:
            for multiple in range(k * k, limit, k):
                is_prime[multiple] = False
        k += 1
    return is_prime


def time_warping(left, right):
    n, m = len(left), len(right)
    cost = np.full((n + 1, m + 1), np.inf)
    cost[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            least = min(cost[i - 1, j], cost[i, j - 1], cost[i - 1, j - 1])
            cost[i, j] = abs(left[i - 1] - right[j - 1]) + least
    return cost[n, m]


def k_means(points, centres, rounds):
    labels = np.zeros(len(points), dtype=np.int64)
    for _ in range(rounds):
        for i in range(len(points)):
            best = np.inf
            for c in range(len(centres)):
                distance = 0.0
                for d in range(points.shape[1]):
                    apart = points[i, d] - centres[c, d]
                    distance += apart * apart
                if distance < best:
                    best = distance
                    labels[i] = c
        sums = np.zeros(centres.shape)
        counts = np.zeros(len(centres))
        for i in range(len(points)):
            counts[labels[i]] += 1.0
            for d in range(points.shape[1]):
                sums[labels[i], d] += points[i, d]
        for c in range(len(centres)):
            if counts[c] > 0:
                for d in range(points.shape[1]):
                    centres[c, d] = sums[c, d] / counts[c]
    return labels


def page_rank(pages, targets, degrees, damping, rounds):
    n = len(degrees)
    rank = np.full(n, 1.0 / n)
    for _ in range(rounds):
        new = np.full(n, (1.0 - damping) / n)
        for link in range(len(pages)):
            page = pages[link]
            new[targets[link]] += damping * rank[page] / degrees[page]
        rank = new
    return rank


def life_by_slices(cells, generations):
    for _ in range(generations):
        around = (
            cells[:-2, :-2] + cells[:-2, 1:-1] + cells[:-2, 2:] + cells[1:-1, :-2]
            + cells[1:-1, 2:] + cells[2:, :-2] + cells[2:, 1:-1] + cells[2:, 2:]
        )  # fmt: skip
        inner = cells[1:-1, 1:-1]
        inner[:, :] = (around == 3) | ((around == 2) & (inner == 1))
    return cells.sum()


def life_by_roll(cells, generations):
    for _ in range(generations):
        up, down = np.roll(cells, 1, axis=0), np.roll(cells, -1, axis=0)
        column = up + cells + down
        around = np.roll(column, 1, axis=1) + column + np.roll(column, -1, axis=1) - cells
        cells[:, :] = (around == 3) | ((around == 2) & (cells == 1))
    return cells.sum()


def lattice_boltzmann(flow, moved, dx, dy, weights, relaxation, steps):
    count, n, m = flow.shape
    for _ in range(steps):
        for i in range(n):
            for j in range(m):
                rho, ux, uy = 0.0, 0.0, 0.0
                for k in range(count):
                    rho += flow[k, i, j]
                    ux += dx[k] * flow[k, i, j]
                    uy += dy[k] * flow[k, i, j]
                ux /= rho
                uy /= rho
                square = 1.5 * (ux * ux + uy * uy)
                for k in range(count):
                    along = 3.0 * (dx[k] * ux + dy[k] * uy)
                    equal = weights[k] * rho * (1.0 + along + 0.5 * along * along - square)
                    to_i, to_j = (i + dx[k] + n) % n, (j + dy[k] + m) % m
                    moved[k, to_i, to_j] = flow[k, i, j] - relaxation * (flow[k, i, j] - equal)
        flow[:, :, :] = moved
    return flow.sum()


def _links(n: int, random: np.random.Generator) -> tuple[Any, ...]:
    start, end = random.integers(0, n, (2, 8 * n))
    return start, end, np.maximum(np.bincount(start, minlength=n), 1).astype(np.float64), 0.85, 10


def _rows(n: int, random: np.random.Generator) -> tuple[Any, ...]:
    first = np.concatenate([[0], random.integers(0, 40, n).cumsum()])
    columns = random.integers(0, n, first[-1])
    return first, columns, random.normal(size=first[-1]), random.normal(size=n)


def _flow(n: int, random: np.random.Generator) -> tuple[Any, ...]:
    dx = np.array([0, 1, 0, -1, 0, 1, -1, -1, 1])
    dy = np.array([0, 0, 1, 0, -1, 1, 1, -1, -1])
    weights = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4)
    flow = weights[:, None, None] * (1 + 0.01 * random.random((9, n, n)))
    return flow, np.zeros_like(flow), dx, dy, weights, 0.6, 10


def _cells(n: int, random: np.random.Generator) -> tuple[Any, ...]:
    return random.integers(0, 2, (n, n)), 20


PROGRAMS: dict[str, Program] = {
    program.name: program
    for program in (
        Program(
            mandelbrot,
            lambda n, r: (np.linspace(-2, 0.5, n), np.linspace(-1.2, 1.2, n), 100),
            (40, 400, 1500),
        ),
        Program(histogram, lambda n, r: (r.normal(size=n), 100), (10**4, 10**6, 10**7)),
        Program(csr_product, _rows, (1000, 10**5, 10**6)),
        Program(
            bisection, lambda n, r: (r.uniform(0, 1000, n), 1e-12), (1000, 10**5, 10**6), ulps=1
        ),
        Program(sieve, lambda n, r: (n,), (10**5, 10**6, 10**7)),
        Program(time_warping, lambda n, r: (r.normal(size=n), r.normal(size=n)), (200, 1500, 5000)),
        Program(
            k_means,
            lambda n, r: (r.normal(size=(n, 4)), r.normal(size=(10, 4)), 5),
            (1000, 10**5, 10**6),
        ),
        Program(page_rank, _links, (1000, 10**5, 10**6)),
        Program(life_by_slices, _cells, (64, 512, 2048)),
        Program(life_by_roll, _cells, (64, 512, 2048)),
        Program(lattice_boltzmann, _flow, (32, 200, 800)),
    )
}
