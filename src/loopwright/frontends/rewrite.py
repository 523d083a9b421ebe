"""Rewriting of source trees, tree to tree, shared by the front ends of loop languages."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import assert_never

from loopwright.frontends.tree import (
    Assign,
    Branch,
    Loop,
    Node,
    SourceTree,
    why_no_affine_condition,
)
from loopwright.ir.expr import Expr, Load, Select
from loopwright.ir.visit import children, loads, rewrite, walk

__all__ = ["assignments", "drop_unused", "forward_small_values", "split_selects"]

_MOST_COPIES = 128  # nodes of all copies of a value that is written out where it is used
_MOST_SPLITS = 6  # affine conditions of one statement; each doubles its copies


def assignments(nodes: Iterable[Node]) -> Iterator[Assign]:
    """Every assignment below `nodes`, in source order."""
    for node in nodes:
        match node:
            case Assign():
                yield node
            case Loop(body=body):
                yield from assignments(body)
            case Branch(body=body, orelse=orelse):
                yield from assignments(body)
                yield from assignments(orelse)
            case _:
                assert_never(node)


def split_selects(assign: Assign, given: Container[str] = ()) -> Node:
    """Take affine conditions that guard loads out of the value of an assignment.

    rewrite:  S: x = a[i-1] if i > 0 else 0
              ->  if i > 0: S0: x = a[i-1]   else: S1: x = 0

    Both branches of a Select may be evaluated, so a guarded load must not stay inside one. A Select
    on data stays: which elements it touches cannot be known. Loads of scalars in `given`, which
    always have a value, need no guard.
    """
    return _split(assign, given, _MOST_SPLITS)


def _split(assign: Assign, given: Container[str], left: int) -> Node:
    found = next((x for x in walk(assign.value) if _is_guard(x, given)), None)
    if left == 0 or not isinstance(found, Select):
        return assign
    copies = [replace(assign, value=_put(assign.value, found, x)) for x in (found.x, found.y)]
    body, orelse = (_split(copy, given, left - 1) for copy in copies)
    return Branch(found.cond, (body,), (orelse,), assign.span)


def _is_guard(expr: Expr, given: Container[str]) -> bool:
    if not isinstance(expr, Select) or why_no_affine_condition(expr.cond) is not None:
        return False
    guarded = (*loads(expr.x), *loads(expr.y))
    return any(x.index or x.array not in given for x in guarded)


def _put(expr: Expr, old: Expr, new: Expr) -> Expr:
    """`expr` with `new` for every `old`."""
    return rewrite(expr, lambda node: new if node == old else node)


def forward_small_values(chain: Sequence[Assign]) -> tuple[Assign, ...]:
    """Put values of scalars back where they are used, if that makes the text hardly longer.

    rewrite:  t = a[i] + b[i]; u = t * c[i]; x[i] = u - u*u
              ->  x[i] = (a[i] + b[i]) * c[i] - ((a[i] + b[i]) * c[i]) * ((a[i] + b[i]) * c[i])

    All but the last assignment set scalars, each once, that only later ones of the chain read.
    Fewer statements leave planners more freedom; backends find common parts again.
    """
    *scalars, last = chain
    kept: list[Assign] = [last]
    for assign in reversed(scalars):
        used = Load(assign.target.array, (), assign.target.dtype)
        uses = sum(x == used for later in kept for x in walk(later.value))
        if uses > 1 and uses * _operators(assign.value) > _MOST_COPIES:
            kept.append(assign)
        elif uses:
            kept = [replace(x, value=_put(x.value, used, assign.value)) for x in kept]
    return tuple(reversed(kept))


def _operators(expr: Expr) -> int:
    """The number of nodes of a value, those of subscripts aside."""
    return 1 if isinstance(expr, Load) else 1 + sum(map(_operators, children(expr)))


def drop_unused(tree: SourceTree) -> SourceTree:
    """Remove locals that are never read or returned, with their assignments and empty loops."""
    returned = set(tree.result.names) if tree.result is not None else set()
    while True:
        read = {x.array for a in assignments(tree.body) for x in loads(a.value)}
        dead = {local.name for local in tree.locals} - read - returned
        if not dead:
            return tree
        kept = tuple(local for local in tree.locals if local.name not in dead)
        tree = replace(tree, locals=kept, body=_without(tree.body, dead))


def _without(nodes: tuple[Node, ...], dead: set[str]) -> tuple[Node, ...]:
    kept: list[Node] = []
    for node in nodes:
        match node:
            case Assign(target=target):
                if target.array not in dead:
                    kept.append(node)
            case Loop(body=body):
                inner = _without(body, dead)
                if inner:
                    kept.append(replace(node, body=inner))
            case Branch(body=body, orelse=orelse):
                inner, other = _without(body, dead), _without(orelse, dead)
                if inner or other:
                    kept.append(replace(node, body=inner, orelse=other))
            case _:
                assert_never(node)
    return tuple(kept)
