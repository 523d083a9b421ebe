"""Distribute the iterations of parallel loops over threads, evenly, and lower nests to SPMD form.

Threads get contiguous ranges of equally many iterations of a parallel loop.
`coarsen_parallel_loops` merges the strips of such a range; `balance_triangles` and
`snake_distribution` give threads equal work where it grows or shrinks from one iteration to the
next; `lower_to_spmd` makes a nest one that every thread of a team runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import reduce
from itertools import product

from loopwright.ir.expr import Const, Expr, Select, Var
from loopwright.ir.loops import Alloc, Barrier, Block, For, If, Let, LoopNest, Mark, Stmt
from loopwright.ir.visit import expressions, fresh_name, names, operands, rebuild, statements
from loopwright.lower.build import bound_names, lets, loop
from loopwright.lower.linear_forms import linear, normal

__all__ = ["balance_triangles", "coarsen_parallel_loops", "lower_to_spmd", "snake_distribution"]


# -- coarsening ----------------------------------------------------------------------------------


def coarsen_parallel_loops(nest: LoopNest, chunks: Mapping[str, int]) -> LoopNest:
    """Coarsen the parallel loops over strips that `chunks` names to at most that many chunks.

        parallel for t in range(a, b, F):
            for i: for j in range(max(t, ...), min(t + F, ...)): S
    ->  parallel for t in range(a, b, W):                          W a multiple of F
            for i: for j in range(max(t, ...), min(t + W, end, ...)): S

    The iterations of a parallel loop are independent, so the strips of one thread may run as one:
    inner loops start less often and run further through memory. A backend that knows how many
    threads run may make fewer chunks. Loops stay as they are where some
    statement uses the strip in another way than to run through it.
    """
    chunked = {
        stmt.var
        for stmt in statements(nest.body)
        if isinstance(stmt, For) and stmt.mark is Mark.PARALLEL and stmt.var in chunks
    }
    if not chunked:
        return nest
    taken = bound_names(nest)

    def visit(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, For) or stmt.var not in chunked:
            return stmt
        words = ("parts", "width", "end")
        made = [Var(fresh_name(f"{stmt.var}_{word}", taken)) for word in words]
        coarse = _coarsened(stmt, chunks[stmt.var], *made)
        if coarse is not stmt:
            taken.update(var.name for var in made)
        return coarse

    return replace(nest, body=rebuild(nest.body, visit))


def _coarsened(loop: For, chunks: int, parts: Var, width: Var, end: Var) -> Stmt:
    """The loop in `parts` chunks of `width` iterations; `end` is where the last strip ends."""
    size = loop.step.value if isinstance(loop.step, Const) else 0
    if not isinstance(size, int) or size < 2 or not _only_runs_through(loop.body, loop.var, size):
        return loop
    strip = Var(loop.var)
    trips = normal((loop.stop - loop.start + (size - 1)) // size)

    def widened(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, For) or loop.var not in names(stmt.stop):
            return stmt
        # The last chunk may go beyond the last multiple of the width, but not beyond its own end.
        ends = (
            (strip + width).min(end) if _is_after(limit, strip, size) else limit
            for limit in operands("min", stmt.stop)
        )
        return replace(stmt, stop=reduce(lambda x, y: x.min(y), ends))

    per_chunk = ((trips + (parts - 1)) // parts).max(Const(1)) * size
    wide = replace(loop, step=width, body=rebuild(loop.body, widened))
    last = normal(loop.start + trips * size)
    bound = Let(width.name, normal(per_chunk), Let(end.name, last, wide))
    return Let(parts.name, Const(chunks), bound, parts=chunks)


def _only_runs_through(stmt: Stmt, var: str, size: int, *, inside: bool = False) -> bool:
    """Whether every statement stands in one loop through the strip `var`, its only use.

    `inside` such a loop the strip must not be used again.
    """
    if isinstance(stmt, For) and not inside and _runs_through(stmt, var, size):
        return _only_runs_through(stmt.body, var, size, inside=True)
    if any(var in names(expr) for expr in expressions(stmt)):
        return False
    match stmt:
        case For(body=body) | Let(body=body):
            return _only_runs_through(body, var, size, inside=inside)
        case If(body=body, orelse=orelse):
            others = () if orelse is None else (orelse,)
            return all(
                _only_runs_through(part, var, size, inside=inside) for part in (body, *others)
            )
        case Block(body=parts):
            return all(_only_runs_through(part, var, size, inside=inside) for part in parts)
        case Alloc():
            # Memory of one iteration may be too little for several.
            return inside and all(
                var not in names(expr) for part in statements(stmt) for expr in expressions(part)
            )
    return inside


def _runs_through(loop: For, var: str, size: int) -> bool:
    """Whether a loop runs over the strip of `size` iterations from `var` on, and no further."""
    strip = Var(var)
    starts, stops = operands("max", loop.start), operands("min", loop.stop)
    begins = [start for start in starts if var in names(start)]
    ends = [stop for stop in stops if var in names(stop)]
    if len(begins) != 1 or len(ends) != 1 or var in names(loop.step):
        return False
    if not _is_after(begins[0], strip, 0) or not _is_after(ends[0], strip, size):
        return False
    step = loop.step.value if isinstance(loop.step, Const) else 0
    # Steps continue evenly from strip to strip where every strip begins with one.
    return step == 1 or (
        len(starts) == 1 and isinstance(step, int) and step > 0 and size % step == 0
    )


def _is_after(expr: Expr, var: Var, distance: int) -> bool:
    return linear(expr) == linear(var + distance)


# -- balance -------------------------------------------------------------------------------------


_UNEVEN = 0.25  # of what loops grow and shrink by: what is left in sum, of a triangle
_MOST_WAYS = 16  # through the branches of a body


def balance_triangles(nest: LoopNest) -> LoopNest:
    """Take the iterations of triangular parallel loops from both ends in turn.

        parallel for i in range(n): for j in range(i): S
    ->  parallel for i_fold in range(n):
            let i = p, or n - 1 - p where i_fold is odd, with p = 0, 2, 4, ..., 5, 3, 1
            for j in range(i): S

    Threads get ranges of equally many iterations; of a triangle one of two threads would do three
    quarters. The iterations are independent, so they may run in any order. Two from both ends have
    as much work as any other two where it grows evenly. Where it grows faster, those further out
    have more: every other pair comes in the first half, on the way in, the rest on the way out.
    """
    taken = bound_names(nest)

    def visit(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, For) or stmt.mark is not Mark.PARALLEL or not _is_triangular(stmt):
            return stmt
        words = ("fold", "count", "pair", "team")
        made = [Var(fresh_name(f"{stmt.var}_{word}", taken)) for word in words]
        taken.update(var.name for var in made)
        return _from_both_ends(stmt, *made)

    return replace(nest, body=rebuild(nest.body, visit))


def _from_both_ends(loop: For, turn: Var, count: Var, pair: Var, team: Var) -> Stmt:
    """The loop by `turn`, the number of an iteration among `count` of them, each one of a pair.

    `team` is 2, in C text 1 where one thread runs: it keeps the order, and with it the lines that
    neighbouring iterations share.
    """
    trips = normal((loop.stop - loop.start + (loop.step - 1)) // loop.step)
    at, pairs = turn // 2, count // 2
    way_out = Select(at < pairs, (pairs - at) * 2 - 1, pairs)  # an odd one in the middle is last
    number = Select((turn % 2).equals(0), pair, count - 1 - pair)
    number = Select(team < 2, turn, number)
    body = Let(loop.var, loop.start + number * loop.step, loop.body)
    body = Let(pair.name, Select(at * 2 < pairs, at * 2, way_out), body)
    whole = For(turn.name, Const(0), count, body, Const(1), Mark.PARALLEL)
    return Let(count.name, trips, Let(team.name, Const(2), whole, parts=2))


def _is_triangular(loop: For) -> bool:
    """Whether the work of an iteration depends on which one it is.

    Loops that stand one after the other may grow and shrink by as much: a row without its diagonal
    is of the same length everywhere.
    """
    inside = _loops_inside(loop.body, frozenset({loop.var}))
    if not any(_varies(inner, dependent) for inner, dependent in inside):
        return False
    growth = _growth(loop.body, frozenset({loop.var}))
    if growth is None:
        return True
    return any(sum(map(abs, net.values())) > _UNEVEN * gross for net, gross in growth if gross > 0)


_Growth = list[tuple[dict[str, int], int]]  # for each way through branches: by name, and of all


def _growth(stmt: Stmt, dependent: frozenset[str]) -> _Growth | None:
    """By how much the loops of a body grow from one iteration to the next: c for each name.

    A loop of c * x + d iterations with a body of s expressions grows by c * s, and loops in a row
    by the sum of theirs; what the loops grow by in any direction stands beside it. None where that
    is not known: loops inside of loops that vary, or too many ways through branches.
    """
    match stmt:
        case For(var=var, start=start, body=body):
            if _varies(stmt, dependent):
                return _growth_of_loop(stmt, dependent)
            return _growth(body, _after(dependent, var, start))
        case Let(name=name, value=value, body=body):
            return _growth(body, _after(dependent, name, value))
        case Alloc(body=body):
            return _growth(body, dependent)
        case If(body=body, orelse=orelse):
            taken = _growth(body, dependent)
            other = [] if orelse is None else _growth(orelse, dependent)
            return None if taken is None or other is None else taken + other
        case Block(body=parts):
            ways: _Growth = [({}, 0)]
            for part in parts:
                more = _growth(part, dependent)
                if more is None or len(ways) * len(more) > _MOST_WAYS:
                    return None
                ways = [(_sum(x, y), a + b) for (x, a), (y, b) in product(ways, more)]
            return ways
    return [({}, 0)]


def _growth_of_loop(loop: For, dependent: frozenset[str]) -> _Growth | None:
    if any(isinstance(inner, For) for inner in statements(loop.body)):
        return None
    starts, stops = operands("max", loop.start), operands("min", loop.stop)
    if len(starts) > 1 or len(stops) > 1:
        return None
    size = sum(1 for part in statements(loop.body) for _ in expressions(part))
    terms = linear(stops[0] - starts[0]).terms
    net = {x.name: c * size for x, c in terms if isinstance(x, Var) and x.name in dependent}
    return [(net, sum(map(abs, net.values())))]


def _sum(x: dict[str, int], y: dict[str, int]) -> dict[str, int]:
    return {name: x.get(name, 0) + y.get(name, 0) for name in x.keys() | y.keys()}


def _loops_inside(stmt: Stmt, dependent: frozenset[str]) -> Iterator[tuple[For, frozenset[str]]]:
    """The loops in `stmt`, each with the names in scope that depend on the outermost loop."""
    match stmt:
        case For(var=var, start=start, body=body):
            yield stmt, dependent
            yield from _loops_inside(body, _after(dependent, var, start))
        case Let(name=name, value=value, body=body):
            yield from _loops_inside(body, _after(dependent, name, value))
        case Alloc(body=body):
            yield from _loops_inside(body, dependent)
        case If(body=body, orelse=orelse):
            yield from _loops_inside(body, dependent)
            if orelse is not None:
                yield from _loops_inside(orelse, dependent)
        case Block(body=parts):
            for part in parts:
                yield from _loops_inside(part, dependent)


def _after(dependent: frozenset[str], name: str, value: Expr) -> frozenset[str]:
    """The names that depend on a loop, inside of where `name` is `value`."""
    return dependent | {name} if dependent & names(value) else dependent - {name}


def _varies(loop: For, dependent: frozenset[str]) -> bool:
    """Whether every bound on the number of iterations varies with a name of `dependent`.

    A strip has a bound that does not. Where one end stands still and the other moves, it is enough
    that some bound does: copies of a triangle's rows have bounds of the whole as well. Divisions,
    as in the remainder of a strip after whole vectors, do not count: what they leave is no triangle
    either.
    """
    starts, stops = operands("max", loop.start), operands("min", loop.stop)
    moves = [any(dependent & names(end) for end in ends) for ends in (starts, stops)]
    extents = (linear(stop - start) for start, stop in product(starts, stops))
    varying = [
        any(isinstance(atom, Var) and atom.name in dependent for atom, _ in extent.terms)
        for extent in extents
    ]
    return all(varying) or (moves[0] != moves[1] and any(varying))


def snake_distribution(
    at: Var, total: Expr, block: Expr, thread: Expr, threads: Expr, body: Stmt
) -> Stmt:
    """`body` for the blocks of range(0, total, block) that thread `thread` gets in snake order.

        for at_round in range(0, total, block * threads):
            let at = at_round + (thread, or threads - 1 - thread in odd rounds) * block
            if at < total: body

    Of 2T neighbouring blocks thread t of T has those numbered t and 2T - 1 - t: where work grows
    evenly from block to block, as in triangles, all threads get the same.
    """
    first = Var(f"{at.name}_round")
    is_odd_round = (first // (block * threads) % 2).equals(1)
    number = Select(is_odd_round, threads - 1 - thread, thread)
    inside = lets([(at, first + number * block)], If(at < total, body))
    return loop(first, 0, total, inside, block * threads)


# -- SPMD ----------------------------------------------------------------------------------------


def lower_to_spmd(nest: LoopNest) -> LoopNest:
    """Make a nest with parallel loops one that every thread of a team runs, with barriers.

        S; parallel for i: T; U
    ->  parallel for once in range(1): S
        barrier
        parallel for i: T
        barrier
        parallel for once in range(1): U

    Threads enter the nest together and divide the iterations of parallel loops; every other
    statement would run once per thread, so it goes into a parallel loop of one iteration. A nest
    without parallel loops stays as it is.
    """
    if not _has_parallel(nest.body):
        return nest
    once = fresh_name("once", bound_names(nest))
    return replace(nest, body=_without_last_barrier(_spmd(nest.body, once)))


def _spmd(stmt: Stmt, once: str) -> Stmt:
    """`stmt` as regions for all threads, each followed by a barrier."""
    if not _has_parallel(stmt):
        single = For(once, Const(0), Const(1), stmt, Const(1), Mark.PARALLEL)
        return Block((single, Barrier()))
    match stmt:
        case For(mark=Mark.PARALLEL):
            return Block((stmt, Barrier()))
        case For(body=body) | Let(body=body) | Alloc(body=body):
            return replace(stmt, body=_spmd(body, once))
        case If(body=body, orelse=orelse):
            other = None if orelse is None else _spmd(orelse, once)
            return replace(stmt, body=_spmd(body, once), orelse=other)
        case Block(body=parts):
            return Block(tuple(_spmd(part, once) for part in _regions(parts)))
    raise AssertionError(f"holds a parallel loop: {stmt}")


def _regions(parts: tuple[Stmt, ...]) -> list[Stmt]:
    """`parts` with serial neighbours joined: one region needs one barrier."""
    regions: list[Stmt] = []
    for part in parts:
        if _is_empty(part):
            continue
        if regions and not _has_parallel(part) and not _has_parallel(regions[-1]):
            before = regions.pop()
            body = before.body if isinstance(before, Block) else (before,)
            regions.append(Block((*body, part)))
        else:
            regions.append(part)
    return regions


def _is_empty(stmt: Stmt) -> bool:
    return isinstance(stmt, Block) and all(map(_is_empty, stmt.body))


def _without_last_barrier(stmt: Stmt) -> Stmt:
    """`stmt` without the barrier at its very end: threads wait for each other there anyway."""
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
