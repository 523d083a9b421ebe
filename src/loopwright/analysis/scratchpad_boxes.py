"""What some accesses of the statements in a loop reach in one of its iterations, on one core.

An iteration of a loop of a core is known by the values [v] of the loops around it and of the loop
itself, those that are dealt out to cores included.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from loopwright.analysis.dependences import access_map, dependences
from loopwright.analysis.footprints import instance_values
from loopwright.ir.access_names import NamedAccess, named_accesses
from loopwright.ir.islkit import context, isl
from loopwright.ir.loops import Mark
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import Band, instances_reaching, nodes_of, path_to, prefix_schedule
from loopwright.ir.visit import fresh_name

__all__ = [
    "accesses_in",
    "box_around",
    "elements_of",
    "kernel_of_loop",
    "loop_values",
    "needs_old_values",
    "variables_of",
]

_IN, _OUT, _SET = isl.dim_type.in_, isl.dim_type.out, isl.dim_type.set


def accesses_in(program: Program, band: Band, array: str) -> tuple[NamedAccess, ...]:
    """The accesses to an array by the statements in a loop."""
    found = (
        one
        for statement in program.statements
        if statement.name in band.statements
        for one in named_accesses(statement)
    )
    return tuple(one for one in found if one.access.array == array)


def variables_of(schedule: Schedule, loop: str) -> tuple[tuple[str, str], ...]:
    """Names for the values of the loops around a loop and of itself, none of them a parameter."""
    taken = set(schedule.program.params)
    found: list[tuple[str, str]] = []
    for band in path_to(nodes_of(schedule), loop):
        found.append((fresh_name(band.loop, taken), band.loop))
        taken.add(found[-1][0])
    return tuple(found)


def kernel_of_loop(schedule: Schedule, loop: str) -> Band | None:
    """The outermost loop around a loop, or itself, that is dealt out to cores."""
    path = path_to(nodes_of(schedule), loop)
    return next((band for band in path if schedule.mark(band.loop) is Mark.THREAD), None)


def loop_values(schedule: Schedule, loop: str) -> isl.Set:
    """`{ [v] }`: the iterations of a loop, by the values of it and of the loops around it."""
    path = path_to(nodes_of(schedule), loop)
    values = instance_values(schedule, loop, path).range()
    return isl.Set.from_union_set(values)


def elements_of(
    schedule: Schedule, loop: str, by: Sequence[Band], accesses: Iterable[NamedAccess]
) -> isl.Map:
    """`{ [values of the loops `by`] -> A[e] }`: what some accesses in a loop reach.

    `accesses` are to one array, and not empty.
    """
    program = schedule.program
    values = instance_values(schedule, loop, by)
    found: isl.Map | None = None
    for one in accesses:
        space = program.context.get_space()
        rank = len(one.access.index)
        if found is None:
            ends = (
                space.add_unnamed_tuple_ui(len(by)),
                space.add_unnamed_tuple_ui(rank).set_tuple_name(_SET, one.access.array),
            )
            found = isl.Map.empty(isl.Space.map_from_domain_and_range(*ends))
        reached = access_map(program, program.statement(one.statement), one.access)
        part = values.reverse().apply_range(isl.UnionMap.from_map(reached))
        if not part.is_empty():
            found = found.union(isl.Map.from_union_map(part))
    assert found is not None
    return found.coalesce()


def box_around(elements: isl.Map) -> isl.Map:
    """`{ [v] -> A[e] }`: from the least subscript to the largest one, in every dimension."""
    box = isl.Map.universe(elements.get_space()).intersect_domain(elements.domain())
    for at in range(elements.dim(_OUT)):
        single = elements.project_out(_OUT, at + 1, elements.dim(_OUT) - at - 1)
        single = single.project_out(_OUT, 0, at).reset_tuple_id(_OUT)
        above = single.lexmin().apply_range(_compared("<="))
        below = single.lexmax().apply_range(_compared(">="))
        side = above.intersect(below)
        whole = side.insert_dims(_OUT, 0, at).add_dims(_OUT, elements.dim(_OUT) - at - 1)
        box = box.intersect(whole.set_tuple_name(_OUT, elements.get_tuple_name(_OUT)))
    return box.coalesce()


def _compared(sign: str) -> isl.Map:
    from_to = f"{{ [x] -> [y] : x {sign} y }}"
    return isl.Map.read_from_str(context(), from_to)


def needs_old_values(schedule: Schedule, loop: str, accesses: Sequence[NamedAccess]) -> bool:
    """Whether some of the accesses reads a value that no write of the same iteration has made."""
    reads = [one for one in accesses if not one.is_write]
    if not reads:
        return False
    writers = {one.statement for one in accesses if one.is_write}
    counts = [sum(other.statement == one.statement for other in reads) for one in reads]
    if not writers or max(counts) > 1:
        return True  # flow does not tell which access of a statement a value goes through
    program = schedule.program
    inside = instances_reaching(nodes_of(schedule), loop, schedule.tree.get_domain())
    readers = isl.UnionSet.empty(program.context.get_space())
    written = isl.UnionSet.empty(program.context.get_space())
    for statement in program.statements:
        domain = isl.UnionSet.from_set(statement.domain)
        if statement.name in {one.statement for one in reads}:
            readers = readers.union(domain)
        if statement.name in writers:
            written = written.union(domain)
    readers = readers.intersect(inside).intersect_params(program.context)
    flow = schedule.analyses.get(dependences).flow.intersect_domain(written)
    here = flow.eq_at_multi_union_pw_aff(prefix_schedule(schedule.tree, loop))
    return not readers.is_subset(here.range())
