"""Conditional updates as plain reductions, which compilers split into lanes.

    x = (x + e if c else x)              ->   x = x + (e if c else 0)
    x = (v if c and v < x else x)        ->   x = min(x, v if c else greatest)

Compilers know a reduction by its form: one operation that takes the variable in every iteration. A
condition around it is a branch to them, or a chain of selections that no lanes follow.

Floating sums keep their order, and the next element waits for a sum, no longer for a selection
behind it. What changes no number, whatever its sign, is -0.0 added and 0.0 subtracted. A product
that is rounded together with the sum stays under its condition: nothing neutral can be multiplied.
"""

from __future__ import annotations

from dataclasses import replace

from loopwright.ir.dtypes import BOOL
from loopwright.ir.expr import Binary, Const, Expr, Load, Select, Unary
from loopwright.ir.loops import LoopNest, Stmt, Store
from loopwright.ir.visit import loads, rebuild

__all__ = ["as_reduction", "is_product", "plain_reductions"]

# The extreme that a comparison of a value with the variable chooses: (value op variable).
_EXTREMES = {"lt": "min", "le": "min", "gt": "max", "ge": "max"}
_TURNED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_NEVER = Const(False, BOOL)


def plain_reductions(nest: LoopNest) -> LoopNest:
    """The nest with every update under a condition as a reduction, floating sums too."""

    def visit(stmt: Stmt) -> Stmt:
        return as_reduction(stmt, kinds="iuf") if isinstance(stmt, Store) else stmt

    return replace(nest, body=rebuild(nest.body, visit))


def as_reduction(store: Store, kinds: str = "iu") -> Store:
    """The store with an update under a condition as a reduction of the same bits.

    `kinds` of numbers: compilers of C make branches of floating selections either way.
    """
    if store.value.dtype.kind not in kinds or not isinstance(store.value, Select):
        return store
    own = Load(store.buffer, store.index, store.value.dtype)
    value = _under_one_condition(store.value)
    found = _sum(value)
    if found is None and store.value.dtype.is_integer:
        found = _extreme(value, own)
    return store if found is None else replace(store, value=found)


def _under_one_condition(value: Select) -> Select:
    """(x if d else y) if c else y   ->   x if c and d else y"""
    match value:
        case Select(cond=cond, x=Select(cond=inner, x=x, y=y), y=other) if y == other:
            return _under_one_condition(Select(Select(cond, inner, _NEVER), x, y))
    return value


def _sum(value: Select) -> Expr | None:
    match value:
        case Select(cond=cond, x=Binary(op="add" | "sub" as op, x=x, y=y), y=z) if x == z:
            is_met = True
        case Select(cond=cond, x=z, y=Binary(op="add" | "sub" as op, x=x, y=y)) if x == z:
            is_met = False
        case _:
            return None
    if value.dtype.is_integer:
        zero = Const(0, value.dtype)
    elif is_product(x) or is_product(y):
        return None
    else:
        zero = Const(-0.0 if op == "add" else 0.0, value.dtype)
    return Binary(op, x, Select(cond, y, zero) if is_met else Select(cond, zero, y))


def is_product(expr: Expr) -> bool:
    """Whether a sum may be rounded together with what is multiplied here."""
    match expr:
        case Binary(op="mul"):
            return True
        case Unary(op="neg", x=x):
            return is_product(x)
    return False


def _extreme(value: Select, own: Load) -> Expr | None:
    """The least or greatest of a variable and what a condition chooses; None without either."""
    match value:
        case Select(cond=Select(cond=first, x=second, y=never), x=new, y=old) if (
            never == _NEVER and old == own
        ):
            parts = first, second
        case Select(cond=Binary(op="and", x=first, y=second), x=new, y=old) if old == own:
            parts = first, second
        case _:
            return None
    if _touches(new, own):
        return None
    for cond, compared in (parts, parts[::-1]):
        op = _chosen(compared, new, own)
        if op is not None and not _touches(cond, own):
            neutral = value.dtype.greatest if op == "min" else value.dtype.least
            return Binary(op, own, Select(cond, new, Const(neutral, value.dtype)))
    return None


def _chosen(compared: Expr, new: Expr, own: Load) -> str | None:
    """The extreme that is taken where `compared` is whether `new` replaces the variable."""
    match compared:
        case Binary(op=op, x=x, y=y) if op in _EXTREMES and (x, y) == (new, own):
            return _EXTREMES[op]
        case Binary(op=op, x=x, y=y) if op in _EXTREMES and (x, y) == (own, new):
            return _EXTREMES[_TURNED[op]]
    return None


def _touches(expr: Expr, own: Load) -> bool:
    return any(load.array == own.array for load in loads(expr))
