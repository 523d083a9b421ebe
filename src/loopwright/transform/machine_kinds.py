"""Which kinds of machines the decisions of a schedule are for.

    a processor   parallel loops, contractions and closures that threads of a processor share
    a GPU         loops of blocks and threads, contractions and closures as kernels, tiles in blocks
    a mesh        loops that are dealt out to cores

A schedule is for one of them: whoever runs the blocks of a grid, or the cores of a mesh, has no
threads of a processor to share loops with, inside of a kernel or beside it. Serial loops, vectors
and unrolled copies are for all.
"""

from __future__ import annotations

from collections.abc import Iterator

from loopwright.ir.closure import BlockedClosure, GridClosure
from loopwright.ir.loops import Mark
from loopwright.ir.schedule import Schedule

__all__ = ["GPU", "MESH", "PROCESSOR", "machine_kinds"]

PROCESSOR, GPU, MESH = "processor", "GPU", "mesh"


def machine_kinds(schedule: Schedule) -> dict[str, str]:
    """The kinds of machines that a schedule needs, each with the first decision that does."""
    found: dict[str, str] = {}
    for kind, reason in _needs(schedule):
        found.setdefault(kind, reason)
    return found


def _needs(schedule: Schedule) -> Iterator[tuple[str, str]]:
    if schedule.mesh is not None:
        rows, columns = schedule.mesh
        yield MESH, f"loops are dealt out to {rows} x {columns} cores of a mesh"
    for loop, mark in schedule.marks:
        match mark:
            case Mark.PARALLEL:
                yield PROCESSOR, f"loop '{loop}' is shared out to threads of a processor"
            case Mark.BLOCK:
                yield GPU, f"loop '{loop}' is mapped to blocks of a GPU"
            case Mark.THREAD if schedule.mesh is None:
                yield GPU, f"loop '{loop}' is mapped to threads of a GPU"
    for scheduled in schedule.contractions:
        if scheduled.grid is not None:
            yield GPU, f"{scheduled} is a kernel of a GPU"
        elif scheduled.is_parallel:
            yield PROCESSOR, f"{scheduled} is shared out to threads of a processor"
    match schedule.closure:
        case GridClosure():
            yield GPU, "the closure is taken in blocks of a GPU"
        case BlockedClosure(is_parallel=True):
            yield PROCESSOR, "the closure is shared out to threads of a processor"
    if schedule.mesh is None and schedule.time_tiles is not None:
        yield GPU, f"{schedule.time_tiles} are computed in blocks of a GPU"
