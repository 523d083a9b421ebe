"""Subscripts in loops of C text: how they move, and whether a loop reads only ahead of its stores.

    for (i...) v[i] = p * v[i + 1] + q * v[i];

No iteration reads what an earlier one has written: compilers find that and take such a loop in
vectors, though its iterations are not independent of each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from loopwright.ir.expr import Binary, Const, Expr, Load, Unary, Var
from loopwright.ir.loops import For, Store
from loopwright.ir.visit import expressions, loads, names, statements

__all__ = ["reads_ahead", "step_of"]

_ONE = Const(1)


def step_of(expr: Expr, name: str) -> int | None:
    """The coefficient of a variable in a sum; None where `expr` is not linear in it."""
    terms = _terms(expr, 1)
    if any(name in names(atom) and atom != Var(name) for atom in terms):
        return None
    return terms[Var(name)]


def reads_ahead(loop: For, gathered: Collection[str] = ()) -> bool:
    """Whether iterations read elements of what they write, none of an earlier iteration.

    What they gather in variables is left out of account.

    Every array that is written is so in one place, by subscripts that tell iterations apart, and
    elements of later iterations are read before it: the lanes of a vector go through the
    statements together.
    """
    stores: dict[str, Store] = {}
    read: list[tuple[Load, bool]] = []  # and whether their array was stored to before
    for stmt in statements(loop.body):
        read += ((x, x.array in stores) for expr in expressions(stmt) for x in loads(expr))
        if isinstance(stmt, Store) and stmt.buffer not in gathered:
            if stmt.buffer in stores:
                return False
            stores[stmt.buffer] = stmt
    own = [(x, is_late) for x, is_late in read if x.array in stores]
    return (
        loop.step == _ONE
        and bool(own)
        and all(_is_ahead(x, stores[x.array], loop.var, is_late) for x, is_late in own)
    )


def _is_ahead(load: Load, store: Store, var: str, is_late: bool) -> bool:
    """Whether an element that an iteration loads is stored by itself, by a later one or by none.

    By itself only, or by none, where the load comes after the store.
    """
    steps, ways = [], []
    for read, written in zip(load.index, store.index, strict=True):
        gap = _terms(read, 1)
        gap.subtract(_terms(written, 1))
        step, constant = step_of(written, var), gap.pop(_ONE, 0)
        if step is None or any(gap.values()):
            return False
        steps.append(step)
        ways.append(constant)
    moved = [(step, way) for step, way in zip(steps, ways, strict=True) if step]
    if len(moved) != 1:
        return False
    if any(way for step, way in zip(steps, ways, strict=True) if not step):
        return True  # another row
    (step, way), *_ = moved
    return way == 0 if is_late else way * step >= 0


def _terms(expr: Expr, factor: int) -> Counter[Expr]:
    """How often each atom is in a sum; the constant is that of 1."""
    match expr:
        case Const(value=int(value)):
            return Counter({_ONE: factor * value})
        case Binary(op="add" | "sub" as op, x=x, y=y):
            found = _terms(x, factor)
            found.update(_terms(y, factor if op == "add" else -factor))
            return found
        case Binary(op="mul", x=x, y=Const(value=int(value))):
            return _terms(x, factor * value)
        case Unary(op="neg", x=x):
            return _terms(x, -factor)
    return Counter({expr: factor})
