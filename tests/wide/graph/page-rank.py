"""Ranks of pages by repeated steps along links."""


def kernel_page_rank(steps, n, damping, link, rank, next, change):
    for t in range(steps):
        for i in range(n):
            next[i] = 0.0
            for j in range(n):
                next[i] += link[j, i] * rank[j]
            next[i] = (1.0 - damping) / n + damping * next[i]
        change[t] = 0.0
        for i in range(n):
            change[t] += abs(next[i] - rank[i])
            rank[i] = next[i]
