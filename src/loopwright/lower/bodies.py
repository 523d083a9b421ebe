"""Statement bodies: what one instance of a statement does, in terms of the loops around it."""

from __future__ import annotations

from collections.abc import Sequence

from loopwright.ir.expr import Expr
from loopwright.ir.loops import Store
from loopwright.ir.program import Statement
from loopwright.ir.visit import substitute

__all__ = ["statement_body"]


def statement_body(statement: Statement, point: Sequence[Expr]) -> Store:
    """The store of the instance whose iterators have the values `point`."""
    assert len(point) == len(statement.iterators), f"{statement.name} at {point}"
    values = dict(zip(statement.iterators, point, strict=True))
    index = tuple(substitute(entry, values) for entry in statement.write.index)
    value = substitute(statement.value, values)
    return Store(statement.write.array, index, value, statement.name)
