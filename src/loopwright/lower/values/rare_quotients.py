"""Branches around roots and quotients that only sums under a condition need.

    mask = r < cut; f = 1 / (r * r); s = (s + f * d if mask else s)
->  mask = r < cut; if mask: f = 1 / (r * r); s = s + f * d

Values of an iteration are scalars that are stored, or bindings; sums have the form of a selection,
or add a number that changes nothing where the condition fails (values/plain_reductions).

A floating sum in order has no vectors along its loop, and what it does not take is computed for
nothing: a quotient takes as long as a dozen products. Where a condition mostly fails (pairs beyond
a cutoff) or mostly holds, a branch costs next to nothing. Where it is drawn by lot, the branch is
about as dear as the quotient. Where there are vectors after all, LLVM takes the branch back.

Compilers of C that need not mind traps compute all quotients in vectors and add them one by one:
where the condition often holds that is several times as fast as a branch. In their texts some
iterations are asked at once, as vectors, and passed over where the condition holds in none:

    for s in steps of 24: if any mask(s + v): for v < 24: if mask: f = 1 / (r * r); s = s + f * d

Energy of all pairs, one quotient, Cascade Lake, gcc, ns a pair where half, a quarter, one in twenty
and one in a thousand are within the cutoff: gcc alone 1.5 always; with a branch each 6.7, 4.5, 2.1,
1.2; 24 at once 1.6, 1.6, 1.6, 0.6. Loops that also store elsewhere run an element at a time, and
so do ends of loops and short ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from loopwright.ir.any_lane import LaneTest, any_lane, where_any_lane
from loopwright.ir.expr import Binary, Const, Expr, Load, Select, Var
from loopwright.ir.loops import Alloc, Block, For, If, Let, LoopNest, Stmt, Store
from loopwright.ir.visit import expressions, fresh_name, loads, names, statements, walk
from loopwright.lower.build import bound_names, seq
from loopwright.lower.values.strips import STRIP, change_loops
from loopwright.lower.values.update_rows import (
    is_dear,
    meet,
    nested,
    selected_sum,
    update_condition,
    update_row,
    with_values,
    written,
)

__all__ = ["branch_around_quotients", "has_branches_singly"]


_AT_ONCE = 24  # iterations that are asked together: gcc writes out up to 16, without vectors


def branch_around_quotients(nest: LoopNest, *, singly: bool = False) -> LoopNest:
    """The nest with such branches in its innermost serial loops.

    `singly`: compilers are to leave the branches, each by itself or those of a strip.
    """
    if not nest.leave_to_llvm:
        return nest
    inside = list(statements(nest.body))
    local = {s.buffer.name for s in inside if isinstance(s, Alloc) and not s.shape}
    strips = {s.buffer.name for s in inside if isinstance(s, Alloc) and s.shape == (Const(STRIP),)}
    read = [load.array for s in inside for e in expressions(s) for load in loads(e)]
    taken = bound_names(nest)

    def change(loop: For) -> Stmt:
        parts = loop.body.body if isinstance(loop.body, Block) else (loop.body,)
        if not all(isinstance(part, Store) and not part.is_atomic for part in parts):
            touched = {x.array for s in statements(loop) for e in expressions(s) for x in loads(e)}
            # Functions of a strip are computed for all of its elements: the quotients may be, too.
            if singly and touched & strips:
                return loop
            return _with_bindings(loop, taken if singly else None)
        stores = [selected_sum(part) for part in parts if isinstance(part, Store)]
        for cond in dict.fromkeys(_conditions(loop, stores)):
            first, last = _span(stores, cond, local, read)
            inner = stores[first:last]
            if any(is_dear(x) for s in inner for x in walk(_taken(s, cond))):
                moved = (replace(s, value=_taken(s, cond)) for s in inner)
                branch = If(cond, seq(*moved))
                return replace(loop, body=seq(*stores[:first], branch, *stores[last:]))
        return loop

    return change_loops(nest, 0, change)


def has_branches_singly(nest: LoopNest) -> bool:
    """Whether a nest has branches that compilers are kept from taking back."""
    loops = [stmt for stmt in statements(nest.body) if isinstance(stmt, For)]
    return any(
        any_lane(stmt) is not None if loop.copies != 1 else isinstance(stmt, If)
        for loop in loops
        for stmt in statements(loop.body)
    )


def _with_bindings(loop: For, names_taken: set[str] | None) -> For:
    """A loop with a branch around the updates of a row of bindings and stores, where it has one.

    With `names_taken` it is for compilers that would take the branch back.
    """
    row = update_row(loop.body)
    if row is None:
        return loop
    row = tuple(selected_sum(part) if isinstance(part, Store) else part for part in row)
    values = {part.name: part.value for part in row if isinstance(part, Let)}
    conditions = [update_condition(row, at, values) for at in range(len(row))]
    for cond in dict.fromkeys(cond for cond in conditions if cond is not None):
        own = [part for part, asked in zip(row, conditions, strict=True) if asked == cond]
        others = [x for x in row if isinstance(x, Store) and not any(x is y for y in own)]
        is_sum = any(isinstance(x, Store) and _is_kept(loop, x) for x in own)
        first, rest = with_values(row, own), with_values(row, [*others, Store("", (), cond)])[:-1]
        asked = {x.array for e in (cond, *(part.value for part in rest)) for x in loads(e)}
        if not is_sum or meet(first, rest) or asked & written(own):
            continue
        inner = [x for x in first if not any(x is y for y in rest)]
        taken = [replace(x, value=_taken(x, cond)) if isinstance(x, Store) else x for x in inner]
        known = {x for part in rest for x in walk(part.value)} | set(walk(cond))
        if any(is_dear(x) for part in taken for x in set(walk(part.value)) - known):
            branch = replace(loop, body=nested((*rest, If(cond, nested(taken)))))
            if names_taken is None:
                return branch
            if not others and all(isinstance(x, Store) and not x.index for x in own):
                return _in_strips(branch, LaneTest(_bindings(rest), cond), names_taken)
            return replace(branch, copies=1)
    return loop


def _bindings(row: Sequence[Let | Store]) -> tuple[Let, ...]:
    return tuple(part for part in row if isinstance(part, Let))


def _in_strips(loop: For, test: LaneTest, taken: set[str]) -> For:
    """A loop by strips, of which those are passed over in which no iteration meets a condition."""
    strip, flag = Var(fresh_name(f"{loop.var}_s", taken)), fresh_name("any", taken)
    taken |= {strip.name, flag}
    end = strip + _AT_ONCE
    whole = replace(loop, start=strip, stop=end)
    asked = where_any_lane(flag, whole, [test], whole)
    rest = replace(loop, start=strip, copies=1)
    body = If(Binary("le", end, loop.stop), asked, rest)
    return replace(loop, var=strip.name, body=body, step=Const(_AT_ONCE))


def _conditions(loop: For, stores: Sequence[Store]) -> Iterator[Expr]:
    """The conditions under which floating values are updated that the loop does not move."""
    for store in stores:
        match store.value:
            case Select(cond=cond) if _is_update(store, cond) and _is_kept(loop, store):
                yield cond


def _is_kept(loop: For, store: Store) -> bool:
    """Whether a store is to a floating number that the loop does not move."""
    is_moved = any(loop.var in names(index) for index in store.index)
    return store.value.dtype.is_float and not is_moved


def _is_update(store: Store, cond: Expr) -> bool:
    """Whether a store changes its element where `cond` holds, and only there."""
    own = Load(store.buffer, store.index, store.value.dtype)
    match store.value:
        case Select(cond=c, y=y):
            return c == cond and y == own
    return False


def _span(
    stores: Sequence[Store], cond: Expr, local: set[str], read: Sequence[str]
) -> tuple[int, int]:
    """The stores without an effect where `cond` fails: updates, and scalars that only they read.

    They stand side by side, behind the condition; as many of them as do, from the last one.
    """
    last = max(i for i, s in enumerate(stores) if _is_update(s, cond)) + 1
    first = last
    asked = {load.array for load in loads(cond)}
    seen: list[str] = []  # what those found so far read
    for at in range(last - 1, -1, -1):
        store = stores[at]
        if store.buffer in asked:
            break
        is_update = _is_update(store, cond)
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
