"""Branches around roots and quotients that only sums under a condition need.

    mask = r < cut; f = 1 / (r * r); s = (s + f * d if mask else s)
->  mask = r < cut; if mask: f = 1 / (r * r); s = s + f * d

A floating sum in order has no vectors along its loop, and what it does not take is computed for
nothing: a quotient takes as long as a dozen products. Where a condition mostly fails (pairs beyond
a cutoff) or mostly holds, a branch costs next to nothing. Where it is drawn by lot, the branch is
about as dear as the quotient. Where there are vectors after all, LLVM takes the branch back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from loopwright.ir.expr import Binary, Call, Expr, Load, Select
from loopwright.ir.loops import Alloc, Block, For, If, LoopNest, Stmt, Store
from loopwright.ir.visit import expressions, loads, names, statements, walk
from loopwright.lower.build import seq
from loopwright.lower.values.strips import change_loops

__all__ = ["branch_around_quotients"]


def branch_around_quotients(nest: LoopNest) -> LoopNest:
    """The nest with such branches in its innermost serial loops."""
    if not nest.leave_to_llvm:
        return nest
    inside = list(statements(nest.body))
    local = {s.buffer.name for s in inside if isinstance(s, Alloc) and not s.shape}
    read = [load.array for s in inside for e in expressions(s) for load in loads(e)]

    def change(loop: For) -> Stmt:
        parts = loop.body.body if isinstance(loop.body, Block) else (loop.body,)
        if not all(isinstance(part, Store) and not part.is_atomic for part in parts):
            return loop
        stores = [part for part in parts if isinstance(part, Store)]
        for cond in dict.fromkeys(_conditions(loop, stores)):
            first, last = _span(loop, stores, cond, local, read)
            inner = stores[first:last]
            if any(_is_dear(x) for s in inner for x in walk(_taken(s, cond))):
                taken = (replace(s, value=_taken(s, cond)) for s in inner)
                branch = If(cond, seq(*taken))
                return replace(loop, body=seq(*stores[:first], branch, *stores[last:]))
        return loop

    return change_loops(nest, 0, change)


def _conditions(loop: For, stores: Sequence[Store]) -> Iterator[Expr]:
    """The conditions under which floating values are updated that the loop does not move."""
    for store in stores:
        match store.value:
            case Select(cond=cond) if _is_update(loop, store, cond):
                yield cond


def _is_update(loop: For, store: Store, cond: Expr) -> bool:
    """Whether a store changes its element where `cond` holds, and the loop does not move it."""
    own = Load(store.buffer, store.index, store.value.dtype)
    match store.value:
        case Select(cond=c, y=y) if c == cond and y == own and own.dtype.is_float:
            return not any(loop.var in names(index) for index in store.index)
    return False


def _span(
    loop: For, stores: Sequence[Store], cond: Expr, local: set[str], read: Sequence[str]
) -> tuple[int, int]:
    """The stores without an effect where `cond` fails: updates, and scalars that only they read.

    They stand side by side, behind the condition; as many of them as do, from the last one.
    """
    last = max(i for i, s in enumerate(stores) if _is_update(loop, s, cond)) + 1
    first = last
    asked = {load.array for load in loads(cond)}
    seen: list[str] = []  # what those found so far read
    for at in range(last - 1, -1, -1):
        store = stores[at]
        if store.buffer in asked:
            break
        is_update = _is_update(loop, store, cond)
        is_private = store.buffer in local and not store.index
        own = _read(store)
        in_all = seen.count(store.buffer) + own.count(store.buffer)
        is_read_here_only = read.count(store.buffer) == in_all
        if not is_update and not (is_private and is_read_here_only):
            break
        # A scalar that is changed must have been set in this iteration.
        before = (s for s in stores[:at] if s.buffer == store.buffer)
        is_set = store.buffer not in own or any(s.buffer not in _read(s) for s in before)
        if not is_update and not is_set:
            break
        seen += own
        first = at
    return first, last


def _read(store: Store) -> list[str]:
    """The arrays that a store reads, once for each load."""
    return [load.array for e in expressions(store) for load in loads(e)]


def _taken(store: Store, cond: Expr) -> Expr:
    """What is stored where the condition holds."""
    match store.value:
        case Select(cond=c, x=x) if c == cond:
            return x
    return store.value


def _is_dear(expr: Expr) -> bool:
    match expr:
        case Call() | Binary(op="div"):
            return expr.dtype.is_float
    return False
