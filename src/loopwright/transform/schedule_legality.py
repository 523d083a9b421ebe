"""The proof behind every step: values flow as in the source, and loops deserve their marks.

A step may change the order of statement instances as long as every dependence is kept. It may mark
a loop as parallel or vector when the loop carries no dependence. With a private copy of an array
per iteration of a loop, two instances access the same element only inside one iteration of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from functools import partial

from loopwright.analysis.dependences import (
    Dependences,
    known_dependences,
    memory_dependences,
    whole_results,
)
from loopwright.analysis.inner_contraction import inner_contraction
from loopwright.analysis.legality import Witness, carried_witness, violation, witness
from loopwright.analysis.product_nest import is_same_nest
from loopwright.analysis.reductions import Reduction, reductions, relaxed_dependences
from loopwright.analysis.relations import ends, maps_of, union
from loopwright.ir.analysis_manager import AnalysisManager
from loopwright.ir.islkit import isl
from loopwright.ir.loops import Mark
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule, ScheduledContraction
from loopwright.ir.schedule_tree import (
    Band,
    Node,
    bands,
    nodes_of,
    path_to,
    prefix_schedule,
    read_tree,
    unchanged_loops,
    unique_names,
    write_tree,
)
from loopwright.lazy_dataclass import dataclass
from loopwright.memo import IdentityMap
from loopwright.transform.step import Step, refuse

__all__ = [
    "accessors",
    "conflicts",
    "escaping_flow",
    "find_band",
    "fixed_loops",
    "initial_schedule",
    "is_in_source_order",
    "open_bands",
    "privatized_dependences",
    "reordered",
    "require_independent",
    "require_unmarked",
    "restarted",
    "validity_dependences",
    "with_mark",
    "with_private",
]


# Marks whose iterations run side by side.
_CONCURRENT = frozenset({Mark.PARALLEL, Mark.VECTOR, Mark.SIMD, Mark.BLOCK, Mark.THREAD})


def conflicts(analyses: AnalysisManager) -> Dependences:
    """The pairs of instances that must not run concurrently.

    The exact dependences relate nearest accesses only; others follow by transitivity. Where a
    reduction may be reordered, the instances between two others may have moved away: of accesses to
    its elements every pair counts.
    """
    program = analyses.program
    exact = analyses.derive(known_dependences)
    free = {r.element.array for r in analyses.get(reductions) if r.is_reorderable}
    if not free:
        return exact
    pairs = memory_dependences(program, free)
    return Dependences(
        program,
        flow=exact.flow.union(pairs.flow),
        anti=exact.anti.union(pairs.anti),
        output=exact.output.union(pairs.output),
    )


def validity_dependences(analyses: AnalysisManager) -> Dependences:
    """The dependences that every order must keep; reorderable reductions may change their order."""
    exact = analyses.derive(known_dependences)
    return relaxed_dependences(analyses.program, exact, analyses.get(reductions))


def _legal_trees(analyses: AnalysisManager) -> IdentityMap[isl.Schedule, bool]:
    """The trees that are known to keep the validity dependences, of all arrays in one copy."""
    return IdentityMap()


def initial_schedule(program: Program) -> Schedule:
    """The source order, all loops serial; loops of equal names become `i`, `i_2`, `i_3`, ..."""
    root = read_tree(program.schedule)
    unique = unique_names(root)
    if unique is root:
        return Schedule(program, program.schedule)
    return Schedule(program, write_tree(program.schedule.get_domain(), unique))


def is_in_source_order(schedule: Schedule) -> bool:
    """Whether nothing was done to the loops of a schedule's program yet."""
    source = initial_schedule(schedule.program).tree
    return bool(schedule.tree.plain_is_equal(source)) and not schedule.marks


def restarted(schedule: Schedule) -> Schedule:
    """The source order of a schedule's program, with what is known of its dependences.

    For work that was broken off: nothing else of what it has found is used again.
    """
    known = AnalysisManager(schedule.program, whole_results(schedule.analyses))
    return replace(initial_schedule(schedule.program), analyses=known)


def open_bands(schedule: Schedule) -> Iterator[Band]:
    """The loops that steps may change: all but those of contractions."""
    if schedule.whole_contraction is not None:
        return
    gone = {loop for scheduled in schedule.contractions for loop in scheduled.loops}
    yield from (band for band in bands(nodes_of(schedule)) if band.loop not in gone)


def fixed_loops(schedule: Schedule) -> frozenset[str]:
    """The loops whose order is final: taken in vectors, with all inside them, or by diagonals."""
    root = nodes_of(schedule)
    found = {loop for taken in schedule.diagonals for loop in taken[:2]}
    for loop, _, _ in schedule.outer_vectors:
        found |= {band.loop for band in bands(path_to(root, loop)[-1])}
    return frozenset(found)


def find_band(step: Step, schedule: Schedule, root: Node, loop: str) -> Band:
    """The band called `loop` in the tree `root` of `schedule`."""
    found = next((band for band in bands(root) if band.loop == loop), None)
    if found is None:
        names = ", ".join(band.loop for band in bands(root)) or "none"
        refuse(step, f"there is no loop '{loop}'; the loops are {names}")
    for scheduled in schedule.contractions:
        if not scheduled.loops or loop in scheduled.loops:
            refuse(step, f"loop '{loop}' belongs to {scheduled}")
    return found


def require_unmarked(step: Step, schedule: Schedule, loops: Iterable[str]) -> None:
    """Refuse a step on loops that are marked already."""
    for loop in loops:
        mark = schedule.mark(loop)
        if mark is not Mark.SERIAL:
            refuse(step, f"loop '{loop}' is marked {mark.value}; marks come after other steps")


def reordered(step: Step, schedule: Schedule, root: Node) -> Schedule:
    """`schedule` with the tree `root`, proven to keep all dependences and all marks legal."""
    if schedule.promoted:
        refuse(step, "elements are in registers; steps that change the order come before")
    if schedule.staged or schedule.boxes:
        refuse(step, "arrays are staged; steps that change the order come before")
    tree = write_tree(schedule.tree.get_domain(), root)
    after = replace(schedule, tree=tree)
    for array, loop in schedule.private:
        _require_private(step, after, root, array, loop)
    relaxed = schedule.analyses.derive(validity_dependences)
    proven = unchanged_loops(nodes_of(schedule), root)
    for loop, _, _ in schedule.outer_vectors:
        inside = {band.loop for band in bands(path_to(nodes_of(schedule), loop)[-1])}
        if not inside <= set(proven):
            refuse(step, f"loop '{loop}' is taken in vectors; its order comes before")
    for loop, inner, _, _ in schedule.diagonals:
        if not {loop, inner} <= set(proven):
            refuse(step, f"loop '{loop}' is taken by diagonals; its order comes before")
    pairs = privatized_dependences(relaxed, after, free_reductions=True)
    # Private copies follow the loops, and with them the pairs that are left.
    legal = schedule.analyses.derive(_legal_trees) if not schedule.private else IdentityMap()
    broken = violation(pairs, tree, proven if schedule.tree in legal else ())
    if broken is not None:
        refuse(step, broken.verb, _pair(broken))
    legal[tree] = True
    if schedule.marks:
        joining = {joined.lanes for joined in schedule.joined}
        for loop, mark in schedule.marks:
            if loop not in proven:
                if loop in joining:
                    refuse(step, f"threads join in loop '{loop}'; its order comes before")
                _require_mark(step, after, root, loop, mark)
    kept = tuple(_kept_contraction(step, schedule, after, x) for x in schedule.contractions)
    return replace(after, contractions=kept)


def _kept_contraction(
    step: Step, before: Schedule, after: Schedule, scheduled: ScheduledContraction
) -> ScheduledContraction:
    """A contraction as its loops are in the tree of `after`; refuses where they are none."""
    if not scheduled.loops:
        refuse(step, f"{scheduled} runs as a kernel already")
    if is_same_nest(before.tree, after.tree, scheduled.loops):
        return scheduled
    found = inner_contraction(after.program, after.tree, scheduled.loops)
    if isinstance(found, str):
        refuse(step, f"{scheduled} would be none: {found}")
    return replace(scheduled, contraction=found)


def with_mark(
    step: Step,
    schedule: Schedule,
    loop: str,
    mark: Mark,
    factor: int | None = None,
    *,
    handed_on: Collection[str] = (),
) -> Schedule:
    """`schedule` with `mark` on `loop`, proven to be legal.

    Iterations may depend on each other through the arrays that are `handed_on`.
    """
    root = nodes_of(schedule)
    find_band(step, schedule, root, loop)
    require_unmarked(step, schedule, [loop])
    if schedule.staged or schedule.boxes:
        refuse(step, "arrays are staged; marks come before")
    if schedule.mesh is not None and mark is not Mark.THREAD:
        refuse(step, "loops are dealt out to a mesh, whose cores run all others one by one")
    for joined in schedule.joined:
        path = path_to(root, joined.loop)
        if loop in [band.loop for band in (*path, *bands(path[-1]))]:
            refuse(step, f"threads join in loop '{joined.loop}'; marks of its nest come before")
    _require_mark(step, schedule, root, loop, mark, handed_on)
    factors = schedule.factors if factor is None else (*schedule.factors, (loop, factor))
    return replace(schedule, marks=(*schedule.marks, (loop, mark)), factors=factors)


def _require_mark(
    step: Step,
    schedule: Schedule,
    root: Node,
    loop: str,
    mark: Mark,
    handed_on: Collection[str] = (),
) -> None:
    """Refuse `step` unless the mark is legal on the loop."""
    if mark not in _CONCURRENT:
        return
    band = find_band(step, schedule, root, loop)
    inner = [schedule.mark(loop.loop) for loop in bands(band.child)]
    # Copies of an unrolled loop are no loop any more, for a backend that vectorises on its own.
    if inner and (mark is Mark.VECTOR or (mark is Mark.SIMD and set(inner) != {Mark.UNROLL})):
        refuse(step, f"{mark.value} loop '{loop}' is not innermost")
    require_independent(step, schedule, loop, handed_on)


def require_independent(
    step: Step, schedule: Schedule, loop: str, handed_on: Collection[str] = ()
) -> None:
    """Refuse `step` unless no iteration of the loop depends on another one."""
    band = find_band(step, schedule, nodes_of(schedule), loop)
    inside = schedule.analyses.derive(conflicts).where(partial(_among, band.statements))
    pairs = privatized_dependences(inside, schedule, free_reductions=False, among=band.statements)
    if handed_on:
        pairs = _through_others(pairs, handed_on)
    found = carried_witness(pairs, schedule.tree, loop)
    if found is not None:
        refuse(step, f"loop '{loop}' carries", _pair(found))


def _through_others(found: Dependences, arrays: Collection[str]) -> Dependences:
    """The dependences through other arrays than some; a statement writes one array."""
    program = found.program
    writers = frozenset(s.name for s in program.statements if s.write.array in arrays)
    return Dependences(
        program,
        flow=_without(found.flow, 0, writers),
        anti=_without(found.anti, 1, writers),
        output=_without(found.output, 0, writers),
    )


def _among(names: frozenset[str], relation: isl.UnionMap) -> isl.UnionMap:
    """The dependences between the given statements."""
    kept = (m for m in maps_of(relation) if set(ends(m)) <= names)
    return union(relation.get_space(), kept)


def with_private(step: Step, schedule: Schedule, array: str, loop: str) -> Schedule:
    """`schedule` with a private copy of `array` per iteration of `loop`, proven to be legal."""
    _require_private(step, schedule, nodes_of(schedule), array, loop)
    return replace(schedule, private=(*schedule.private, (array, loop)))


def _require_private(step: Step, schedule: Schedule, root: Node, array: str, loop: str) -> None:
    """Refuse `step` unless each iteration of the loop may have its own copy of the array."""
    band = find_band(step, schedule, root, loop)
    outside = sorted(accessors(schedule.analyses, array) - band.statements)
    if outside:
        refuse(step, f"array '{array}' is used outside loop '{loop}', by {', '.join(outside)}")
    found = witness(escaping_flow(schedule, array, loop))
    if found is not None:
        refuse(step, f"array '{array}' carries out of an iteration of '{loop}'", _pair(found))


def _pair(found: Witness) -> str:
    """The two instances of a witness and their places, without its verb."""
    return str(found).removeprefix(found.verb).strip()


def accessors(analyses: AnalysisManager, array: str) -> frozenset[str]:
    """The statements that read or write an array."""
    return analyses.get(_users).get(array, frozenset())


def _users(program: Program) -> dict[str, frozenset[str]]:
    """The statements that read or write each array."""
    found: dict[str, set[str]] = {}
    for statement in program.statements:
        for array in {statement.write.array, *(access.array for access in statement.reads)}:
            found.setdefault(array, set()).add(statement.name)
    return {array: frozenset(names) for array, names in found.items()}


def escaping_flow(schedule: Schedule, array: str, loop: str) -> Dependences:
    """The flow through an array between different iterations of `loop`."""
    flow = schedule.analyses.derive(known_dependences).flow
    through = flow.intersect_domain(_writers(schedule.program, array))
    inside = through.eq_at_multi_union_pw_aff(prefix_schedule(schedule.tree, loop))
    nothing = isl.UnionMap.empty(flow.get_space())
    return Dependences(schedule.program, through.subtract(inside), nothing, nothing)


def privatized_dependences(
    found: Dependences,
    schedule: Schedule,
    *,
    free_reductions: bool,
    among: frozenset[str] | None = None,
) -> Dependences:
    """The dependences `found` once private arrays have their copies.

    Of the accesses to a private array, all pairs inside one iteration count, not only the nearest:
    instances between them may use other copies. `free_reductions` leaves out the pairs within a
    reorderable reduction; `among` are the statements that `found` is about.
    """
    program = schedule.program
    for array, loop in schedule.private:
        if among is not None and not accessors(schedule.analyses, array) & among:
            continue
        writers = frozenset(s.name for s in program.statements if s.write.array == array)
        time = prefix_schedule(schedule.tree, loop)
        pairs = schedule.analyses.derive(_LocalPairs(array))
        if free_reductions:
            pairs = _without_reductions(pairs, array, schedule.analyses.get(reductions))
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
    """The pairs inside one iteration."""
    return relation.eq_at_multi_union_pw_aff(time)


def _without(relation: isl.UnionMap, end: int, names: frozenset[str]) -> isl.UnionMap:
    """The pairs whose first (0) or second (1) instance belongs to none of some statements."""
    kept = (part for part in maps_of(relation) if ends(part)[end] not in names)
    return union(relation.get_space(), kept)


@dataclass(frozen=True, slots=True)
class _LocalPairs:
    """Analysis: all pairs of instances whose order matters in a local array.

    For flow the exact pairs suffice, since an overwritten value precedes the one that overwrites
    it; but not for a reorderable reduction, whose last instance is not known.
    """

    array: str

    def __call__(self, analyses: AnalysisManager) -> Dependences:
        program = analyses.program
        free = {r.element.array for r in analyses.get(reductions) if r.is_reorderable}
        if self.array in free:
            return memory_dependences(program, {self.array})
        flow = analyses.derive(known_dependences).flow.intersect_domain(
            _writers(program, self.array)
        )
        return memory_dependences(program, {self.array}, flow)


def _without_reductions(
    pairs: Dependences, array: str, known: tuple[Reduction, ...]
) -> Dependences:
    for reduction in known:
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
