"""Units: sets of statements that may run as one, everything else before or after them.

Merge the statements of each unit into one node of the graph of dependences. Where no cycle goes
through a unit there is an order of the nodes that respects all dependences; statements outside of
units that depend on each other in a circle keep their source order among themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["between_units"]

Unit = frozenset[str]


def between_units(edges: Iterable[tuple[str, str]], units: Sequence[Unit]) -> str | None:
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
