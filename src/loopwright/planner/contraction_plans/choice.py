"""What a planner chooses for a contraction: a kernel variant, its blocks, and the expected cost."""

from __future__ import annotations

import math

from loopwright.ir.contraction_shape import ContractionShape
from loopwright.ir.kernel_variant import Algebra, ContractionKernel, KernelVariant
from loopwright.ir.machine import Machine
from loopwright.ir.passed_nan import number_operator
from loopwright.lazy_dataclass import dataclass

__all__ = ["Choice", "even_block", "lanes_of", "operator_names"]


@dataclass(frozen=True, slots=True)
class Choice:
    """The kernel for one shape, and what the model expects of it."""

    kernel: ContractionKernel
    blocks: tuple[int, int, int]  # M_c, N_c, K_c; zero where the algorithm has no such loop
    shape: ContractionShape  # arranged
    threads: int
    cycles: float  # predicted, of the slowest thread

    @property
    def variant(self) -> KernelVariant:
        return self.kernel.variant


def lanes_of(algebra: Algebra, machine: Machine) -> int:
    """Sums that a vector of the machine holds."""
    return max(1, machine.vector_bytes // algebra.accumulator.real.bytes)


def operator_names(algebra: Algebra) -> tuple[str, str]:
    """Operator names for the machine model; expressions of users count as an unfused pair."""
    plus = algebra.plus if isinstance(algebra.plus, str) else number_operator(algebra.plus) or "max"
    times = algebra.times if isinstance(algebra.times, str) else "add"
    return plus, "add" if times == "first" else times


def even_block(total: int, block: int, unit: int, stretch: float = 1.0, shares: int = 1) -> int:
    """A block near `block` (at most `stretch` times it) that divides `total` evenly, in units.

    Each of `shares` threads gets as many blocks as every other.
    """
    count = max(1, math.ceil(total / (max(block, 1) * stretch)))
    count = -(-count // shares) * shares
    share = -(-total // count)
    return -(-share // unit) * unit
