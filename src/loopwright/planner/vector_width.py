"""How wide the vectors are that LLVM makes of loops, and how many of them it takes at once.

Where a processor has AVX-512, LLVM takes half of it for loops, which the first such processors paid
for with their frequency. Later ones do not (Sapphire Rapids: 1.06 times as fast in the mean of 108
programs, up to 1.8 times), but for loops that wait for memory: whole vectors that begin anywhere
lie in two lines each (0.8 times, arrays beyond the last cache).

LLVM takes several vectors in one iteration of a loop, and what is left over by half vectors and one
by one. Loops of fewer than two vectors would never come to their vectors.
"""

from __future__ import annotations

from loopwright.analysis.size_estimates import (
    band_trips,
    bytes_of,
    likely_sizes,
    likely_trips,
)
from loopwright.ir.loops import Mark
from loopwright.ir.machine import Machine
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import Band, bands, nodes_of

__all__ = ["loop_vector_bits", "loops_of_one_vector"]

_HALVED = 64  # bytes of vectors of which compilers take half


def loop_vector_bits(program: Program, machine: Machine) -> int:
    """Bits of the vectors of its loops; 0: what LLVM takes by itself."""
    if machine.isa != "x86_64" or machine.vector_bytes < _HALVED or not machine.caches:
        return 0
    sizes = likely_sizes(program)
    total = sum(bytes_of(array, sizes) for array in program.arrays)
    return 8 * machine.vector_bytes if total <= machine.caches[-1].size else 0


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
