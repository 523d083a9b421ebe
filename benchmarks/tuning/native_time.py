"""Seconds of a compiled kernel without the call from Python: native code repeats the call."""

from __future__ import annotations

import ctypes
import time
from functools import cache
from typing import Any

from loopwright.machines.host import host
from loopwright.runtime.address import function_at
from loopwright.runtime.kernel import BoundKernel
from loopwright.runtime.llvm_engine import compile_to_object, load_object

__all__ = ["native_seconds"]

_TURN = 4e-4  # seconds that repetitions of a turn last at least
WARM_UP = 20


def native_seconds(kernel: BoundKernel, arrays: tuple[Any, ...], rounds: int = 15) -> float:
    """Seconds of a call: the fastest of several turns, after runs that do not count."""
    words = kernel.native(*arrays)
    repeat = _repeater(len(arrays))

    def turn(count: int) -> float:
        start = time.perf_counter()
        repeat(count, *words)
        return (time.perf_counter() - start) / count

    count = max(1, round(_TURN / turn(WARM_UP)))
    return min(turn(count) for _ in range(rounds))


@cache
def _repeater(objects: int) -> Any:
    """`void repeat(i64 count, ptr entry, ptr launch, ptr scratch, ptr object...)`."""
    given = ["ptr %launch", "ptr %scratch", *(f"ptr %o{k}" for k in range(objects))]
    lines = [
        f"define void @repeat(i64 %count, ptr %entry, {', '.join(given)}) {{",
        "start:",
        "  br label %turn",
        "turn:",
        "  %i = phi i64 [ 0, %start ], [ %next, %turn ]",
        f"  call void %entry({', '.join(given)})",
        "  %next = add i64 %i, 1",
        "  %more = icmp ult i64 %next, %count",
        "  br i1 %more, label %turn, label %done",
        "done:",
        "  ret void",
        "}",
    ]
    code = load_object(compile_to_object("\n".join(lines), host().llvm_cpu), ("repeat",))
    words = [ctypes.c_int64, *([ctypes.c_void_p] * (3 + objects))]
    return function_at(code.address("repeat"), *words)
