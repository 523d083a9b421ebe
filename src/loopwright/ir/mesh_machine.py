"""MeshMachine: core groups of small cores in a mesh, as the numbers that planning needs.

A core group is one host core and a mesh of compute cores in rows and columns. A compute core has a
scratchpad in place of a data cache: it brings data from main memory by DMA requests, each of one or
more blocks, and gives them to other cores of its row or column. One queue serves the requests of
all cores of a group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from loopwright.lazy_dataclass import dataclass

__all__ = ["MeshMachine", "SmallBlock"]


@dataclass(frozen=True, slots=True)
class SmallBlock:
    """What was measured for blocks that are too small for a formula, on all cores of a group."""

    bytes: int  # of a block
    gap: int  # bytes between two blocks; 0: requests of one block
    bytes_per_second: float


@dataclass(frozen=True, slots=True)
class MeshMachine:
    """One kind of processor of core groups; sizes in bytes, times in cycles of a compute core.

    Numbers that nobody has published are None.
    """

    name: str  # of the data file
    description: str
    groups: int  # core groups of a processor
    rows: int  # of the mesh of a group
    columns: int
    frequency_hz: float  # of the compute cores
    host_frequency_hz: float
    host_cache_bytes: int  # of the second level
    vector_bytes: int
    vector_registers: int
    fma_latency: float | None  # of a vector, in full pipelines
    # Elements that a compute core multiplies and adds in a cycle, by element type.
    rates: Mapping[str, float]
    scratchpad_bytes: int
    scratchpad_reserved: int  # of it for the stack, at least
    scratchpad_latency: float | None  # of a load
    memory_bytes_per_second: float  # of a group, at most
    # A DMA request takes request_cycles, and each of its blocks block_cycles and byte_cycles for
    # every byte, in the queue of its group; the first data come after dma_latency.
    request_cycles: float
    block_cycles: float | None
    byte_cycles: float
    small_blocks: tuple[SmallBlock, ...]  # of these sizes in place of the formula
    # More for each line of main memory that a block covers in part only.
    partial_line_get_cycles: float
    partial_line_put_cycles: float
    broadcast_byte_cycles: float | None  # for a byte that goes to several cores at once
    dma_latency: float | None
    global_access_cycles: float | None  # of a load or store in main memory, without DMA
    dma_unit: int  # addresses and lengths are multiples of this
    transaction_bytes: int  # what main memory moves at least
    exchange_latency: float  # from core to core of a row or column
    has_remote_access: bool  # cores reach scratchpads of others, not only registers
    barrier_cycles: float | None
    launch_cycles: float  # to start all compute cores and wait for them
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def cores(self) -> int:
        """Compute cores of a group."""
        return self.rows * self.columns

    def peak_flops(self, dtype: str) -> float:
        """Floating operations of a group in a second; a multiply-add is two."""
        return 2 * self.rates[dtype] * self.cores * self.frequency_hz

    def dma_cycles(self, requests: int, blocks: int, size: int) -> float:
        """Cycles that the queue of a group takes for requests of so many blocks and bytes in all.

        Where the cost of a block is not known, it costs nothing.
        """
        return (
            requests * self.request_cycles
            + blocks * (self.block_cycles or 0.0)
            + size * self.byte_cycles
        )
