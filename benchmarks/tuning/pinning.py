"""Processes on cores of their own: one processor of each core, threads of libraries kept to one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

__all__ = ["one_processor_a_core", "pin_alone", "pin_next"]

_SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


def one_processor_a_core() -> list[int]:
    """The processors that this process may use, without those that share a core with another."""
    if not hasattr(os, "sched_getaffinity"):  # no Linux: nothing can be pinned
        return []
    found: dict[str, int] = {}
    for number in sorted(os.sched_getaffinity(0)):
        file = Path(_SIBLINGS.format(number))
        core = file.read_text().strip() if file.exists() else str(number)
        found.setdefault(core, number)
    return list(found.values())


def pin_next(numbers: Any, cores: list[int]) -> None:
    """Pin this process to the next of the cores; `numbers` counts processes."""
    with numbers.get_lock():
        number = numbers.value
        numbers.value += 1
    if cores:
        os.sched_setaffinity(0, {cores[number % len(cores)]})


def pin_alone(threads: int) -> None:
    """Pin this process to its last cores, as many as it has threads; others take the first."""
    cores = one_processor_a_core()[-threads:]
    if len(cores) == threads:
        os.sched_setaffinity(0, set(cores))
