"""Decide divisions in subscripts by what loops say of their variables.

A loop from s in steps of t has values that the common divisor of s and t divides. With m a divisor
of s and of d, floor((s + r) / d) = floor(s / d) for 0 <= r < m: the block that an iteration of a
strip belongs to is known outside of the strip.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from loopwright.ir.expr import Binary, Const, Expr, Load, Var
from loopwright.ir.loops import Alloc, Block, For, If, Let, LoopNest, Stmt, Store
from loopwright.ir.visit import rewrite, walk
from loopwright.lower.linear import Linear, linear, normal

__all__ = ["decide_divisions"]


@dataclass(frozen=True, slots=True)
class _Range:
    """What is known of a loop variable."""

    start: Linear
    divisor: int  # of its first value; 0 when that is zero
    step: int
    reach: int | None  # its values lie in [start, start + reach)

    @property
    def common(self) -> int:
        """A divisor of all its values."""
        return math.gcd(self.divisor, self.step)


def decide_divisions(nest: LoopNest) -> LoopNest:
    """`nest` with divisions in subscripts written without inner variables where they can be."""
    return replace(nest, body=_visit(nest.body, {}))


def _visit(stmt: Stmt, known: Mapping[str, _Range]) -> Stmt:
    match stmt:
        case For(var=var, body=body):
            return replace(stmt, body=_visit(body, {**known, var: _range(stmt, known)}))
        case Block(body=body):
            return Block(tuple(_visit(child, known) for child in body))
        case If(body=body, orelse=orelse):
            other = None if orelse is None else _visit(orelse, known)
            return replace(stmt, body=_visit(body, known), orelse=other)
        case Let() | Alloc():
            return replace(stmt, body=_visit(stmt.body, known))
        case Store(index=index, value=value):
            if not any(map(_divides, (*index, value))):
                return stmt
            plain = tuple(_decided(entry, known) for entry in index)
            return replace(stmt, index=plain, value=rewrite(value, lambda e: _inside(e, known)))
    return stmt


def _divides(expr: Expr) -> bool:
    return any(isinstance(x, Binary) and x.op == "floordiv" for x in walk(expr))


def _inside(expr: Expr, known: Mapping[str, _Range]) -> Expr:
    """A load with its subscripts decided; other expressions are data, which may wrap around."""
    if not isinstance(expr, Load):
        return expr
    return replace(expr, index=tuple(_decided(entry, known) for entry in expr.index))


def _decided(entry: Expr, known: Mapping[str, _Range]) -> Expr:
    def change(expr: Expr) -> Expr:
        match expr:
            case Binary(op="floordiv", x=x, y=Const(value=int(divisor))) if divisor > 0:
                return _quotient(linear(x), divisor, known)
        return expr

    return normal(rewrite(entry, change))


def _quotient(total: Linear, divisor: int, known: Mapping[str, _Range]) -> Expr:
    """floor(total / divisor)."""
    for atom, factor in total.terms:
        found = known.get(atom.name) if isinstance(atom, Var) else None
        if found is None or factor != 1 or found.reach is None:
            continue
        # total = s + r with 0 <= r < reach, and something that the common divisor divides.
        rest = total - Linear(((atom, 1),), 0)
        common = math.gcd(_common(found.start + Linear(rest.terms, 0), known), divisor)
        if rest.constant >= 0 and rest.constant + found.reach <= common:
            return _quotient(found.start + Linear(rest.terms, 0), divisor, known)
    common = math.gcd(_common(Linear(total.terms, 0), known), divisor)
    aligned = total.constant - total.constant % common if common else total.constant
    return normal(Linear(total.terms, aligned).expr // divisor)


def _common(total: Linear, known: Mapping[str, _Range]) -> int:
    """A number that divides all values of a sum; 0 when they are all zero."""
    result = abs(total.constant)
    for atom, factor in total.terms:
        found = known.get(atom.name) if isinstance(atom, Var) else None
        result = math.gcd(result, abs(factor) * (found.common if found is not None else 1))
    return result


def _range(loop: For, known: Mapping[str, _Range]) -> _Range:
    start = linear(loop.start)
    step = loop.step.value if isinstance(loop.step, Const) else 1
    assert isinstance(step, int)
    ends = _least(loop.stop)
    gaps = [linear(end) - start for end in ends]
    reach = min((gap.constant for gap in gaps if not gap.terms), default=None)
    return _Range(start, _common(start, known), step, reach)


def _least(expr: Expr) -> list[Expr]:
    """The operands of a minimum."""
    if isinstance(expr, Binary) and expr.op == "min":
        return _least(expr.x) + _least(expr.y)
    return [expr]
