"""Loops that scatter into elements which neither of two iterators tells alone, for threads.

    for i: for j: y[i + j] += x[i] * h[j]

Iterations of i meet in elements of y, and those of j meet once for every i. But every element is
one value of p = i + j, and all that is added to it comes from that value in the order of the
source. So threads share out strips of p, with the loops as they are inside, cut off at the strip:

    parallel for p in steps of B: for i: for j with p <= i + j < p + B: y[i + j] += x[i] * h[j]

Threads meet once, and what a strip gathers stays in L1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loopwright.analysis.size_estimates import coefficients
from loopwright.ir.islkit import context, isl
from loopwright.ir.machine import Machine
from loopwright.ir.program import Statement
from loopwright.ir.schedule_tree import Band, bands, map_bands, moved_by, nodes_of
from loopwright.planner.draft import Draft
from loopwright.transform.loop_marks import Parallel
from loopwright.transform.reschedule import Reschedule, tree_text
from loopwright.transform.tiling import strips_of

__all__ = ["take_gathered_strips"]

_MOST = 2048  # elements of a strip: short signals have several, too
_SHARE = 2  # of L1 that a strip may take
_UNIT = 64


def take_gathered_strips(
    draft: Draft, machine: Machine, band: Band, inside: Sequence[Band]
) -> bool:
    """Share out strips of elements that a loop and one of those inside of it scatter into."""
    program = draft.schedule.program
    writing = [program.statement(name) for name in sorted(band.statements)]
    first = moved_by(band, program)
    for inner in inside:
        second = moved_by(inner, program)
        places = [_places(s, first.get(s.name, ""), second.get(s.name, "")) for s in writing]
        if not all(places):
            continue
        if _taken(draft, machine, band, dict(zip(writing, places, strict=True))):
            return True
    return False


def _taken(draft: Draft, machine: Machine, band: Band, places: Mapping[Statement, str]) -> bool:
    width = max(statement.write.dtype.bytes for statement in places)
    size = min(_MOST, machine.cache(1).size // (_SHARE * width)) // _UNIT * _UNIT
    text = "; ".join(f"{s.name}[{_tuple(s)}] -> [({at})]" for s, at in places.items())
    partial = isl.MultiUnionPwAff.read_from_str(context(), f"p[{{ {text} }}]")
    root = nodes_of(draft.schedule)
    strips = strips_of(Band("p", partial, band), size, {x.loop for x in bands(root)})
    around = map_bands(root, lambda x: strips if x.loop == band.loop else x)
    order = Reschedule(tree_text(draft.schedule.tree.get_domain(), around))
    return draft.take(order, Parallel(strips.loop))


def _tuple(statement: Statement) -> str:
    return ", ".join(f"x{at}" for at in range(len(statement.iterators)))


def _places(statement: Statement, first: str, second: str) -> str:
    """The subscript that moves with both iterators, one element at a time with the second."""
    for entry in statement.write.index:
        factors = dict(coefficients(entry))
        if factors.get(first) and abs(factors.get(second, 0)) == 1:
            own = ((statement.iterators.index(x), factors[x]) for x in (first, second))
            return " + ".join(f"{factor} * x{at}" for at, factor in own)
    return ""
