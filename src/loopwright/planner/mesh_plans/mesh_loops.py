"""Loops of a schedule for a mesh: those around one, those over tiles; subscripts, about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile

from loopwright.ir.expr import Const, Expr
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import Band, bands, nodes_of, path_to
from loopwright.ir.visit import walk

__all__ = ["constant_of", "loops_around", "outside_tiles", "strips_of"]


def loops_around(schedule: Schedule, loop: str) -> set[str]:
    """A loop and the loops around it."""
    return {band.loop for band in path_to(nodes_of(schedule), loop)}


def strips_of(before: Schedule, after: Schedule, loops: Sequence[str]) -> dict[str, str]:
    """The loops over tiles by the loops whose tiles they are; those that stay whole themselves."""
    known = {b.loop for b in bands(nodes_of(before))}
    made = [b.loop for b in bands(nodes_of(after)) if b.loop not in known]
    found: dict[str, str] = {}
    for loop in loops:
        strips = [name for name in made if name == f"{loop}_t" or name.startswith(f"{loop}_t_")]
        found[loop] = strips[0] if strips else loop
    return found


def outside_tiles(nest: Sequence[Band], strips: Mapping[str, str]) -> tuple[str, ...]:
    """The loops of a nest, from its first one on, that stand outside of every tile.

    `strips` are the loops over tiles by the loops whose tiles they are (`strips_of`). A loop whose
    tiles have a loop of their own runs inside of one, and so do all loops in it, those over tiles
    included: `y_t` in `for i_t: for i: for y_t: for y` runs once for each i.
    """
    loops = (band.loop for band in nest)
    return tuple(takewhile(lambda loop: strips.get(loop, loop) == loop, loops))


def constant_of(entry: Expr) -> int:
    """The sum of the numbers of a subscript, about."""
    return sum(
        node.value
        for node in walk(entry)
        if isinstance(node, Const) and isinstance(node.value, int)
    )
