"""What private copies of local arrays change: which pairs of instances still share an element.

With a copy per iteration of a loop, two instances meet in an element only if they stand in one
iteration of it. A statement writes one array, so the pairs that meet in an array are told by their
writers: flow and output by the first instance, anti by the second.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import islpy as isl

from loopwright.analysis.dependences import Dependences, dependences, memory_dependences
from loopwright.analysis.reductions import reductions
from loopwright.analysis.relations import ends, maps_of, union
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import prefix_schedule
from loopwright.transform.facts import fact

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
    inside = through.eq_at_multi_union_pw_aff(prefix_schedule(schedule.tree, loop))
    nothing = isl.UnionMap.empty(flow.get_space())
    return Dependences(schedule.program, through.subtract(inside), nothing, nothing)


def with_copies(
    found: Dependences,
    schedule: Schedule,
    *,
    free_reductions: bool,
    among: frozenset[str] | None = None,
) -> Dependences:
    """`found` for a program whose private arrays have their copies.

    Of the pairs that meet in a private array all those inside one iteration count, not the nearest
    only: instances between them may have gone to other copies. `free_reductions` leaves out the
    pairs within a reduction of free order; `among` tells the statements that `found` is about.
    """
    program = schedule.program
    for array, loop in schedule.private:
        if among is not None and not accessors(program, array) & among:
            continue
        writers = frozenset(s.name for s in program.statements if s.write.array == array)
        time = prefix_schedule(schedule.tree, loop)
        pairs = fact(_LocalPairs(array), program)
        if free_reductions:
            pairs = _without_reductions(pairs, array)
        inside = pairs.where(partial(_agreeing, time))
        # A statement writes one array: its pairs of these kinds are through that one.
        found = Dependences(
            program,
            flow=_without(found.flow, 0, writers).union(inside.flow),
            anti=_without(found.anti, 1, writers).union(inside.anti),
            output=_without(found.output, 0, writers).union(inside.output),
        )
    return found


def _agreeing(time: isl.MultiUnionPwAff, relation: isl.UnionMap) -> isl.UnionMap:
    """The pairs that meet in one iteration."""
    return relation.eq_at_multi_union_pw_aff(time)


def _without(relation: isl.UnionMap, end: int, names: frozenset[str]) -> isl.UnionMap:
    """The pairs whose first (0) or second (1) instance belongs to none of some statements."""
    kept = (part for part in maps_of(relation) if ends(part)[end] not in names)
    return union(relation.get_space(), kept)


@dataclass(frozen=True, slots=True)
class _LocalPairs:
    """All pairs of instances whose order matters in a local array, as a fact.

    Of flow the exact pairs are enough, writes that are overwritten come before what overwrites
    them, but for reductions of free order: the last of them is not known.
    """

    array: str

    def __call__(self, program: Program) -> Dependences:
        pairs = memory_dependences(program, {self.array})
        free = {r.element.array for r in fact(reductions, program) if r.is_reorderable}
        if self.array in free:
            return pairs
        flow = fact(dependences, program).flow.intersect_domain(_writers(program, self.array))
        return Dependences(program, flow, pairs.anti, pairs.output)


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
