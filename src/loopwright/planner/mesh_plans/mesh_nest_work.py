"""What a nest of a mesh does beside moving boxes, by its statement of most instances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loopwright.analysis.size_estimates import likely_sizes
from loopwright.ir.expr import Binary
from loopwright.ir.program import Program, Statement
from loopwright.ir.visit import walk
from loopwright.planner.mesh_plans.mesh_cover import tile_cover
from loopwright.planner.mesh_plans.mesh_tiles import MovedBox, NestWork
from loopwright.planner.mesh_plans.mesh_vectors import vector_nest

__all__ = ["nest_work"]


def nest_work(
    program: Program,
    statement: Statement,
    instances: float,  # of all statements
    loop_of: Mapping[str, str],  # the loops that iterators of the statement follow
    iterators: Sequence[str],  # in the order of the loops
    boxes: Sequence[MovedBox],
    is_known: bool,  # whether extents are more than a guess
) -> NestWork:
    """The work of a nest: vectors, factors that are written down, what its tiles cover."""
    found = vector_nest(program, statement, iterators)
    if found is None:
        return NestWork(instances)
    # Those that lie across the lanes are transposed where their parts come in.
    turned = [{name for side, _ in box.sides for name, _ in side} for box in boxes if box.unit > 1]
    pairs = [(loop_of[a], loop_of[b]) for a, b in found.factors]
    factors = tuple(pair for pair in pairs if set(pair) not in turned)
    row, lane = (loop_of.get(name, "") for name in (found.row, found.lane))
    cover = None
    if not found.is_rectangle:
        if is_known and {found.row, found.lane} == set(iterators[:2]):
            cover = tile_cover(statement, iterators[0], iterators[1], likely_sizes(program))
        row, lane = ("", "") if cover is None else (row, lane)
    sums = [n for n in walk(statement.value) if isinstance(n, Binary) and n.op in ("add", "sub")]
    products = max(1, sum(node.dtype.is_float for node in sums))
    size = statement.write.dtype.bytes
    return NestWork(
        instances, is_vector=True, factors=factors, element=size, row=row, lane=lane, cover=cover,
        products=products,
    )  # fmt: skip
