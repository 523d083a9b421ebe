"""The least delays that keep all distances between them: longest paths in a small graph."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["longest_paths"]


def longest_paths(count: int, edges: Iterable[tuple[int, int, int]]) -> tuple[int, ...] | None:
    """The least d >= 0 with d[y] >= d[x] + w for all edges (x, y, w); None where a cycle grows."""
    edges = tuple(edges)
    found = [0] * count
    for _ in range(count + 1):
        before = list(found)
        for x, y, weight in edges:
            found[y] = max(found[y], found[x] + weight)
        if found == before:
            return tuple(found)
    return None
