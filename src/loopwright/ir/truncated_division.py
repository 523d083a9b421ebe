"""Integer division as C means it, found again in the form that front ends give it.

Expressions round quotients towards minus infinity; C rounds towards zero, which is one more where
the operands differ in sign and a remainder is left:

    x / y  ->  x // y + 1   if (x < 0) ^ (y < 0) and x % y != 0 else x // y
    x % y  ->  x % y - y    if (x < 0) ^ (y < 0) and x % y != 0 else x % y

Machines have an instruction for C's. Backends write that one where they meet the form.
"""

from __future__ import annotations

from loopwright.ir.expr import Binary, Const, Expr, Select

__all__ = ["truncated_division"]


def truncated_division(expr: Select) -> tuple[str, Expr, Expr] | None:
    """ "div" or "rem" with the operands of C's division, where `expr` is the form of one."""
    match expr:
        case Select(
            cond=Binary(op="and", x=sign, y=Binary(op="ne", x=Binary(op="mod", x=x, y=y))),
            x=Binary(op="add", x=Binary(op="floordiv") as down, y=Const(value=1)),
            y=other,
        ) if other == down == Binary("floordiv", x, y):
            op = "div"
        case Select(
            cond=Binary(op="and", x=sign, y=Binary(op="ne", x=Binary(op="mod") as rest)),
            x=Binary(op="sub", x=first, y=last),
            y=other,
        ) if other == rest == first and last == rest.y:
            x, y, op = rest.x, rest.y, "rem"
        case _:
            return None
    zero = Const(0, x.dtype)
    is_negative = Binary("lt", x, zero)
    mixed = Binary("xor", is_negative, Binary("lt", y, zero))
    is_positive = isinstance(y, Const) and isinstance(y.value, int) and y.value > 0
    return (op, x, y) if sign == (is_negative if is_positive else mixed) else None
