"""The bound of a pair of operators: a loop in registers only, at the clock of the moment.

    c[i] <- c[i] plus (a times c[i + 1])     for all i, as many as there are registers

No instruction waits for one of the same turn, and a is read anew in each turn, so nothing can be
moved out of the loop: what is left is the rate at which the units take the two operations.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from loopwright.ir.machine import Machine
from loopwright.machines.host import host
from loopwright.runtime.jit import compile_to_object, load_object

__all__ = ["Peak", "pair_peak"]

TURNS = 20_000
_SIGNATURE = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)
_ELEMENTS = {"float32": "float", "float64": "double", "int32": "i32", "bool": "i8"}
_SUFFIXES = {"float": "f32", "double": "f64"}
_BITS = {"float": 32, "double": 64, "i32": 32, "i8": 8}
_WORDS = {"add": ("fadd", "add"), "mul": ("fmul", "mul"), "and": ("", "and"), "or": ("", "or")}


@dataclass(frozen=True, slots=True)
class Peak:
    """A compiled loop and the operations of one run."""

    run: Callable[[], None]
    operations: int


def pair_peak(plus: str, times: str, dtype: str) -> Peak:
    """The loop for one pair of operators (names of ir/expr) and element type on this machine."""
    machine = host()
    lanes = machine.lanes(_BITS[_ELEMENTS[dtype]])
    registers = 24 if machine.vector_registers >= 32 else 12
    text = peak_source(plus, times, dtype, lanes, registers)
    code = load_object(compile_to_object(text, machine.llvm_cpu), ("peak",))
    function = _SIGNATURE(code.address("peak"))
    data = _data(machine, plus, times, dtype, registers)

    def run() -> None:
        assert code is not None  # the machine code lives as long as this function
        function(TURNS, data.ctypes.data)

    return Peak(run, 2 * TURNS * registers * lanes)


def _data(
    machine: Machine, plus: str, times: str, dtype: str, registers: int
) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Two vectors for a, then the registers; all stay as they are, no extreme value is reached."""
    data = np.zeros((registers + 3) * machine.vector_bytes, np.uint8)
    values = data.view(np.dtype(dtype))
    values[:] = 1
    is_neutral_zero = times == "add" or (plus, times) == ("add", "mul")
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
    if operator in ("min", "max"):
        # nnan: the bare instruction, whose rule for NaN differs from the intrinsic's on x86
        flags, name = ("nnan nsz ", f"{operator}num") if is_float else ("", f"s{operator}")
        return f"{result} = call {flags}{kind} @llvm.{name}.{_mangled(kind)}({kind} {x}, {kind} {y})"
    return f"{result} = {_WORDS[operator][0 if is_float else 1]} {kind} {x}, {y}"


def _declarations(kind: str) -> list[str]:
    """Every intrinsic a step may call; LLVM drops those that none does."""
    is_float = _element(kind) in _SUFFIXES
    names = {"minnum": 2, "maxnum": 2, "fma": 3} if is_float else {"smin": 2, "smax": 2}
    return [
        f"declare {kind} @llvm.{name}.{_mangled(kind)}({', '.join([kind] * count)})"
        for name, count in names.items()
    ]


def _element(kind: str) -> str:
    return kind.strip("<>").partition(" x ")[2]


def _mangled(kind: str) -> str:
    lanes, _, element = kind.strip("<>").partition(" x ")
    return f"v{lanes}{_SUFFIXES.get(element, element)}"
