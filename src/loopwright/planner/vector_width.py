"""How wide the vectors are that LLVM makes of loops.

Where a processor has AVX-512, LLVM takes half of it for loops, which the first such processors paid
for with their frequency. Later ones do not (Sapphire Rapids: 1.06 times as fast in the mean of 108
programs, up to 1.8 times), but for loops that wait for memory: whole vectors that begin anywhere
lie in two lines each (0.8 times, arrays beyond the last cache).
"""

from __future__ import annotations

from loopwright.analysis.size_estimates import bytes_of, likely_sizes
from loopwright.ir.machine import Machine
from loopwright.ir.program import Program

__all__ = ["loop_vector_bits"]

_HALVED = 64  # bytes of vectors of which compilers take half


def loop_vector_bits(program: Program, machine: Machine) -> int:
    """Bits of the vectors of its loops; 0: what LLVM takes by itself."""
    if machine.isa != "x86_64" or machine.vector_bytes < _HALVED or not machine.caches:
        return 0
    sizes = likely_sizes(program)
    total = sum(bytes_of(array, sizes) for array in program.arrays)
    return 8 * machine.vector_bytes if total <= machine.caches[-1].size else 0
