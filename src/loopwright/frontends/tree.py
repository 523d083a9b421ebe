"""SourceTree: a loop program as written, between a language's syntax and the polyhedral model.

Front ends for languages of loops (Python, C) end here; `extract` begins here. Values are typed
expressions of `ir/expr`, all conversions written out. Names are unique in the whole tree: two
loops over `i` are called `i` and `i_1`. Bounds, subscripts and conditions are affine: the front
ends refuse the rest with the reason that `why_not_affine` gives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from loopwright.diagnostics import Span
from loopwright.ir.dtypes import BOOL, INT64, DType
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
from loopwright.ir.program import Access

__all__ = [
    "PRODUCT",
    "ArrayParam",
    "Assign",
    "Branch",
    "IntParam",
    "Local",
    "Loop",
    "Node",
    "Param",
    "Result",
    "ScalarParam",
    "SourceTree",
    "why_no_affine_condition",
    "why_not_affine",
    "why_not_piecewise",
]

PRODUCT = "a product of two variables"  # the reason that front ends can give good advice for


@dataclass(frozen=True, slots=True)
class ArrayParam:
    """An array argument."""

    name: str
    dtype: DType
    shape: tuple[Expr, ...]  # extents; a Var of a name in SourceTree.sizes where not declared
    span: Span


@dataclass(frozen=True, slots=True)
class IntParam:
    """An integer argument; bounds, subscripts and values may use it as Var(name)."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class ScalarParam:
    """A floating or complex argument; values use it as an array of rank 0."""

    name: str
    dtype: DType
    span: Span


Param: TypeAlias = ArrayParam | IntParam | ScalarParam


@dataclass(frozen=True, slots=True)
class Local:
    """A variable of the function; a scalar has no extents. Its contents start undefined."""

    name: str
    dtype: DType
    shape: tuple[Expr, ...]  # affine in sizes and integer arguments
    span: Span


@dataclass(frozen=True, slots=True)
class Assign:
    """`target = value`; the value has the target's dtype."""

    target: Access
    value: Expr
    span: Span


@dataclass(frozen=True, slots=True)
class Loop:
    """`for var in range(start, stop, step): body`, as in Python for either sign of the step."""

    var: str
    start: Expr
    stop: Expr
    step: int  # never zero
    body: tuple[Node, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Branch:
    """`body` where `cond` holds, else `orelse`."""

    cond: Expr  # bool: "and", "or", "not" over comparisons of affine expressions
    body: tuple[Node, ...]
    orelse: tuple[Node, ...]
    span: Span


Node: TypeAlias = Assign | Loop | Branch


@dataclass(frozen=True, slots=True)
class Result:
    """What the function hands back: names of array parameters and locals."""

    names: tuple[str, ...]
    is_tuple: bool  # `return a,` and `return a` differ


@dataclass(frozen=True, slots=True)
class SourceTree:
    """A function of loops: its signature, its variables, its body."""

    name: str
    params: tuple[Param, ...]  # in call order; the caller binds arguments by position
    sizes: tuple[str, ...]  # extents of array parameters, int64, at least zero
    locals: tuple[Local, ...]
    body: tuple[Node, ...]
    result: Result | None
    captured: tuple[tuple[str, object], ...]  # outer names and the values they had
    span: Span


def why_not_affine(expr: Expr) -> str | None:
    """Why `expr` is not an affine function of variables, in words; None when it is one.

    Minima and maxima count as affine, other functions of several cases do not.
    """
    return _why(expr, cases=False)


def why_not_piecewise(expr: Expr) -> str | None:
    """The same, with cases: `i - 1 if i > 0 else n - 1` is one affine function or another.

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
