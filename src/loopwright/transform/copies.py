"""What private copies of local arrays change: which pairs of instances still share an element.

With a copy per iteration of a loop, two instances meet in an element only if they stand in one
iteration of it. A statement writes one array, so the pairs that meet in an array are told by their
writers: flow and output by the first instance, anti by the second.
"""

from __future__ import annotations

import islpy as isl

from loopwright.analysis.dependences import Dependences, dependences, memory_dependences
from loopwright.analysis.reductions import reductions
from loopwright.ir.program import Program, Role
from loopwright.ir.schedule import Schedule
from loopwright.transform.facts import fact
from loopwright.transform.tree import time_inside

__all__ = ["accessors", "escaping_flow", "with_copies"]


def accessors(program: Program, array: str) -> frozenset[str]:
    """The statements that read or write an array."""
    return fact(_users, program).get(array, frozenset())


def _users(program: Program) -> dict[str, frozenset[str]]:
    """The statements that read or write each array."""
    found: dict[str, set[str]] = {}
    for statement in program.statements:
        for array in {statement.write.array, *(access.array for access in statement.reads)}:
            found.setdefault(array, set()).add(statement.name)
    return {array: frozenset(names) for array, names in found.items()}


def escaping_flow(schedule: Schedule, array: str, loop: str) -> Dependences:
    """The values of an array that are read in another iteration of `loop` than they are set in."""
    flow = fact(dependences, schedule.program).flow
    through = flow.intersect_domain(_writers(schedule.program, array))
    inside = through.eq_at_multi_union_pw_aff(time_inside(schedule.tree, loop))
    nothing = isl.UnionMap.empty(flow.get_space())
    return Dependences(schedule.program, through.subtract(inside), nothing, nothing)


def with_copies(found: Dependences, schedule: Schedule, *, free_reductions: bool) -> Dependences:
    """`found` for a program whose private arrays have their copies.

    Of the pairs that meet in a private array all those inside one iteration count, not the nearest
    only: instances between them may have gone to other copies. `free_reductions` leaves out the
    pairs within a reduction of free order.
    """
    for array, loop in schedule.private:
        writers = _writers(schedule.program, array)
        time = time_inside(schedule.tree, loop)
        pairs = fact(_local_pairs, schedule.program)[array]
        if free_reductions:
            pairs = _without_reductions(pairs, array)
        output = found.output.intersect_domain(writers)
        found = Dependences(
            schedule.program,
            flow=_replaced(found.flow, found.flow.intersect_domain(writers), pairs.flow, time),
            anti=_replaced(found.anti, found.anti.intersect_range(writers), pairs.anti, time),
            output=_replaced(found.output, output, pairs.output, time),
        )
    return found


def _replaced(
    all_: isl.UnionMap, through: isl.UnionMap, pairs: isl.UnionMap, time: isl.MultiUnionPwAff
) -> isl.UnionMap:
    """`all_` with the part `through` replaced by the `pairs` whose ends agree in `time`."""
    return all_.subtract(through).union(pairs.eq_at_multi_union_pw_aff(time))


def _local_pairs(program: Program) -> dict[str, Dependences]:
    """All pairs of instances whose order matters in each local array.

    Of flow the exact pairs are enough, writes that are overwritten come before what overwrites
    them, but for reductions of free order: the last of them is not known.
    """
    free = {r.element.array for r in reductions(program) if r.is_reorderable}
    exact = fact(dependences, program).flow
    found: dict[str, Dependences] = {}
    for array in program.arrays:
        if array.role is Role.LOCAL:
            pairs = memory_dependences(program, {array.name})
            if array.name not in free:
                flow = exact.intersect_domain(_writers(program, array.name))
                pairs = Dependences(program, flow, pairs.anti, pairs.output)
            found[array.name] = pairs
    return found


def _without_reductions(pairs: Dependences, array: str) -> Dependences:
    for reduction in reductions(pairs.program):
        if reduction.is_reorderable and reduction.element.array == array:
            own = pairs.on_itself(reduction.statement)
            pairs = Dependences(
                pairs.program,
                flow=pairs.flow.subtract(own.flow),
                anti=pairs.anti.subtract(own.anti),
                output=pairs.output.subtract(own.output),
            )
    return pairs


def _writers(program: Program, array: str) -> isl.UnionSet:
    """The instances of the statements that write an array."""
    found = isl.UnionSet.empty(program.context.get_space())
    for statement in program.statements:
        if statement.write.array == array:
            found = found.union(isl.UnionSet.from_set(statement.domain))
    return found
