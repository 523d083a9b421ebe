"""Fold parallel loops whose iterations have more and more work, or less and less.

Threads get equal runs of iterations, and of a triangle one of two would have three quarters. Its
iterations do not depend on each other, so they may be taken from both ends in turn: any run of them
then has as much work as any other of its length.

    parallel for i in range(n): for j in range(i): S
    ->  parallel for i_fold in range(n): let i = i_fold // 2, or n - 1 - i_fold // 2 if it is odd:
            for j in range(i): S
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from loopwright.ir.expr import Const, Expr, Select, Var
from loopwright.ir.loops import Alloc, Block, For, If, Let, LoopNest, Mark, Stmt
from loopwright.ir.visit import names, rebuild
from loopwright.ir.walk import fresh_name, operands
from loopwright.lower.chunk import bound_names
from loopwright.lower.linear import linear, normal

__all__ = ["fold_triangles"]


def fold_triangles(nest: LoopNest) -> LoopNest:
    """`nest` with its parallel loops of unequal iterations taken from both ends in turn."""
    taken = bound_names(nest)

    def visit(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, For) or stmt.mark is not Mark.PARALLEL or not _is_uneven(stmt):
            return stmt
        turn, count = (Var(fresh_name(f"{stmt.var}_{word}", taken)) for word in ("fold", "count"))
        taken.update((turn.name, count.name))
        return _folded(stmt, turn, count)

    return replace(nest, body=rebuild(nest.body, visit))


def _folded(loop: For, turn: Var, count: Var) -> Stmt:
    """The loop by `turn`, which counts its iterations, of which there are `count`."""
    trips = normal((loop.stop - loop.start + (loop.step - 1)) // loop.step)
    place = Select((turn % 2).equals(0), turn // 2, count - 1 - turn // 2)
    body = Let(loop.var, loop.start + place * loop.step, loop.body)
    return Let(count.name, trips, For(turn.name, Const(0), count, body, Const(1), Mark.PARALLEL))


def _is_uneven(loop: For) -> bool:
    """Whether a loop inside has more or fewer iterations from one of this loop's to the next."""
    return any(
        _varies(inner, moving) for inner, moving in _inside(loop.body, frozenset({loop.var}))
    )


def _inside(stmt: Stmt, moving: frozenset[str]) -> Iterator[tuple[For, frozenset[str]]]:
    """The loops in a statement, each with the names around it that move with the loop outside."""
    match stmt:
        case For(var=var, start=start, body=body):
            yield stmt, moving
            yield from _inside(body, moving | {var} if moving & names(start) else moving - {var})
        case Let(name=name, value=value, body=body):
            yield from _inside(body, moving | {name} if moving & names(value) else moving - {name})
        case Alloc(body=body):
            yield from _inside(body, moving)
        case If(body=body, orelse=orelse):
            yield from _inside(body, moving)
            if orelse is not None:
                yield from _inside(orelse, moving)
        case Block(body=parts):
            for part in parts:
                yield from _inside(part, moving)


def _varies(loop: For, moving: frozenset[str]) -> bool:
    """Whether every bound on the number of iterations moves: a strip has as many everywhere.

    What is left of a strip after whole vectors, by divisions, is no triangle either.
    """
    starts, stops = operands("max", loop.start), operands("min", loop.stop)
    extents = (linear(stop - start) for start, stop in product(starts, stops))
    return all(any(_is_among(atom, moving) for atom, _ in extent.terms) for extent in extents)


def _is_among(atom: Expr, moving: frozenset[str]) -> bool:
    return isinstance(atom, Var) and atom.name in moving
