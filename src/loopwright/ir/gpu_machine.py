"""GpuMachine: a GPU as the numbers that planning needs, each with its source.

A GPU is multiprocessors that run blocks of threads; threads go in warps of 32 lanes. How many
blocks a multiprocessor holds at a time follows from their threads, registers and shared memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from loopwright.lazy_dataclass import dataclass

__all__ = ["LEAST_REGISTERS", "MOST_BLOCKS", "GpuMachine", "Occupancy"]

# Blocks of a grid along y, and along z, on every CUDA device; along x there are 2^31 - 1 (CUDA C++
# Programming Guide, technical specifications per compute capability).
MOST_BLOCKS = 65535
LEAST_REGISTERS = 24  # of a thread, that a compiler can be held to (ptxas 13.0)


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How many blocks of a kernel a multiprocessor holds at a time, and what bounds them."""

    blocks: int  # 0: the kernel does not fit
    warps: int
    bound: str  # "threads", "blocks", "registers" or "shared memory"


@dataclass(frozen=True, slots=True)
class GpuMachine:
    """One kind of GPU; sizes in bytes unless said otherwise."""

    name: str  # of the data file
    description: str
    capability: tuple[int, int]  # compute capability: major, minor
    multiprocessors: int
    frequency_hz: float
    warp: int  # lanes
    threads_per_block: int  # at most
    threads_per_multiprocessor: int
    blocks_per_multiprocessor: int
    registers_per_multiprocessor: int  # of 32 bits
    registers_per_thread: int  # at most
    register_unit: int  # registers are given to a warp in multiples of this
    shared_per_block: int  # at most, where a kernel asks for it
    shared_static: int  # at most, where it does not
    shared_per_multiprocessor: int
    shared_unit: int  # shared memory is given in multiples of this
    shared_reserved: int  # of every block, by the system
    banks: int  # of shared memory, 4 bytes wide
    sector: int  # what one access of global memory moves at least
    cache_bytes: int  # of the second-level cache
    memory_bytes_per_second: float
    # Operations that a multiprocessor starts in a cycle, by name and element type.
    rates: Mapping[str, Mapping[str, float]]
    has_async_copy: bool  # from global to shared memory, past the registers
    launch_seconds: float  # from one kernel to the next in a stream
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def target(self) -> str:
        """The architecture as compilers name it."""
        return f"sm_{self.capability[0]}{self.capability[1]}"

    def rate(self, op: str, dtype: str) -> float:
        """Operations of a kind that all multiprocessors start in a second."""
        return self.rates[op][dtype] * self.multiprocessors * self.frequency_hz

    def occupancy(self, threads: int, registers: int, shared: int) -> Occupancy:
        """The blocks that a multiprocessor holds; `registers` are those of a thread."""
        warps = -(-threads // self.warp)
        per_warp = -(-registers * self.warp // self.register_unit) * self.register_unit
        taken = -(-(shared + self.shared_reserved) // self.shared_unit) * self.shared_unit
        limits = {
            "threads": self.threads_per_multiprocessor // (warps * self.warp),
            "blocks": self.blocks_per_multiprocessor,
            "registers": self.registers_per_multiprocessor // (per_warp * warps),
            "shared memory": self.shared_per_multiprocessor // taken if taken else 1 << 30,
        }
        if (
            threads > self.threads_per_block
            or registers > self.registers_per_thread
            or shared > self.shared_per_block
        ):
            limits = {"threads": 0}
        bound = min(limits, key=lambda name: limits[name])
        return Occupancy(limits[bound], limits[bound] * warps, bound)
