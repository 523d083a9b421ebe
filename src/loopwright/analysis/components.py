"""Statements that depend on each other in circles, and an order of those that do not."""

from __future__ import annotations

from collections.abc import Collection, Sequence

__all__ = ["components"]


def components(
    nodes: Sequence[str], edges: Collection[tuple[str, str]]
) -> tuple[tuple[str, ...], ...]:
    """The strongly connected components of a graph, sources first.

    Nodes of a component keep their order; of components that may come next the one with the
    earliest node does, so that a graph without edges stays as it is.
    """
    reach = _reachable(nodes, edges)
    place = {node: k for k, node in enumerate(nodes)}
    groups: list[tuple[str, ...]] = []
    seen: set[str] = set()
    for node in nodes:
        if node not in seen:
            group = tuple(x for x in nodes if x == node or (x in reach[node] and node in reach[x]))
            seen.update(group)
            groups.append(group)
    ordered: list[tuple[str, ...]] = []
    while groups:
        ready = (g for g in groups if not any(set(g) & reach[h[0]] for h in groups if h != g))
        first = min(ready, key=lambda g: place[g[0]])
        groups.remove(first)
        ordered.append(first)
    return tuple(ordered)


def _reachable(nodes: Sequence[str], edges: Collection[tuple[str, str]]) -> dict[str, set[str]]:
    """For each node those that a path of one or more edges leads to."""
    known = set(nodes)
    after: dict[str, set[str]] = {node: set() for node in nodes}
    for source, target in edges:
        if source in known and target in known:
            after[source].add(target)
    for middle in nodes:
        for node in nodes:
            if middle in after[node]:
                after[node] |= after[middle]
    return after
