"""How many registers a thread of a GPU needs for the elements that it keeps: an estimate."""

from __future__ import annotations

__all__ = ["fits_registers"]

# Beside its elements: addresses, coordinates and what is on its way from memory. Tiles of 64
# accumulators take 105 to 128 registers (ptxas 13.0), which a quarter more than the elements meets.
_OTHERS = 24


def fits_registers(size: int, cap: int) -> bool:
    """Whether `size` bytes of elements fit into `cap` registers, beside what is computed."""
    words = -(-size // 4)
    return words * 5 // 4 + _OTHERS <= cap
