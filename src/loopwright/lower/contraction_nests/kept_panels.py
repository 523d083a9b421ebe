"""Packed operands that stay over the iterations of a loop around a contraction.

    for y:                                     panels of left, for all of:
        contraction of out[y], left, right  ->     for y:
                                                       pack left where y is the first; the rest

An operand that does not vary with the loop, and that nothing in the loop writes, is packed once: by
the first iteration, where all of it is one block. What iterations pack is a third of the work of
products of 64 x 64 numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from loopwright.ir.contraction import LOOP_I, LOOP_J, LOOP_P, LOOPS, Factor, InnerContraction
from loopwright.ir.expr import Const, Expr, Var
from loopwright.ir.grid_kernel import GridVariant
from loopwright.ir.loops import (
    Alloc,
    Block,
    Buffer,
    Copy,
    For,
    If,
    Let,
    LoopNest,
    Mark,
    Stmt,
    Store,
)
from loopwright.ir.schedule import ScheduledContraction
from loopwright.ir.visit import fresh_name, loads, names, rebuild, statements, substitute
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.build import bound_names

__all__ = ["KeptPanels", "keep_panels"]

# The loops that an operand varies with.
_SIDES = {"left_packed": (LOOP_I, LOOP_P), "right_packed": (LOOP_J, LOOP_P)}


@dataclass(frozen=True, slots=True)
class KeptPanels:
    """A placeholder whose contraction finds panels of an earlier iteration."""

    contraction: str  # the name of the placeholder before
    panels: Mapping[str, str]  # panels, as kernels call them -> the memory outside of the loop
    before: Expr  # iterations of the loop so far, or a multiple


def keep_panels(
    nest: LoopNest,
    contractions: Mapping[str, ScheduledContraction],
    memory: Callable[[ScheduledContraction], Mapping[str, tuple[Buffer, int]]],
) -> tuple[LoopNest, dict[str, KeptPanels]]:
    """The nest with memory for panels that stay, and the placeholders that use it, by new names.

    `memory` says which panels a contraction has, and how many elements they take.
    """
    kept: dict[str, KeptPanels] = {}
    taken = bound_names(nest)

    def change(node: Stmt) -> Stmt:
        if not isinstance(node, For) or node.mark is not Mark.SERIAL or node.until is not None:
            return node
        written = {x.buffer for x in statements(node.body) if isinstance(x, Store)}
        written |= {x.target for x in statements(node.body) if isinstance(x, Copy)}
        changed: Stmt = node
        for copy, inside in list(_placeholders(node.body, frozenset({node.var}))):
            name = copy.shape[0]
            assert isinstance(name, Var)
            scheduled = contractions.get(name.name)
            if scheduled is None or not _is_plain(scheduled):
                continue
            panels: dict[str, str] = {}
            rooms: list[tuple[Buffer, int]] = []
            outer = dict(zip(scheduled.inner.outer, copy.target_start, strict=True))
            for panel, (buffer, size) in memory(scheduled).items():
                if _stays(scheduled.inner, panel, outer, inside, written):
                    panels[panel] = fresh_name(panel, taken)
                    taken.add(panels[panel])
                    rooms.append((replace(buffer, name=panels[panel]), size))
            if not panels:
                continue
            new = f"{name.name}.{len(kept)}"
            kept[new] = KeptPanels(name.name, panels, Var(node.var) - node.start)
            changed = _renamed(changed, name.name, new)
            for buffer, size in rooms:
                changed = Alloc(buffer, (Const(size),), changed)
        return changed

    return replace(nest, body=rebuild(nest.body, change)), kept


def _placeholders(stmt: Stmt, inside: frozenset[str]) -> Iterator[tuple[Copy, frozenset[str]]]:
    """The placeholders that every iteration of a loop reaches, with the names it binds for them."""
    match stmt:
        case Copy(shape=(Var(), Const(value=0), *_)):
            yield stmt, inside
        case Block(body=body):
            for part in body:
                yield from _placeholders(part, inside)
        case Let(name=name, body=body):
            yield from _placeholders(body, inside | {name})
        case Alloc(body=body):
            yield from _placeholders(body, inside)
        case If(cond=cond, body=body) if not names(cond) & inside:
            yield from _placeholders(body, inside)


def _is_plain(scheduled: ScheduledContraction) -> bool:
    """Whether one thread runs one product over a whole box."""
    found = scheduled.inner
    return (
        len(found.products) == 1
        and not found.guards
        and not found.is_in_place
        and scheduled.shares == 1
        and not isinstance(scheduled.grid, GridVariant)
    )


def _stays(
    found: InnerContraction,
    panel: str,
    outer: Mapping[str, Expr],
    inside: frozenset[str],
    written: set[str],
) -> bool:
    """Whether an operand is the same for all values of the names bound `inside` of a loop."""
    (product,) = found.products
    factor: Factor = product.left if panel == "left_packed" else product.right
    if factor.load.array in written:
        return False
    ranges = [found.ranges[LOOPS.index(loop)] for loop in _SIDES[panel]]
    values = [*factor.subscripts.base, *(x for r in ranges for x in (r.start, r.stop))]
    if factor.value is not None:
        if loads(factor.value):
            return False
        values.append(factor.value)
    return not any(names(substitute(x, outer)) & inside for x in values)


def _renamed(stmt: Stmt, name: str, new: str) -> Stmt:
    """`stmt` with another name for a placeholder."""

    def change(node: Stmt) -> Stmt:
        match node:
            case Copy(shape=(Var(name=found), *rest)) if found == name:
                return replace(node, shape=(Var(new), *rest))
        return node

    return rebuild(stmt, change)
