"""Ranks by counting in Python loops."""


def kernel_rank_by_counting(n, x, rank):
    for i in range(n):
        rank[i] = 0
    for i in range(n):
        for j in range(i):
            rank[i] += 1 if x[j] <= x[i] else 0
            rank[j] += 0 if x[j] <= x[i] else 1
