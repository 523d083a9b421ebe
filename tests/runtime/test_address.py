"""Whoever holds an address holds its owner; arrays of calls, scratch memory of threads."""

from __future__ import annotations

import ctypes
import gc
import mmap
import struct
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from backends.c_compiled import needs_cc
from loopwright.diagnostics import DtypeError, UsageError
from loopwright.runtime import llvm_engine, scratch, toolchain
from loopwright.runtime import scratch as kept
from loopwright.runtime.address import (
    addresses_of,
    function_at,
    object_address,
)
from loopwright.runtime.array_arguments import (
    as_operand,
    check_out,
    element_strides,
    overlap,
)
from loopwright.runtime.scratch import Loan, Scratch, release_scratch
from loopwright.runtime.toolchain import build_library, load_library
from loopwright.sparse.synthesis.conversion import run

# -- addresses ------------------------------------------------------------------------------------


def test_an_address_keeps_objects() -> None:
    array = np.arange(5)
    found = weakref.ref(array)
    one, several = object_address(array), addresses_of((array, array))
    assert list(struct.unpack("2q", several)) == [id(array)] * 2 == [one] * 2
    del array
    assert found() is not None
    del one
    assert found() is None


def test_a_function_keeps_its_code() -> None:
    text = "define i64 @f(i64 %x) {\n  %y = add i64 %x, 5\n  ret i64 %y\n}"
    loaded = llvm_engine.load_object(llvm_engine.compile_to_object(text), ("f",))
    code, known = weakref.ref(loaded.code), len(llvm_engine._trackers)
    function = function_at(loaded.address("f"), ctypes.c_int64, result=ctypes.c_int64)
    del loaded
    gc.collect()
    assert function(2) == 7
    assert code() is not None
    del function
    gc.collect()
    assert code() is None
    llvm_engine._unload()
    assert len(llvm_engine._trackers) < known


def _mapped() -> int:
    """Libraries of ours in this process."""
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("the system does not tell what is loaded")
    return maps.read_text().count("kernel.so")


@needs_cc
@pytest.mark.drawn(2)
@pytest.mark.parametrize("flags", [("-O1",), ("-O1", "-fopenmp")])
def test_a_library_goes_with_its_last_function(flags: tuple[str, ...]) -> None:
    if not toolchain.find_compiler().accepts(*flags):
        pytest.skip(f"no {flags[-1]}")
    text = "int twice(int x)\n{\n#pragma omp parallel\n  { x += 0; }\n  return 2 * x;\n}\n"
    load_library(build_library(text, flags))["twice"](4)  # which may bring a runtime that stays
    gc.collect()
    before = _mapped()
    library = load_library(build_library(text, flags))
    function = library["twice"]
    del library
    gc.collect()
    assert _mapped() > before
    assert function(21) == 42
    del function
    gc.collect()
    assert _mapped() == before


# -- calls whose launches were forgotten ----------------------------------------------------------


@pytest.fixture
def borrowed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of every block that is lent, less those that came back."""
    out: list[int] = []

    def lend(size: int) -> Any:
        out.append(size)
        return np.empty(size, np.uint8)

    monkeypatch.setattr(scratch, "_borrowed", lend)
    monkeypatch.setattr(scratch, "_keep", lambda blocks: [out.remove(b.size) for b in blocks])
    return out


@pytest.mark.parametrize("threads", [1, 2])
def test_scratch_memory_comes_back_when_a_conversion_raises(
    threads: int, borrowed: list[int]
) -> None:
    def fail(*given: Any) -> None:
        lend = given[-1]
        lend((1000, 3), np.dtype(np.int32))
        assert borrowed == [12_000]
        raise KeyboardInterrupt

    stage = SimpleNamespace(prepare=fail)
    frame = (lambda *given: ({}, {}), None)
    conversion: Any = SimpleNamespace(alone=fail, frame=frame, steps=[stage], chunked_stages=[None])
    with pytest.raises(KeyboardInterrupt):
        run(conversion, {}, np.ones(1 << 20), {"NR": 1}, threads)
    assert borrowed == []


PAGE = 2 << 20


def write_all(scratch: Scratch) -> None:
    ctypes.memset(scratch.block, 0xFF, scratch.block.size)


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


def test_only_so_much_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "_MOST_KEPT", 5 << 20)
    release_scratch()
    memory, _ = lent(*[2 << 20] * 4)
    memory.give_back()
    assert release_scratch() <= 5 << 20


class Foreign:
    """An array of another library."""

    def __init__(self, array: np.ndarray, fails: bool = False) -> None:
        self.array, self.fails = array, fails

    def __dlpack__(self, **options: object) -> object:
        if self.fails:
            raise BufferError("cannot export")
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def test_arrays_of_other_libraries_are_not_copied() -> None:
    array = np.arange(5.0)
    assert np.shares_memory(as_operand(Foreign(array), "x"), array)


def test_what_kernels_cannot_address_is_copied() -> None:
    unaligned = np.zeros(33, np.uint8)[1:].view("float64")
    record = np.zeros(4, np.dtype([("x", "f8"), ("y", "i1")]))["x"]
    for array in (unaligned, record):
        array[...] = 7
        taken = as_operand(array, "x")
        assert not np.shares_memory(taken, array)
        assert taken.flags.aligned
        assert np.all(taken == 7)
        assert element_strides(taken) == (1,)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([[1], [1, 2]], "operand 3 is no array of numbers\nnote: found list"),
        (
            Foreign(np.ones(2), fails=True),
            "operand 3 is no array of numbers\nnote: found Foreign: cannot export",
        ),
        (object(), "operand 3 has dtype 'object'\ntry: an array of numbers"),
        (
            np.zeros(1, "f4,f4"),
            "operand 3 has dtype '[('f0', '<f4'), ('f1', '<f4')]'\ntry: an array of numbers",
        ),
    ],
)
def test_refused_operands(value: object, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        as_operand(value, "operand 3")
    assert str(caught.value) == text
    assert isinstance(caught.value, DtypeError) == ("dtype" in text)


def test_numbers_of_another_byte_order_are_copied() -> None:
    array = as_operand(np.arange(3, dtype=">i4"), "operand 3")
    assert array.dtype == np.int32
    assert array.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("shape", "strides"), [((2, 3), (8, 8)), ((2, 2), (0, 8)), ((3, 3), (16, 8))]
)
def test_out_whose_elements_coincide(shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
    out = np.lib.stride_tricks.as_strided(np.zeros(20), shape, strides)
    with pytest.raises(UsageError) as caught:
        check_out(out, shape)
    assert str(caught.value) == "elements of out share memory\ntry: pass a fresh array"


def test_an_overlap_too_hard_to_decide_counts_as_one() -> None:
    memory = np.zeros(1 << 16, np.int8)
    x = np.lib.stride_tricks.as_strided(memory, (9, 9, 9, 9, 9), (1201, 733, 401, 97, 13))
    y = np.lib.stride_tricks.as_strided(memory[5:], (9, 9, 9, 9, 9), (1193, 727, 409, 89, 17))
    assert overlap(x, y)
