"""Contraction cores as statements: one instance for each execution of the loops they replace."""

from __future__ import annotations

import islpy as isl

from loopwright.analysis.inner_contraction import InnerContraction, inner_contraction
from loopwright.diagnostics import InternalError
from loopwright.ir.islkit import context
from loopwright.ir.islparts import sets_in
from loopwright.ir.schedule import LoopCore, Schedule
from loopwright.ir.schedule_tree import band_name, band_nodes

__all__ = [
    "holds_core",
    "without_cores",
]


_PREFIX = "core."  # no statement has a dot in its name


def without_cores(
    schedule: Schedule,
) -> tuple[isl.Schedule, dict[str, tuple[LoopCore, InnerContraction]]]:
    """The tree with the loops of each core replaced by a statement, and what the statements mean.

    The statement `core.k[o]` runs where the loops i, j, p of the k-th core had something to run for
    the values o of the loops around them.
    """
    tree = schedule.tree
    cores: dict[str, tuple[LoopCore, InnerContraction]] = {}
    for number, core in enumerate(schedule.loop_cores):
        found = inner_contraction(schedule.program, schedule.tree, core.loops)
        if isinstance(found, str):
            raise InternalError(f"{core} is none: {found}", str(tree))
        name = f"{_PREFIX}{number}"
        node = _outermost(tree, core).group(isl.Id(name, context=context()))
        tree = node.parent().cut().get_schedule()
        cores[name] = core, found
    return tree, cores


def holds_core(node: isl.ScheduleNode) -> bool:
    """Whether instances of a core reach a node."""
    names = (part.get_tuple_name() or "" for part in sets_in(node.get_domain()))
    return any(name.startswith(_PREFIX) for name in names)


def _outermost(tree: isl.Schedule, core: LoopCore) -> isl.ScheduleNode:
    """The first band of a core's loops."""
    return next(node for node in band_nodes(tree) if band_name(node) in core.loops)
