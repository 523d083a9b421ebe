"""Words for messages about C."""

from __future__ import annotations

from loopwright.frontends.tree import why_no_affine_condition, why_not_affine
from loopwright.ir.dtypes import BOOL, INT64
from loopwright.ir.expr import Binary, Cast, Const, Expr
from loopwright.ir.visit import loads, walk

__all__ = ["AFFINE", "POINTERS", "ROWS", "STATEMENTS", "why"]

AFFINE = (
    "sums of loop variables, integer parameters and constants, times constants; also / and % by"
    " constants, and cond ? a : b"
)
ROWS = "a subscript for each dimension: A[i][j] of an array A[m][n] instead of A[i*n + j]"
POINTERS = "name the array and write its subscripts: A[i][j]"

# Keyword -> how the message calls it, and what to write instead.
STATEMENTS: dict[str, tuple[str, str]] = {
    "while": ("a while loop", "use a for loop with affine bounds"),
    "do": ("a do loop", "use a for loop with affine bounds"),
    "switch": ("a switch", "use if and else"),
    "case": ("a case label", "use if and else"),
    "default": ("a default label", "use if and else"),
    "goto": ("a goto", "use loops and ifs"),
    "label": ("a label", "use loops and ifs; put it outside the region"),
    "break": ("a break", "put the condition into the bounds of the loop"),
    "continue": ("a continue", "put the rest of the body into an if"),
    "return": ("a return", "end the region before it"),
    "asm": ("assembly code", "put it outside the region"),
}


def why(expr: Expr) -> str:
    """Why a value cannot serve as a bound, a subscript or a condition, in words."""
    found = loads(expr)
    if any(load.index for load in found):
        return "which depends on an array element"
    if found:
        return f"which depends on '{found[0].array}', known only at run time"
    if any(_is_division(x) for x in walk(expr)):
        return "a division by something other than a constant"
    if any(isinstance(x, Cast) and x.dtype.kind == "u" and x.x.dtype == INT64 for x in walk(expr)):
        return "unsigned arithmetic that may wrap around below zero"
    if any(isinstance(x, Cast) and x.dtype.is_float for x in walk(expr)):
        return "which is computed in floating point"
    reason = why_no_affine_condition(expr) if expr.dtype == BOOL else why_not_affine(expr)
    return reason or "a value of another type"


def _is_division(expr: Expr) -> bool:
    match expr:
        case Binary(op="floordiv" | "mod", y=y):
            return not isinstance(y, Const)
        case _:
            return False
