"""What DMA costs: the queue of a core group, as it was measured on SW26010.

One queue serves the requests of all cores of a group, one after another. A request takes some
cycles, and each of its blocks a fixed number and some for every byte (a fit to the raw results of
swCandle, 3.7% rms over all gaps). Blocks below 64 bytes follow no such line: their cost is
interpolated between measurements. With requests enough in the queue, the latency of each is hidden.

    cycles = request + blocks * (block + byte * bytes of a block) + partial lines
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

from loopwright.ir.mesh_machine import MeshMachine
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "DmaRequest",
    "StepCost",
    "dma_bandwidth",
    "kernel_cycles",
    "queue_cycles",
    "request_service_cycles",
    "step_cost",
]

_SMALLEST_FITTED = 64  # bytes of a block from which on the formula holds


@dataclass(frozen=True, slots=True)
class DmaRequest:
    """One request of a core: equal blocks at equal distances in main memory."""

    blocks: int
    block_bytes: int
    gap: int = 0  # bytes between two blocks
    is_put: bool = False
    offset: int = 0  # of the first byte in its line of main memory
    receivers: int = 1  # cores that get the data; more than one: a broadcast

    @property
    def bytes(self) -> int:
        """Bytes of all blocks."""
        return self.blocks * self.block_bytes


def request_service_cycles(machine: MeshMachine, request: DmaRequest) -> float:
    """Cycles for which a request keeps the queue of its group busy."""
    base = _blocks_cycles(machine, request)
    if request.receivers > 1 and machine.broadcast_byte_cycles is not None:
        base += request.bytes * max(0.0, machine.broadcast_byte_cycles - machine.byte_cycles)
    lines = _partial_lines(machine, request)
    each = machine.partial_line_put_cycles if request.is_put else machine.partial_line_get_cycles
    return base + lines * each


def queue_cycles(machine: MeshMachine, requests: Iterable[tuple[DmaRequest, int]]) -> float:
    """Cycles of the queue for all requests, each as often as stands beside it."""
    return sum(count * request_service_cycles(machine, request) for request, count in requests)


def dma_bandwidth(machine: MeshMachine, request: DmaRequest) -> float:
    """Bytes per second of a group whose cores all make requests like this one."""
    return request.bytes / request_service_cycles(machine, request) * machine.frequency_hz


def _blocks_cycles(machine: MeshMachine, request: DmaRequest) -> float:
    """Cycles of a request without what partial lines cost."""
    rows = [row for row in machine.small_blocks if (row.gap == 0) == _is_single(request)]
    if request.block_bytes >= _SMALLEST_FITTED or not rows:
        return machine.dma_cycles(1, request.blocks, request.bytes)
    if _is_single(request):
        sizes = [(row.bytes, _cycles(machine, row.bytes, row.bytes_per_second)) for row in rows]
        sizes.append((_SMALLEST_FITTED, machine.dma_cycles(1, 1, _SMALLEST_FITTED)))
        return _interpolated(sorted(sizes), request.block_bytes)
    at_gap: list[tuple[float, float]] = []
    for size in sorted({row.bytes for row in rows}):
        points = [
            (math.log2(row.gap), _cycles(machine, size, row.bytes_per_second))
            for row in rows
            if row.bytes == size
        ]
        at_gap.append((size, _interpolated(sorted(points), math.log2(max(1, request.gap)))))
    at_gap.append((_SMALLEST_FITTED, machine.dma_cycles(0, 1, _SMALLEST_FITTED)))
    return machine.request_cycles + request.blocks * _interpolated(at_gap, request.block_bytes)


def _is_single(request: DmaRequest) -> bool:
    return request.blocks == 1


def _cycles(machine: MeshMachine, size: int, bytes_per_second: float) -> float:
    return size * machine.frequency_hz / bytes_per_second


def _interpolated(points: Sequence[tuple[float, float]], x: float) -> float:
    """The value at `x` on the line through the points, constant before the first and the last."""
    if x <= points[0][0]:
        return points[0][1]
    for (x0, y0), (x1, y1) in pairwise(points):
        if x <= x1:
            return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return points[-1][1]


def _partial_lines(machine: MeshMachine, request: DmaRequest) -> float:
    """Lines of main memory that blocks cover in part, of all blocks together."""
    line = machine.transaction_bytes
    step = (request.block_bytes + request.gap) % line
    # Where blocks begin repeats after as many blocks as it takes the steps to fill whole lines.
    period = line // math.gcd(step, line) if step else 1
    counted = min(period, request.blocks)
    found = 0
    for number in range(counted):
        first = (request.offset + number * step) % line
        end = (first + request.block_bytes) % line
        is_inside = first + request.block_bytes < line
        found += 1 if is_inside and first and end else (first != 0) + (end != 0)
    return found * request.blocks / counted


# -- before any run: what a tile, its mapping and its buffers cost -----------------------------


@dataclass(frozen=True, slots=True)
class StepCost:
    """One step of a kernel on all cores of a group: transfers of each core, then its work."""

    dma_cycles: float  # of the queue, for all cores
    compute_cycles: float  # of the slowest core
    latency: float  # until the first data are there
    buffers: int

    @property
    def cycles(self) -> float:
        """Cycles of a step among many: with two buffers the queue works while cores compute."""
        if self.buffers > 1:
            return max(self.dma_cycles, self.compute_cycles)
        return self.dma_cycles + self.compute_cycles + self.latency

    @property
    def is_bound_by_dma(self) -> bool:
        """Whether the queue takes longer than the cores."""
        return self.dma_cycles > self.compute_cycles


def step_cost(
    machine: MeshMachine,
    requests: Sequence[tuple[DmaRequest, float]],
    compute_cycles: float,
    *,
    buffers: int = 2,
    cores: int | None = None,
) -> StepCost:
    """The cost of a step in which each core makes these requests, each so often, and computes.

    A request that one core makes for its row of eight is made 1/8 times by each.
    """
    count = machine.cores if cores is None else cores
    busy = sum(often * request_service_cycles(machine, request) for request, often in requests)
    return StepCost(count * busy, compute_cycles, machine.dma_latency or 0.0, buffers)


def kernel_cycles(machine: MeshMachine, step: StepCost, steps: int, *, launches: int = 1) -> float:
    """Cycles of a kernel of so many equal steps: launches, the first transfer, then the steps."""
    first = step.dma_cycles + step.latency if step.buffers > 1 else 0.0
    return launches * (machine.launch_cycles + first) + steps * step.cycles
