"""Interchange: put perfectly nested loops into another order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from loopwright.diagnostics import UsageError
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import Band, Node, map_bands, nodes_of, perfect_nest
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.schedule_legality import find_band, open_bands, reordered
from loopwright.transform.step import Step, refuse

__all__ = [
    "Interchange",
    "nested_chain",
    "open_chains",
    "rebuilt_chain",
]


@dataclass(frozen=True, slots=True)
class Interchange(Step):
    """Put a run of perfectly nested loops into another order.

    rewrite:  for i: for j: S(i, j)
              ->  for j: for i: S(i, j)                             with loops = ("j", "i")
    needs:    the loops stand directly inside each other, in any order
    refuses:  IllegalStep with the reversed dependence
    """

    kind: ClassVar[str] = "interchange"

    loops: tuple[str, ...]  # the new order, outermost first

    def __post_init__(self) -> None:
        if len(self.loops) < 2 or len(set(self.loops)) != len(self.loops):
            raise UsageError("interchange takes two or more different loops", str(self.loops))

    def apply(self, schedule: Schedule) -> Schedule:
        root = nodes_of(schedule)
        found = nested_chain(self, schedule, root, self.loops)
        by_name = {band.loop: band for band in found}
        changed = rebuilt_chain(root, found, [by_name[loop] for loop in self.loops])
        return reordered(self, schedule, changed)

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[Interchange]:
        """Every swap of two loops of a chain."""
        for names in open_chains(schedule):
            for first in range(len(names)):
                for last in range(first + 1, len(names)):
                    inside = names[first + 1 : last]
                    yield cls((names[last], *inside, names[first]))


def nested_chain(
    step: Step, schedule: Schedule, root: Node, loops: tuple[str, ...]
) -> tuple[Band, ...]:
    """The bands called `loops`, outermost first; refuses unless they are directly nested."""
    runs = (perfect_nest(find_band(step, schedule, root, loop))[: len(loops)] for loop in loops)
    found = next((run for run in runs if {band.loop for band in run} == set(loops)), None)
    if found is None:
        refuse(step, f"loops {', '.join(loops)} do not stand directly inside each other")
    return found


def rebuilt_chain(root: Node, old: tuple[Band, ...], new: list[Band]) -> Node:
    """`root` with the nested bands `old` replaced by `new`, around the same body."""
    node = old[-1].child
    for band in reversed(new):
        node = replace(band, child=node)
    return map_bands(root, lambda band: node if band.loop == old[0].loop else band)


def open_chains(schedule: Schedule) -> Iterator[tuple[str, ...]]:
    """The loops of each maximal run of perfectly nested bands, outermost first."""
    covered: set[str] = set()
    for band in open_bands(schedule):
        if band.loop not in covered:
            names = tuple(inner.loop for inner in perfect_nest(band))
            covered.update(names)
            yield names
