"""Closures of idempotent semirings: the three-phase blocked order of `lower/blocked_closure`."""

from __future__ import annotations

from loopwright.analysis.closure import closure_of
from loopwright.ir.machine import Machine
from loopwright.ir.schedule import Schedule
from loopwright.transform.close import Close
from loopwright.transform.step import Step

__all__ = ["plan_closures"]

# Steps of a block: the larger, the fewer passes over the matrix, but the block's own rows and
# columns take more of the work.
_BLOCK = 64
_VECTORS = 4


def plan_closures(schedule: Schedule, machine: Machine, *, parallel: bool) -> tuple[Step, ...]:
    """The step that takes a program as one blocked closure; nothing when it is none."""
    found = closure_of(schedule.program)
    if isinstance(found, str):
        return ()
    lanes = max(1, machine.lanes(found.dtype.bits))
    # Accumulators, a vector of the row for each column of the tile, and one for the factor.
    rows = max(1, min(4, (machine.vector_registers - _VECTORS - 2) // _VECTORS))
    return (Close(found.statement, _BLOCK, rows, _VECTORS, lanes, int(parallel)),)
