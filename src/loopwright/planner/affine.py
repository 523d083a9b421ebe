"""A plan for any affine program: another order where the model promises more speed, then marks.

1. local scalars are split and spread as far as their values allow
2. for the program without those false dependences a tree is searched (planner/affine_order),
   and outer loops are unrolled into inner ones (planner/affine_jam)
3. scalars keep the fewest copies with which that order is legal
4. loops are marked parallel and simd, elements are kept in registers (planner/affine_marks)
"""

from __future__ import annotations

from collections.abc import Iterator

from loopwright.analysis.size_estimates import likely_sizes
from loopwright.ir.machine import Machine
from loopwright.ir.program import Role
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import (
    Filter,
    Node,
    bands,
    in_sequence,
    nodes_of,
    sequence,
    statements_in,
)
from loopwright.ir.schedule_tree import Sequence as InOrder
from loopwright.planner.affine_cost import CostModel
from loopwright.planner.affine_jam import jam_loops
from loopwright.planner.affine_marks import mark_simd, promote_to_registers
from loopwright.planner.affine_order import OrderSearch
from loopwright.planner.affine_parallel import mark_parallel
from loopwright.planner.affine_tiles import tile_columns
from loopwright.planner.draft import Draft
from loopwright.transform.apply import apply_step
from loopwright.transform.band_dependences import among
from loopwright.transform.reschedule import Reschedule, tree_text
from loopwright.transform.scalar_expansion import (
    ExpandScalar,
    SplitLiveRanges,
    expandable_loops,
    fewest_expanded_loops,
)
from loopwright.transform.schedule_legality import accessors, validity_dependences
from loopwright.transform.step import Step

__all__ = ["plan_marks", "plan_order"]


def plan_marks(schedule: Schedule, machine: Machine, *, parallel: bool) -> tuple[Step, ...]:
    """Marks for the loops of `schedule`, in the order they stand in."""
    draft = Draft(schedule)
    if parallel:
        mark_parallel(draft, machine)
    else:
        tile_columns(draft)  # threads get tiles in waves
    if machine.vector_registers:
        mark_simd(draft)
    promote_to_registers(draft)
    return tuple(draft.steps)


def plan_order(schedule: Schedule, machine: Machine, *, parallel: bool) -> tuple[Step, ...]:
    """Steps to a better order of the loops left open; none when the order they have is good."""
    taken = _taken(schedule)
    splits: list[Step] = []
    for split in SplitLiveRanges.candidates(schedule):
        if not accessors(schedule.analyses, split.array) & taken:
            schedule = apply_step(schedule, split)
            splits.append(split)
    most: dict[str, tuple[str, ...]] = {}
    free = schedule
    scalars = [a.name for a in schedule.program.arrays if a.role is Role.LOCAL and not a.rank]
    for name in scalars:
        loops = expandable_loops(schedule.analyses, name)
        if loops and not accessors(schedule.analyses, name) & taken:
            most[name] = loops
            free = apply_step(free, ExpandScalar(name, loops))
    order = _order(free, machine, likely_sizes(schedule.program))
    if not order.steps:
        return ()
    spreads: list[Step] = []
    for name, loops in most.items():
        needed = fewest_expanded_loops(schedule.analyses, name, loops, order.schedule.tree)
        if needed:
            spreads.append(ExpandScalar(name, needed))
    return (*splits, *spreads, *order.steps)


def _taken(schedule: Schedule) -> frozenset[str]:
    """The statements that other planners have taken."""
    return frozenset(name for made in schedule.contractions for name in made.statements)


def _order(schedule: Schedule, machine: Machine, sizes: dict[str, int]) -> Draft:
    """Another order for a program whose scalars are spread."""
    program = schedule.program
    pairs = schedule.analyses.derive(validity_dependences).all_
    model = CostModel(schedule.analyses, machine, sizes)
    search = OrderSearch(program, model)
    draft = Draft(schedule)
    root = nodes_of(schedule)
    parts: list[tuple[frozenset[str], Node]] = []
    is_better = False
    for names, node, is_open in _runs(schedule, model, root):
        found = search.improved(names, among(pairs, names), node) if is_open else None
        is_better = is_better or found is not None
        parts.append((names, found or node))
    if is_better:
        whole = in_sequence(program, parts) if len(parts) > 1 else parts[0][1]
        draft.take(Reschedule(tree_text(schedule.tree.get_domain(), whole)))
    names = frozenset(s.name for s in program.statements) - _taken(schedule)
    jam_loops(draft, model, names, pairs)
    return draft


def _runs(
    schedule: Schedule, model: CostModel, root: Node
) -> Iterator[tuple[frozenset[str], Node, bool]]:
    """Parts of the program that follow each other, and whether their order is open.

    Each with its statements. Loops that follow no iterator were made by other planners.
    """
    taken = _taken(schedule)
    if not isinstance(root, InOrder):
        every = frozenset(s.name for s in schedule.program.statements)
        yield every, root, _is_open(root, every, taken, model)
        return
    run: list[Filter] = []
    for branch in (*root.filters, None):
        if branch is not None and _is_open(
            branch.child, statements_in(branch.instances), taken, model
        ):
            run.append(branch)
            continue
        if run:
            names = frozenset().union(*(statements_in(part.instances) for part in run))
            yield names, sequence(run), True
            run = []
        if branch is not None:
            yield statements_in(branch.instances), branch.child, False


def _is_open(node: Node, names: frozenset[str], taken: frozenset[str], model: CostModel) -> bool:
    if names & taken:
        return False
    return all(model.followed(band).keys() >= band.statements for band in bands(node))
