"""The source order: the loops of a program as they were written, with marks and nothing else.

It is what every plan is held against, by the cost model and by measurements. Statements run in the
order of the source; the marks only say what may happen side by side:

    parallel   loops from the outside in, the first whose iterations are independent (with copies of
               local arrays for each iteration)
    simd       innermost loops whose iterations are independent
    promote    elements that an innermost loop accesses alone stay in registers

No loop is moved, cut, fused, tiled or unrolled, and nothing is expanded or packed. Sums keep their
order, as those of any plan do without `reassoc`, and machine code has the same bits.
"""

from __future__ import annotations

from loopwright.ir.machine import Machine
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import Band, Leaf, Node, bands, nodes_of
from loopwright.planner.draft import Draft
from loopwright.planner.guard import guarded
from loopwright.planner.loop_plans.affine import mark_simd, promote_to_registers
from loopwright.transform.loop_marks import Parallel
from loopwright.transform.plan import Plan, initial_schedule
from loopwright.transform.schedule_legality import open_bands

__all__ = ["source_order"]

_QUOTA = 2_000_000  # elementary isl operations: about a second


def source_order(
    program: Program, machine: Machine, threads: int, start: Schedule | None = None
) -> tuple[Plan, Schedule]:
    """The loops as written, marked for threads and vectors; unmarked where isl gives up.

    A planner (planner/planners): of a program, a machine, and the number of threads. `start` is the
    program's initial schedule, with what is known of it.
    """

    def unmarked() -> tuple[Plan, Schedule]:
        return Plan(()), initial_schedule(program)

    def marked() -> tuple[Plan, Schedule]:
        draft = Draft(start or initial_schedule(program))
        if threads > 1:
            _share_out(draft, nodes_of(draft.schedule), depth=0)
        if machine.vector_registers:
            mark_simd(draft)
        promote_to_registers(draft)
        return Plan(tuple(draft.steps)), draft.schedule

    return guarded(marked, unmarked, "the source order", program, _QUOTA)


def _share_out(draft: Draft, node: Node, depth: int) -> None:
    """Mark the outermost independent loop of every nest parallel.

    At most one serial loop stands around it, as each of its iterations costs a barrier, and it has
    loops inside: a loop of few instructions is left to vectors.
    """
    match node:
        case Leaf():
            return
        case Band():
            is_open = any(band.loop == node.loop for band in open_bands(draft.schedule))
            has_loops = any(True for _ in bands(node.child))
            if not is_open or not has_loops:
                return
            is_taken = draft.take(Parallel(node.loop)) or (
                bool(copies := draft.copies(node)) and draft.take(*copies, Parallel(node.loop))
            )
            if not is_taken and depth == 0:
                _share_out(draft, node.child, depth + 1)
        case _:
            for branch in node.filters:
                _share_out(draft, branch.child, depth)
