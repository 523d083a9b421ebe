"""Closures of idempotent semirings on a GPU: blocks, strips and the tiles of their products."""

from __future__ import annotations

from loopwright.analysis.find_closures import find_closure
from loopwright.ir.gpu_machine import GpuMachine
from loopwright.ir.schedule import Schedule
from loopwright.planner.grid_plans.register_budget import fits_registers
from loopwright.transform.blocked_closure import MapClosure
from loopwright.transform.step import Step

__all__ = ["plan_grid_closure"]

# Steps of a block: the larger, the fewer passes over the matrix; square and panels of a block must
# lie in the shared memory that a kernel gets without asking.
_BLOCKS = {1: 64, 2: 64, 4: 64, 8: 32}
# rows, columns, depth, thread_rows, thread_columns, blocks of a multiprocessor; the first that fits
_TILES = {
    4: ((128, 128, 8, 8, 8, 2), (64, 64, 8, 8, 4, 0), (64, 64, 8, 4, 4, 0), (32, 32, 8, 4, 2, 0)),
    8: ((64, 64, 8, 4, 4, 2), (64, 32, 8, 4, 2, 0), (32, 32, 8, 2, 2, 0)),
}
_STRIP = 32  # elements of a panel that a thread has in registers: lower/grid_nests/grid_closure


def plan_grid_closure(schedule: Schedule, machine: GpuMachine) -> tuple[Step, ...]:
    """The step that takes a program as one blocked closure; nothing when it is none.

    Nothing either where registers are capped so that the strips of threads do not fit.
    """
    found = find_closure(schedule.program)
    if isinstance(found, str):
        return ()
    size = max(4, found.dtype.bytes)
    cap = schedule.registers or machine.registers_per_thread
    in_registers = schedule.in_registers
    if in_registers and not fits_registers(_STRIP * size, cap):
        return ()
    for rows, columns, depth, own_rows, own_columns, resident in _TILES[size]:
        own = own_rows * own_columns + own_rows + own_columns
        threads = rows * columns // (own_rows * own_columns)
        if not in_registers:
            own = own_rows + own_columns
            shared = (rows * columns + 2 * depth * (rows + columns + 4)) * size
            held = machine.occupancy(threads, 1, shared).blocks
            if held == 0:
                continue
            resident = min(resident, held)
        if fits_registers(own * size, cap):
            tile = (rows, columns, depth, own_rows, own_columns, resident)
            return (MapClosure(found.statement, _BLOCKS[found.dtype.bytes], *tile),)
    return ()
