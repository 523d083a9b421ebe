"""How far accesses of a nest move in memory from point to point: all strides are constants."""

from __future__ import annotations

from loopwright.ir.expr import Binary, Const, Expr, Load, Unary, Var
from loopwright.ir.program import Access, Array
from loopwright.tuning.loop_tree import TreeStatement, shape_of
from loopwright.tuning.lower_tree import row_major

__all__ = ["access_moves", "linear_form"]


def access_moves(access: Access | Load, array: Array, statement: TreeStatement) -> dict[str, int]:
    """Elements that an access moves by along each dimension, and "" for where it starts."""
    found = dict.fromkeys(("", *(name for name, _ in statement.dims)), 0)
    for entry, stride in zip(access.index, row_major(shape_of(array)), strict=True):
        for name, factor in linear_form(entry).items():
            found[name] += factor * stride
    return found


def linear_form(expr: Expr) -> dict[str, int]:
    """The factors of an affine expression; "" is its constant."""
    match expr:
        case Const(value=value):
            return {"": int(value.real)}
        case Var(name=name):
            return {name: 1}
        case Unary(op="neg", x=x):
            return {name: -factor for name, factor in linear_form(x).items()}
        case Binary(op="add" | "sub" as op, x=x, y=y):
            total, sign = linear_form(x), 1 if op == "add" else -1
            for name, factor in linear_form(y).items():
                total[name] = total.get(name, 0) + sign * factor
            return total
        case Binary(op="mul", x=Const(value=value), y=other):
            return {name: int(value.real) * factor for name, factor in linear_form(other).items()}
        case Binary(op="mul", x=other, y=Const(value=value)):
            return {name: int(value.real) * factor for name, factor in linear_form(other).items()}
    raise AssertionError(expr)
