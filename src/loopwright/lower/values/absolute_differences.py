"""Absolute differences of narrow unsigned numbers in their own type.

    |int32(x) - int32(y)|   ->   int32(max(x, y) - min(x, y))

No difference of unsigned numbers is greater than their type holds, so that all lanes of a vector of
bytes have one; processors have an instruction for it, which compilers of C know by this form only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from loopwright.ir.absolute_value import absolute_of
from loopwright.ir.expr import Binary, Cast, Expr, Load, Var
from loopwright.ir.loops import For, Let, LoopNest, Mark, Stmt, Store
from loopwright.ir.visit import expressions, loads, names, rebuild, rewrite, statements

__all__ = ["absolute_differences"]


def absolute_differences(nest: LoopNest) -> LoopNest:
    """Take absolute differences of elements that simd loops load and do not write.

    gx: int32 = int32(a[j + 1]) - int32(a[j - 1]); b[j] = uint8(-gx if gx < 0 else gx)
    ->  b[j] = uint8(int32(max(a[j + 1], a[j - 1]) - min(a[j + 1], a[j - 1])))
    """

    def loop(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, For) or stmt.mark is not Mark.SIMD:
            return stmt
        inside = list(statements(stmt.body))
        written = {s.buffer for s in inside if isinstance(s, Store)}
        bound: dict[str, Expr] = {}
        for inner in inside:
            if isinstance(inner, Let):
                # A name that stands for two values stands for none.
                bound[inner.name] = Var(inner.name) if inner.name in bound else inner.value

        def change(expr: Expr) -> Expr:
            found = absolute_of(expr)
            return expr if found is None else _narrow(found, bound, written) or expr

        def visit(one: Stmt) -> Stmt:
            if not isinstance(one, Store | Let):
                return one
            new = replace(one, value=rewrite(one.value, change))
            return new.body if isinstance(new, Let) and not _is_used(new) else new

        return replace(stmt, body=rebuild(stmt.body, visit))

    return replace(nest, body=rebuild(nest.body, loop))


def _is_used(let: Let) -> bool:
    return any(let.name in names(expr) for s in statements(let.body) for expr in expressions(s))


def _narrow(number: Expr, bound: Mapping[str, Expr], written: set[str]) -> Expr | None:
    """The absolute value of a difference in the type of its operands; None for other numbers."""
    found = bound.get(number.name, number) if isinstance(number, Var) else number
    match found:
        case Binary(op="sub", x=Cast(x=Load() as x), y=Cast(x=Load() as y)) if x.dtype == y.dtype:
            is_narrow = x.dtype.kind == "u" and x.dtype.bits < found.dtype.bits
            if is_narrow and not written & {load.array for load in (*loads(x), *loads(y))}:
                apart = Binary("sub", Binary("max", x, y), Binary("min", x, y))
                return Cast(apart, found.dtype)
    return None
