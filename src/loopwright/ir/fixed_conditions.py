"""What a loop does not change comes first in the conjunctions of its iterations.

    x[j] == a and y == b   ->   y == b and x[j] == a

A compiler of C asks for it before the loop then, and leaves the loop out where it is not met.
"""

from __future__ import annotations

from collections.abc import Collection

from loopwright.ir.dtypes import BOOL
from loopwright.ir.expr import Binary, Const, Expr, Select
from loopwright.ir.visit import loads, names, rewrite

__all__ = ["fixed_first", "has_fixed_part"]


def fixed_first(expr: Expr, moving: Collection[str]) -> Expr:
    """`expr` with the parts of conjunctions first that no variable of `moving` is in."""

    def change(node: Expr) -> Expr:
        if not has_fixed_part(node, moving):
            return node
        match node:
            case Select(cond=x, x=y, y=never) if _is_fixed(y, moving):
                return Select(y, x, never)
            case Binary(op=op, x=x, y=y) if _is_fixed(y, moving):
                return Binary(op, y, x)
        return node

    return rewrite(expr, change)


def has_fixed_part(cond: Expr, moving: Collection[str]) -> bool:
    """Whether one part of a conjunction is the same in all iterations of a loop, and another not.

    Elements may change in memory: only what has a name is known to stay.
    """
    match cond:
        case Select(cond=x, x=y, y=never) if never == Const(False, BOOL):
            return _is_fixed(x, moving) != _is_fixed(y, moving)
        case Binary(op="and", x=x, y=y) if cond.dtype == BOOL:
            return _is_fixed(x, moving) != _is_fixed(y, moving)
    return False


def _is_fixed(part: Expr, moving: Collection[str]) -> bool:
    return not names(part) & set(moving) and not loads(part)
