"""Statements under a condition on data: assignments that keep the old value where it fails.

    if (b[i] > 0) s += b[i];      ->      s = b[i] > 0 ? s + b[i] : s;

Every element that may be assigned must exist whether the condition holds or not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import assert_never

from loopwright.frontends.tree import Assign, Branch, Loop, Node
from loopwright.ir.expr import Expr, Select, Unary, Var
from loopwright.ir.program import Access
from loopwright.ir.visit import loads

__all__ = ["exists", "joined", "masked", "targets_of"]

# An element that is assigned, and conditions that hold wherever it is.
Target = tuple[Access, tuple[Expr, ...]]


def masked(nodes: Sequence[Node], mask: Expr, own: Collection[str]) -> tuple[Node, ...]:
    """`nodes` with assignments that change nothing where `mask` fails; `own` are their locals."""

    def change(node: Node) -> Node:
        match node:
            case Assign(target=target, value=value):
                if target.array in own:
                    return node
                return replace(node, value=Select(mask, value, target.load()))
            case Loop(body=body):
                return replace(node, body=tuple(map(change, body)))
            case Branch(body=body, orelse=orelse):
                return replace(
                    node, body=tuple(map(change, body)), orelse=tuple(map(change, orelse))
                )
            case _:
                assert_never(node)

    return tuple(map(change, nodes))


def joined(cond: Expr, body: Sequence[Node], orelse: Sequence[Node]) -> Assign | None:
    """Both sides as one assignment, where they are assignments to one element."""
    match body, orelse:
        case [Assign() as first], [Assign() as second] if first.target == second.target:
            return replace(first, value=Select(cond, first.value, second.value))
        case [Assign() as first], []:
            return replace(first, value=Select(cond, first.value, first.target.load()))
    return None


def targets_of(nodes: Sequence[Node], facts: tuple[Expr, ...] = ()) -> list[Target]:
    """Every element that nodes assign, with the conditions of the loops and branches around."""
    found: list[Target] = []
    for node in nodes:
        match node:
            case Assign(target=target):
                found.append((target, facts))
            case Loop(var=name, start=start, stop=stop, step=step, body=body):
                var = Var(name)
                bounds = (var >= start, var < stop) if step > 0 else (var <= start, var > stop)
                found += targets_of(body, (*facts, *bounds))
            case Branch(cond=cond, body=body, orelse=orelse):
                found += targets_of(body, (*facts, cond))
                found += targets_of(orelse, (*facts, Unary("not", cond)))
            case _:
                assert_never(node)
    return found


def exists(
    target: Access,
    shape: Sequence[Expr],
    cond: Expr,
    prove: Callable[[Expr], bool],
) -> bool:
    """Whether an element is there in any case: within its array, or read by the condition."""
    if any((x.array, x.index) == (target.array, target.index) for x in loads(cond)):
        return True
    pairs = zip(target.index, shape, strict=True)
    return all(prove(entry >= 0) and prove(entry < extent) for entry, extent in pairs)
