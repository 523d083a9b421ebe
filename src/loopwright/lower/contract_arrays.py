"""Array contraction: a local array whose elements live within one iteration becomes a scalar.

    alloc t[n]: for j: t[j] = f(j); a[j] = t[j]   ->   for j: alloc t: t = f(j); a[j] = t

A scalar that was expanded so that loops could change needs no memory where, in the loops as they
are in the end, every value is read in the sequence of statements that begins by writing it. So a
scalar that was one all along goes into the loop that sets it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from loopwright.ir.expr import Expr, Load
from loopwright.ir.loops import Alloc, Block, Buffer, For, If, Let, LoopNest, Space, Stmt, Store
from loopwright.ir.program import Array
from loopwright.ir.visit import expressions, loads, names, rebuild, rewrite, statements
from loopwright.lower.build import touches

__all__ = ["contracted_array", "sink_scalars"]


def contracted_array(array: Array, body: Stmt) -> Stmt | None:
    """`body` with a scalar wherever it uses a local array; None where that needs its elements."""
    if not array.rank or not _uses(body, array.name):
        return None
    scalar = Buffer(array.name, array.dtype, (), Space.STACK, writable=True)
    return _contracted(body, scalar)


def sink_scalars(nest: LoopNest) -> LoopNest:
    """Stack scalars begin where they are set, in every iteration that does so before it reads them.

    alloc t: for j: t = f(j); a[j] = t   ->   for j: alloc t: t = f(j); a[j] = t
    """

    def visit(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, Alloc) or stmt.shape or stmt.buffer.space is not Space.STACK:
            return stmt
        inside = _contracted(stmt.body, stmt.buffer)
        return stmt if inside is None else inside

    return replace(nest, body=rebuild(nest.body, visit))


def _contracted(stmt: Stmt, scalar: Buffer) -> Stmt | None:
    if not _uses(stmt, scalar.name):
        return stmt
    if touches(stmt, scalar.name):
        return None
    match stmt:
        case Block(body=parts):
            return _in_sequence(tuple(_flat(parts)), scalar)
        case For(body=inner) | Let(body=inner) | Alloc(body=inner) | If(body=inner, orelse=None):
            inside = _contracted(inner, scalar)
            return None if inside is None else replace(stmt, body=inside)
        case If(body=inner, orelse=Block() | For() | If() | Let() | Alloc() as other):
            inside, outside = _contracted(inner, scalar), _contracted(other, scalar)
            if inside is not None and outside is not None:
                return replace(stmt, body=inside, orelse=outside)
    return None


def _in_sequence(parts: tuple[Stmt, ...], scalar: Buffer) -> Stmt | None:
    """A sequence with a scalar for each run of parts that use one element, from its store on."""
    kept: list[Stmt] = []
    at = 0
    while at < len(parts):
        start = parts[at]
        if isinstance(start, Store) and start.buffer == scalar.name:
            places = [_places(part, scalar.name) for part in parts[at:]]
            other = (k for k, found in enumerate(places) if not found <= {start.index})
            users = [k for k in range(next(other, len(places))) if places[k]]
            if not users:  # it is made of another element
                return None
            end = at + users[-1] + 1
            inside = _in_scalar(start, parts[at:end], scalar)
        else:
            end = at + 1
            inside = _contracted(start, scalar)
        if inside is None:
            return None
        kept.append(inside)
        at = end
    return Block(tuple(kept))


def _in_scalar(start: Store, parts: tuple[Stmt, ...], scalar: Buffer) -> Stmt | None:
    """Statements that use one element, which the first of them sets, with a scalar for it."""
    inside = [stmt for part in parts for stmt in statements(part)]
    bound = {s.var for s in inside if isinstance(s, For)}
    bound |= {s.name for s in inside if isinstance(s, Let)}
    is_plain = all(
        isinstance(s, Block | For | If | Let | Alloc | Store) or not touches(s, scalar.name)
        for s in inside
    )
    is_set = not any(x.array == scalar.name for x in loads(start.value))
    if not is_plain or not is_set or any(names(x) & bound for x in start.index):
        return None

    def load(expr: Expr) -> Expr:
        if isinstance(expr, Load) and expr.array == scalar.name:
            return replace(expr, index=())
        return expr

    def store(stmt: Stmt) -> Stmt:
        if isinstance(stmt, Store) and stmt.buffer == scalar.name:
            return replace(stmt, index=())
        return stmt

    body = rebuild(Block(parts), store, lambda value: rewrite(value, load))
    return Alloc(scalar, (), body)


def _flat(parts: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """The parts of a sequence, and those of sequences in it."""
    for part in parts:
        if isinstance(part, Block):
            yield from _flat(part.body)
        else:
            yield part


def _places(stmt: Stmt, name: str) -> set[tuple[Expr, ...]]:
    """The subscripts by which a statement uses an array."""
    found: set[tuple[Expr, ...]] = set()
    for part in statements(stmt):
        if isinstance(part, Store) and part.buffer == name:
            found.add(part.index)
        for value in expressions(part):
            found |= {x.index for x in loads(value) if x.array == name}
    return found


def _uses(stmt: Stmt, name: str) -> bool:
    return any(touches(part, name) for part in statements(stmt))
