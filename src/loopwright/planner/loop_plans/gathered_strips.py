"""Loops that scatter into elements which neither of two iterators tells alone, for threads.

    for i: for j: y[i + j] += x[i] * h[j]

Iterations of i meet in elements of y, and those of j meet once for every i. But every element is
one value of p = i + j, and all that is added to it comes from that value in the order of the
source. So threads share out strips of p, with the loops as they are inside, cut off at the strip:

    parallel for p in steps of B: for i: for j with p <= i + j < p + B: y[i + j] += x[i] * h[j]

Threads meet once, and what a strip gathers stays in L1. Where p counts rows of y, a strip has as
many rows as fit, and a few at least.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from loopwright.analysis.size_estimates import coefficients, likely_sizes, row_bytes
from loopwright.ir.islkit import context, isl
from loopwright.ir.machine import Machine
from loopwright.ir.program import Array, Program, Statement
from loopwright.ir.schedule_tree import Band, bands, map_bands, moved_by, nodes_of
from loopwright.planner.draft import Draft
from loopwright.transform.loop_marks import Parallel
from loopwright.transform.reschedule import Reschedule, tree_text
from loopwright.transform.tiling import strips_of

__all__ = ["take_gathered_strips"]

_MOST = 2048  # elements of a strip: short signals have several, too
_SHARE = 2  # of L1 that a strip may take
_UNIT = 64
_LEAST_ROWS = 16  # of a strip of rows: of loops that are jammed few copies are cut off then
_Place = tuple[int, str]  # the dimension of an array, and its subscript


def take_gathered_strips(
    draft: Draft, machine: Machine, band: Band, inside: Iterable[tuple[Band, bool]]
) -> bool:
    """Share out strips of elements that a loop and one of those inside of it scatter into.

    Of single elements only where the loop inside is long, as `inside` tells: strips cut it.
    """
    program = draft.schedule.program
    writing = [program.statement(name) for name in sorted(band.statements)]
    first = moved_by(band, program)
    for inner, is_long in inside:
        second = moved_by(inner, program)
        places = [_places(s, first.get(s.name, ""), second.get(s.name, "")) for s in writing]
        found = {s: place for s, place in zip(writing, places, strict=True) if place is not None}
        is_offered = is_long or all(_is_row(s, at) for s, (at, _) in found.items())
        is_whole = len(found) == len(writing)
        if is_offered and is_whole and _taken(draft, machine, band, found):
            return True
    return False


def _taken(draft: Draft, machine: Machine, band: Band, places: Mapping[Statement, _Place]) -> bool:
    sizes = likely_sizes(draft.schedule.program)
    rows = [row_bytes(_rest(draft.schedule.program, s, at), sizes) for s, (at, _) in places.items()]
    size = min(_MOST, machine.cache(1).size // (_SHARE * max(1, *rows)))
    is_row = any(_is_row(s, at) for s, (at, _) in places.items())
    size = max(_LEAST_ROWS, size) if is_row else size // _UNIT * _UNIT
    text = "; ".join(f"{s.name}[{_tuple(s)}] -> [({place})]" for s, (_, place) in places.items())
    partial = isl.MultiUnionPwAff.read_from_str(context(), f"p[{{ {text} }}]")
    root = nodes_of(draft.schedule)
    strips = strips_of(Band("p", partial, band), size, {x.loop for x in bands(root)})
    around = map_bands(root, lambda x: strips if x.loop == band.loop else x)
    order = Reschedule(tree_text(draft.schedule.tree.get_domain(), around))
    return draft.take(order, Parallel(strips.loop))


def _is_row(statement: Statement, at: int) -> bool:
    """Whether a subscript tells a row, not an element of one."""
    return at + 1 < len(statement.write.index)


def _tuple(statement: Statement) -> str:
    return ", ".join(f"x{at}" for at in range(len(statement.iterators)))


def _rest(program: Program, statement: Statement, at: int) -> Array:
    """The array that a statement writes, without the dimensions before one."""
    array = program.array(statement.write.array)
    return replace(array, shape=array.shape[at:])


def _places(statement: Statement, first: str, second: str) -> _Place | None:
    """The subscript that moves with both iterators, by one with the second, and its dimension."""
    for dimension, entry in enumerate(statement.write.index):
        factors = dict(coefficients(entry))
        if factors.get(first) and abs(factors.get(second, 0)) == 1:
            own = ((statement.iterators.index(x), factors[x]) for x in (first, second))
            return dimension, " + ".join(f"{factor} * x{at}" for at, factor in own)
    return None
