"""Object code: compiled, linked, kept alive; what cannot be linked is told."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys

import llvmlite.binding as llvm
import pytest

from loopwright.diagnostics import InternalError, RoomError
from loopwright.ir.module import CodeUnit
from loopwright.runtime import llvm_engine
from loopwright.runtime.llvm_engine import (
    assembly,
    compile_to_object,
    host_cpu_name,
    host_target,
    llvm_version,
    load_object,
)

SQUARE = "define i64 @f(i64 %x) {\n  %y = mul i64 %x, %x\n  ret i64 %y\n}"


def function(text: str) -> tuple[object, ctypes._CFuncPtr]:
    loaded = load_object(compile_to_object(text), ("f",))
    return loaded, ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(loaded.address("f"))


def test_compiled_code_runs() -> None:
    loaded, square = function(SQUARE)
    assert square(7) == 49
    assert loaded is not None


def test_equal_names_in_several_objects() -> None:
    """Every object is a library of its own."""
    kept = [function(SQUARE.replace("%x, %x", f"%x, {k}")) for k in range(20)]
    gc.collect()
    assert [call(3) for _, call in kept] == [3 * k for k in range(20)]


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


def test_a_function_that_is_nowhere() -> None:
    text = "declare void @lw_is_nowhere()\ndefine void @f() {\n  call void @lw_is_nowhere()\n"
    with pytest.raises(InternalError) as caught:
        load_object(compile_to_object(text + "  ret void\n}"), ("f",))
    assert caught.value.message.startswith(
        "compiled code cannot be linked: Failed to materialize symbols"
    )
    test_compiled_code_runs()


@pytest.mark.parametrize(
    "text", ["define void @f() {\n", "not IR", "define i64 @f(i64 %x) {\n  ret i64 %y\n}"]
)
def test_invalid_text(text: str) -> None:
    """Nothing that is wrong reaches LLVM's passes, which would end the process."""
    with pytest.raises(InternalError) as caught:
        compile_to_object(text)
    assert caught.value.message.startswith("emitted LLVM IR is not valid: ")
    assert caught.value.dump == text


def test_names_for_cache_keys() -> None:
    assert host_cpu_name() in host_target()
    assert all(part.isdigit() for part in llvm_version().split("."))


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


# A process that has run for long and holds much: every gap near the code is taken but for one of
# a few pages, and what does not fit there comes to lie behind 16 GiB.
CROWDED = """
import ctypes, sys
from loopwright.runtime.llvm_engine import compile_to_object, load_object

libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
RESERVE, THERE, FAILED = 0x4022, 0x100000, ctypes.c_void_p(-1).value  # nothing can be touched

text = (
    "@t = internal constant [4 x i64] [i64 5, i64 6, i64 7, i64 8]\\n"
    "define i64 @f(i64 %x) {\\n  %p = getelementptr i64, ptr @t, i64 %x\\n"
    "  %y = load i64, ptr %p\\n  ret i64 %y\\n}"
)
code = compile_to_object(text)
kept = [load_object(code, ("f",))]
low = libc.mmap(None, 16 << 30, 0, RESERVE, -1, 0)
if low == FAILED:
    sys.exit("no room")
with open("/proc/self/maps") as lines:
    ranges = [tuple(int(x, 16) for x in line.split()[0].split("-")) for line in lines]
page, hole = 4096, int(sys.argv[1]) * 4096
for (_, start), (stop, _) in zip(ranges, ranges[1:]):
    if low <= start < stop < start + (1 << 40):
        if hole and stop - start >= hole:
            start, hole = start + hole, 0
        libc.mmap(start, stop - start, 0, RESERVE | THERE, -1, 0)
for k in range(3):
    kept.append(load_object(code, ("f",)))
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(kept[-1].address("f"))
    assert call(k) == 5 + k
"""


@pytest.mark.skipif(sys.platform != "linux", reason="lays out memory by Linux's calls")
@pytest.mark.parametrize("pages", [1, 2])
def test_code_in_a_crowded_address_space(pages: int) -> None:
    """The parts of an object stay within reach of each other."""
    done = subprocess.run(
        [sys.executable, "-c", CROWDED, str(pages)], capture_output=True, text=True
    )
    if "no room" in done.stderr:
        pytest.skip("this process may not reserve 16 GiB of addresses")
    assert done.returncode == 0, done.stderr


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


def _straight_line(count: int) -> CodeUnit:
    """`y[i] = x[i] * x[i] + y[i]` for the first `count` elements, one by one."""
    lines = [
        f"  %px{i} = getelementptr float, ptr %x, i64 {i}\n"
        f"  %py{i} = getelementptr float, ptr %y, i64 {i}\n"
        f"  %x{i} = load float, ptr %px{i}\n"
        f"  %y{i} = load float, ptr %py{i}\n"
        f"  %p{i} = fmul float %x{i}, %x{i}\n"
        f"  %s{i} = fadd float %p{i}, %y{i}\n"
        f"  store float %s{i}, ptr %py{i}\n"
        for i in range(count)
    ]
    head = "define void @straight(ptr noalias %x, ptr noalias %y) {\n"
    return CodeUnit(head + "".join(lines) + "  ret void\n}\n", leave_to_llvm=True)


@pytest.mark.parametrize(
    ("isa", "cpu", "few"), [("x86_64", "sapphirerapids", False), ("aarch64", "neoverse-n1", True)]
)
def test_vectors_of_straight_lines_are_taken_where_they_save_enough(
    isa: str, cpu: str, few: bool
) -> None:
    few_lanes, many_lanes = {"x86_64": ("ps\t", "ps\t"), "aarch64": (".2s", ".4s")}[isa]
    assert (few_lanes in assembly([_straight_line(2)], cpu, isa)) is few
    assert many_lanes in assembly([_straight_line(16)], cpu, isa)


LOOKED_UP = """
define void @f(ptr noalias %to, ptr noalias readonly %from, ptr noalias readonly %at, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %place = getelementptr i32, ptr %at, i64 %i
  %k = load i32, ptr %place
  %source = getelementptr double, ptr %from, i32 %k
  %x = load double, ptr %source
  %y = fmul double %x, %x
  %z = fadd double %y, 1.0
  %target = getelementptr double, ptr %to, i64 %i
  store double %z, ptr %target
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}
"""


@pytest.mark.parametrize(
    ("cpu", "gathers"), [("sapphirerapids", True), ("cascadelake", False), ("skylake", False)]
)
def test_gathers_where_microcode_does_not_hold_them_up(cpu: str, gathers: bool) -> None:
    unit = CodeUnit(LOOKED_UP, leave_to_llvm=True)
    assert ("vgather" in assembly([unit], cpu, "x86_64")) is gathers
