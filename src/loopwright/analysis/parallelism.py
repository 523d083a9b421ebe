"""Parallel loops of a schedule, and for the others the dependence that forbids it."""

from __future__ import annotations

import islpy as isl

from loopwright.analysis.dependences import Dependences
from loopwright.analysis.legality import carried_by, is_parallel, witness
from loopwright.ir.schedule_tree import loop_names

__all__ = ["explain_loops", "parallel_loops"]


def parallel_loops(dependences: Dependences, tree: isl.Schedule) -> tuple[str, ...]:
    """The loops whose iterations may run at once, parents first, in source order."""
    return tuple(loop for loop in loop_names(tree) if is_parallel(dependences, tree, loop))


def explain_loops(dependences: Dependences, tree: isl.Schedule) -> tuple[str, ...]:
    """One line for each loop: that it is parallel, or a dependence between its iterations."""
    return tuple(f"{loop}: {_verdict(dependences, tree, loop)}" for loop in loop_names(tree))


def _verdict(dependences: Dependences, tree: isl.Schedule, loop: str) -> str:
    found = witness(carried_by(dependences, tree, loop), verb="carries")
    return "parallel" if found is None else str(found)
