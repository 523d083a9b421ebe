"""Tiles of the sizes that a user gives, for every nest of loops that allows them.

Of each run of loops that stand directly inside each other the longest part that may be tiled is,
outermost first. Where a nest has no such part, statements that may be are given loops of their own,
one at a time, and these are tiled.
"""

from __future__ import annotations

from loopwright.diagnostics import IllegalStep
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import bands, nodes_of, path_to
from loopwright.transform.interchange import open_chains
from loopwright.transform.loop_fusion import isolate
from loopwright.transform.step import Step
from loopwright.transform.tiling import Tile

__all__ = ["given_tiles"]

_MOST_REASONS = 4  # that a refusal states


def given_tiles(schedule: Schedule, sizes: tuple[int, ...]) -> tuple[tuple[Step, ...], str]:
    """Legal steps that tile every nest, and why loops are not tiled where there are none."""
    steps: list[Step] = []
    reasons: dict[str, None] = {}
    nests = [path_to(nodes_of(schedule), chain[0])[0].loop for chain in open_chains(schedule)]
    for nest in dict.fromkeys(nests):
        chains = [c for c in open_chains(schedule) if c[0] in _loops(schedule, nest)]
        before = len(steps)
        for chain in chains:
            tile, schedule = _tiled(schedule, chain, sizes, reasons)
            steps += tile
        if len(steps) == before:
            parted, schedule = _tiled_parts(schedule, nest, sizes)
            steps += parted
    told = list(reasons) or ["no two loops stand directly inside each other"]
    if len(told) > _MOST_REASONS:
        told[_MOST_REASONS:] = [f"and {len(told) - _MOST_REASONS} more"]
    return tuple(steps), "; ".join(told)


def _loops(schedule: Schedule, nest: str) -> set[str]:
    """The loops of a nest, by the name of its outermost one."""
    outermost = path_to(nodes_of(schedule), nest)[0]
    return {band.loop for band in bands(outermost)}


def _tiled(
    schedule: Schedule, chain: tuple[str, ...], sizes: tuple[int, ...], reasons: dict[str, None]
) -> tuple[list[Step], Schedule]:
    """The tile of a run of loops, if any is legal, and the schedule with it.

    Runs that cannot be shorter say in `reasons` why they are refused: the longer ones hold them.
    """
    longest = min(len(chain), len(sizes))
    least = min(2, len(sizes))  # a loop alone keeps its order in tiles
    for count in range(longest, least - 1, -1):
        for first in range(len(chain) - count + 1):
            tile = Tile(chain[first : first + count], sizes[:count])
            try:
                return [tile], tile.apply(schedule)
            except IllegalStep as error:
                if count == least:
                    reasons[str(error)] = None
    return [], schedule


def _tiled_parts(
    schedule: Schedule, nest: str, sizes: tuple[int, ...]
) -> tuple[list[Step], Schedule]:
    """Tiles of statements that get copies of the loops around them, and the schedule with them."""
    steps: list[Step] = []
    band = path_to(nodes_of(schedule), nest)[0]
    loops = {nest}
    for statement in (s.name for s in schedule.program.statements if s.name in band.statements):
        around = next(
            b.loop
            for b in bands(nodes_of(schedule))
            if b.loop in loops and statement in b.statements
        )
        distribution = isolate(schedule, around, statement)
        if distribution is None:
            continue
        known = {b.loop for b in bands(nodes_of(schedule))}
        try:
            parted = distribution.apply(schedule)
        except IllegalStep:
            continue
        for chain in open_chains(parted):
            if path_to(nodes_of(parted), chain[-1])[-1].statements == {statement}:
                tile, tiled = _tiled(parted, chain, sizes, {})
                if tile:
                    steps += [distribution, *tile]
                    schedule = tiled
                    loops |= {b.loop for b in bands(nodes_of(parted)) if b.loop not in known}
    return steps, schedule
