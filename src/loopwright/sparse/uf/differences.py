"""Bounds on differences of integer unknowns, closed under addition: shortest paths."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

__all__ = ["Differences"]

N = TypeVar("N", bound=Hashable)


class Differences(Generic[N]):
    """The strongest bounds x - y <= c that follow from those that were added.

    They are kept closed: adding one bound updates every pair it shortens (Floyd and Warshall's
    step for one edge).
    """

    def __init__(self) -> None:
        self._out: dict[N, dict[N, int]] = {}  # x -> y -> c with x - y <= c
        self._into: dict[N, dict[N, int]] = {}  # the same from y
        self.is_contradictory = False

    def add_node(self, node: N) -> None:
        if node not in self._out:
            self._out[node] = {node: 0}
            self._into[node] = {node: 0}

    def add(self, x: N, y: N, c: int) -> bool:
        """Learn x - y <= c; returns whether that says anything new."""
        self.add_node(x)
        self.add_node(y)
        known = self._out[x].get(y)
        if known is not None and known <= c:
            return False
        for start, before in tuple(self._into[x].items()):
            row = self._out[start]
            for end, after in self._out[y].items():
                length = before + c + after
                if end not in row or length < row[end]:
                    row[end] = length
                    self._into[end][start] = length
                    self.is_contradictory |= start == end
        return True

    def bound(self, x: N, y: N) -> int | None:
        """The least c known with x - y <= c."""
        return self._out[x].get(y) if x in self._out else None

    def offset(self, x: N, y: N) -> int | None:
        """x - y where it is known to be one number."""
        above, below = self.bound(x, y), self.bound(y, x)
        return above if above is not None and below is not None and above == -below else None

    def nodes(self) -> tuple[N, ...]:
        return tuple(self._out)

    def classes(self) -> Iterator[dict[N, int]]:
        """Nodes that differ by known numbers: each with its value above the first of its class."""
        done: set[N] = set()
        for node, row in self._out.items():
            if node in done:
                continue
            found = {node: 0}
            for other in row:
                if (offset := self.offset(other, node)) is not None:
                    found[other] = offset
            done |= found.keys()
            yield found
