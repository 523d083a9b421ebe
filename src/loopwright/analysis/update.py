"""Update statements `x = x op e` with an associative operator, however they are written.

Rewritings keep every bit of the result. Where they would change the rounding of floating-point
values they are done only for programs that allow reassociation.
"""

from __future__ import annotations

from dataclasses import dataclass

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Binary, Call, Cast, Expr, Load, Select, Unary
from loopwright.ir.program import Program, Statement
from loopwright.ir.visit import walk

__all__ = ["ASSOCIATIVE", "Update", "is_reorderable", "narrowed", "update_of"]

# Associative and commutative operators. min and max are so for every type, the bitwise ones too;
# add and mul for integers (modulo 2^bits) and booleans only, but for rounding.
ASSOCIATIVE = frozenset({"add", "mul", "min", "max", "and", "or", "xor"})
_EXACT_FOR_ALL = ASSOCIATIVE - {"add", "mul"}
# Integer operators whose low bits depend on the low bits of the operands only.
_MODULAR = frozenset({"add", "sub", "mul", "and", "or", "xor"})
# (comparison, whether the element itself stands on its left) of `x if x < e else e` -> operator.
_SELECTED = {
    ("lt", True): "min",
    ("le", True): "min",
    ("gt", True): "max",
    ("ge", True): "max",
    ("lt", False): "max",
    ("le", False): "max",
    ("gt", False): "min",
    ("ge", False): "min",
}


@dataclass(frozen=True, slots=True)
class Update:
    """`x = x op value`, x being the element the statement writes."""

    op: str  # of ASSOCIATIVE
    value: Expr


def is_reorderable(op: str, dtype: DType, program: Program) -> bool:
    """Whether `(x op y) op z = x op (y op z)` for all values, or by the program's leave."""
    return op in _EXACT_FOR_ALL or dtype.is_exact or program.reassoc


def update_of(program: Program, statement: Statement) -> Update | None:
    """The update a statement makes to its element; None when it is not of that form."""
    found = _update(narrowed(statement.value), statement.write.load(), program)
    if found is None or statement.write.load() in walk(found.value):
        return None
    return found


def narrowed(value: Expr) -> Expr:
    """`value` without conversions around integer operators: `int8(x + y)` as `int8(x) + int8(y)`.

    Exact modulo 2^bits; this is how C and NumPy promotions of small integers come off.
    """
    match value:
        case Cast(x=x) if x.dtype == value.dtype:
            return narrowed(x)
        case Cast(x=Cast(x=x, dtype=wide)) if _is_narrowing(wide, value.dtype):
            # int8(int32(x)) = int8(x) whenever x is an integer, whatever its width.
            return narrowed(Cast(x, value.dtype)) if x.dtype.is_integer else value
        case Cast(x=Binary(op=op, x=x, y=y)) if op in _MODULAR:
            if _is_narrowing(x.dtype, value.dtype):
                return Binary(op, narrowed(Cast(x, value.dtype)), narrowed(Cast(y, value.dtype)))
        case Cast(x=Unary(op="neg", x=x)) if _is_narrowing(x.dtype, value.dtype):
            return Unary("neg", narrowed(Cast(x, value.dtype)))
    return value


def _is_narrowing(wide: DType, narrow: DType) -> bool:
    return wide.is_integer and narrow.is_integer and narrow.bits <= wide.bits


def _update(value: Expr, own: Load, program: Program) -> Update | None:
    match value:
        case Binary(op=op, x=x, y=y) if op in ASSOCIATIVE and own in (x, y):
            return Update(op, y if x == own else x)
        case Binary(op="sub", x=x, y=y) if x == own:
            return Update("add", Unary("neg", y))
        case Call(function="fma", args=(x, y, z)) if z == own:
            return Update("add", Binary("mul", x, y))
        case Select(cond=Binary(op=comparison, x=left, y=right), x=x, y=y):
            return _selected(comparison, (left, right), (x, y), own, program)
        case Binary(op="add" | "sub" | "mul" as op, x=x, y=y) if is_reorderable(
            op, value.dtype, program
        ):
            return _inner_update(op, x, y, own, program)
    return None


def _selected(
    comparison: str,
    compared: tuple[Expr, Expr],
    chosen: tuple[Expr, Expr],
    own: Load,
    program: Program,
) -> Update | None:
    """`x if x < e else e` and its kin as a minimum or maximum.

    Not for floating-point types by themselves: a NaN would take another way.
    """
    if own not in compared or not (own.dtype.is_exact or program.reassoc):
        return None
    other = compared[1] if compared[0] == own else compared[0]
    op = _SELECTED.get((comparison, compared[0] == own))
    if op is None or set(chosen) != {own, other}:
        return None
    if chosen[0] == own:
        return Update(op, other)
    return Update("max" if op == "min" else "min", other)


def _inner_update(op: str, x: Expr, y: Expr, own: Load, program: Program) -> Update | None:
    """`(own + a) - b` as `own + (a - b)`, and the like; rounding may change."""
    inner = _update(x, own, program)
    if inner is not None and inner.op == ("add" if op == "sub" else op):
        return Update(inner.op, Binary(op, inner.value, y))
    inner = _update(y, own, program) if op != "sub" else None
    if inner is not None and inner.op == op:
        return Update(op, Binary(op, x, inner.value))
    return None
