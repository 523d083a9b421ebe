"""Loops that only gather sums or products: in C they need leave to use vectors of partial sums."""

from __future__ import annotations

from dataclasses import dataclass

from loopwright.backends.c_vectors import stores_of
from loopwright.ir.expr import Binary, Call, Expr, Load
from loopwright.ir.loops import For, Mark, Store
from loopwright.ir.visit import loads, names

__all__ = ["Gathered", "gathered"]

_SIGNS = {"add": "+", "sub": "+", "mul": "*"}


@dataclass(frozen=True, slots=True)
class Gathered:
    """`target = target op value`, where the loop does not move the target."""

    store: Store
    target: Load
    op: str
    value: Expr

    @property
    def sign(self) -> str:
        """The operator that combines partial results: differences add up too."""
        return _SIGNS[self.op]


def gathered(loop: For) -> list[Gathered] | None:
    """The updates that a loop consists of; None when it does anything else.

    Each gathers into an element of its own, which no other one reads.
    """
    is_plain = loop.mark is Mark.SERIAL and loop.until is None
    stores = stores_of(loop.body) if is_plain else None
    found = [_update(store, loop.var) for store in stores or ()]
    updates = [update for update in found if update is not None]
    if not updates or len(updates) < len(found):
        return None
    targets = [update.target.array for update in updates]
    read = {load.array for update in updates for load in loads(update.value)}
    if len(set(targets)) < len(targets) or read & set(targets):
        return None
    return updates


def _update(store: Store, var: str) -> Gathered | None:
    target = Load(store.buffer, store.index, store.value.dtype)
    if not target.dtype.is_float or target.dtype.bits < 32 or var in names(target):
        return None
    match store.value:
        case Binary(op="add" | "sub" | "mul" as op, x=x, y=y) if x == target:
            return Gathered(store, target, op, y)
        case Binary(op="add" | "mul" as op, x=x, y=y) if y == target:
            return Gathered(store, target, op, x)
        case Call(function="fma", args=(x, y, z)) if z == target:
            return Gathered(store, target, "add", Binary("mul", x, y))
    return None
