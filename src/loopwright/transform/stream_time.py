"""StreamTime: a stencil in overlapped tiles whose planes stream through the scratchpad."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import ClassVar

from loopwright.analysis.find_plane_stream import find_plane_stream
from loopwright.diagnostics import UsageError
from loopwright.ir.expr import Expr, Var
from loopwright.ir.islkit import affine, isl
from loopwright.ir.plane_stream import PlaneStream
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import Band, Leaf, Node, in_sequence, unique_names
from loopwright.ir.time_stencil import StencilStatement, TimeStencil, TimeTiles
from loopwright.ir.visit import fresh_name
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.schedule_legality import reordered
from loopwright.transform.step import Step, refuse
from loopwright.transform.time_tiles import (
    require_moved,
    require_stencil,
    require_tiles,
    stencil_ranks,
)

__all__ = ["StreamTime", "streamed_order"]


@dataclass(frozen=True, slots=True)
class StreamTime(Step):
    """Compute some steps of a stencil tile by tile, plane after plane, on the cores of a mesh.

    rewrite:  for t: for i, j: B[i, j] = f(A[i - 1 : i + 2]); for i, j: A[i, j] = f(B)
              ->  for every T steps:
                      core: for i_t, j_t: for p from i_t - 2 T to i_t + size + 2 T:
                          A_box[p] = A[p, j_t - 2 T : j_t + size + 2 T], while p - 1 is used
                          for t < T: plane p - 1 - 2 t of B_box; plane p - 2 - 2 t of A_box
                          A_next[p - 2 T, j_t : j_t + size] = A_box[p - 2 T]
                      A_next is A of the next steps
    needs:    the program is a stencil (analysis/find_time_stencil) of two or three dimensions
    refuses:  IllegalStep with the reason why it is none, or with a dependence that the order of the
              stream would reverse

    Boxes are windows of planes along the first dimension: a tile may be as long there as its grid.
    What neighbours compute twice they compute alike (TileTime).
    """

    kind: ClassVar[str] = "stream_time"

    steps: int
    sizes: tuple[int, ...]  # elements of a tile, in each dimension of the grids
    rows: int  # of cores
    columns: int

    def __post_init__(self) -> None:
        require_tiles(self, self.steps, self.sizes)
        if self.rows < 1 or self.columns < 1:
            raise UsageError(f"{self.kind} takes one or more rows and columns", str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        found = require_stencil(self, schedule, self.sizes)
        require_moved(self, schedule.program, found)
        stream = find_plane_stream(schedule.program, found)
        if isinstance(stream, str):
            refuse(self, stream)
        ordered = reordered(self, schedule, streamed_order(schedule.program, found, stream))
        tiles = TimeTiles(found, self.steps, self.sizes, stream=stream)
        return replace(ordered, time_tiles=tiles, mesh=(self.rows, self.columns))

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[StreamTime]:
        for rank in stencil_ranks(schedule):
            if rank > 1:
                yield cls(2, (9, *(4 for _ in range(rank - 1))), 2, 2)


def streamed_order(program: Program, stencil: TimeStencil, stream: PlaneStream) -> Node:
    """The order of a stream over the whole grid: positions, steps, statements, planes."""
    names = {iterator for statement in program.statements for iterator in statement.iterators}
    position = fresh_name("plane", {*names, *program.params})
    late = dict(zip((own.name for own in stencil.statements), stream.delays, strict=True))

    def at(own: StencilStatement) -> Expr:
        return _subscript(own, 0) + late[own.name] + Var(stencil.time) * stream.rate

    parts: list[tuple[list[str], Node]] = []
    for own in stencil.statements:
        inner: Node = Leaf()
        for k in reversed(range(1, len(own.iterators))):
            if own.iterators[k]:
                along = partial(_subscript, k=k)
                inner = _band(program, [own], own.iterators[k], along, inner)
        parts.append(([own.name], inner))
    steps = _band(
        program, stencil.statements, stencil.time, lambda _: Var(stencil.time),
        in_sequence(program, parts),
    )  # fmt: skip
    return unique_names(_band(program, stencil.statements, position, at, steps))


def _subscript(own: StencilStatement, k: int) -> Expr:
    """The subscript of what a statement writes in a dimension."""
    return Var(own.iterators[k]) + own.shifts[k] if own.iterators[k] else own.shifts[k]


def _band(
    program: Program,
    statements: tuple[StencilStatement, ...] | list[StencilStatement],
    loop: str,
    value: Callable[[StencilStatement], Expr],
    child: Node,
) -> Band:
    total: isl.UnionPwAff | None = None
    for own in statements:
        function = affine(value(own), program.statement(own.name).domain.get_space())
        one = isl.UnionPwAff.from_pw_aff(function)
        total = one if total is None else total.union_add(one)
    assert total is not None
    band = isl.MultiUnionPwAff.from_union_pw_aff(total)
    return Band(loop, band.set_tuple_name(isl.dim_type.set, loop), child)
