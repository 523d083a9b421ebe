"""Make a nest with parallel loops one that every thread runs: one worker for the rest, barriers.

Threads enter the nest together and share out the iterations of parallel loops; everything else
would be done by each of them. So what stands outside parallel loops goes into a parallel loop of
one iteration, and a barrier separates regions that follow each other.
"""

from __future__ import annotations

from dataclasses import replace

from loopwright.ir.expr import Const
from loopwright.ir.loops import Alloc, Barrier, Block, For, If, Let, LoopNest, Mark, Stmt
from loopwright.ir.visit import statements
from loopwright.ir.walk import fresh_name
from loopwright.lower.chunk import bound_names

__all__ = ["share_out"]


def share_out(nest: LoopNest) -> LoopNest:
    """`nest` for any number of threads; a nest without parallel loops stays as it is."""
    if not _has_parallel(nest.body):
        return nest
    once = fresh_name("once", bound_names(nest))
    return replace(nest, body=_without_last_barrier(_shared(nest.body, once)))


def _shared(stmt: Stmt, once: str) -> Stmt:
    """`stmt` as regions for all threads, each followed by a barrier."""
    if not _has_parallel(stmt):
        single = For(once, Const(0), Const(1), stmt, Const(1), Mark.PARALLEL)
        return Block((single, Barrier()))
    match stmt:
        case For(mark=Mark.PARALLEL):
            return Block((stmt, Barrier()))
        case For(body=body) | Let(body=body) | Alloc(body=body):
            return replace(stmt, body=_shared(body, once))
        case If(body=body, orelse=orelse):
            other = None if orelse is None else _shared(orelse, once)
            return replace(stmt, body=_shared(body, once), orelse=other)
        case Block(body=parts):
            return Block(tuple(_shared(part, once) for part in _regions(parts)))
    raise AssertionError(f"holds a parallel loop: {stmt}")


def _regions(parts: tuple[Stmt, ...]) -> list[Stmt]:
    """`parts` with neighbours that hold no parallel loop joined: one region needs one barrier."""
    regions: list[Stmt] = []
    for part in parts:
        if _is_nothing(part):
            continue
        if regions and not _has_parallel(part) and not _has_parallel(regions[-1]):
            before = regions.pop()
            body = before.body if isinstance(before, Block) else (before,)
            regions.append(Block((*body, part)))
        else:
            regions.append(part)
    return regions


def _is_nothing(stmt: Stmt) -> bool:
    return isinstance(stmt, Block) and all(map(_is_nothing, stmt.body))


def _without_last_barrier(stmt: Stmt) -> Stmt:
    """`stmt` without the barrier that stands at its very end: the threads meet there anyway."""
    match stmt:
        case Block(body=(*parts, Barrier())):
            return Block(tuple(parts))
        case Block(body=(*parts, last)):
            return Block((*parts, _without_last_barrier(last)))
        case Alloc(body=body) | Let(body=body):
            return replace(stmt, body=_without_last_barrier(body))
    return stmt


def _has_parallel(stmt: Stmt) -> bool:
    return any(isinstance(s, For) and s.mark is Mark.PARALLEL for s in statements(stmt))
