"""Values that stay in the memory of a local array from the first sum to the last one.

    sums      of a local array, then what is made of it, gathered further: KeepInLocal
    loops     of all nests that gather it in the order of its dimensions: Interchange

Whether it helps shows when all nests run together (mesh_chains): then the local array never
leaves the scratchpads. Else it is not done.
"""

from __future__ import annotations

from loopwright.analysis.scratchpad_boxes import accesses_in
from loopwright.analysis.size_estimates import coefficients
from loopwright.ir.access_names import named_accesses
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import Band, moved_by, nodes_of, perfect_nest
from loopwright.ir.schedule_tree import Sequence as InOrder
from loopwright.planner.draft import Draft
from loopwright.transform.interchange import Interchange
from loopwright.transform.keep_in_local import KeepInLocal

__all__ = ["keep_values", "put_in_order", "values_stay"]

_MAPPED = 2  # loops of a nest that are dealt out


def keep_values(draft: Draft) -> None:
    """Take the steps that gather values in the memory that they come from.

    Of matrices that deeper nests go on to gather: single values are in registers anyway.
    """
    program = draft.schedule.program
    for step in KeepInLocal.candidates(draft.schedule):
        depths = {
            s.write.array == step.local: len(s.iterators)
            for s in sorted(program.statements, key=lambda s: len(s.iterators))
            if s.write.array in (step.array, step.local)
        }
        is_deep = len(depths) == _MAPPED and min(depths.values()) > _MAPPED
        if is_deep and program.array(step.local).rank == _MAPPED:
            draft.take(step)


def put_in_order(draft: Draft) -> None:
    """Interchange the two outer loops of nests that run along a kept array the other way round."""
    kept = _kept(draft)
    root = nodes_of(draft.schedule)
    if not kept or not isinstance(root, InOrder):
        return
    for branch in root.filters:
        nest = perfect_nest(branch.child) if isinstance(branch.child, Band) else ()
        if len(nest) < _MAPPED:
            continue
        for name in kept:
            for one in accesses_in(draft.schedule.program, nest[0], name):
                moved = [
                    moved_by(band, draft.schedule.program).get(one.statement)
                    for band in nest[:_MAPPED]
                ]
                sides = [next((x for x, _ in coefficients(e)), "") for e in one.access.index]
                if sides == moved[::-1] and moved[0] != moved[1]:
                    loops = [band.loop for band in nest]
                    draft.take(Interchange((loops[1], loops[0], *loops[_MAPPED:])))
                    break


def values_stay(draft: Draft) -> bool:
    """Whether arrays that values are kept in never leave the scratchpads."""
    return all(_stays(draft.schedule, name) for name in _kept(draft))


def _kept(draft: Draft) -> list[str]:
    return [step.local for step in draft.steps if isinstance(step, KeepInLocal)]


def _stays(schedule: Schedule, name: str) -> bool:
    boxes = [box for box in schedule.boxes if box.array == name]
    staged = {access for box in boxes for access in box.accesses}
    used = {
        one.name
        for statement in schedule.program.statements
        for one in named_accesses(statement)
        if one.access.array == name
    }
    return staged == used and not any(box.is_put_back or box.is_brought_in for box in boxes)
