"""Scratch memory of kernels: one growing block per calling thread, reused between calls.

Fresh pages cost more than packing into them, so memory is kept until `release_scratch()`. Blocks
ask for huge pages where the system offers them: packed panels then need few address translations.
"""

from __future__ import annotations

import mmap
import threading
import weakref
from typing import Any

import numpy as np

__all__ = ["Scratch", "local_scratch", "release_scratch"]

_PAGE = 2 << 20
_local = threading.local()
_blocks: weakref.WeakSet[Scratch] = weakref.WeakSet()


class Scratch:
    """One thread's block. `address` is aligned to a huge page and valid until the next reserve."""

    __slots__ = ("__weakref__", "_memory", "address", "size")

    def __init__(self) -> None:
        self.address = 0
        self.size = 0
        self._memory: np.ndarray[Any, np.dtype[np.uint8]] | None = None

    def reserve(self, size: int) -> int:
        """The address of at least `size` bytes; contents are undefined."""
        if size > self.size:
            rounded = -(-size // _PAGE) * _PAGE
            # Private: Python's default is memory that a forked child would share with its parent.
            kind = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
            try:
                block = mmap.mmap(-1, rounded + _PAGE, flags=kind)
            except OSError as error:
                raise MemoryError(f"no {rounded} bytes of scratch memory for a kernel") from error
            if hasattr(mmap, "MADV_HUGEPAGE"):
                block.madvise(mmap.MADV_HUGEPAGE)
            self._memory = np.frombuffer(block, dtype=np.uint8)
            start = self._memory.ctypes.data
            self.address = -(-start // _PAGE) * _PAGE
            self.size = rounded
        return self.address

    def release(self) -> None:
        self.address, self.size, self._memory = 0, 0, None


def local_scratch() -> Scratch:
    """The scratch block of the calling thread."""
    found: Scratch | None = getattr(_local, "scratch", None)
    if found is None:
        found = _local.scratch = Scratch()
        _blocks.add(found)
    return found


def release_scratch() -> int:
    """Give all scratch memory back to the system and return its bytes.

    Call it when no kernel runs: a block in use by another thread would be pulled from under it.
    """
    freed = sum(block.size for block in _blocks)
    for block in list(_blocks):
        block.release()
    return freed
