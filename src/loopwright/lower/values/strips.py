"""Serial loops in strips: what is computed for a strip of iterations first lies in small buffers.

for i in range(a, b): body   ->   for s in range(a, b, 64): first(s), body over [s, s + 64)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

from loopwright.ir.expr import Binary, Const, Var
from loopwright.ir.loops import Alloc, Buffer, For, LoopNest, Mark, Stmt, Store
from loopwright.ir.visit import constant_trips, fresh_name, operands, rebuild, statements

__all__ = ["STRIP", "allocated", "change_loops", "fresh", "strip_end", "written"]

STRIP = 64  # iterations: two vectors' worth of starts are little beside them, and 512 bytes fit


def change_loops(
    nest: LoopNest, fewest: int, change: Callable[[For], Stmt], mark: Mark = Mark.SERIAL
) -> LoopNest:
    """`nest` with its loops of a mark and step one changed, but for those of fewer iterations."""

    def visit(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, For) or stmt.mark is not mark or stmt.until is not None:
            return stmt
        trips = _most_trips(stmt)
        if stmt.step != Const(1) or (trips is not None and trips < fewest):
            return stmt
        return change(stmt)

    return replace(nest, body=rebuild(nest.body, visit))


def _most_trips(loop: For) -> int | None:
    """A bound of the iterations of a loop; None where none is known.

    A loop over what a tile lacks ends with the tile or the array, the first of both.
    """
    ends = itertools.product(operands("max", loop.start), operands("min", loop.stop))
    trips = (constant_trips(replace(loop, start=start, stop=stop)) for start, stop in ends)
    return min((count for count in trips if count is not None), default=None)


def strip_end(loop: For, strip: Var) -> Binary:
    """Where the strip of a loop ends that begins at `strip`."""
    return Binary("min", loop.stop, strip + STRIP)


def allocated(loop: For, strip: Var, body: Stmt, buffers: Sequence[Buffer]) -> Stmt:
    """A loop over strips with `body` in each, inside the memory of its buffers."""
    found: Stmt = replace(
        loop, var=strip.name, body=body, step=Const(STRIP), copies=0, mark=Mark.SERIAL
    )
    for buffer in buffers:
        found = Alloc(buffer, (Const(STRIP),), found)
    return found


def written(parts: Sequence[Stmt]) -> set[str]:
    """The buffers that statements store to."""
    return {s.buffer for part in parts for s in statements(part) if isinstance(s, Store)}


def fresh(wish: str, taken: set[str]) -> str:
    """A name that is not taken, taken from now on."""
    name = fresh_name(wish, taken)
    taken.add(name)
    return name
