"""Subscripts, bounds and guards by Python's own integers, which are quicker than NumPy's scalars.

Interpreters of nests spend most of their time on index arithmetic. What is made of int64 variables
and constants only becomes one Python function. Where it does not apply (a variable is missing, is
not a plain integer, or a result leaves int64) the rules of ir/evaluate decide, and tell.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from loopwright.ir.dtypes import BOOL, INT64
from loopwright.ir.expr import COMPARISONS, Binary, Const, Expr, Unary, Var

__all__ = ["as_index"]

_END = 1 << 63
_OPERATORS = {"add": "+", "sub": "-", "mul": "*"}
_DIVISIONS = {"floordiv": "//", "mod": "%"}
_Code = Callable[[Any], Any]  # of a frame


def as_index(expr: Expr, exact: _Code) -> _Code:
    """What `exact` gives for a frame: of an int64 expression as an int, of a condition its truth.

    `exact` is the expression by the rules of ir/evaluate.
    """
    text, is_integer = _text(expr), expr.dtype == INT64
    quick = None if text is None else _function(text)

    def truth(frame: Any) -> Any:
        assert quick is not None
        try:
            return quick(frame.variables)
        except (KeyError, TypeError):
            return exact(frame)

    def integer(frame: Any) -> int:
        assert quick is not None
        try:
            found: int = quick(frame.variables)
        except (KeyError, TypeError):
            return int(exact(frame))
        return found if -_END <= found < _END else int(exact(frame))

    if quick is None:
        return (lambda frame: int(exact(frame))) if is_integer else exact
    return integer if is_integer else truth


@lru_cache(maxsize=4096)
def _function(text: str) -> _Code:
    made: _Code = eval(f"lambda v: {text}", {"of": operator.index, "min": min, "max": max})
    return made


def _text(expr: Expr) -> str | None:
    """The expression in Python over a dict `v` of variables; None where it is about data."""
    match expr:
        case Const(value=value) if expr.dtype == INT64 and type(value) is int:
            return f"({value})"
        case Const(value=value) if expr.dtype == BOOL and type(value) is bool:
            return str(value)
        case Var(name=name) if expr.dtype == INT64:
            return f"of(v[{name!r}])"
        case Unary(op="neg", x=x) if expr.dtype == INT64:
            return None if (inner := _text(x)) is None else f"(-{inner})"
        case Binary(op=op, x=x, y=y) if x.dtype == y.dtype:
            left, right = _text(x), _text(y)
            if left is None or right is None:
                return None
            if x.dtype == BOOL:
                return f"({left} {op} {right})" if op in ("and", "or") else None
            if op in _OPERATORS or op in COMPARISONS:
                return f"({left} {_OPERATORS.get(op) or COMPARISONS[op]} {right})"
            if op in ("min", "max"):
                return f"{op}({left}, {right})"
            if op in _DIVISIONS and isinstance(y, Const) and y.value != 0:
                return f"({left} {_DIVISIONS[op]} {right})"
    return None
