"""Scratch memory: one growing block per thread, aligned, kept until it is released."""

from __future__ import annotations

import ctypes
import mmap
import threading
from typing import Any

import numpy as np
import pytest

from loopwright.runtime import scratch as kept
from loopwright.runtime.scratch import Loan, Scratch, local_scratch, release_scratch

PAGE = 2 << 20


def write_all(scratch: Scratch) -> None:
    ctypes.memset(scratch.block, 0xFF, scratch.block.size)


def test_a_fresh_block_holds_nothing() -> None:
    scratch = Scratch()
    assert (scratch.block, scratch.block.size) == (0, 0)
    assert scratch.reserve(0) == 0


@pytest.mark.parametrize("size", [1, 4096, PAGE, PAGE + 1])
def test_blocks_are_whole_aligned_pages(size: int) -> None:
    scratch = Scratch()
    address = scratch.reserve(size)
    assert address % PAGE == 0
    assert scratch.block.size >= size
    assert scratch.block.size % PAGE == 0
    write_all(scratch)


def test_memory_is_kept_and_grows() -> None:
    scratch = Scratch()
    address = scratch.reserve(100)
    assert scratch.reserve(50) == address
    assert scratch.reserve(scratch.block.size) == address
    scratch.reserve(scratch.block.size + 1)
    assert scratch.block.size == 2 * PAGE
    write_all(scratch)
    scratch.release()
    assert (scratch.block, scratch.block.size) == (0, 0)
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
    assert local_scratch().block.size == 0


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
    assert (scratch.block, scratch.block.size) == (address, PAGE)


BYTES = np.dtype(np.uint8)


def lent(*sizes: int) -> tuple[Loan, list[np.ndarray[Any, np.dtype[Any]]]]:
    memory = Loan()
    return memory, [memory.lend((size,), BYTES) for size in sizes]


def test_a_call_keeps_the_memory_it_uses() -> None:
    """Whoever holds a block holds its memory, whatever its thread asks for meanwhile."""
    scratch = Scratch()
    block = scratch.reserve(1)
    scratch.reserve(block.size + 1)
    scratch.release()
    ctypes.memset(block, 0xFF, block.size)
    assert ctypes.string_at(block + 5, 2) == b"\xff\xff"


def test_blocks_are_lent_again() -> None:
    release_scratch()
    memory, (first, other) = lent(1 << 20, 1)
    assert first.size == 1 << 20
    assert not np.shares_memory(first, other)
    first[:] = 1
    memory.give_back()
    memory.give_back()  # nothing is kept twice
    _, (again, beside) = lent(1 << 20, 1)
    assert np.shares_memory(again, first) or np.shares_memory(again, other)
    assert not np.shares_memory(again, beside)


def test_arrays_of_any_type_are_lent() -> None:
    memory = Loan()
    array = memory.lend((3, 5), np.dtype(np.complex128))
    array[...] = 2j
    assert (array.shape, array.dtype, array.sum()) == ((3, 5), np.dtype(np.complex128), 30j)
    memory.give_back()


def test_only_so_much_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "_MOST_KEPT", 5 << 20)
    release_scratch()
    memory, _ = lent(*[2 << 20] * 4)
    memory.give_back()
    assert release_scratch() <= 5 << 20
