"""Whoever holds an address holds its owner: no call reads memory that was given to others."""

from __future__ import annotations

import ctypes
import gc
import struct
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from backends.c_compiled import needs_cc
from loopwright import kernels, sparse
from loopwright.calls import einsum as einsum_module
from loopwright.calls import einsum_contraction
from loopwright.diagnostics import InternalError
from loopwright.memo import BoundedCache
from loopwright.runtime import llvm_engine, scratch, toolchain
from loopwright.runtime.address import (
    Address,
    addresses_of,
    data_address,
    function_at,
    memory_at,
    object_address,
)
from loopwright.runtime.toolchain import build_library, load_library
from loopwright.sparse import transposition
from loopwright.sparse.synthesis.conversion import run

ELSEWHERE = 0x5A5A5A5A5A5A5A5A  # what freed memory is filled with: no size and no stride


@pytest.fixture
def scribble() -> Iterator[Callable[[], None]]:
    """Take memory of the sizes of launch values and write over it."""
    taken: list[np.ndarray[Any, Any]] = []

    def write() -> None:
        gc.collect()
        taken.extend(np.full(words, ELSEWHERE) for words in range(1, 80) for _ in range(4))

    yield write
    taken.clear()


# -- addresses ------------------------------------------------------------------------------------


def test_an_address_keeps_an_array() -> None:
    address = data_address(np.arange(5))
    gc.collect()
    assert ctypes.string_at(address + 8, 8) == (1).to_bytes(8, "little")
    assert isinstance(address + 8, Address)
    assert (address + 8).owner is address.owner


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


def test_engines_go_with_their_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM keeps what it knows of an object until its engine goes."""
    monkeypatch.setattr(llvm_engine, "_lljit", None)
    monkeypatch.setattr(llvm_engine, "_MOST_LINKED", 3)
    code = llvm_engine.compile_to_object("define i64 @f() {\n  ret i64 5\n}")
    loaded = [llvm_engine.load_object(code, ("f",)) for _ in range(7)]
    trackers = list(llvm_engine._trackers.values())[-7:]
    engines = [weakref.ref(tracker.engine) for tracker in trackers]
    del trackers
    assert [engines[0]() is engine() for engine in engines] == [True] * 3 + [False] * 4
    del loaded[:2], loaded[1:]
    llvm_engine._unload()
    gc.collect()
    assert [engine() is not None for engine in engines] == [True] * 3 + [False] * 3 + [True]
    assert function_at(loaded[0].address("f"), result=ctypes.c_int64)() == 5
    loaded.clear()
    llvm_engine._unload()
    assert engines[0]() is None


def test_an_object_that_cannot_be_linked_keeps_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvm_engine, "_lljit", None)
    with pytest.raises(InternalError):
        llvm_engine.load_object(b"no object", ("f",))
    code = llvm_engine.compile_to_object("define i64 @f() {\n  ret i64 5\n}")
    assert llvm_engine.load_object(code, ("f",)).address("f")


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


@needs_cc
def test_memory_keeps_its_library() -> None:
    text = "int numbers[3] = {1, 2, 3};\nvoid *place = numbers;\n"
    gc.collect()
    before = _mapped()
    library = load_library(build_library(text, ("-O1",)))
    place = ctypes.c_void_p.in_dll(library, "place").value or 0
    memory = memory_at(Address(place, library), 12)
    view = memory.view(np.int32)[1:]
    del library, memory
    gc.collect()
    assert _mapped() > before
    view += 1
    assert view.tolist() == [3, 4]
    del view
    gc.collect()
    assert _mapped() == before


# -- what is remembered ---------------------------------------------------------------------------


def test_the_older_half_is_forgotten() -> None:
    recent: BoundedCache[int, str] = BoundedCache(4)
    for key in range(4):
        recent[key] = str(key)
    recent[0] = "again"  # nothing new, nothing forgotten
    assert list(recent) == [0, 1, 2, 3]
    recent[4] = "4"
    assert list(recent.items()) == [(2, "2"), (3, "3"), (4, "4")]
    one: BoundedCache[int, int] = BoundedCache(1)
    one[1], one[2] = 1, 2
    assert list(one) == [2]


# -- calls whose launches were forgotten ----------------------------------------------------------


def test_einsum_after_more_layouts_than_are_kept(scribble: Callable[[], None]) -> None:
    a = np.arange(7)
    assert lw.einsum("i->", a) == 21
    for n in range(1, 1101):
        lw.einsum("i->", np.arange(n + 7))
    scribble()
    assert lw.einsum("i->", a) == 21
    assert len(einsum_contraction._launches) <= 1024
    assert len(einsum_module._ready) <= 1024


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every memory of earlier calls holds one entry only."""
    monkeypatch.setattr(kernels, "_kernels", BoundedCache(1))
    monkeypatch.setattr(einsum_contraction, "_launches", BoundedCache(1))


@pytest.mark.drawn(3)
@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("text", ["ij,jk->ik", "ij,kj->ik", "i,i->", "ij->j", "ij,j->i"])
def test_quick_calls_outlive_launch_and_kernel(text: str, scribble: Callable[[], None]) -> None:
    ranks = [len(term) for term in text.split("->")[0].split(",")]
    arrays = [np.arange(7.0**rank).reshape((7,) * rank) for rank in ranks]
    wanted = np.einsum(text, *arrays)
    np.testing.assert_array_equal(lw.einsum(text, *arrays), wanted)
    lw.einsum("ab,bc->ca", np.ones((3, 3), np.float32), np.ones((3, 3), np.float32))
    kernels._kernels.clear()
    scribble()
    np.testing.assert_array_equal(lw.einsum(text, *arrays), wanted)


def smooth(a: Any, b: Any) -> None:
    for i in range(1, a.shape[0] - 1):
        b[i] = a[i - 1] + 2 * a[i] + a[i + 1]


def test_jit_after_more_layouts_than_are_kept(
    monkeypatch: pytest.MonkeyPatch, scribble: Callable[[], None]
) -> None:
    monkeypatch.setattr(kernels, "_kernels", BoundedCache(1))
    monkeypatch.setattr("loopwright.calls.specialisation._MOST_READY", 2)
    function = lw.jit(smooth)
    for n in (5, 6, 7, 8, 5, 6):
        a, b, wanted = np.arange(n) ** 2, np.zeros(n, int), np.zeros(n, int)
        function(a, b)
        smooth(a, wanted)
        np.testing.assert_array_equal(b, wanted)
        kernels._kernels.clear()
        scribble()
    (found,) = function._found.values()
    assert len(found._ready) <= 2


C = """void shift(int n, double a[n], double b[n]) {
#pragma scop
  for (int i = 1; i < n; i++) b[i] = a[i - 1] + STEP;
#pragma endscop
}
"""


@needs_cc
@pytest.mark.drawn(3)
@pytest.mark.parametrize("target", ["host", "openmp", "c"])
def test_compiled_files_outlive_what_is_forgotten(
    target: str, monkeypatch: pytest.MonkeyPatch, scribble: Callable[[], None]
) -> None:
    monkeypatch.setattr(kernels, "_kernels", BoundedCache(1))
    functions = [lw.compile(C, target, defines={"STEP": k}) for k in range(3)]
    for _ in range(2):
        for step, function in enumerate(functions):
            a, b = np.arange(9.0), np.zeros(9)
            function(9, a, b)
            np.testing.assert_array_equal(b[1:], a[:-1] + step)
        kernels._kernels.clear()
        scribble()


def test_sparse_calls_outlive_what_is_forgotten(
    monkeypatch: pytest.MonkeyPatch, scribble: Callable[[], None]
) -> None:
    monkeypatch.setattr(kernels, "_kernels", BoundedCache(1))
    rng = np.random.default_rng(1)
    dense = rng.integers(0, 3, (9, 9)).astype(float)
    tensors = [sparse.convert(dense, name) for name in ("csr", "coo", "dia")]
    x = rng.random(9)
    for _ in range(3):
        for tensor in tensors:
            np.testing.assert_allclose(sparse.einsum("ij,j->i", tensor, x), dense @ x)
            np.testing.assert_array_equal(sparse.convert(tensor, "csr").to_dense(), dense)
        kernels._kernels.clear()
        scribble()


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


def test_scratch_memory_comes_back_when_an_exchange_raises(
    monkeypatch: pytest.MonkeyPatch, borrowed: list[int]
) -> None:
    def fail(*given: Any) -> None:
        assert len(borrowed) == 1
        raise MemoryError("no room")

    monkeypatch.setattr(transposition, "LEAST_ENTRIES", 0)
    monkeypatch.setattr(transposition, "_run", fail)
    with pytest.raises(MemoryError, match="no room"):
        transposition.transposed(sparse.convert(np.eye(9), "csr"), sparse.find("csc"))
    assert borrowed == []
