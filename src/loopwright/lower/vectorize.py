"""Strip-mine VECTOR and UNROLL loops to constant extents, and peel SIMD loops for alignment.

Below these passes a VECTOR or UNROLL loop has a constant number of iterations, and a VECTOR loop
holds stores and bindings only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from loopwright.ir.expr import Binary, Const, Expr, Var
from loopwright.ir.loops import Block, For, Let, LoopNest, Mark, Stmt, Store
from loopwright.ir.program import Array, Role
from loopwright.ir.visit import fresh_name, names, rebuild, statements, substitute
from loopwright.lower.build import bound_names, is_straight_line, substitute_statement
from loopwright.lower.linear_forms import linear, normal

__all__ = ["peel_for_alignment", "strip_mine", "unroll", "vectorize"]


def vectorize(nest: LoopNest, lanes: Mapping[str, int]) -> LoopNest:
    """Strip-mine the VECTOR loops that `lanes` names into loops over exactly that many lanes.

        vector for i in range(n): S(i)
    ->  for i in range(0, n - 3, 4):
            vector for i_v in range(4): S(i + i_v)
        for i in range(n // 4 * 4, n): S(i)

    A vector loop that holds guards or loops becomes serial: its lanes would need masks.
    """
    return _strip_mine_marked(
        replace(nest, body=rebuild(nest.body, _without_masks)), Mark.VECTOR, lanes, "v"
    )


def unroll(nest: LoopNest, factors: Mapping[str, int]) -> LoopNest:
    """Strip-mine the UNROLL loops that `factors` names into loops of exactly that many copies.

        unroll for i in range(n): S(i)
    ->  for i in range(0, n - 3, 4):
            unroll for i_u in range(4): S(i + i_u)
        for i in range(n // 4 * 4, n): S(i)

    The copies stay a loop with the mark; the backend repeats the text.
    """
    return _strip_mine_marked(nest, Mark.UNROLL, factors, "u")


def _without_masks(node: Stmt) -> Stmt:
    """A vector loop that would need masks made serial; any other statement as it is."""
    if not isinstance(node, For) or node.mark is not Mark.VECTOR or is_straight_line(node.body):
        return node
    return replace(node, mark=Mark.SERIAL)


def _strip_mine_marked(
    nest: LoopNest, mark: Mark, sizes: Mapping[str, int], suffix: str
) -> LoopNest:
    """`nest` with every loop of `mark` that `sizes` names by its variable strip-mined."""
    taken = bound_names(nest)

    def visit(node: Stmt) -> Stmt:
        if not isinstance(node, For) or node.mark is not mark or node.var not in sizes:
            return node
        return strip_mine(node, sizes[node.var], fresh_name(f"{node.var}_{suffix}", taken))

    return replace(nest, body=rebuild(nest.body, visit))


def strip_mine(loop: For, size: int, inner: str) -> Stmt:
    """`loop` as strips of `size` iterations that carry its mark, and a serial remainder loop.

        for i in range(a, b): S(i)
    ->  for i in range(a, b - (size - 1), size):
            for inner in range(0, size): S(i + inner)     carries the mark
        for i in range(a + max(b - a, 0) // size * size, b): S(i)

    The strips or the remainder are left out where constant bounds show that there are none.
    """
    at = normal(Var(loop.var) + Var(inner) * loop.step)
    body = substitute_statement(loop.body, {loop.var: at})
    strip = For(inner, Const(0), Const(size), body, Const(1), loop.mark)
    last = normal(loop.stop - loop.step * (size - 1))
    strips = For(loop.var, loop.start, last, strip, normal(loop.step * size))
    remainder = replace(loop, start=_remainder_start(loop, size), mark=Mark.SERIAL)
    extent = linear(loop.stop - loop.start)
    if extent.terms or not isinstance(loop.step, Const):
        return Block((strips, remainder))
    trips = max(0, -(-extent.constant // int(loop.step.value.real)))
    if trips < size:
        return replace(loop, mark=Mark.SERIAL)
    return strips if trips % size == 0 else Block((strips, remainder))


def _remainder_start(loop: For, size: int) -> Expr:
    """The first iteration that no strip of `size` iterations holds."""
    span = (loop.stop - loop.start).max(0)
    if loop.step == Const(1):
        return normal(loop.start + span // size * size)
    strips = (span + (loop.step - 1)) // loop.step // size
    return normal(loop.start + strips * size * loop.step)


def peel_for_alignment(
    nest: LoopNest, lanes: Mapping[str, int], arrays: Sequence[Array]
) -> LoopNest:
    """Peel iterations off the SIMD loops in `lanes` until their first store starts a vector.

        simd for j in range(1, n): b[i, j] = x
    ->  for j in range(1, first): b[i, j] = x         first = 1 + (-(i * n + 1)) mod lanes
        simd for j in range(first, n): b[i, j] = x

    Elements are counted from the first one of the array, whose extents are those in `arrays` (local
    arrays have a layout of their own). Arrays of callers are assumed to start at a whole vector
    and to have no gaps; where that is wrong, stores are as slow as without peeling.
    """
    if not lanes:
        return nest
    shapes = {array.name: array.shape for array in arrays if array.role is not Role.LOCAL}

    def visit(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, For) or stmt.mark is not Mark.SIMD or stmt.var not in lanes:
            return stmt
        stores = [s for s in statements(stmt.body) if isinstance(s, Store)]
        moving = [s for s in stores if s.buffer in shapes and _is_contiguous(s, stmt.var)]
        if not moving or stmt.step != Const(1):
            return stmt
        first = _first_aligned(stmt, moving[0], shapes[moving[0].buffer], lanes[stmt.var])
        if first is None:
            return stmt
        peeled = replace(stmt, stop=first, mark=Mark.SERIAL)
        return Block((peeled, replace(stmt, start=first)))

    return replace(nest, body=rebuild(nest.body, visit))


def _is_contiguous(store: Store, var: str) -> bool:
    """Whether the last subscript of a store, and no other, moves with `var`."""
    if not store.index or var not in names(store.index[-1]):
        return False
    return not any(var in names(index) for index in store.index[:-1])


def _first_aligned(loop: For, store: Store, shape: Sequence[Expr], lanes: int) -> Expr | None:
    """The first iteration that stores at a multiple of `lanes`; None where only the body knows."""
    offset: Expr = Const(0)
    for index, extent in zip(store.index, shape, strict=True):
        offset = offset * extent + index
    # Of unrolled copies the first one counts; where rows are whole vectors it speaks for all.
    copies = {s.var: s.start for s in statements(loop.body) if isinstance(s, For)}
    offset = substitute(substitute(offset, copies), {loop.var: loop.start})
    bound = {s.name for s in statements(loop.body) if isinstance(s, Let)}
    if names(offset) & {loop.var, *copies, *bound}:
        return None
    peeled = Binary("mod", Const(0) - offset, Const(lanes))
    return normal((loop.start + peeled).min(loop.stop))
