"""bfloat16 on devices: conversions bit by bit, einsums on a fake driver with the shim's kernels."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from gpu.fake_cuda import FakeApi, FakeArray, fake_driver
from gpu.shim.cuda_shim import has_compiler, run_program
from gpu.test_device_einsum import SMALL, compiled, forget
from gpu.test_opencl_executable import needs_opencl
from loopwright.backends.c_text.c_dialect import CUDA, OPENCL, Dialect
from loopwright.backends.device_text.device_module import emit_kernels
from loopwright.diagnostics import DtypeError, UsageError
from loopwright.ir.device import DeviceProgram
from loopwright.ir.dtypes import BFLOAT16, FLOAT32, FLOAT64, INT32, DType
from loopwright.ir.evaluate import evaluate
from loopwright.ir.expr import Cast, Const, Load, Var
from loopwright.ir.interpret_nest import interpret_nest
from loopwright.ir.loops import Axis, Buffer, For, LoopNest, Mark, Store
from loopwright.lower.grid_nests.split_kernels import split_kernels
from loopwright.planner.grid_plans import grid_products
from loopwright.runtime import cuda_executable
from loopwright.runtime.opencl_executable import OpenclExecutable

needs_compiler = pytest.mark.skipif(not has_compiler(), reason="there is no C++ compiler")


def bits(values: Any) -> np.ndarray:
    """Finite numbers as bfloat16: rounded to the nearest, ties to even."""
    raw = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.uint64)
    return ((raw + 0x7FFF + (raw >> 16 & 1)) >> 16).astype(np.uint16)


def values(stored: np.ndarray) -> np.ndarray:
    return (stored.astype(np.uint32) << 16).view(np.float32)


# -- conversions ----------------------------------------------------------------------------------

SPECIAL = np.array(
    [
        0.0,
        -0.0,
        1.0,
        1.00390625,
        1.01171875,
        3.4e38,
        np.inf,
        -np.inf,
        1e-40,
        -1e-45,
        1.5e-39,
        257.0,
    ],
    np.float32,
)


def conversion(source: DType, target: DType) -> LoopNest:
    n, i = Var("n"), Var("block.x")
    store = Store("b", (i,), Cast(Load("a", (i,), source), target))
    body = For("block.x", Const(0), n, store, Const(1), Mark.BLOCK, axis=Axis.X)
    buffers = (Buffer("a", source, (Const(1),)), Buffer("b", target, (Const(1),), writable=True))
    return LoopNest("f", buffers, ("n",), body)


def cases() -> list[tuple[DType, np.ndarray, DType]]:
    rng = np.random.default_rng(3)
    drawn = rng.integers(0, 2**32, 500, dtype=np.uint32).view(np.float32)
    drawn = drawn[drawn == drawn]  # NaNs that signal warn where NumPy converts them
    floats = np.concatenate([SPECIAL, np.array([np.nan], np.float32), drawn])
    every = np.arange(0, 2**16, 7, dtype=np.uint16)
    whole = np.array([0, 1, -1, 255, 257, 258, 259, 2**31 - 1], np.int32)
    return [
        (FLOAT32, floats, BFLOAT16),
        (FLOAT64, floats.astype(np.float64), BFLOAT16),
        (INT32, whole, BFLOAT16),
        (BFLOAT16, every, FLOAT32),
        (BFLOAT16, every, FLOAT64),
    ]


def same(found: np.ndarray, wanted: np.ndarray, target: DType) -> bool:
    """Equal bit by bit; of NaNs, that they are some."""
    if target == BFLOAT16:
        found, wanted = values(found), values(wanted)
    return np.array_equal(found, wanted, equal_nan=True) and np.array_equal(
        np.signbit(found[found == found]), np.signbit(wanted[wanted == wanted])
    )


def wanted_of(source: DType, given: np.ndarray, target: DType) -> np.ndarray:
    x = Cast(Var("x", source), target)
    return np.array([evaluate(x, {"x": each}) for each in given], target.numpy)


def program_of(source: DType, target: DType, dialect: Dialect) -> tuple[DeviceProgram, str]:
    program = split_kernels(conversion(source, target))
    return program, emit_kernels([program], dialect)


def test_rounding_of_the_interpreter() -> None:
    found = wanted_of(FLOAT32, SPECIAL, BFLOAT16)
    finite = np.isfinite(SPECIAL)
    assert np.array_equal(found[finite], bits(SPECIAL[finite]))
    assert [int(x) for x in found[3:8]] == [0x3F80, 0x3F82, 0x7F80, 0x7F80, 0xFF80]
    nan = wanted_of(FLOAT32, np.array([np.nan], np.float32), BFLOAT16)
    assert np.isnan(values(nan)).all()
    for source, given, target in cases():
        out = np.zeros(len(given), target.numpy)
        interpret_nest(conversion(source, target), {"a": given, "b": out}, {"n": len(given)})
        assert same(out, wanted_of(source, given, target), target)


@needs_compiler
def test_conversions_of_cuda() -> None:
    nests = [conversion(source, target) for source, _, target in cases()]
    programs = [split_kernels(replace(nest, name=f"f{at}")) for at, nest in enumerate(nests)]
    text = emit_kernels(programs, CUDA)
    for (source, given, target), program in zip(cases(), programs, strict=True):
        out = np.zeros(len(given), target.numpy)
        run_program(program, text, {"a": given, "b": out}, {"n": len(given)})
        assert same(out, wanted_of(source, given, target), target)


@needs_opencl
def test_conversions_of_opencl() -> None:
    cl = pytest.importorskip("pyopencl")
    for source, given, target in cases():
        # Devices of OpenCL may flush small numbers to zero.
        kept = given if source != FLOAT32 else given[~(np.abs(given) < 1e-37)]
        out = np.zeros(len(kept), target.numpy)
        program, text = program_of(source, target, OPENCL)
        run = OpenclExecutable(program, text)
        queue, flags = cl.CommandQueue(run.context), cl.mem_flags
        a = cl.Buffer(run.context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=kept)
        b = cl.Buffer(run.context, flags.READ_WRITE, out.nbytes)
        run.launch(queue, (a, b), (len(kept),))
        cl.enqueue_copy(queue, out, b)
        assert same(out, wanted_of(source, kept, target), target)


# -- einsum ---------------------------------------------------------------------------------------


class Type:
    """The type of another library's elements."""

    def __str__(self) -> str:
        return "bfloat16"


class CupyArray:
    """CuPy's array, as far as it is read: NumPy's memory, bfloat16 as its bits."""

    def __init__(self, host: np.ndarray, dtype: Any = None) -> None:
        self.host = host
        self.data = SimpleNamespace(ptr=host.ctypes.data)
        self.shape, self.strides = host.shape, host.strides
        self.dtype = host.dtype if dtype is None else dtype
        self.device = SimpleNamespace(id=0)
        self.__cuda_array_interface__: dict[str, Any] = {}


CupyArray.__module__ = "cupy"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    def empty(shape: tuple[int, ...], dtype: Any) -> CupyArray:
        kind = np.uint16 if isinstance(dtype, Type) else dtype
        return CupyArray(np.full(shape, 77, kind), dtype)

    cupy = ModuleType("cupy")
    cuda = SimpleNamespace(
        Device=lambda _: nullcontext(), get_current_stream=lambda: SimpleNamespace(ptr=5)
    )
    vars(cupy).update(empty=empty, cuda=cuda)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(cuda_executable, "compile_cuda", compiled)
    monkeypatch.setattr(grid_products, "TILES_4", SMALL)
    monkeypatch.setattr(grid_products, "TILES_8", SMALL)
    monkeypatch.setattr(grid_products, "_elements_seconds", lambda *_: 1.0)
    forget()
    with fake_driver(devices=2) as driver:
        yield driver
        forget()


def drawn(*shape: int) -> np.ndarray:
    return bits(np.random.default_rng(shape).integers(-4, 5, shape) / 4)


def on_device(stored: np.ndarray) -> CupyArray:
    return CupyArray(stored, Type())


@pytest.mark.drawn(2)
@needs_compiler
@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("ij,jk->ik", ((17, 12), (12, 20))),
        ("ij,kj->ik", ((16, 8), (24, 8))),
        ("bij,bjk->ibk", ((3, 9, 8), (3, 8, 12))),
        ("ij,j->i", ((30, 40), (40,))),
        ("ij->j", ((8, 16),)),
        ("ij,jk,kl->il", ((5, 6), (6, 7), (7, 8))),
    ],
)
def test_sums_are_of_float32_and_results_of_bfloat16(
    api: FakeApi, text: str, shapes: tuple[tuple[int, ...], ...]
) -> None:
    hosts = [drawn(*shape) for shape in shapes]
    found = lw.einsum(text, *map(on_device, hosts))
    # Sums of few multiples of 1/64 are exact in float32, so that there is one rounding.
    wanted = bits(np.einsum(text, *map(values, hosts)))
    assert isinstance(found.dtype, Type)
    assert np.array_equal(found.host, wanted)


@needs_compiler
def test_types_that_it_meets(api: FakeApi) -> None:
    stored = drawn(12, 16)
    whole = np.random.default_rng(1).integers(-3, 4, (16, 8))
    exact = values(stored) @ whole
    for other, kind in (
        (whole.astype(np.int64), "bfloat16"),
        (whole.astype(np.float16), "float32"),
        (whole.astype(np.float32), "float32"),
        (whole.astype(np.float64), "float64"),
    ):
        found = lw.einsum("ij,jk->ik", on_device(stored), CupyArray(other))
        assert str(found.dtype) == kind
        wanted = bits(exact) if kind == "bfloat16" else exact.astype(kind)
        assert np.array_equal(found.host, wanted)


@needs_compiler
def test_results_that_are_given(api: FakeApi) -> None:
    stored = drawn(8, 8)
    exact = values(stored) @ values(stored)
    wide, narrow = np.zeros((8, 8), np.float32), np.zeros((8, 8), np.uint16)
    lw.einsum("ij,jk->ik", on_device(stored), on_device(stored), out=CupyArray(wide))
    assert np.array_equal(wide, exact)
    lw.einsum("ij,jk->ik", CupyArray(values(stored)), on_device(stored), out=on_device(narrow))
    assert np.array_equal(narrow, bits(exact))
    old = narrow.copy()
    lw.einsum("ij,jk->ik", on_device(stored), on_device(stored), out=on_device(narrow), beta=2)
    assert np.array_equal(narrow, bits(2 * values(old) + exact))
    lw.einsum("ij,jk->ki", on_device(narrow), on_device(stored), out=on_device(narrow))
    assert np.array_equal(narrow, bits((values(bits(2 * values(old) + exact)) @ values(stored)).T))


@needs_compiler
def test_other_semirings(api: FakeApi) -> None:
    a, b = drawn(10, 9), drawn(9, 11)
    found = lw.einsum("ij,jk->ik", on_device(a), on_device(b), semiring="min_plus")
    wanted = (values(a)[:, :, None] + values(b)[None]).min(1)
    assert np.array_equal(found.host, bits(wanted))


def test_refusals(api: FakeApi) -> None:
    a, other = on_device(drawn(4, 4)), FakeArray(np.zeros((4, 4), np.int32), api)
    with pytest.raises(DtypeError, match="out has dtype int32"):
        lw.einsum("ij,jk->ik", a, a, out=other)
    with pytest.raises(DtypeError, match="operand 1 has dtype bfloat16, which dtype float16"):
        lw.einsum("ij,jk->ik", a, a, dtype=np.float16)
    with pytest.raises(UsageError, match="results cannot be made as arrays of this library"):
        lw.einsum("ij,jk->ik", FakeArray(np.zeros((4, 4), np.int32), api), a)
    with pytest.raises(DtypeError, match="'bfloat16' is no dtype"):
        scaled(a)


@lw.jit
def scaled(a):
    for i in range(a.shape[0]):
        a[i, 0] = 2 * a[i, 0]
