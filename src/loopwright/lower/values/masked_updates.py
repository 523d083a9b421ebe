"""Integers that data choose between a variable of a loop and zero, by bits instead of branches.

    run = (0 if c else run + x)   ->   run = (run & -(not c)) + (x & -(not c))
    n = (n + 1 if c else n)       ->   n = n + (1 if c else 0)

Compilers of C make branches of such selections in loops that hand the variable on, and often a
branch for each of several that ask the same. A branch that goes wrong takes as long as ten
iterations; a mask takes an instruction or two in all of them, and -1 & x = x, 0 & x = 0 whatever
the sign of x. The operands are masked and not the sum: where c holds nobody has computed it, and
in C it must not overflow.
"""

from __future__ import annotations

from dataclasses import replace

from loopwright.ir.dtypes import BOOL
from loopwright.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var
from loopwright.ir.loops import For, LoopNest, Mark, Stmt, Store
from loopwright.ir.visit import expressions, loads, rebuild, rewrite, statements, walk
from loopwright.lower.values.plain_reductions import as_reduction

__all__ = ["mask_updates"]

_SLOW = frozenset({"div", "floordiv", "mod", "pow"})


def mask_updates(nest: LoopNest) -> LoopNest:
    """The nest with such updates of variables in its innermost serial loops."""

    def visit(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, For) or stmt.mark is not Mark.SERIAL:
            return stmt
        inside = list(statements(stmt.body))
        if any(isinstance(s, For) for s in inside):
            return stmt
        stores = [s for s in inside if isinstance(s, Store)]
        read = {load.array for s in inside for e in expressions(s) for load in loads(e)}
        handed_on = {s.buffer for s in stores if not s.index} & read
        return replace(
            stmt,
            body=rebuild(stmt.body, lambda s: _masked(s, handed_on) if isinstance(s, Store) else s),
        )

    return replace(nest, body=rebuild(nest.body, visit))


def _masked(store: Store, handed_on: set[str]) -> Store:
    """A store to a variable of integers without a branch on data."""
    if store.buffer not in handed_on or store.is_atomic or not isinstance(store.value, Select):
        return store
    dtype = store.value.dtype
    if not dtype.is_integer or dtype.bits < 32 or not loads(store.value.cond):
        return store
    plain = as_reduction(store)
    if plain is not store:
        return plain
    zero = Const(0, dtype)
    match store.value:
        case Select(cond=cond, x=x, y=y) if y == zero and _is_cheap(x, handed_on):
            return replace(store, value=_where(cond, x))
        case Select(cond=cond, x=x, y=y) if x == zero and _is_cheap(y, handed_on):
            return replace(
                store, value=_where(Select(cond, Const(False, BOOL), Const(True, BOOL)), y)
            )
    return store


def _where(cond: Expr, value: Expr) -> Expr:
    """The value where a condition holds, else 0."""

    def masked(part: Expr) -> Expr:
        return Binary("and", part, Unary("neg", Cast(cond, part.dtype)))

    inside = rewrite(value, lambda part: masked(part) if isinstance(part, Load) else part)
    has_more = any(isinstance(part, Const | Var) for part in walk(value))
    return masked(inside) if has_more else inside


def _is_cheap(value: Expr, handed_on: set[str]) -> bool:
    """Whether a value is a variable that the loop hands on, or little arithmetic with it."""
    read = loads(value)
    is_slow = any(
        isinstance(x, Call | Select) or (isinstance(x, Binary) and x.op in _SLOW)
        for x in walk(value)
    )
    is_whole = all(load.dtype.is_integer and not load.index for load in read)
    return not is_slow and is_whole and any(load.array in handed_on for load in read)
