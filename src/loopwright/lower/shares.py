"""Join the strips that one thread gets of a loop that was cut for threads.

A parallel loop over strips of F iterations around loops that go through the strip

    parallel for t in range(a, b, F): for i: for j in range(max(t, ...), min(t + F, ...)): S

has iterations that do not depend on each other, so those of one thread may run as one strip of W
iterations, W a multiple of F: inner loops are started less often and go further through memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce

from loopwright.ir.expr import Const, Expr, Var
from loopwright.ir.loops import Alloc, Block, For, If, Let, LoopNest, Mark, Stmt
from loopwright.ir.visit import expressions, names, rebuild, statements
from loopwright.ir.walk import fresh_name, operands
from loopwright.lower.chunk import bound_names
from loopwright.lower.linear import linear, normal

__all__ = ["join_strips"]


def join_strips(nest: LoopNest, parts: Mapping[str, int]) -> LoopNest:
    """`nest` with the parallel loops that `parts` names cut into that many strips at most.

    Loops whose strips do not fit together stay as they are.
    """
    shared = {s.var for s in statements(nest.body) if isinstance(s, For) and _is_shared(s, parts)}
    if not shared:
        return nest
    taken = bound_names(nest)

    def visit(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, For) or stmt.var not in shared:
            return stmt
        far, end = (Var(fresh_name(f"{stmt.var}_{word}", taken)) for word in ("width", "end"))
        joined = _joined(stmt, parts[stmt.var], far, end)
        if joined is not stmt:
            taken.update((far.name, end.name))
        return joined

    return replace(nest, body=rebuild(nest.body, visit))


def _is_shared(loop: For, parts: Mapping[str, int]) -> bool:
    return loop.mark is Mark.PARALLEL and loop.var in parts


def _joined(loop: For, parts: int, far: Var, end: Var) -> Stmt:
    """The loop with strips of `far` iterations, bound here as `end` is: where the last one ends."""
    size = loop.step.value if isinstance(loop.step, Const) else 0
    if not isinstance(size, int) or size < 2 or not _fits(loop.body, loop.var, size):
        return loop
    here = Var(loop.var)
    trips = normal((loop.stop - loop.start + (size - 1)) // size)

    def widened(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, For) or loop.var not in names(stmt.stop):
            return stmt
        # The last strip may go beyond the last multiple of W, but not beyond its own end.
        ends = (
            (here + far).min(end) if _is(limit, here, size) else limit
            for limit in operands("min", stmt.stop)
        )
        return replace(stmt, stop=reduce(lambda x, y: x.min(y), ends))

    each = ((trips + (parts - 1)) // parts).max(Const(1)) * size
    wide = replace(loop, step=far, body=rebuild(loop.body, widened))
    return Let(far.name, normal(each), Let(end.name, normal(loop.start + trips * size), wide))


def _fits(stmt: Stmt, var: str, size: int, *, inside: bool = False) -> bool:
    """Whether every statement stands in one loop that goes through the strip, and uses it so only.

    `inside` such a loop the strip must not be used again.
    """
    if isinstance(stmt, For) and not inside and _goes_through(stmt, var, size):
        return _fits(stmt.body, var, size, inside=True)
    if any(var in names(expr) for expr in expressions(stmt)):
        return False
    match stmt:
        case For(body=body) | Let(body=body):
            return _fits(body, var, size, inside=inside)
        case If(body=body, orelse=orelse):
            others = () if orelse is None else (orelse,)
            return all(_fits(part, var, size, inside=inside) for part in (body, *others))
        case Block(body=parts):
            return all(_fits(part, var, size, inside=inside) for part in parts)
        case Alloc():
            # Memory of one iteration may be too little for several.
            return inside and all(
                var not in names(expr) for part in statements(stmt) for expr in expressions(part)
            )
    return inside


def _goes_through(loop: For, var: str, size: int) -> bool:
    """Whether a loop runs over the strip from `var` on, as far as other limits let it."""
    here = Var(var)
    starts, stops = operands("max", loop.start), operands("min", loop.stop)
    begins = [start for start in starts if var in names(start)]
    ends = [stop for stop in stops if var in names(stop)]
    if len(begins) != 1 or len(ends) != 1 or var in names(loop.step):
        return False
    if not _is(begins[0], here, 0) or not _is(ends[0], here, size):
        return False
    step = loop.step.value if isinstance(loop.step, Const) else 0
    # Steps go on evenly from strip to strip where all strips begin with one.
    return step == 1 or (
        len(starts) == 1 and isinstance(step, int) and step > 0 and size % step == 0
    )


def _is(expr: Expr, var: Var, distance: int) -> bool:
    return linear(expr) == linear(var + distance)
