"""Graphs and networks, text and strings as integers."""

import numpy as np

from numpy_programs.program import Program


def page_rank(targets, first, damping, tolerance):
    """Rank of pages: the links of page i are targets[first[i]:first[i + 1]]."""
    n = len(first) - 1
    rank = np.full(n, 1.0 / n)
    rounds = 0
    while True:
        new = np.zeros(n)
        lost = 0.0
        for i in range(n):
            links = targets[first[i] : first[i + 1]]
            if len(links) == 0:
                lost += rank[i]
            else:
                np.add.at(new, links, rank[i] / len(links))
        new = damping * (new + lost / n) + (1 - damping) / n
        rounds += 1
        change = np.abs(new - rank).sum()
        rank = new
        if change < tolerance or rounds == 50:
            return rank, rounds


def distances_from(adjacency, start):
    """Breadth-first search by boolean fronts; -1 where nothing leads."""
    distance = np.full(len(adjacency), -1)
    front = np.zeros(len(adjacency), dtype=bool)
    front[start] = True
    depth = 0
    while front.any():
        distance[front] = depth
        reached = adjacency[front].any(axis=0)
        front = reached & (distance < 0)
        depth += 1
    return distance


def triangles(adjacency):
    """How many triangles each vertex lies in, and the share of closed pairs."""
    a = adjacency.astype(np.int64)
    paths = a @ a
    closed = (paths * a).sum(axis=1) // 2
    degree = a.sum(axis=1)
    pairs = degree * (degree - 1) // 2
    share = np.where(pairs > 0, closed / np.maximum(pairs, 1), 0.0)
    return closed, share


def edit_distance(left, right):
    row = np.arange(len(right) + 1)
    for i in range(len(left)):
        above = row.copy()
        row[0] = i + 1
        for j in range(len(right)):
            change = above[j] + (left[i] != right[j])
            row[j + 1] = min(change, above[j + 1] + 1, row[j] + 1)
    return row[-1]


def bigram_surprise(letters, size):
    counts = np.zeros((size, size))
    np.add.at(counts, (letters[:-1], letters[1:]), 1.0)
    totals = counts.sum(axis=1, keepdims=True)
    shares = (counts + 0.5) / (totals + 0.5 * size)
    return -np.log2(shares[letters[:-1], letters[1:]]).mean()


def _links(n, random):
    counts = random.integers(0, 6, n)
    return random.integers(0, n, counts.sum()), np.append(0, counts.cumsum()), 0.85, 1e-8


def _graph(n, random):
    upper = np.triu(random.random((n, n)) < 3.0 / n, 1)
    return upper | upper.T


PROGRAMS = (
    Program(page_rank, _links, (20, 1000, 10**5)),
    Program(distances_from, lambda n, r: (_graph(n, r), 0), (30, 1000, 5000)),
    Program(triangles, lambda n, r: (_graph(n, r),), (20, 300, 1000)),
    Program(
        edit_distance,
        lambda n, r: (r.integers(0, 4, n), r.integers(0, 4, n + 7)),
        (15, 600, 4000),
    ),
    Program(bigram_surprise, lambda n, r: (r.integers(0, 26, n), 26), (80, 10**5, 10**7), ulps=8),
)
