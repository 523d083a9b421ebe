"""Quotients and remainders of indices by sizes, as case distinctions.

    0 <= i < n:  (i + 1) % n  is  i + 1 if i + 1 < n else i + 1 - n
                 (i - 1) % n  is  i - 1 + n if i - 1 < 0 else i - 1, where it rounds down

Remainders by a size are no affine functions; these are, piece by piece, and index-set splitting
(`piecewise_subscripts`) takes their borders apart. Periodic boundaries are written so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from loopwright.frontends.affine_terms import as_terms, summed
from loopwright.ir.dtypes import INT64
from loopwright.ir.expr import Binary, Const, Expr, Select, Var
from loopwright.ir.visit import rewrite

__all__ = ["by_cases_of_sizes", "near_division"]

Prove: TypeAlias = Callable[[Expr], bool]  # whether an affine condition always holds here

_MOST_PERIODS = 3  # quotients that are tried for a dividend near a multiple of its divisor


def near_division(op: str, x: Expr, y: Expr, prove: Prove, first: int = 0) -> Expr | None:
    """`x / y` or `x % y`, rounded down, where at most two quotients are possible; None elsewhere.

    They are from `first` on: 0 where division rounds towards zero and x must not be negative.
    """
    # Of sums only: x is copied several times, and cases inside it would multiply.
    if isinstance(x, Const) or not (_is_plain(x) and _is_plain(y)) or not prove(y >= 1):
        return None
    for count in range(first, _MOST_PERIODS):
        if not prove(x >= y * count):
            return None
        after = _sum(y * (count + 1))
        if prove(x < after):
            return Const(count) if op == "/" else _sum(x - y * count)
        if prove(x < y * (count + 2)):
            if op == "/":
                return Select(x < after, Const(count), Const(count + 1))
            return Select(x < after, _sum(x - y * count), _sum(x - after))
    return None


def by_cases_of_sizes(place: Expr, prove: Prove) -> Expr:
    """An index with its quotients and remainders by sizes as cases; those of Python round down."""

    def change(node: Expr) -> Expr:
        match node:
            case Binary(op="floordiv" | "mod" as op, x=x, y=y) if (
                node.dtype == INT64 and not isinstance(y, Const)
            ):
                word = "/" if op == "floordiv" else "%"
                return near_division(word, x, y, prove, 1 - _MOST_PERIODS) or node
            case _:
                return node

    return rewrite(place, change)


def _is_plain(x: Expr) -> bool:
    """Whether an index is a sum of variables and a constant."""
    return all(part is None or isinstance(part, Var) for part in as_terms(x))


def _sum(x: Expr) -> Expr:
    return summed(as_terms(x))
