"""Loops of dynamic programming for threads: blocks of two iterators, in waves around the order.

An entry of a table over stretches i to j is made of shorter ones, which begin or end alike:

    for i, downwards: for j > i: for r: t[i][j] = min(t[i][j], t[i][r] + t[r + 1][j])

Entries depend on none further along i or along j, in whatever order the loops inside take them. So
blocks of B rows and B columns may run one after the other, and those of equal sum of their numbers
side by side:

    for w: parallel for b in wave w: the loops as they are, cut off at the block (b, w - b)

Threads meet once a wave. The loops inside need not stand directly inside each other.
"""

from __future__ import annotations

from functools import reduce

from loopwright.ir.islkit import context, isl
from loopwright.ir.program import Program
from loopwright.ir.schedule_tree import (
    Band,
    bands,
    directions,
    map_bands,
    nodes_of,
    wavefront,
)
from loopwright.ir.visit import fresh_name
from loopwright.planner.draft import Draft
from loopwright.transform.loop_marks import Parallel
from loopwright.transform.reschedule import Reschedule, tree_text
from loopwright.transform.tiling import strips_of

__all__ = ["take_block_waves"]

_BLOCKS = 16  # along a loop: of a triangle two threads then lose a tenth to waves of odd length
_LEAST, _MOST = 8, 64  # rows and columns of a block
_UNIT = 8  # they are a multiple, so that copies of rows stay together


def take_block_waves(draft: Draft, band: Band, count: float) -> bool:
    """Give blocks of a loop of `count` iterations and of another iterator to threads, if legal."""
    program = draft.schedule.program
    along = directions(band)
    if along.keys() != band.statements:
        return False
    size = int(max(_LEAST, min(_MOST, count / _BLOCKS))) // _UNIT * _UNIT
    own = {name: program.statement(name).iterators[at] for name, (at, _) in along.items()}
    iterators = [program.statement(name).iterators for name in sorted(band.statements)]
    shared = reduce(lambda x, y: [name for name in x if name in y], iterators[1:], [*iterators[0]])
    others = [name for name in shared if name not in own.values()]
    return any(
        _taken(draft, band, _ordered(program, band, other, sign), size)
        for other in others
        for sign in (1, -1)
    )


def _taken(draft: Draft, band: Band, second: Band, size: int) -> bool:
    root = nodes_of(draft.schedule)
    taken = {other.loop for other in bands(root)}
    rows = strips_of(band, size, taken)
    columns = strips_of(second, size, taken | {rows.loop})
    name = fresh_name(f"{band.loop}_w", taken | {rows.loop, columns.loop})
    wave = wavefront(rows, columns, name)
    changed = map_bands(root, lambda other: wave if other.loop == band.loop else other)
    order = Reschedule(tree_text(draft.schedule.tree.get_domain(), changed))
    return draft.take(order, Parallel(rows.loop))


def _ordered(program: Program, band: Band, iterator: str, sign: int) -> Band:
    """A loop around another one, through the values of an iterator of all of its statements."""
    parts = []
    for name in sorted(band.statements):
        iterators = program.statement(name).iterators
        places = ", ".join(f"x{at}" for at in range(len(iterators)))
        parts.append(f"{name}[{places}] -> [({sign} * x{iterators.index(iterator)})]")
    text = f"{iterator}[{{ {'; '.join(parts)} }}]"
    return Band(iterator, isl.MultiUnionPwAff.read_from_str(context(), text), band)
