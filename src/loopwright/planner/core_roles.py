"""Which loops of a statement would be the rows, columns and steps of a matrix product."""

from __future__ import annotations

from collections.abc import Iterable

from loopwright.analysis.product_nest import is_banded, sum_of_products
from loopwright.analysis.update_statements import elements
from loopwright.ir.program import Program, Statement
from loopwright.ir.visit import names
from loopwright.lazy_dataclass import dataclass

__all__ = ["Roles", "roles_of"]


@dataclass(frozen=True, slots=True)
class Roles:
    """Iterators of a statement `out plus= left times right`."""

    i: str  # of one factor and out
    j: str  # of the other factor and out; along out's last dimension where that is possible
    p: str  # of both factors, not of out
    missing: tuple[str, ...]  # among i and j: out has one element for all their iterations


def roles_of(program: Program, statement: Statement) -> Roles | None:
    """The loops to make a core of; None when the statement has no such loops."""
    if statement.write.dtype.is_complex or statement.write.dtype.kind == "b":
        return None
    total = sum_of_products(program, statement, statement.iterators)
    if isinstance(total, str):
        return None
    order = statement.iterators
    written = {name for entry in statement.write.index for name in names(entry)}
    pairs = []
    for product in total.products:
        assert product.right is not None
        sides = [
            {n for load in elements(value, order) for n in names(load)} & set(order)
            for value in (product.left, product.right)
        ]
        pairs.append((sides[0], sides[1]))
    steps = _innermost(order, set.intersection(*(x & y for x, y in pairs)) - written)
    first, second = pairs[0]
    one, other = (_loop(order, side, written) for side in (first - second, second - first))
    if steps is None or one is None or other is None:
        return None
    i, j = (one, other) if _is_column(statement, order, written, other, one) else (other, one)
    if not all({i in x, i in y} == {j in x, j in y} == {True, False} for x, y in pairs):
        return None
    if is_banded(statement, (i, j, steps)):
        return None
    missing = tuple(name for name in order if name in (i, j) and name not in written)
    return Roles(i, j, steps, missing)


def _loop(order: tuple[str, ...], side: set[str], written: set[str]) -> str | None:
    """The loop of one factor that serves best: one of out where there is any."""
    return _innermost(order, side & written) or _innermost(order, side)


def _innermost(order: tuple[str, ...], names: Iterable[str]) -> str | None:
    return max(names, key=order.index, default=None)


def _is_column(
    statement: Statement, order: tuple[str, ...], written: set[str], name: str, other: str
) -> bool:
    """Whether vectors should rather run along `name` than along `other`."""
    last = names(statement.write.index[-1]) if statement.write.index else set()
    if (name in last) != (other in last):
        return name in last
    if (name in written) != (other in written):
        # The one out does not have yet becomes one of its first dimensions.
        return name in written
    return order.index(name) > order.index(other)
