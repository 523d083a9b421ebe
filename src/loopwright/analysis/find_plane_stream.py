"""The order of a stencil whose planes stream through a scratchpad (ir/plane_stream).

Statement s of step t is late by D(s, t) = delays[s] + rate * t planes. Where statement s uses a
plane at distance d of the one that it computes, and s', which comes later in the source, uses it at
distance d', one of them writing, they keep their order if D(s', t') >= D(s, t) + d' - d: at equal
positions a stream runs statements in the order of the source. The least delays are longest paths.
"""

from __future__ import annotations

from collections.abc import Sequence

from loopwright.analysis.find_time_stencil import read_distance
from loopwright.analysis.longest_paths import longest_paths
from loopwright.ir.expr import Expr
from loopwright.ir.islkit import affine
from loopwright.ir.plane_stream import PlaneStream, StreamedGrid
from loopwright.ir.program import Program
from loopwright.ir.time_stencil import TimeStencil

__all__ = ["find_plane_stream"]

_MOST_RATE = 16  # planes that a step is late behind the one before
_RANKS = (2, 3)  # of grids: a plane is moved by one request
_Uses = Sequence[tuple[str, int, bool]]  # grid, distance along the first dimension, is written


def find_plane_stream(program: Program, stencil: TimeStencil) -> PlaneStream | str:
    """The stream of a stencil along its first dimension, or why it has none."""
    if len(stencil.start) not in _RANKS:
        return f"planes of grids of {len(stencil.start)} dimensions do not stream"
    uses = _uses(program, stencil)
    if any(not own.iterators[-1] for own in stencil.statements):
        return "a statement does not run along the last dimension"
    delays: tuple[int, ...] | None = None
    rate = -1
    while delays is None:
        rate += 1
        if rate > _MOST_RATE:
            return f"a step would be more than {_MOST_RATE} planes late behind the one before"
        delays = _delays(uses, rate)
    # The first plane that is used at a position has its number.
    pairs = list(zip(delays, uses, strict=True))
    least = min(delay - distance for delay, own in pairs for _, distance, _ in own)
    delays = tuple(delay - least for delay in delays)
    grids: list[StreamedGrid] = []
    for name, _ in stencil.boxes:
        found = _streamed(program, stencil, name, uses, delays)
        if isinstance(found, str):
            return found
        grids.append(found)
    return PlaneStream(rate, delays, tuple(grids))


def _uses(program: Program, stencil: TimeStencil) -> list[_Uses]:
    """What each statement of a step uses of the grids."""
    grids = {name for name, _ in stencil.boxes}
    found: list[_Uses] = []
    for own in stencil.statements:
        uses = [(own.array, 0, True)]
        for access in dict.fromkeys(program.statement(own.name).reads):
            if access.array in grids:
                distance = read_distance(own, access)
                assert distance is not None, "a stencil has constant distances"
                uses.append((access.array, distance[0], False))
        found.append(uses)
    return found


def _delays(uses: Sequence[_Uses], rate: int) -> tuple[int, ...] | None:
    """The least delays of statements, by longest paths; None where steps are that close."""
    count = len(uses)
    edges: list[tuple[int, int, int]] = []
    for s in range(count):
        for later in range(count):
            weights = [
                there - here
                for name, here, is_written in uses[s]
                for other, there, is_written_later in uses[later]
                if name == other and (is_written or is_written_later)
            ]
            if weights:
                # Later in the same step, or in the next one.
                edges.append((s, later, max(weights) - (0 if s < later else rate)))
    return longest_paths(count, edges)


def _streamed(
    program: Program,
    stencil: TimeStencil,
    name: str,
    uses: Sequence[_Uses],
    delays: Sequence[int],
) -> StreamedGrid | str:
    at = [
        (delay - distance, is_written)
        for delay, own in zip(delays, uses, strict=True)
        for grid, distance, is_written in own
        if grid == name
    ]
    writes = [late for late, is_written in at if is_written]
    edges: tuple[tuple[int, int], ...] | None = None
    if name in stencil.made:
        found = _edges(program, stencil, name)
        if found is None:
            return f"what nobody writes of '{name}' has no constant width"
        edges = found
    return StreamedGrid(
        name,
        min(late for late, _ in at),
        max(late for late, _ in at),
        max(writes, default=None),
        edges,
    )


def _edges(program: Program, stencil: TimeStencil, name: str) -> tuple[tuple[int, int], ...] | None:
    """Elements that nobody writes, on both sides of each dimension but the first, at most."""
    (writer,) = (own for own in stencil.statements if own.array == name)
    found: list[tuple[int, int]] = []
    sides = zip(stencil.start, stencil.end, writer.low, writer.stop, strict=True)
    for start, end, low, stop in list(sides)[1:]:
        before, behind = _most(program, low - start), _most(program, end - stop)
        if before is None or behind is None:
            return None
        found.append((before, behind))
    return tuple(found)


def _most(program: Program, value: Expr) -> int | None:
    """The largest value of an expression over the parameters, no less than 0; None: any."""
    space = program.context.get_space().set_from_params()
    function = affine(value, space).intersect_params(program.context)
    most = function.max_val()
    return max(int(most.to_python()), 0) if most.is_int() else None
