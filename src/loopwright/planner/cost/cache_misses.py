"""What leaves a cache before it is used again, and how fast lines come from the next level."""

from __future__ import annotations

from loopwright.ir.machine import Cache, Machine

__all__ = ["clashing_share", "lost_share", "read_rate"]

_KEPT, _GONE = 0.75, 1.5  # sizes over a cache's: below all lines stay, above none


def lost_share(share: float) -> float:
    """The part of lines that is lost before it is used again, by sizes over the cache's."""
    return min(1.0, max(0.0, (share - _KEPT) / (_GONE - _KEPT)))


def clashing_share(rows: int, stride: int, cache: Cache) -> float:
    """The part of lines that is lost where rows begin at the same few sets of a cache."""
    if rows <= cache.ways:
        return 0.0
    way = cache.way_bytes
    starts = max(1, way // (stride & -stride)) if stride else rows
    ways = rows / starts
    return min(1.0, max(0.0, (ways / cache.ways - 1.0) * 2)) if ways > 1 else 0.0


def read_rate(machine: Machine, level: int) -> float:
    """Bytes a cycle that one core reads from a cache, or from memory behind the last one."""
    if level < len(machine.caches):
        return machine.caches[level].bytes_per_cycle or 32.0 / (level + 1)
    return machine.memory_bytes_per_cycle or 4.0
