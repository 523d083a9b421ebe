"""What makes an expression valid: operand types, arities, and names that are in scope."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from loopwright.ir.dtypes import BOOL, INT64, DType
from loopwright.ir.expr import (
    BINARY_OPS,
    FUNCTIONS,
    REAL_ONLY,
    REAL_PAIRS,
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
from loopwright.ir.visit import children
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "BINARY_KINDS",
    "InvalidExpr",
    "Scope",
    "check_expr",
    "check_integer",
    "require_index",
    "require_integer",
]

# Kinds of types (DType.kind) an operator or function takes.
BINARY_KINDS: dict[str, str] = {
    "add": "biufc",
    "sub": "iufc",
    "mul": "biufc",
    "div": "fc",
    "floordiv": "iuf",
    "mod": "iuf",
    "min": "biuf",
    "max": "biuf",
    "and": "biu",
    "or": "biu",
    "xor": "biu",
    "pow": "iufc",
    "shl": "iu",
    "shr": "iu",
    "add_top": "iu",
    "add_bottom": "i",
    "mul_sat": "iu",
    "lt": "biuf",
    "le": "biuf",
    "gt": "biuf",
    "ge": "biuf",
    "eq": "biufc",
    "ne": "biufc",
}
UNARY_KINDS: dict[str, str] = {"neg": "iufc", "not": "biu", "abs": "iufc"}
FUNCTION_KINDS: dict[str, str] = {
    **dict.fromkeys(FUNCTIONS, "fc"),
    **dict.fromkeys((*REAL_ONLY, *REAL_PAIRS), "f"),
    "floor": "f",
    "ceil": "f",
    "pow": "iufc",
    "min_number": "f",
    "max_number": "f",
    "add_sat": "i",
    "fma": "iufc",
    "dot": "iufc",
}


class InvalidExpr(Exception):  # noqa: N818, names what was found
    """An expression breaks a rule; holds the smallest expression at fault, if it is one."""

    def __init__(self, expr: Expr | None, rule: str) -> None:
        super().__init__(rule)
        self.expr = expr
        self.rule = rule


@dataclass(frozen=True, slots=True)
class Scope:
    """The names an expression may use."""

    variables: Mapping[str, DType]
    arrays: Mapping[str, tuple[DType, int]]  # dtype and rank


def require_index(index: tuple[Expr, ...], rank: int) -> None:
    """Expressions that are checked already serve as the subscripts of an array of this rank."""
    if len(index) != rank:
        raise InvalidExpr(None, f"{len(index)} subscripts for rank {rank}")
    for entry in index:
        require_integer(entry)


def check_integer(expr: Expr, scope: Scope) -> None:
    """Check an expression that serves as bound, size or subscript."""
    check_expr(expr, scope)
    require_integer(expr)


def require_integer(expr: Expr) -> None:
    """An expression that is checked already serves as bound, size or subscript."""
    if expr.dtype != INT64:
        raise InvalidExpr(expr, f"bounds, sizes and subscripts are int64, not {expr.dtype}")


def check_expr(expr: Expr, scope: Scope) -> None:
    """Check `expr` and everything below it; raises InvalidExpr at the innermost fault."""
    for child in children(expr):
        check_expr(child, scope)
    match expr:
        case Const(value=value, dtype=dtype):
            if not _is_value_of(value, dtype):
                raise InvalidExpr(expr, f"{value!r} is not a value of {dtype}")
        case Var(name=name, dtype=dtype):
            if name not in scope.variables:
                raise InvalidExpr(expr, f"variable {name} is not in scope")
            if scope.variables[name] != dtype:
                raise InvalidExpr(expr, f"variable {name} is {scope.variables[name]}, not {dtype}")
        case Load(array=array, index=index, dtype=dtype):
            if array not in scope.arrays:
                raise InvalidExpr(expr, f"array {array} is not declared")
            declared, rank = scope.arrays[array]
            require_index(index, rank)
            if declared != dtype:
                raise InvalidExpr(expr, f"array {array} is {declared}, not {dtype}")
        case Unary(op=op, x=x):
            _check_operator(expr, op, UNARY_OPS, UNARY_KINDS, (x,))
        case Binary(op=op, x=x, y=y):
            _check_operator(expr, op, BINARY_OPS, BINARY_KINDS, (x, y))
            _check_equal(expr, x, y)
        case Select(cond=cond, x=x, y=y):
            if cond.dtype != BOOL:
                raise InvalidExpr(expr, f"condition is {cond.dtype}, not bool")
            _check_equal(expr, x, y)
        case Cast():
            pass
        case Call(function=function, args=args):
            if len(args) != FUNCTIONS.get(function, len(args)):
                rule = f"{function} takes {FUNCTIONS[function]} arguments, not {len(args)}"
                raise InvalidExpr(expr, rule)
            _check_operator(expr, function, FUNCTIONS, FUNCTION_KINDS, args)
            if function == "dot":
                _check_dot(expr, *args)
                return
            for other in args[1:]:
                _check_equal(expr, args[0], other)
        case _:
            assert_never(expr)


def _check_operator(
    expr: Expr,
    name: str,
    known: Mapping[str, object],
    kinds: Mapping[str, str],
    operands: tuple[Expr, ...],
) -> None:
    if name not in known:
        raise InvalidExpr(expr, f"'{name}' is no operator or function")
    for operand in operands:
        if operand.dtype.kind not in kinds[name]:
            raise InvalidExpr(expr, f"'{name}' does not take {operand.dtype}")


def _check_dot(expr: Expr, x: Expr, y: Expr, total: Expr) -> None:
    """dot multiplies narrow factors of one width, signed or not, into a wide sum."""
    if x.dtype.is_integer and y.dtype.is_integer and x.dtype.bits == y.dtype.bits:
        widths = x.dtype.bits, total.dtype.bits
        if widths[0] > widths[1]:
            raise InvalidExpr(expr, f"factors of {widths[0]} bits, a sum of {widths[1]}")
        return
    _check_equal(expr, x, y)


def _check_equal(expr: Expr, x: Expr, y: Expr) -> None:
    if x.dtype != y.dtype:
        raise InvalidExpr(expr, f"operands are {x.dtype} and {y.dtype}")


def _is_value_of(value: object, dtype: DType) -> bool:
    match dtype.kind:
        case "b":
            return isinstance(value, bool)
        case "i" | "u":
            is_whole = isinstance(value, int) and not isinstance(value, bool)
            return is_whole and dtype.least <= value <= dtype.greatest  # type: ignore[operator]
        case "f":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case _:
            return isinstance(value, int | float | complex) and not isinstance(value, bool)
