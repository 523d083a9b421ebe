"""The order in which a schedule runs through the loops of one statement."""

from __future__ import annotations

import islpy as isl

from loopwright.analysis.relations import ends, maps_of
from loopwright.ir.islparts import pieces_in
from loopwright.ir.program import Program, Statement

__all__ = ["loop_order"]


def loop_order(program: Program, statement: Statement) -> dict[str, int] | None:
    """The iterators of a statement, outermost loop first, with their direction: 1 up, -1 down.

    Read off the schedule `{ S[i, j] -> [t0, t1, ...] }`. None when some t is another function than
    plus or minus one iterator, shifted by parameters and constants.
    """
    time = program.schedule.get_map().intersect_domain(isl.UnionSet.from_set(statement.domain))
    (map_,) = (m for m in maps_of(time) if ends(m)[0] == statement.name)
    pieces = [piece for _, piece in pieces_in(isl.PwMultiAff.from_map(map_))]
    if len(pieces) != 1 or pieces[0].involves_locals():
        return None
    order: dict[str, int] = {}
    for position in range(pieces[0].dim(isl.dim_type.out)):
        function = pieces[0].get_at(position)
        factors = {
            name: function.get_coefficient_val(isl.dim_type.in_, k).to_python()
            for k, name in enumerate(statement.iterators)
        }
        used = {name: factor for name, factor in factors.items() if factor}
        if not used:
            continue
        if len(used) > 1 or not set(used.values()) <= {1, -1}:
            return None
        for name, factor in used.items():
            order.setdefault(name, factor)
    return order if set(order) == set(statement.iterators) else None
