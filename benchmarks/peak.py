"""The bounds of the machine at the clock of the moment: pairs of operators, and reading memory.

A pair of operators is bound by the units that do it: the larger of what the machine's data say,
times the clock (a chain of additions), and of what a loop in registers only reaches:

    c[i] <- c[i] plus (a times c[i + 1])     for all i, as many as there are registers

No instruction waits for one of the same turn, and a is read anew in each turn, so nothing can be
moved out of the loop. The loop alone would be too low a bound where a product waits for the turn
before (float64 multiply-add on Neoverse N1: 92% of the units' rate).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from loopwright.ir.machine import Machine
from loopwright.machines.host import host
from loopwright.runtime.calibrate import clock_loop
from loopwright.runtime.llvm_engine import compile_to_object, load_object

__all__ = ["Peak", "clock", "integer_operations", "model_operations", "pair_peak", "reader"]

TURNS = 20_000
_SIGNATURE = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)
_ELEMENTS = {"float32": "float", "float64": "double", "int32": "i32", "int8": "i8", "bool": "i8"}
_SUFFIXES = {"float": "f32", "double": "f64"}
_BITS = {"float": 32, "double": 64, "i32": 32, "i8": 8}
_WORDS = {
    "add": ("fadd", "add"),
    "mul": ("fmul", "mul"),
    "div": ("fdiv", "sdiv"),
    "and": ("", "and"),
    "or": ("", "or"),
}


@dataclass(frozen=True, slots=True)
class Peak:
    """A compiled loop and what one run of it does."""

    run: Callable[[], None]
    amount: int  # operations, cycles or bytes


def pair_peak(plus: str, times: str, dtype: str) -> Peak:
    """The loop for one pair of operators (names of ir/expr) and element type on this machine.

    `add_sat` stands for sums of signed integers that saturate.
    """
    machine = host()
    lanes = machine.lanes(_BITS[_ELEMENTS[dtype]])
    registers = 20 if machine.vector_registers >= 32 else 10  # more would spill
    text = peak_source(plus, times, dtype, lanes, registers)
    data = _data(machine, plus, times, dtype, registers)
    return Peak(_loop(text, "peak", data, TURNS), 2 * TURNS * registers * lanes)


def model_operations(plus: str, times: str, dtype: str) -> float:
    """Operations per cycle that the data of this machine allow.

    A saturating sum counts as an addition, which it is on Arm, and on x86 for 8 and 16 bits.
    """
    return host().peak_ops_per_cycle(plus, "add" if times == "add_sat" else times, dtype)


def integer_operations(dtype: str) -> float:
    """Operations per cycle of multiply-adds that sum integers of `dtype` in 32 bits or their own.

    Bytes go four to a lane where the machine has dot products of them; elsewhere they are widened
    to 16 bits, which go two to a lane on x86. Elsewhere products of 16 bits into 32 take two
    instructions for what one takes in 16 bits, at twice the rate on the machines whose data we
    have, so that their row counts as it stands.
    """
    machine = host()
    widened = "int16" if dtype in ("int8", "uint8") else dtype
    for factors in (dtype, widened):
        dot = machine.fused("dot", factors)
        if dot is not None:
            return 2 * dot.per_cycle * machine.vector_bytes / np.dtype(factors).itemsize
    return model_operations("add", "mul", widened)


def clock() -> Peak:
    """A chain of dependent integer operations, one cycle each."""
    loop = clock_loop()
    return Peak(_loop(loop.text, loop.name, np.zeros(16, np.uint8), TURNS), loop.amount * TURNS)


def reader(memory: np.ndarray[Any, Any]) -> Peak:
    """A loop that reads an array from its beginning to its end and does nothing with it."""
    kind = f"<{host().vector_bytes} x i8>"
    step = 8 * host().vector_bytes
    lines = ["define void @read(i64 %turns, ptr %data) {", "entry:", "br label %turn", "turn:"]
    lines.append("%i = phi i64 [ 0, %entry ], [ %next, %turn ]")
    for v in range(8):
        lines.append(f"%o{v} = mul i64 %i, {step}")
        lines.append(f"%a{v} = add i64 %o{v}, {v * host().vector_bytes}")
        lines.append(f"%p{v} = getelementptr i8, ptr %data, i64 %a{v}")
        # volatile: nothing uses the value, as any use would take issue slots from the loads
        lines.append(f"%v{v} = load volatile {kind}, ptr %p{v}, align 1")
    lines += ["%next = add i64 %i, 1", "%more = icmp ult i64 %next, %turns"]
    lines += ["br i1 %more, label %turn, label %done", "done:", "ret void", "}"]
    turns = memory.nbytes // step
    return Peak(_loop("\n".join(lines), "read", memory, turns), turns * step)


def _loop(text: str, name: str, data: np.ndarray[Any, Any], turns: int) -> Callable[[], None]:
    code = load_object(compile_to_object(text, host().llvm_cpu), (name,))
    function = _SIGNATURE(code.address(name))

    def run() -> None:
        assert code is not None  # the machine code lives as long as this function
        function(turns, data.ctypes.data)

    return run


def _data(
    machine: Machine, plus: str, times: str, dtype: str, registers: int
) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Two vectors for a, then the registers; all stay as they are, no extreme value is reached."""
    data = np.zeros((registers + 3) * machine.vector_bytes, np.uint8)
    values = data.view(np.dtype(dtype))
    if times == "div":  # dividers are done early with numbers of few digits
        values[:] = np.linspace(1.1, 1.9, values.size)
        return data
    values[:] = 1
    is_neutral_zero = times in ("add", "add_sat") or (plus, times) == ("add", "mul")
    values[: 2 * machine.vector_bytes // values.itemsize] = 0 if is_neutral_zero else 1
    return data


def peak_source(plus: str, times: str, dtype: str, lanes: int, registers: int) -> str:
    """LLVM IR of `void peak(i64 turns, ptr data)`."""
    element = _ELEMENTS[dtype]
    kind = f"<{lanes} x {element}>"
    head, phis, body, tail = [], [], [], []
    for i in range(registers):
        head.append(f"%q{i} = getelementptr {kind}, ptr %data, i64 {i + 2}")
        head.append(f"%s{i} = load {kind}, ptr %q{i}, align 1")
        phis.append(f"%x{i} = phi {kind} [ %s{i}, %entry ], [ %y{i}, %turn ]")
        body += _step(plus, times, kind, i, (i + 1) % registers)
        tail.append(f"store {kind} %y{i}, ptr %q{i}, align 1")
    lines = [
        *_declarations(kind),
        "define void @peak(i64 %turns, ptr %data) {",
        "entry:",
        *head,
        "br label %turn",
        "turn:",
        "%i = phi i64 [ 0, %entry ], [ %next, %turn ]",
        *phis,
        "%side = and i64 %i, 1",
        f"%p = getelementptr {kind}, ptr %data, i64 %side",
        f"%a = load {kind}, ptr %p, align 1",
        *body,
        "%next = add i64 %i, 1",
        "%more = icmp ult i64 %next, %turns",
        "br i1 %more, label %turn, label %done",
        "done:",
        *tail,
        "ret void",
        "}",
    ]
    return "\n".join(lines)


def _step(plus: str, times: str, kind: str, this: int, other: int) -> list[str]:
    c, b, result = f"%x{this}", f"%x{other}", f"%y{this}"
    if (plus, times) == ("add", "mul") and _element(kind) in _SUFFIXES:
        typed = ", ".join(f"{kind} {v}" for v in ("%a", b, c))
        return [f"{result} = call {kind} @llvm.fma.{_mangled(kind)}({typed})"]
    product = f"%t{this}"
    return [_operation(product, times, kind, "%a", b), _operation(result, plus, kind, c, product)]


def _operation(result: str, operator: str, kind: str, x: str, y: str) -> str:
    is_float = _element(kind) in _SUFFIXES
    if operator == "add_sat":
        return f"{result} = call {kind} @llvm.sadd.sat.{_mangled(kind)}({kind} {x}, {kind} {y})"
    if operator in ("min", "max"):
        # nnan: the bare instruction, whose rule for NaN differs from the intrinsic's on x86
        flags, name = ("nnan nsz ", f"{operator}num") if is_float else ("", f"s{operator}")
        return (
            f"{result} = call {flags}{kind} @llvm.{name}.{_mangled(kind)}({kind} {x}, {kind} {y})"
        )
    return f"{result} = {_WORDS[operator][0 if is_float else 1]} {kind} {x}, {y}"


def _declarations(kind: str) -> list[str]:
    """Every intrinsic a step may call; LLVM drops those that none does."""
    is_float = _element(kind) in _SUFFIXES
    whole = {"smin": 2, "smax": 2, "sadd.sat": 2}
    names = {"minnum": 2, "maxnum": 2, "fma": 3} if is_float else whole
    return [
        f"declare {kind} @llvm.{name}.{_mangled(kind)}({', '.join([kind] * count)})"
        for name, count in names.items()
    ]


def _element(kind: str) -> str:
    return kind.strip("<>").partition(" x ")[2]


def _mangled(kind: str) -> str:
    lanes, _, element = kind.strip("<>").partition(" x ")
    return f"v{lanes}{_SUFFIXES.get(element, element)}"
