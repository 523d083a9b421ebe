"""Let simd loops begin where the elements they store begin a vector.

Arrays of callers begin with a whole vector and have no gaps, as far as anybody knows when loops are
written down; where that is wrong, stores are as slow as they would be anyway. Places are counted in
elements from the first one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from loopwright.ir.expr import Binary, Const, Expr
from loopwright.ir.loops import Block, For, Let, LoopNest, Mark, Stmt, Store
from loopwright.ir.program import Array, Role
from loopwright.ir.visit import rebuild, statements
from loopwright.ir.walk import names, substitute
from loopwright.lower.linear import normal

__all__ = ["align"]


def align(nest: LoopNest, lanes: Mapping[str, int], arrays: Sequence[Array]) -> LoopNest:
    """`nest` with each SIMD loop named in `lanes` cut where its first store is at a whole vector.

    `arrays` are those of the program; local ones have a layout of their own.
    """
    if not lanes:
        return nest
    shapes = {array.name: array.shape for array in arrays if array.role is not Role.LOCAL}

    def visit(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, For) or stmt.mark is not Mark.SIMD or stmt.var not in lanes:
            return stmt
        stores = [s for s in statements(stmt.body) if isinstance(s, Store)]
        moving = [s for s in stores if s.buffer in shapes and _last_is(s, stmt.var)]
        if not moving or stmt.step != Const(1):
            return stmt
        first = _first(stmt, moving[0], shapes[moving[0].buffer], lanes[stmt.var])
        if first is None:
            return stmt
        alone = replace(stmt, stop=first, mark=Mark.SERIAL)
        return Block((alone, replace(stmt, start=first)))

    return replace(nest, body=rebuild(nest.body, visit))


def _last_is(store: Store, var: str) -> bool:
    """Whether the last subscript of a store, and no other, moves with `var`."""
    if not store.index or len(names(store.index[-1]) & {var}) == 0:
        return False
    return not any(var in names(index) for index in store.index[:-1])


def _first(loop: For, store: Store, shape: Sequence[Expr], lanes: int) -> Expr | None:
    """The first iteration that stores at a multiple of `lanes`; None where only the body knows."""
    place: Expr = Const(0)
    for index, extent in zip(store.index, shape, strict=True):
        place = place * extent + index
    # Of copies the first one counts; with rows of whole vectors it speaks for all.
    copies = {s.var: s.start for s in statements(loop.body) if isinstance(s, For)}
    place = substitute(substitute(place, copies), {loop.var: loop.start})
    if names(place) & {loop.var, *copies, *_let_names(loop.body)}:
        return None
    ahead = Binary("mod", Const(0) - place, Const(lanes))
    return normal((loop.start + ahead).min(loop.stop))


def _let_names(body: Stmt) -> set[str]:
    return {stmt.name for stmt in statements(body) if isinstance(stmt, Let)}
