"""What a module is: valid text, the exported functions, the same bytes every time."""

from __future__ import annotations

import re

import llvmlite.binding as llvm
import pytest

from backends.test_operators import Make, call, nest_of
from loopwright.backends.llvm.llvm_emitter import emit_module
from loopwright.backends.llvm.llvm_entry import entry_symbols
from loopwright.diagnostics import InternalError
from loopwright.ir.check_expr import BINARY_KINDS, FUNCTION_KINDS
from loopwright.ir.dtypes import DTYPES, INT32, DType
from loopwright.ir.expr import REAL_ONLY, REAL_PAIRS, Binary, Cast, Const, Load, Unary, Var
from loopwright.ir.loops import Barrier, Block, Buffer, For, LoopNest, Mark, Store
from loopwright.machines.host import host
from loopwright.machines.load import load_machine
from loopwright.runtime.llvm_engine import assembly, compile_to_object

# Functions of the C library that emitted code may call: all of them are in libc and libm.
LIBRARY = {"sched_yield"} | {
    f"{name}{suffix}"
    for name in ("exp", "exp2", "log", "log2", "log10", "sin", "cos", "tan", "tanh", "pow")
    for suffix in ("", "f")
}
LIBRARY |= {"fmod", "fmodf", "hypot", "hypotf", "fma", "fmaf", "memcpy", "memset", "memmove"}
LIBRARY |= {f"{name}{suffix}" for name in (*REAL_ONLY, *REAL_PAIRS) for suffix in ("", "f")}
LIBRARY |= {"floor", "floorf", "ceil", "ceilf", "sincos", "sincosf"}
LIBRARY |= {f"c{name}" for name in ("sqrt", "exp", "log", "sin", "cos", "tan", "tanh", "pow")}
# Helpers of the compiler for half precision, needed by processors without any support of it.
HALF = {"__extendhfsf2", "__truncsfhf2"}


def everything(dtype: DType, lanes: int) -> LoopNest:
    """One nest that uses every operator, function and conversion of a dtype."""
    makes: dict[str, Make] = {
        op: lambda x, y, op=op: Binary(op, x, y)
        for op, kinds in BINARY_KINDS.items()
        if dtype.kind in kinds
    }
    makes |= {
        f"call_{name}": call(name)
        for name, kinds in FUNCTION_KINDS.items()
        if dtype.kind in kinds and name != "dot"
    }
    makes |= {f"to_{to}": lambda x, y, to=to: Cast(x, to) for to in DTYPES.values() if to != dtype}
    if dtype.kind in "ifc":
        makes |= {op: lambda x, y, op=op: Unary(op, x) for op in ("neg", "abs")}
    x, y = Load("x", (Var("i"),), dtype), Load("y", (Var("i"),), dtype)
    return nest_of({k: (make(x, y).dtype, make) for k, make in makes.items()}, dtype, lanes)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_text_is_valid_and_always_the_same(dtype: DType) -> None:
    nest = everything(dtype, 4)
    module = emit_module(nest, host().features)
    assert module.text == emit_module(everything(dtype, 4), host().features).text
    parsed = llvm.parse_assembly(module.text)
    parsed.verify()
    exported = {
        f.name
        for f in parsed.functions
        if not f.is_declaration and f.linkage is llvm.Linkage.external
    }
    assert exported == set(entry_symbols("f"))
    assert (module.language, module.entry, module.scalars) == ("llvm", "f", ("n",))
    assert module.buffers == tuple(b.name for b in nest.buffers)


@pytest.mark.drawn(4)
@pytest.mark.parametrize("machine", ["zen3", "skylake-avx512", "core-e5450", "neoverse-n1"])
@pytest.mark.parametrize("dtype", ["int64", "uint8", "float16", "float64", "complex64"])
def test_code_needs_no_library_but_c(dtype: str, machine: str) -> None:
    """On every processor, emitted code calls nothing that a Python process might not hold."""
    described = load_machine(machine)
    text = emit_module(everything(DTYPES[dtype], 4), described.features).text
    outside = _undefined(text, described.isa, described.llvm_cpu)
    allowed = LIBRARY | (HALF if machine == "core-e5450" else set())
    assert outside - allowed == set()


def _undefined(text: str, isa: str, cpu: str) -> set[str]:
    """Symbols the assembly for a processor refers to but does not define."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(f"{isa}-unknown-linux-gnu")
    machine = target.create_target_machine(cpu=cpu, opt=1, reloc="pic", codemodel="small")
    code = machine.emit_assembly(llvm.parse_assembly(text))
    called = set(
        re.findall(r"^\s+(?:callq?|bl?|jmp)\s+\*?([A-Za-z_]\w*)(?:@|\b(?!\.))", code, re.M)
    )
    called |= set(re.findall(r"([A-Za-z_]\w*)@(?:PLT|GOTPCREL)", code))
    defined = set(re.findall(r"^([A-Za-z_.]\w*):", code, re.M))
    return called - defined


def test_an_invalid_module_is_our_fault() -> None:
    text = "define void @f() {\n  ret i64 0\n}"
    with pytest.raises(InternalError) as caught:
        compile_to_object(text)
    assert caught.value.message.startswith("emitted LLVM IR is not valid: ")
    assert caught.value.dump == text


def test_objects_of_one_text_are_equal() -> None:
    text = emit_module(everything(DTYPES["float32"], 4), host().features).text
    assert compile_to_object(text) == compile_to_object(text)
    assert assembly(text) == assembly(text)


@pytest.mark.parametrize(("mark", "stop"), [(Mark.BLOCK, 4), (Mark.THREAD, 4), (Mark.THREAD, 1)])
def test_gpu_loops_are_refused(mark: Mark, stop: int) -> None:
    """As serial loops each iteration would wait at the barrier for a team that is not there."""
    body = Block((Store("y", (Var("t"),), Const(1, INT32)), Barrier()))
    loop = For("t", Const(0), Const(stop), body, Const(1), mark)
    nest = LoopNest("f", (Buffer("y", INT32, (Const(1),), writable=True),), (), loop)
    with pytest.raises(InternalError) as caught:
        emit_module(nest, host().features)
    assert caught.value.message == "loop t is for a GPU, not for a processor"
