"""Object code: compiled for a machine, linked, kept alive; what cannot be linked is told."""

from __future__ import annotations

import ctypes
import gc

import llvmlite.binding as llvm
import numpy as np
import pytest

import loopwright as lw
from loopwright import options
from loopwright.backends.llvm.llvm_emitter import emit_module
from loopwright.diagnostics import InternalError, RoomError, UsageError
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.kernel_variant import Algorithm, Broadcast, Packing
from loopwright.ir.module import CodeUnit
from loopwright.lower.contraction_nests.contraction_kernel import lower_contraction
from loopwright.machines.host import host
from loopwright.runtime import llvm_engine
from loopwright.runtime.llvm_engine import (
    compile_to_object,
    host_target,
    load_object,
)
from loopwright.runtime.llvm_extremes import has_extremes, with_range_instructions
from lower.contractions import kernel_of, ring
from no_kernels import forget_kernels

SQUARE = "define i64 @f(i64 %x) {\n  %y = mul i64 %x, %x\n  ret i64 %y\n}"


def function(text: str) -> tuple[object, ctypes._CFuncPtr]:
    loaded = load_object(compile_to_object(text), ("f",))
    return loaded, ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(loaded.address("f"))


def test_compiled_code_runs() -> None:
    loaded, square = function(SQUARE)
    assert square(7) == 49
    assert loaded is not None


@pytest.mark.parametrize(
    ("code", "symbols", "reason"),
    [
        (b"no object at all", ("f",), "The file was not recognized as a valid object file"),
        (b"", ("f",), "The file was not recognized as a valid object file"),
        (compile_to_object(SQUARE), ("g",), "Symbols not found: [ g ]"),
    ],
)
def test_what_cannot_be_linked(code: bytes, symbols: tuple[str, ...], reason: str) -> None:
    with pytest.raises(InternalError) as caught:
        load_object(code, symbols)
    assert caught.value.message == f"compiled code cannot be linked: {reason}"


def test_memory_that_ends_while_code_is_linked(monkeypatch: pytest.MonkeyPatch) -> None:
    code = compile_to_object(SQUARE)

    def refuse(*given: object) -> None:
        raise RuntimeError("Cannot allocate memory")  # LLVM's words for ENOMEM

    with monkeypatch.context() as patch:
        patch.setattr(llvm.JITLibraryBuilder, "link", refuse)
        with pytest.raises(RoomError) as caught:
            load_object(code, ("f",))
    assert isinstance(caught.value, MemoryError)
    assert str(caught.value) == "there is no memory left for compiled code"
    assert load_object(code, ("f",)).address("f")


@pytest.mark.parametrize(
    "text", ["define void @f() {\n", "not IR", "define i64 @f(i64 %x) {\n  ret i64 %y\n}"]
)
def test_invalid_text(text: str) -> None:
    """Nothing that is wrong reaches LLVM's passes, which would end the process."""
    with pytest.raises(InternalError) as caught:
        compile_to_object(text)
    assert caught.value.message.startswith("emitted LLVM IR is not valid: ")
    assert caught.value.dump == text


def _forget_host() -> None:
    llvm_engine.host_cpu_name.cache_clear()
    llvm_engine._host_features.cache_clear()


def test_extensions_that_a_virtual_machine_hides(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model's name alone would promise 512 bits, and the code would be illegal."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    triple = "x86_64-unknown-linux-gnu"
    hidden = {f"avx512{part}": False for part in ("f", "bw", "cd", "dq", "vl")}
    monkeypatch.setattr(llvm, "get_default_triple", lambda: triple)
    monkeypatch.setattr(llvm, "get_host_cpu_name", lambda: "skylake-avx512")
    monkeypatch.setattr(
        llvm, "get_host_cpu_features", lambda: llvm.FeatureMap({"avx2": True} | hidden)
    )
    monkeypatch.setattr(llvm.Target, "from_default_triple", lambda: llvm.Target.from_triple(triple))
    _forget_host()
    text = (
        "define void @f(ptr %p) {\n  %x = load <16 x float>, ptr %p\n"
        "  %y = fadd <16 x float> %x, %x\n  store <16 x float> %y, ptr %p\n  ret void\n}"
    )
    try:
        here, named = (
            llvm_engine._target_machine(cpu).emit_assembly(llvm.parse_assembly(text))
            for cpu in (None, "skylake-avx512")
        )
        target = host_target()
    finally:
        _forget_host()
    assert "zmm" in named
    assert "zmm" not in here
    assert "ymm" in here
    assert target.startswith("skylake-avx512 ")
    assert "-avx512f" in target


class _Heap(ctypes.Structure):
    """What the C library's mallinfo2 tells."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="this C library does not count its heap"
)
@pytest.mark.parametrize("leave_to_llvm", [False, True])
def test_compiling_leaves_nothing_behind(leave_to_llvm: bool) -> None:
    """A pass manager that is not freed would leave 20 KiB, that of the whole pipeline 300 KiB."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = _Heap

    def used() -> int:
        gc.collect()
        return int(mallinfo().uordblks)

    code = (CodeUnit(SQUARE, leave_to_llvm=leave_to_llvm),)
    for _ in range(5):
        compile_to_object(code)
    before = used()
    for _ in range(30):
        compile_to_object(code)
    assert (used() - before) / 30 < 8 * 1024


CODE = """
define double @f(double %0, <8 x float> %1, <3 x double> %2) {
  %4 = tail call double @llvm.maximumnum.f64(double noundef %0, double 1.000000e+00)
  %5 = call nsz <8 x float> @llvm.minimumnum.v8f32(<8 x float> splat (float 2.0), <8 x float> %1)
  %6 = call <3 x double> @llvm.maximumnum.v3f64(<3 x double> %2, <3 x double> zeroinitializer)
  %7 = extractelement <8 x float> %5, i64 0
  %8 = call float @llvm.maximumnum.f32(float %7, float 0.000000e+00)
  %9 = fpext float %8 to double
  %10 = extractelement <3 x double> %6, i64 1
  %11 = fadd double %9, %10
  %12 = fadd double %11, %4
  ret double %12
}

declare double @llvm.maximumnum.f64(double, double)
declare float @llvm.maximumnum.f32(float, float)
declare <8 x float> @llvm.minimumnum.v8f32(<8 x float>, <8 x float>)
declare <3 x double> @llvm.maximumnum.v3f64(<3 x double>, <3 x double>)
"""


def test_numbers_and_whole_vectors_are_exchanged() -> None:
    assert has_extremes(CODE)
    text = with_range_instructions(CODE)
    body = text[: text.index("}")]
    assert body.count("range.pd.128") == 1
    assert body.count("range.ps.128") == 1
    assert body.count("range.ps.256") == 1
    assert body.count("imumnum") == 1, "three lanes are no whole vector"
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    module = llvm.parse_assembly(text)
    module.verify()
    target = llvm.Target.from_triple("x86_64-unknown-linux-gnu")
    assembly = target.create_target_machine(cpu="skylake-avx512", opt=3).emit_assembly(module)
    assert assembly.count("vrangepd") == 1
    assert assembly.count("vrangeps") == 2


@pytest.mark.parametrize("dtype", ["float", "double"])
def test_nan_and_zeros_in_plain_loops(dtype: str) -> None:
    """A running maximum, which stays a number, and one element by element, which takes vectors."""
    suffix = "f" if dtype == "float" else ""
    f = lw.compile(f"""
    void extremes(int n, {dtype} a[n], {dtype} b[n], {dtype} low[n], {dtype} high[n]) {{
    #pragma scop
      for (int i = 0; i < n; i++)
        low[i] = fmin{suffix}(a[i], b[i]);
      high[0] = a[0];
      for (int i = 1; i < n; i++)
        high[i] = fmax{suffix}(high[i - 1], a[i]);
    #pragma endscop
    }}
    """)
    kind = np.float32 if dtype == "float" else np.float64
    random = np.random.default_rng(0)
    special = np.array([np.nan, -np.inf, np.inf, 0.0, -0.0, 1.5, -2.5], kind)
    a, b = (random.choice(special, 203) for _ in range(2))
    a[0] = -np.inf
    low, high = np.zeros(203, kind), np.zeros(203, kind)
    f(203, a, b, low, high)
    # Of zeros of both signs the negative one is the least.
    wanted = np.fmin(a, b)
    both_zero = (a == 0) & (b == 0)
    wanted[both_zero] = np.where(np.signbit(a) | np.signbit(b), -0.0, 0.0)[both_zero]
    np.testing.assert_array_equal(low, wanted)
    known = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(low[known]), np.signbit(wanted[known]))
    np.testing.assert_array_equal(high, np.fmax.accumulate(a))


def product(dtype: str) -> np.ndarray:
    """A product whose kernel is not in memory yet."""
    a = np.arange(99).reshape(9, 11).astype(dtype) % 7
    return lw.einsum("ij,kj->ik", a, a, semiring="plus_times")


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_kernels(monkeypatch)
    monkeypatch.setattr("loopwright.calls.einsum._ready", {})
    monkeypatch.setattr("loopwright.calls.einsum_contraction._launches", {})


def test_a_plain_machine_of_this_kind() -> None:
    name = {"aarch64": "aarch64", "x86_64": "core-e5450"}[host().isa]
    a = np.arange(99).reshape(9, 11) % 7
    with options.override(cpu=name, cache=False):
        np.testing.assert_array_equal(product("float64"), a @ a.T)


def test_a_machine_of_another_kind() -> None:
    other = {"aarch64": "zen3", "x86_64": "neoverse-n1"}[host().isa]
    isa = {"aarch64": "x86_64", "x86_64": "aarch64"}[host().isa]
    with options.override(cpu=other), pytest.raises(UsageError) as caught:
        product("int64")
    assert str(caught.value) == (
        f"code for '{other}' cannot run here\n"
        f"note: found {isa}, this is {host().isa}\n"
        f"try: LOOPWRIGHT_CPU names a machine of {host().isa}"
    )


def test_instructions_of_an_unknown_processor() -> None:
    """A processor LLVM does not know by name still gets the instructions it has."""
    types = ("int8", "int8", "int32", "int32")
    kernel = kernel_of(
        Algorithm.PRODUCT,
        ring("add", "mul", *types),
        (4, 1, 4),
        left_packing=Packing.ALONG_P,
        right_packing=Packing.ALONG_P,
        broadcast=Broadcast.LANE,
        group=4,
    )
    assert DTYPES["int8"] == kernel.left
    text = emit_module(lower_contraction(kernel, "f"), host().features).text
    assert compile_to_object(text, "generic" if host().isa == "aarch64" else "x86-64")
