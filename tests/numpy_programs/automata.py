"""Cellular automata and puzzles: neighbours, thresholds, sieves."""

import numpy as np

from numpy_programs.program import Program


def life(cells, generations):
    """Conway's life on a plane with dead borders."""
    for _ in range(generations):
        around = np.zeros(cells.shape, dtype=np.int8)
        around[1:-1, 1:-1] = (
            cells[:-2, :-2] + cells[:-2, 1:-1] + cells[:-2, 2:] + cells[1:-1, :-2]
            + cells[1:-1, 2:] + cells[2:, :-2] + cells[2:, 1:-1] + cells[2:, 2:]
        )  # fmt: skip
        born = (around == 3) & (cells == 0)
        stays = ((around == 2) | (around == 3)) & (cells == 1)
        cells[...] = 0
        cells[born | stays] = 1
    return int(cells.sum())


def elementary(rule, width, steps):
    table = np.array([(rule >> k) & 1 for k in range(8)], dtype=np.uint8)
    history = np.zeros((steps, width), dtype=np.uint8)
    history[0, width // 2] = 1
    for t in range(1, steps):
        row = history[t - 1]
        code = 4 * np.roll(row, 1) + 2 * row + np.roll(row, -1)
        history[t] = table[code]
    return history


def sandpile(heights):
    """Topple until every column holds less than four grains."""
    rounds = 0
    unstable = heights >= 4
    while unstable.any():
        share = heights // 4
        share[~unstable] = 0
        heights -= 4 * share
        heights[1:] += share[:-1]
        heights[:-1] += share[1:]
        heights[:, 1:] += share[:, :-1]
        heights[:, :-1] += share[:, 1:]
        unstable = heights >= 4
        rounds += 1
    return rounds


def primes(limit):
    sieve = np.ones(limit, dtype=np.bool_)
    sieve[:2] = False
    k = 2
    while k * k < limit:
        if sieve[k]:
            sieve[k * k :: k] = False
        k += 1
    return sieve, np.count_nonzero(sieve)


PROGRAMS = (
    Program(life, lambda n, r: (r.integers(0, 2, (n, n), dtype=np.int8), 5), (14, 300, 2000)),
    Program(elementary, lambda n, r: (30, n, n // 2), (24, 1000, 5000)),
    Program(sandpile, lambda n, r: (r.integers(0, 7, (n, n)),), (10, 60, 200)),
    Program(primes, lambda n, r: (n,), (100, 10**6, 10**8)),
)
