"""Seconds of a compiled kernel without the call from Python: native code repeats the call."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from loopwright.machines.host import host
from loopwright.runtime.address import function_at
from loopwright.runtime.kernel import BoundKernel
from loopwright.runtime.llvm_engine import compile_to_object, load_object

__all__ = ["WARM_UP", "native_seconds", "native_turn"]

_TURN = 4e-4  # seconds that repetitions of a turn last at least
WARM_UP = 20
_LONG = 1.0  # seconds of warm-up beyond which one run does


def native_seconds(kernel: BoundKernel, arrays: tuple[Any, ...], rounds: int = 15) -> float:
    """Seconds of a call: the fastest of several turns, after runs that do not count."""
    turn = native_turn(kernel.native(*arrays))
    return min(turn() for _ in range(rounds))


def native_turn(words: tuple[int, ...]) -> Callable[[], float]:
    """A function that repeats a native call for a while and gives the seconds of one.

    `words` are the address of the code and its arguments, which the caller keeps alive.
    """
    repeat = _repeater(len(words) - 1)

    def turn(count: int) -> float:
        start = time.perf_counter()
        repeat(count, *words)
        return (time.perf_counter() - start) / count

    first = turn(1)
    if first * WARM_UP < _LONG:
        first = turn(WARM_UP)
    return partial(turn, max(1, round(_TURN / first)))


@cache
def _repeater(arguments: int) -> Any:
    """`void repeat(i64 count, ptr entry, ptr argument...)`."""
    given = [f"ptr %o{k}" for k in range(arguments)]
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
    words = [ctypes.c_int64, *([ctypes.c_void_p] * (1 + arguments))]
    return function_at(code.address("repeat"), *words)
