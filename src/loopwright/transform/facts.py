"""Facts of a program that proofs ask for again and again, kept for the last few programs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from loopwright.ir.program import Program

__all__ = ["fact"]

_MOST_PROGRAMS = 8

_local = threading.local()

T = TypeVar("T")


def fact(compute: Callable[[Program], T], program: Program) -> T:
    """`compute(program)`, computed once while the program is in use.

    isl objects belong to one thread's context, so every thread keeps its own.
    """
    kept: list[tuple[Program, dict[object, Any]]] = getattr(_local, "kept", [])
    table = next((found for owner, found in kept if owner is program), None)
    if table is None:
        table = {}
        _local.kept = [(program, table), *kept[: _MOST_PROGRAMS - 1]]
    if compute not in table:
        table[compute] = compute(program)
    value: T = table[compute]
    return value
