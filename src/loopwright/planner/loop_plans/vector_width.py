"""How wide the vectors are that LLVM makes of loops, and how many of them it takes at once.

Where a processor has AVX-512, LLVM takes half of it for loops, which the first such processors paid
for with their frequency. Later ones do not (Sapphire Rapids: 1.06 times as fast in the mean of 108
programs, up to 1.8 times), but for loops that wait for memory: whole vectors that begin anywhere
lie in two lines each (0.8 times, arrays beyond the last cache).

LLVM takes several vectors in one iteration of a loop, and what is left over by half vectors and one
by one. Loops of fewer than two vectors would never come to their vectors.

Loops of many vectors begin to store where a line begins, by the address (backends/llvm/llvm_lines):
arrays begin at multiples of 16 bytes.
"""

from __future__ import annotations

import math

from loopwright.analysis.size_estimates import (
    band_trips,
    bytes_of,
    likely_sizes,
    likely_trips,
)
from loopwright.ir.loops import Mark
from loopwright.ir.machine import Machine
from loopwright.ir.program import Program
from loopwright.ir.row_walk import LINE_BYTES, LONG_BYTES
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import Band, bands, nodes_of, path_to
from loopwright.planner.cost.loop_steps import loop_steps

__all__ = [
    "arrays_near",
    "begins_at_lines",
    "loop_vector_bits",
    "loops_of_one_vector",
    "loops_to_lines",
    "strip_of",
]

_HALVED = 64  # bytes of vectors of which compilers take half


def loop_vector_bits(program: Program, machine: Machine) -> int:
    """Bits of the vectors of its loops; 0: what LLVM takes by itself."""
    if machine.isa != "x86_64" or machine.vector_bytes < _HALVED or not machine.caches:
        return 0
    sizes = likely_sizes(program)
    total = sum(bytes_of(array, sizes) for array in program.arrays)
    return 8 * machine.vector_bytes if total <= machine.caches[-1].size else 0


def arrays_near(program: Program, machine: Machine) -> frozenset[str]:
    """The arrays that are likely to lie in the second cache, each by itself."""
    if len(machine.caches) < 2:
        return frozenset()
    sizes, room = likely_sizes(program), machine.cache(2).size
    return frozenset(x.name for x in program.arrays if bytes_of(x, sizes) <= room)


def begins_at_lines(machine: Machine) -> bool:
    """Whether every vector, or every other one where compilers take half, lies in two lines."""
    return machine.isa == "x86_64" and machine.vector_bytes >= LINE_BYTES


def loops_to_lines(schedule: Schedule, machine: Machine) -> frozenset[str]:
    """The simd loops that are likely to store so much that they should begin at a line."""
    if not begins_at_lines(machine):
        return frozenset()
    program = schedule.program
    trips = schedule.analyses.get(likely_trips)

    def stored(band: Band) -> float:
        count = min(band_trips(band, program, trips), strip_of(schedule, band))
        writes = [program.statement(name).write for name in band.statements]
        return count * max((w.dtype.bytes for w in writes if w.index), default=0)

    marked = (b for b in bands(nodes_of(schedule)) if schedule.mark(b.loop) is Mark.SIMD)
    return frozenset(band.loop for band in marked if stored(band) >= LONG_BYTES)


def strip_of(schedule: Schedule, band: Band) -> float:
    """Iterations of a loop that runs through a strip: those of one, else no limit."""
    *around, _ = path_to(nodes_of(schedule), band.loop)
    sizes = [steps.get(name) for steps in map(loop_steps, around[-1:]) for name in band.statements]
    return max((one.size for one in sizes if one and one.size > 1), default=math.inf)


def loops_of_one_vector(schedule: Schedule, machine: Machine) -> frozenset[str]:
    """The simd loops that are likely to have fewer iterations than two vectors have lanes.

    Lanes are those of the widest elements: LLVM takes no more.
    """
    program = schedule.program
    marked = [b for b in bands(nodes_of(schedule)) if schedule.mark(b.loop) is Mark.SIMD]
    if not marked:
        return frozenset()
    trips = schedule.analyses.get(likely_trips)

    def lanes(band: Band) -> int:
        used = [program.statement(name) for name in band.statements]
        widest = max(x.dtype.bits for s in used for x in (s.write, *s.reads))
        return machine.lanes(widest)

    return frozenset(b.loop for b in marked if band_trips(b, program, trips) < 2 * lanes(b))
