"""Scratch memory: one growing block per thread, aligned, kept until it is released."""

from __future__ import annotations

import ctypes
import mmap
import threading

import numpy as np
import pytest

from loopwright.runtime import scratch as kept
from loopwright.runtime.scratch import Scratch, borrow, give_back, local_scratch, release_scratch

PAGE = 2 << 20


def write_all(scratch: Scratch) -> None:
    ctypes.memset(scratch.address, 0xFF, scratch.size)


def test_a_fresh_block_holds_nothing() -> None:
    scratch = Scratch()
    assert (scratch.address, scratch.size) == (0, 0)
    assert scratch.reserve(0) == 0


@pytest.mark.parametrize("size", [1, 4096, PAGE, PAGE + 1])
def test_blocks_are_whole_aligned_pages(size: int) -> None:
    scratch = Scratch()
    address = scratch.reserve(size)
    assert address % PAGE == 0
    assert scratch.size >= size
    assert scratch.size % PAGE == 0
    write_all(scratch)


def test_memory_is_kept_and_grows() -> None:
    scratch = Scratch()
    address = scratch.reserve(100)
    assert scratch.reserve(50) == address
    assert scratch.reserve(scratch.size) == address
    scratch.reserve(scratch.size + 1)
    assert scratch.size == 2 * PAGE
    write_all(scratch)
    scratch.release()
    assert (scratch.address, scratch.size) == (0, 0)
    assert scratch.reserve(10) % PAGE == 0


def test_every_thread_has_its_own() -> None:
    mine = local_scratch()
    assert local_scratch() is mine
    others: list[Scratch] = []
    thread = threading.Thread(target=lambda: others.append(local_scratch()))
    thread.start()
    thread.join()
    assert others[0] is not mine


def test_release_tells_how_much() -> None:
    release_scratch()
    local_scratch().reserve(PAGE + 1)
    assert release_scratch() == 2 * PAGE
    assert release_scratch() == 0
    assert local_scratch().size == 0


def test_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of bytes is told, and what was there stays."""
    scratch = Scratch()
    address = scratch.reserve(1)

    def refuse(*args: object, **kwargs: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(mmap, "mmap", refuse)
    with pytest.raises(MemoryError) as caught:
        scratch.reserve(3 * PAGE - 5)
    assert str(caught.value) == f"no {3 * PAGE} bytes of scratch memory for a kernel"
    assert (scratch.address, scratch.size) == (address, PAGE)


def test_blocks_are_lent_again() -> None:
    release_scratch()
    first = borrow(1 << 20)
    other = borrow(1)
    assert len(first) >= 1 << 20
    assert not np.shares_memory(first, other)
    first[:] = 1
    give_back([first, other])
    again = borrow(1 << 20)
    assert again is first or again is other
    assert release_scratch() >= PAGE


def test_only_so_much_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "_MOST_KEPT", 5 << 20)
    release_scratch()
    blocks = [borrow(2 << 20) for _ in range(4)]
    give_back(blocks)
    assert release_scratch() <= 5 << 20
