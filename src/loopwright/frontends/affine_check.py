"""Whether bounds, subscripts and conditions are affine, and the error for those that are not.

The polyhedral model covers affine functions of loop variables, sizes and integer arguments. Front
ends refuse everything else with `not_affine`, whose message says which part is the reason.
"""

from __future__ import annotations

from loopwright.frontends.refusal import Refusal
from loopwright.ir.dtypes import BOOL, INT64
from loopwright.ir.expr import (
    BINARY_OPS,
    COMPARISONS,
    UNARY_OPS,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    Unary,
    Var,
)

__all__ = [
    "PRODUCT",
    "not_affine",
    "why_no_affine_condition",
    "why_not_affine",
    "why_not_piecewise",
]

PRODUCT = "a product of two variables"  # a reason for which the C front end has a hint of its own


def not_affine(code: str, what: str, source: str, reason: str, hint: str) -> Refusal:
    """The error for an expression that must be affine and is not.

    `what` names its use ("the subscript"), `source` is its text, `reason` the part that is not
    affine, as the functions below tell it.
    """
    message = f"{what} is not affine in the loop variables and sizes"
    return Refusal(code, message, found=f"{source}, {reason}", hint=hint)


def why_not_affine(expr: Expr) -> str | None:
    """Why `expr` is not an affine function of variables, in words; None when it is one.

    Minima and maxima count as affine, other functions of several cases do not.
    """
    return _why(expr, cases=False)


def why_not_piecewise(expr: Expr) -> str | None:
    """Why `expr` is not piecewise affine, as `i - 1 if i > 0 else n - 1` is; None when it is.

    Accepts what `islkit.affine` accepts, but for conversions that may lose bits.
    """
    return _why(expr, cases=True)


def _why(expr: Expr, *, cases: bool) -> str | None:
    def why_not(part: Expr) -> str | None:
        return _why(part, cases=cases)

    match expr:
        case Const(dtype=dtype) | Var(dtype=dtype) if dtype == INT64:
            return None
        case Unary(op="neg", x=x):
            return why_not(x)
        case Binary(op="add" | "sub" | "min" | "max", x=x, y=y):
            return why_not(x) or why_not(y)
        case Binary(op="mul", x=x, y=y):
            if isinstance(x, Const) or isinstance(y, Const):
                return why_not(x) or why_not(y)
            return PRODUCT
        case Binary(op="floordiv" | "mod", x=x, y=y):
            if isinstance(y, Const) and isinstance(y.value, int) and y.value > 0:
                return why_not(x)
            return "a division by something other than a positive constant"
        case Binary(op="div"):
            return "a true division; // divides integers"
        case Binary(op=op):
            return f"an operator '{BINARY_OPS[op]}'"
        case Unary(op=op):
            return f"an operator '{UNARY_OPS[op]}'"
        case Load(index=()):
            return "a scalar that is known only at run time"
        case Load():
            return "an array element"
        case Select(cond=cond, x=x, y=y) if cases:
            return why_no_affine_condition(cond) or why_not(x) or why_not(y)
        case Select():
            return "a conditional expression"
        case Call(function=function):
            return f"a call of '{function}'"
        case Cast(dtype=dtype):
            return f"a conversion to {dtype}"
        case Const(dtype=dtype) | Var(dtype=dtype):
            return f"a value of type {dtype}"


def why_no_affine_condition(expr: Expr) -> str | None:
    """Why `expr` is not a boolean combination of affine comparisons; None when it is one."""
    match expr:
        case Const(dtype=dtype) if dtype == BOOL:
            return None
        case Unary(op="not", x=x) if x.dtype == BOOL:
            return why_no_affine_condition(x)
        case Binary(op="and" | "or", x=x, y=y) if x.dtype == BOOL:
            return why_no_affine_condition(x) or why_no_affine_condition(y)
        case Binary(op=op, x=x, y=y) if op in COMPARISONS:
            return why_not_piecewise(x) or why_not_piecewise(y)
        case _:
            return why_not_piecewise(expr)
