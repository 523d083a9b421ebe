"""Closures of idempotent semirings: the three-phase blocked order of `tiles/lower_closure`."""

from __future__ import annotations

from loopwright.analysis.find_closures import find_closure
from loopwright.ir.machine import Machine
from loopwright.ir.schedule import Schedule
from loopwright.transform.blocked_closure import BlockClosure
from loopwright.transform.step import Step

__all__ = ["plan_closures"]

# Steps of a block: the larger, the fewer passes over the matrix, but the block's own rows and
# columns take more of the work.
_BLOCK = 64
_VECTORS = 4


def plan_closures(schedule: Schedule, machine: Machine, *, parallel: bool) -> tuple[Step, ...]:
    """The step that takes a program as one blocked closure; nothing when it is none."""
    found = find_closure(schedule.program)
    if isinstance(found, str):
        return ()
    lanes = max(1, machine.lanes(found.dtype.bits))
    # Accumulators, a vector of the row for each column of the tile, and one for the factor.
    rows = max(1, min(4, (machine.vector_registers - _VECTORS - 2) // _VECTORS))
    return (BlockClosure(found.statement, _BLOCK, rows, _VECTORS, lanes, int(parallel)),)
