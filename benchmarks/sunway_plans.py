"""Products of matrices on SW26010 as others planned them, as events for the model of a core group.

What they reached was published, so they show whether the model is right: the 32 x 32 x 32 tiles of
a compiler from C to Athread (about 3% of the peak), and a product written by hand (88.7%; Lin, Xu,
Cai, Nukada and Matsuoka).
"""

from __future__ import annotations

from dataclasses import replace

from loopwright.ir.mesh_machine import MeshMachine
from loopwright.machines.dma_model import DmaRequest
from loopwright.machines.mesh_timeline import (
    OWN_COLUMN,
    OWN_ROW,
    CoreEvent,
    CoreEventKind,
    CoreWork,
    MeshPrediction,
    Repeated,
    TeamRun,
    predict_teams,
)

__all__ = [
    "by_hand",
    "tiles_of_32",
    "with_partial_lines",
]

_DOUBLE = 8
_Events = tuple[CoreEvent | Repeated, ...]


def tiles_of_32(machine: MeshMachine, size: int, *, by_rows: bool = False) -> MeshPrediction:
    """A product of square matrices in tiles of 32 x 32 x 32, one core each, scalar code.

    C stays in the scratchpad over the reduction (as printed, each step discarded it). Nothing is
    shared and nothing overlaps on a core. With `by_rows` every row of a tile is a request that is
    waited for, as in tiles at a border, and begins somewhere in a line of main memory.
    """
    tile = 32
    steps = tile**3
    # Three loads, a store and a branch for each multiply-add.
    compute = CoreWork(float(steps), 5 * steps, flops=2 * steps)
    gap = (size - tile) * _DOUBLE

    def moved(is_put: bool, work: CoreWork = CoreWork()) -> _Events:  # noqa: B008, it is frozen
        if by_rows:
            row = DmaRequest(1, tile * _DOUBLE, is_put=is_put, offset=_DOUBLE)
            head = () if work == CoreWork() else (_event(CoreEventKind.WORK, work),)
            return (*head, Repeated(tile, (_request(row), _wait())))
        request = DmaRequest(tile, tile * _DOUBLE, gap, is_put)
        return (_request(request, work=work), _wait())

    inner = (*moved(False), *moved(False), _event(CoreEventKind.WORK, compute))
    one = (Repeated(size // tile, inner), *moved(True))
    tiles = (size // tile) ** 2
    cores = {
        core: (Repeated(-(-(tiles - core) // machine.cores), one),) for core in range(machine.cores)
    }
    return predict_teams(machine, [TeamRun("tiles of 32", cores)])


def with_partial_lines(machine: MeshMachine) -> MeshMachine:
    """The machine, with a whole transaction for each line that a block covers in part.

    Rows of ragged matrices begin anywhere in a line. swCandle's arrays do not show this cost, so
    the machine's data have none.
    """
    line = machine.transaction_bytes * machine.byte_cycles
    return replace(machine, partial_line_get_cycles=line, partial_line_put_cycles=line)


def by_hand(machine: MeshMachine, size: int) -> MeshPrediction:
    """A product of square matrices as it was written by hand.

    A core holds 64 x 64 of C. Panels of 512 x 96 of A and 96 x 512 of B come ahead, two at a time:
    each core brings 8 rows of A and 12 rows of B and passes them along its row and its column by
    registers. Tiles of 4 x 16 of C are in registers: 16 products of vectors for 4 splats of A and
    4 vectors of B, received or loaded and sent.
    """
    side, depth, lanes = 64, 96, machine.vector_bytes // _DOUBLE
    across = machine.columns
    block = side * across
    part_a = DmaRequest(side // across, depth * _DOUBLE, (size - depth) * _DOUBLE)
    part_b = DmaRequest(depth // across, side * _DOUBLE, (size - side) * _DOUBLE)
    part_c = DmaRequest(side, side * _DOUBLE, (size - side) * _DOUBLE)
    tiles = (side // 4) * (side // 16)
    products = side * side * depth // lanes
    # Operands in the second pipeline; elements of C once for each tile, and the drain of its sums.
    operands = tiles * (8 * depth + 2 * 16)
    drain = tiles * ((machine.fma_latency or 0.0) + 2 * 16)
    work = CoreWork(float(products), operands, flops=2 * products * lanes, stall_cycles=drain)
    cores: dict[int, _Events] = {}
    steps, blocks = -(-size // depth), (-(-size // block)) ** 2
    for core in range(machine.cores):
        meet = (
            _event(CoreEventKind.EXCHANGE, CoreWork(), key=OWN_ROW, members=machine.columns),
            _event(CoreEventKind.EXCHANGE, CoreWork(), key=OWN_COLUMN, members=machine.rows),
        )
        ahead = (_request(part_a, -2), _request(part_b, -2))
        step = (_wait(-2), *ahead, *meet, _event(CoreEventKind.WORK, work))
        last = (_wait(-2), *meet, _event(CoreEventKind.WORK, work))
        fetch = (*ahead, _request(part_c), _wait())
        put = (_request(replace(part_c, is_put=True)), _wait())
        cores[core] = (Repeated(blocks, (*fetch, Repeated(steps - 1, step), *last, *put)),)
    return predict_teams(machine, [TeamRun("by hand", cores)])


def _event(
    kind: CoreEventKind, work: CoreWork, key: int | tuple[int, int] = 0, members: int = 1
) -> CoreEvent:
    return CoreEvent(kind, work, "", key, members)


def _request(
    request: DmaRequest,
    counter: int = -1,
    work: CoreWork = CoreWork(),  # noqa: B008
) -> CoreEvent:
    return CoreEvent(CoreEventKind.REQUEST, work, "", counter, request=request)


def _wait(counter: int = -1) -> CoreEvent:
    return CoreEvent(CoreEventKind.WAIT, CoreWork(), "", counter)
