"""Memory that is reused by later calls: scratch of kernels, and arrays between kernels.

Scratch memory of kernels is one growing block per calling thread. Whoever needs arrays between
kernels takes them from a Loan and gives it back, also when a call raises:

    memory = Loan()
    try:
        array = memory.lend(shape, dtype)
    finally:
        memory.give_back()

Fresh pages cost more than packing into them, so memory is kept until `release_scratch()`. Blocks
ask for huge pages where the system offers them: packed panels then need few address translations.
"""

from __future__ import annotations

import math
import mmap
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from loopwright.runtime.address import Address, data_address

__all__ = [
    "Loan",
    "Scratch",
    "ScratchBlock",
    "local_scratch",
    "per_thread",
    "release_scratch",
    "releases",
]

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

_PAGE = 2 << 20
_blocks: weakref.WeakSet[Scratch] = weakref.WeakSet()
_MOST_KEPT = 1 << 28  # bytes of blocks that nobody has borrowed
_free: list[Bytes] = []
releases: list[Callable[[], int]] = []  # of others who keep blocks: each returns its bytes
_lock = threading.Lock()


class ScratchBlock(Address):
    """Memory aligned to a huge page; it stays as long as the block is referenced."""

    size = 0  # in bytes

    @classmethod
    def of(cls, size: int) -> ScratchBlock:
        """A fresh block of whole huge pages; contents are undefined."""
        size = -(-size // _PAGE) * _PAGE
        memory = _fresh(size, _PAGE)
        start = data_address(memory)
        block = cls(start + -start % _PAGE, memory)
        block.size = size
        return block


_NO_BLOCK = ScratchBlock(0, None)


class Scratch:
    """The scratch block of one thread; it grows on demand."""

    __slots__ = ("__weakref__", "block")

    def __init__(self) -> None:
        self.block = _NO_BLOCK

    def reserve(self, size: int) -> ScratchBlock:
        """A block of at least `size` bytes; contents are undefined."""
        block = self.block
        if size > block.size:
            block = self.block = ScratchBlock.of(size)
        return block

    def release(self) -> None:
        """Drop the block; a running call still references the one it uses."""
        self.block = _NO_BLOCK


class _PerThread(threading.local):
    """What each thread has for itself; made when the thread first asks."""

    def __init__(self) -> None:
        self.scratch = Scratch()
        with _lock:
            _blocks.add(self.scratch)


per_thread = _PerThread()  # its attributes are those of the calling thread


def local_scratch() -> Scratch:
    """The scratch block of the calling thread."""
    return per_thread.scratch


def _fresh(size: int, spare: int = 0) -> Bytes:
    """`size + spare` bytes from the system, in huge pages where it offers them."""
    # Private: Python's default is memory that a forked child would share with its parent.
    kind = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    try:
        block = mmap.mmap(-1, size + spare, flags=kind)
    except OSError as error:
        raise MemoryError(f"no {size} bytes of scratch memory for a kernel") from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        block.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(block, dtype=np.uint8)


class Loan:
    """Temporary arrays of one call, in memory that is reused by later calls."""

    __slots__ = ("_lent",)

    def __init__(self) -> None:
        self._lent: list[Bytes] = []

    def lend(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, np.dtype[Any]]:
        """An array of undefined elements."""
        size = math.prod(shape) * dtype.itemsize
        block = _borrowed(size)
        self._lent.append(block)
        return block[:size].view(dtype).reshape(shape)

    def give_back(self) -> None:
        """Return the memory for later calls; the arrays must not be used any more."""
        if self._lent:
            _keep(self._lent)
            self._lent = []


def _borrowed(size: int) -> Bytes:
    """At least `size` bytes, aligned to a page; contents are undefined."""
    with _lock:
        fitting = [at for at, block in enumerate(_free) if len(block) >= size]
        if fitting:
            return _free.pop(min(fitting, key=lambda at: len(_free[at])))
    return _fresh(max(-(-size // _PAGE), 1) * _PAGE)


def _keep(blocks: Iterable[Bytes]) -> None:
    with _lock:
        _free.extend(blocks)
        while sum(map(len, _free)) > _MOST_KEPT:
            _free.pop(0)  # the one that nobody has wanted for longest


def release_scratch() -> int:
    """Give all scratch memory back to the system and return its bytes.

    What a call in another thread uses goes back when that call ends.
    """
    with _lock:
        kept = list(_blocks)
    freed = sum(scratch.block.size for scratch in kept)
    for scratch in kept:
        scratch.release()
    freed += sum(release() for release in releases)
    with _lock:
        freed += sum(map(len, _free))
        _free.clear()
    return freed
