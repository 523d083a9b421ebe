"""How far accesses of a nest move in memory from point to point: all strides are constants."""

from __future__ import annotations

from loopwright.ir.expr import Binary, Const, Expr, Load, Unary, Var
from loopwright.ir.program import Access, Array
from loopwright.tuning.loop_tree import TreeStatement, shape_of
from loopwright.tuning.lower_tree import row_major

__all__ = ["access_moves", "affine_form", "linear_form"]


def access_moves(access: Access | Load, array: Array, statement: TreeStatement) -> dict[str, int]:
    """Elements that an access moves by along each dimension, and "" for where it starts."""
    found = dict.fromkeys(("", *(name for name, _ in statement.dims)), 0)
    for entry, stride in zip(access.index, row_major(shape_of(array)), strict=True):
        for name, factor in linear_form(entry).items():
            found[name] += factor * stride
    return found


def linear_form(expr: Expr) -> dict[str, int]:
    """The factors of an affine expression; "" is its constant."""
    found = affine_form(expr)
    assert found is not None, expr
    return found


def affine_form(expr: Expr) -> dict[str, int] | None:
    """The same of any expression; None where it is not affine."""
    match expr:
        case Const(value=value):
            return {"": int(value.real)}
        case Var(name=name):
            return {name: 1}
        case Unary(op="neg", x=x):
            return _scaled(affine_form(x), -1)
        case Binary(op="add" | "sub" as op, x=x, y=y):
            total, other = affine_form(x), _scaled(affine_form(y), 1 if op == "add" else -1)
            if total is None or other is None:
                return None
            return total | {name: total.get(name, 0) + factor for name, factor in other.items()}
        case Binary(op="mul", x=Const(value=value), y=y):
            return _scaled(affine_form(y), int(value.real))
        case Binary(op="mul", x=x, y=Const(value=value)):
            return _scaled(affine_form(x), int(value.real))
    return None


def _scaled(form: dict[str, int] | None, factor: int) -> dict[str, int] | None:
    return None if form is None else {name: factor * own for name, own in form.items()}
