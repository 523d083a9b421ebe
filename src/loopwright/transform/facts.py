"""Facts of a program that proofs ask for again and again, kept for the last few programs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from loopwright.ir.program import Program

__all__ = ["fact", "forget", "hand_on", "learn"]

_MOST_PROGRAMS = 64

_local = threading.local()

T = TypeVar("T")


def fact(compute: Callable[[Program], T], program: Program) -> T:
    """`compute(program)`, computed once while the program is in use.

    isl objects belong to one thread's context, so every thread keeps its own.
    """
    table = _table(program)
    if compute not in table:
        table[compute] = compute(program)
    value: T = table[compute]
    return value


def learn(compute: Callable[[Program], T], program: Program, value: T) -> None:
    """Take `value` for what `compute(program)` would give."""
    _table(program)[compute] = value


def hand_on(program: Program, successor: Program, keep: Callable[[object], bool]) -> None:
    """Take facts of a program for another one's, where they hold for both."""
    old, new = _table(program), _table(successor)
    for compute, value in old.items():
        if keep(compute):
            new.setdefault(compute, value)


def forget() -> None:
    """Forget all facts of this thread: work that was broken off may have left some half done."""
    _local.kept = []


def _table(program: Program) -> dict[object, Any]:
    kept: list[tuple[Program, dict[object, Any]]] = getattr(_local, "kept", [])
    table = next((found for owner, found in kept if owner is program), None)
    if table is None:
        table = {}
        _local.kept = [(program, table), *kept[: _MOST_PROGRAMS - 1]]
    return table
