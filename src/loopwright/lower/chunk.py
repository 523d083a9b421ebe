"""Cut marked loops into chunks of constant size, and a serial loop over what is left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from loopwright.ir.expr import Const, Expr, Var
from loopwright.ir.loops import Alloc, Block, For, Let, LoopNest, Mark, Stmt
from loopwright.ir.visit import rebuild, statements
from loopwright.ir.walk import fresh_name
from loopwright.lower.linear import linear, normal
from loopwright.lower.simplify import substitute_statement

__all__ = ["bound_names", "chunk_loop", "chunk_marked"]


def chunk_marked(nest: LoopNest, mark: Mark, sizes: Mapping[str, int], suffix: str) -> LoopNest:
    """`nest` with every loop of `mark` that `sizes` names by its variable cut into chunks."""
    names = bound_names(nest)

    def visit(node: Stmt) -> Stmt:
        if not isinstance(node, For) or node.mark is not mark or node.var not in sizes:
            return node
        inner = fresh_name(f"{node.var}_{suffix}", names)
        return chunk_loop(node, sizes[node.var], inner)

    return replace(nest, body=rebuild(nest.body, visit))


def chunk_loop(loop: For, size: int, inner: str) -> Stmt:
    """`loop` as chunks of `size` iterations that carry its mark, and a serial remainder.

        for i in range(a, b): S(i)
    ->  for i in range(a, b - (size - 1), size):
            for inner in range(0, size): S(i + inner)     carries the mark
        for i in range(a + max(b - a, 0) // size * size, b): S(i)

    The chunks or the remainder are left out where constant bounds show that there are none.
    """
    at = normal(Var(loop.var) + Var(inner) * loop.step)
    body = substitute_statement(loop.body, {loop.var: at})
    lanes = For(inner, Const(0), Const(size), body, Const(1), loop.mark)
    last = normal(loop.stop - loop.step * (size - 1))
    whole = For(loop.var, loop.start, last, lanes, normal(loop.step * size))
    rest = replace(loop, start=_rest_start(loop, size), mark=Mark.SERIAL)
    extent = linear(loop.stop - loop.start)
    if extent.terms or not isinstance(loop.step, Const):
        return Block((whole, rest))
    trips = max(0, -(-extent.constant // int(loop.step.value.real)))
    if trips < size:
        return replace(loop, mark=Mark.SERIAL)
    return whole if trips % size == 0 else Block((whole, rest))


def bound_names(nest: LoopNest) -> set[str]:
    """Every name that something in the nest is called by."""
    names = {buffer.name for buffer in nest.buffers} | set(nest.scalars)
    for node in statements(nest.body):
        match node:
            case For(var=name) | Let(name=name):
                names.add(name)
            case Alloc(buffer=buffer):
                names.add(buffer.name)
    return names


def _rest_start(loop: For, size: int) -> Expr:
    """The first iteration that the chunks do not reach."""
    span = (loop.stop - loop.start).max(0)
    if loop.step == Const(1):
        return normal(loop.start + span // size * size)
    chunks = (span + (loop.step - 1)) // loop.step // size
    return normal(loop.start + chunks * size * loop.step)
