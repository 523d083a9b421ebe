"""The graph of dependences between statements: its components, and units that run as one.

A unit is a set of statements that are to run as one. Merge the statements of each unit into one
node of the graph. Where no cycle goes through a unit there is an order of the nodes that respects
all dependences; statements outside of units that depend on each other in a cycle keep their source
order among themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

__all__ = [
    "statement_between",
    "strongly_connected_components",
]


def strongly_connected_components(
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


Unit = frozenset[str]


def statement_between(edges: Iterable[tuple[str, str]], units: Sequence[Unit]) -> str | None:
    """A statement that must run both after and before parts of one unit; None when there is none.

    `edges` are the pairs of statements with a dependence from the first to the second; `units` are
    disjoint. A unit in the way of another one is named by one of its statements.
    """
    owner = {name: unit for unit in units for name in unit}
    after: dict[Unit, set[Unit]] = {}
    for source, target in edges:
        pair = [owner.get(name, frozenset({name})) for name in (source, target)]
        if pair[0] != pair[1]:
            after.setdefault(pair[0], set()).add(pair[1])
    for unit in units:
        for node in sorted(after.get(unit, ()), key=min):
            if unit in _reached(after, node):
                return min(node)
    return None


def _reached(after: dict[Unit, set[Unit]], start: Unit) -> set[Unit]:
    """Every node on a path from `start`."""
    seen, waiting = {start}, [start]
    while waiting:
        fresh = after.get(waiting.pop(), set()) - seen
        seen |= fresh
        waiting += fresh
    return seen
