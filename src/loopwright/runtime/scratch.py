"""Memory that is kept for the next call: scratch of kernels, and blocks that callers borrow.

Scratch memory of kernels is one growing block per calling thread. Whoever needs arrays between
kernels borrows blocks and gives them back.

Fresh pages cost more than packing into them, so memory is kept until `release_scratch()`. Blocks
ask for huge pages where the system offers them: packed panels then need few address translations.
"""

from __future__ import annotations

import mmap
import threading
import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np

__all__ = ["Scratch", "borrow", "give_back", "local_scratch", "release_scratch"]

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

_PAGE = 2 << 20
_local = threading.local()
_blocks: weakref.WeakSet[Scratch] = weakref.WeakSet()
_MOST_KEPT = 1 << 28  # bytes of blocks that nobody has borrowed
_free: list[Bytes] = []
_lock = threading.Lock()


class Scratch:
    """One thread's block. `address` is aligned to a huge page and valid until the next reserve."""

    __slots__ = ("__weakref__", "_memory", "address", "size")

    def __init__(self) -> None:
        self.address = 0
        self.size = 0
        self._memory: Bytes | None = None

    def reserve(self, size: int) -> int:
        """The address of at least `size` bytes; contents are undefined."""
        if size > self.size:
            rounded = -(-size // _PAGE) * _PAGE
            self._memory = _fresh(rounded, _PAGE)
            start = self._memory.ctypes.data
            self.address = -(-start // _PAGE) * _PAGE
            self.size = rounded
        return self.address

    def release(self) -> None:
        self.address, self.size, self._memory = 0, 0, None


def _fresh(size: int, spare: int = 0) -> Bytes:
    """Memory from the system, in huge pages where it offers them; some is spared to align it."""
    # Private: Python's default is memory that a forked child would share with its parent.
    kind = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    try:
        block = mmap.mmap(-1, size + spare, flags=kind)
    except OSError as error:
        raise MemoryError(f"no {size} bytes of scratch memory for a kernel") from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        block.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(block, dtype=np.uint8)


def borrow(size: int) -> Bytes:
    """At least `size` bytes, aligned to a page; contents are undefined."""
    with _lock:
        fitting = [at for at, block in enumerate(_free) if len(block) >= size]
        if fitting:
            return _free.pop(min(fitting, key=lambda at: len(_free[at])))
    return _fresh(max(-(-size // _PAGE), 1) * _PAGE)


def give_back(blocks: Iterable[Bytes]) -> None:
    """Keep borrowed blocks for the next borrower: nobody may use them any more."""
    with _lock:
        _free.extend(blocks)
        while sum(map(len, _free)) > _MOST_KEPT:
            _free.pop(0)  # the one that nobody has wanted for longest


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
    with _lock:
        freed += sum(map(len, _free))
        _free.clear()
    return freed
