"""Closures of idempotent semirings on a GPU: blocks, strips and the tiles of their products."""

from __future__ import annotations

from loopwright.analysis.find_closures import find_closure
from loopwright.ir.gpu_machine import GpuMachine
from loopwright.ir.schedule import Schedule
from loopwright.transform.blocked_closure import MapClosure
from loopwright.transform.step import Step

__all__ = ["plan_grid_closure"]

# Steps of a block: the larger, the fewer passes over the matrix; square and panels of a block must
# lie in the shared memory that a kernel gets without asking.
_BLOCKS = {1: 64, 2: 64, 4: 64, 8: 32}


def plan_grid_closure(schedule: Schedule, machine: GpuMachine) -> tuple[Step, ...]:
    """The step that takes a program as one blocked closure; nothing when it is none."""
    found = find_closure(schedule.program)
    if isinstance(found, str):
        return ()
    block = _BLOCKS[found.dtype.bytes]
    rows, columns = (128, 128) if found.dtype.bytes <= 4 else (64, 64)
    own = 8 if found.dtype.bytes <= 4 else 4
    return (MapClosure(found.statement, block, rows, columns, 8, own, own, 2),)
