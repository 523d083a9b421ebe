"""Contractions that start from zero by themselves: the loops that clear their results are left out.

    for i: for j: C[i, j] = 0      ->  contraction of C, whose first block of p starts from zero:
    contraction of C                   neither are zeros written, nor is C read

Where the contraction has no steps it does not run, and the loops remain. The zero may be any
identity of `plus` that has the same bits: sums are the same ones, in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from loopwright.ir.contraction import LOOP_I, LOOP_J, InnerContraction, LoopRange, is_same_number
from loopwright.ir.expr import Const, Expr, Var
from loopwright.ir.grid_kernel import GridVariant
from loopwright.ir.loops import Block, Copy, For, If, LoopNest, Stmt, Store
from loopwright.ir.schedule import ScheduledContraction
from loopwright.ir.visit import rebuild, substitute
from loopwright.lower.build import seq
from loopwright.lower.linear_forms import LinearForm, linear

__all__ = ["absorb_zeros"]


def absorb_zeros(nest: LoopNest, contractions: Mapping[str, ScheduledContraction]) -> LoopNest:
    """Mark the placeholders of contractions that follow loops which only clear their results.

        for x: for y: C[x, y] = 0
        if n >= 2: copy [core.0, 0] to C[] from C[]
    ->  if n >= 2: copy [core.0, 0, 0] to C[] from C[]
        else: for x: for y: C[x, y] = 0
    """
    if not contractions:
        return nest

    def change(node: Stmt) -> Stmt:
        if not isinstance(node, Block):
            return node
        body: list[Stmt] = []
        for stmt in node.body:
            joined = _joined(body[-1], stmt, contractions) if body else None
            if joined is None:
                body.append(stmt)
            else:
                body[-1] = joined
        return node if len(body) == len(node.body) else seq(*body)

    return replace(nest, body=rebuild(nest.body, change))


def _joined(
    before: Stmt, stmt: Stmt, contractions: Mapping[str, ScheduledContraction]
) -> Stmt | None:
    """Both statements as one; None unless the first one clears what the second one sums up."""
    match stmt:
        case Copy(target_start=values, shape=(Var(name=name), Const(value=0))) if (
            name in contractions and _clears(before, contractions[name], values)
        ):
            return replace(stmt, shape=(*stmt.shape, Const(0)))
        case Block(body=(first, *rest)):
            joined = _joined(before, first, contractions)
            return None if joined is None else seq(joined, *rest)
        case If(cond=cond, body=body, orelse=None):
            joined = _joined(before, body, contractions)
            return None if joined is None else If(cond, joined, before)
    return None


def _clears(stmt: Stmt, scheduled: ScheduledContraction, values: tuple[Expr, ...]) -> bool:
    """Whether a statement sets the elements of out to zero, each once, and does nothing else."""
    found = scheduled.inner
    if found.guards or found.is_in_place or isinstance(scheduled.grid, GridVariant):
        return False
    match stmt:
        case For(body=For(body=Store(value=Const(value=zero)) as store) as second) as first:
            if store.buffer != found.out.array or not is_same_number(zero, found.zero):
                return False
            outer = dict(zip(found.outer, values, strict=True))
            return any(
                _is_box(loops, found, outer) and _is_element(store, loops, found, outer)
                for loops in ((first, second), (second, first))
            )
    return False


def _is_box(loops: tuple[For, For], found: InnerContraction, outer: Mapping[str, Expr]) -> bool:
    """Whether loops run over the rows and the columns of a contraction."""

    def is_range(loop: For, bounds: LoopRange) -> bool:
        if loop.until is not None or loop.step != Const(1):
            return False
        ends = ((loop.start, bounds.start), (loop.stop, bounds.stop))
        return all(_is_same(one, substitute(other, outer)) for one, other in ends)

    return all(is_range(loop, x) for loop, x in zip(loops, found.ranges[:2], strict=True))


def _is_element(
    store: Store, loops: tuple[For, For], found: InnerContraction, outer: Mapping[str, Expr]
) -> bool:
    """Whether a store is to the element of the values of its loops."""
    i, j = (Var(loop.var) for loop in loops)
    steps = zip(found.subscripts.steps[LOOP_I], found.subscripts.steps[LOOP_J], strict=True)
    places = [
        substitute(base, outer) + i * down + j * along
        for base, (down, along) in zip(found.subscripts.base, steps, strict=True)
    ]
    return len(places) == len(store.index) and all(map(_is_same, store.index, places))


def _is_same(one: Expr, other: Expr) -> bool:
    return linear(one) - linear(other) == LinearForm((), 0)
