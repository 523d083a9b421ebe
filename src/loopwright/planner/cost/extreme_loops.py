"""Innermost loops that take extremes of floating numbers: lanes find them, no chain waits.

What the loop will be is built of its statements and shown to those who take it in lanes
(lower/values/extremes_in_lanes).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loopwright.ir.expr import Const, Var
from loopwright.ir.loops import Block, For, Store
from loopwright.ir.program import Statement
from loopwright.ir.visit import substitute
from loopwright.lower.values.extremes import takes_extremes

__all__ = ["are_extremes"]

_LOOP = Var("loop")  # in the place of the iterators that it moves
_END = Var("end")


def are_extremes(statements: Sequence[Statement], moving: Mapping[str, str]) -> bool:
    """Whether a loop over statements in their order takes extremes, and does nothing else.

    `moving` has the iterator of each statement that the loop runs through.
    """
    if not any(s.write.dtype.is_float and s.write in s.reads for s in statements):
        return False
    stores = []
    for statement in statements:
        values = {moving.get(statement.name, ""): _LOOP}
        index = tuple(substitute(entry, values) for entry in statement.write.index)
        stores.append(Store(statement.write.array, index, substitute(statement.value, values)))
    body = stores[0] if len(stores) == 1 else Block(tuple(stores))
    return takes_extremes(For(_LOOP.name, Const(0), _END, body, Const(1)))
