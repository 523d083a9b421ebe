"""Compare and choose integers in the narrow type that they come from.

C widens what it compares: of bytes `a < b ? a : b` is a choice of ints, and a vector of ints has a
quarter of the lanes. Comparisons, selections, minima and maxima only hand on one of their operands:
where these are values of one narrow type T, converted to a wider type W that holds all of them,

    W(a) < W(b)  ==  a < b        c ? W(a) : W(b)  ==  W(c ? a : b)        T(W(a))  ==  a
"""

from __future__ import annotations

from dataclasses import replace

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import COMPARISONS, Binary, Cast, Const, Expr, Select, Var
from loopwright.ir.loops import Alloc, Block, For, If, Let, LoopNest, Mark, Stmt, Store
from loopwright.ir.visit import rebuild, rewrite
from loopwright.lower.build import substitute_statement

__all__ = ["narrow_selections"]


def narrow_selections(nest: LoopNest) -> LoopNest:
    """Take conversions out of the comparisons and selections of simd loops.

        a[j] = uint8(int32(b[j]) if int32(b[j]) < int32(c[j]) else int32(c[j]))
    ->  a[j] = b[j] if b[j] < c[j] else c[j]
    """

    def loop(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, For) or stmt.mark is not Mark.SIMD:
            return stmt
        return replace(stmt, body=_statement(stmt.body))

    return replace(nest, body=rebuild(nest.body, loop))


def _statement(stmt: Stmt) -> Stmt:
    """`stmt` with narrow selections, bindings before what is made of them."""
    match stmt:
        case Store(value=value):
            found = rewrite(value, _narrowed)
            return stmt if found is value else replace(stmt, value=found)
        case Let(name=name, value=value, body=body):
            found = rewrite(value, _narrowed)
            if found is not value and isinstance(found, Cast) and _widens(found):
                known = Cast(Var(name, found.x.dtype), found.dtype)
                body = substitute_statement(body, {name: known})
                found = found.x
            return replace(stmt, value=found, body=_statement(body))
        case Block(body=parts):
            return Block(tuple(map(_statement, parts)))
        case For(body=body) | Alloc(body=body):
            return replace(stmt, body=_statement(body))
        case If(cond=cond, body=body, orelse=orelse):
            return If(cond, _statement(body), orelse and _statement(orelse))
    return stmt


def _narrowed(expr: Expr) -> Expr:
    """`expr` in the type that its operands come from; these are narrowed already."""
    match expr:
        case Binary(op=op, x=x, y=y) if op in COMPARISONS or op in ("min", "max"):
            source = _source(x, y)
            if source is None:
                return expr
            found = Binary(op, _fitted(x, source), _fitted(y, source))
            return found if op in COMPARISONS else Cast(found, expr.dtype)
        case Select(cond=cond, x=x, y=y):
            source = _source(x, y)
            if source is None:
                return expr
            return Cast(Select(cond, _fitted(x, source), _fitted(y, source)), expr.dtype)
        case Cast(x=Cast(x=x) as inner, dtype=dtype) if _widens(inner) and x.dtype == dtype:
            return x
        case Cast(x=Select(cond=cond, x=Const() as x, y=Const() as y), dtype=dtype):
            if x.dtype.is_integer and _holds(dtype, x) and _holds(dtype, y):
                return Select(cond, _fitted(x, dtype), _fitted(y, dtype))
    return expr


def _source(x: Expr, y: Expr) -> DType | None:
    """The narrow type that two operands come from; constants come from any that holds them."""
    types = {part.x.dtype for part in (x, y) if isinstance(part, Cast) and _widens(part)}
    others = [part for part in (x, y) if not (isinstance(part, Cast) and _widens(part))]
    if len(types) != 1:
        return None
    source = types.pop()
    is_known = all(isinstance(part, Const) and _holds(source, part) for part in others)
    return source if is_known else None


def _fitted(part: Expr, source: DType) -> Expr:
    """A part as a value of the narrow type that it comes from."""
    if isinstance(part, Cast):
        return part.x
    assert isinstance(part, Const)
    return Const(part.value, source)


def _widens(expr: Cast) -> bool:
    """Whether a conversion of integers keeps every value, in more bits."""
    narrow, wide = expr.x.dtype, expr.dtype
    is_wider = narrow.is_integer and wide.is_integer and narrow.bits < wide.bits
    return is_wider and wide.least <= narrow.least


def _holds(dtype: DType, constant: Const) -> bool:
    value = constant.value
    return dtype.is_integer and isinstance(value, int) and dtype.least <= value <= dtype.greatest
