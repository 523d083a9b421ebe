"""How many bytes the buffers of spread scalars take, and how many they may.

A scalar that is spread over loops is a buffer in memory, written and read once for each element: it
pays only as long as it stays in a cache beside what the loops are about. A buffer may take a
quarter of the second cache, and all of them together a quarter of the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from loopwright.analysis.size_estimates import likely_sizes
from loopwright.ir.evaluate import evaluate
from loopwright.ir.machine import Machine
from loopwright.ir.program import Program
from loopwright.transform.scalar_expansion import iterator_range

__all__ = ["BufferShare", "Spread", "unique"]

Spread: TypeAlias = Mapping[str, tuple[str, ...]]  # scalar -> loops over which it is spread

_SHARE = 4  # a cache holds as much of other data three times


class BufferShare:
    """The bytes of spread scalars of a program at likely sizes, against the caches of a machine."""

    def __init__(self, program: Program, machine: Machine) -> None:
        self.program = program
        self.sizes = likely_sizes(program)
        self.most_each = machine.cache(2).size // _SHARE
        self.most_of_all = max(self.most_each, machine.caches[-1].size // _SHARE)
        self._extents: dict[tuple[str, str], int] = {}

    def bytes_of(self, array: str, loops: Iterable[str]) -> int:
        """Bytes of a scalar with an element for every iteration of some loops."""
        total = self.program.array(array).dtype.bytes
        for loop in loops:
            if (array, loop) not in self._extents:
                self._extents[array, loop] = self._extent(array, loop)
            total *= self._extents[array, loop]
        return total

    def _extent(self, array: str, loop: str) -> int:
        """Iterations of a loop from the first to the last in which a scalar is used."""
        users = [
            s
            for s in self.program.statements
            if array in (s.write.array, *(access.array for access in s.reads))
        ]
        limits = iterator_range(users, loop)
        assert limits is not None, "loops over which a scalar may be spread have limits"
        return max(0, int(evaluate(limits[1] - limits[0], self.sizes, {})))

    def has_room(self, spread: Spread) -> bool:
        """Whether the buffers are as small as they should be."""
        found = [self.bytes_of(array, loops) for array, loops in spread.items()]
        return max(found, default=0) <= self.most_each and sum(found) <= self.most_of_all

    def inner_loops(self, most: Spread) -> dict[str, tuple[str, ...]]:
        """The innermost of the loops of every scalar, as many as one buffer has room for."""
        found: dict[str, tuple[str, ...]] = {}
        for array, loops in most.items():
            kept = next(
                loops[at:]
                for at in range(len(loops) + 1)
                if self.bytes_of(array, loops[at:]) <= self.most_each
            )
            if kept:
                found[array] = kept
        return found


def unique(offers: Iterable[Spread]) -> Iterator[Spread]:
    """The offers, each once."""
    seen: list[Spread] = []
    for offer in offers:
        if offer not in seen:
            seen.append(offer)
            yield offer
