"""Timing kernels that change their arguments: equal inputs before every call, outside the clock.

All contestants work on the same memory, so that none finds its arrays better placed. They take
turns; the best turn counts. A contestant whose first result is wrong has none. Results may differ
as the corpus allows, or as far as the first contestant's own result moves with the last bits of its
inputs: adi solves systems whose condition grows with the square of their size.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.corpus_contestants import Contestant
from benchmarks.corpus_kernels import Inputs, Kernel, arrays_of, differences, fresh
from benchmarks.measure import TURN_SECONDS, Times

__all__ = ["Effort", "race_in_place"]

_MOST_CALLS = 20  # of one turn: copying the inputs takes longer than short kernels do
_TIMES_SHAKEN = 4.0  # how much farther than shaken inputs move a result it may lie
_MUCH_SLOWER = 3.0  # than the fastest: such a contestant has the least turns only


@dataclass(frozen=True, slots=True)
class Effort:
    """How often contestants are timed: so many turns at least, then as long as time is left."""

    rounds: int  # at most
    seconds: float  # for all calls of all contestants on one kernel
    least: int = 2  # rounds, of which contestants that are much slower have no more


def race_in_place(
    kernel: Kernel, contestants: Sequence[Contestant], inputs: Inputs, effort: Effort
) -> tuple[dict[str, Times], list[str]]:
    """Seconds of each contestant that agrees with the first, and what is wrong with the others."""
    working = fresh(inputs)
    start = time.perf_counter()
    found, wrong = _first_round(kernel, contestants, working, inputs)
    for number in range(1, max(effort.least, effort.rounds)):
        if number >= effort.least and time.perf_counter() - start > effort.seconds:
            break
        limit = _MUCH_SLOWER * min(min(seconds) for seconds in found.values())
        for contestant in contestants:
            seconds = found.get(contestant.name)
            if seconds is None or (number >= effort.least and min(seconds) > limit):
                continue
            seconds.append(_turn(contestant, working, inputs))
    return {name: Times(tuple(seconds)) for name, seconds in found.items()}, wrong


def _first_round(
    kernel: Kernel, contestants: Sequence[Contestant], working: Inputs, inputs: Inputs
) -> tuple[dict[str, list[float]], list[str]]:
    """The first turn of each contestant whose result is that of the first one."""
    found: dict[str, list[float]] = {}
    wrong: list[str] = []
    expected: Inputs = {}
    for contestant in contestants:
        seconds = _turn(contestant, working, inputs)
        if contestant.is_checked:
            expected = expected or arrays_of(fresh(working))
            faults = differences(kernel, working, expected)
            if faults and not _is_rounding(kernel, contestants[0], working, expected, inputs):
                wrong.append(f"{contestant.name} computes something else: {'; '.join(faults)}")
                continue
        found[contestant.name] = [seconds]
    return found, wrong


def _is_rounding(
    kernel: Kernel, first: Contestant, found: Inputs, expected: Inputs, inputs: Inputs
) -> bool:
    """Whether a result lies about as far from the first one as rounding of inputs moves that.

    Every number of the inputs is moved to a neighbouring one, up or down at random.
    """
    if kernel.bits == "exact":
        return False
    chance = np.random.default_rng(0)
    moved = fresh(inputs)
    for array in arrays_of(moved).values():
        if array.dtype.kind == "f":
            ends = np.where(chance.random(array.shape) < 0.5, -np.inf, np.inf)
            np.copyto(array, np.nextafter(array, ends.astype(array.dtype)))
    first.call(*moved.values())
    for name, right in expected.items():
        here, there = np.asarray(found[name]), np.asarray(moved[name])
        if right.dtype.kind != "f":
            if not np.array_equal(here, right):
                return False
            continue
        # NaN compares as larger than anything allowed.
        if not np.max(np.abs(here - right)) <= _TIMES_SHAKEN * np.max(np.abs(there - right)):
            return False
    return True


def _turn(contestant: Contestant, working: Inputs, inputs: Inputs) -> float:
    """Seconds of the fastest call, each on fresh inputs, among those that fit into one turn."""
    values = tuple(working.values())
    contestant.set_threads(contestant.threads)
    best, spent = math.inf, 0.0
    for _ in range(_MOST_CALLS):
        for name, array in arrays_of(inputs).items():
            np.copyto(working[name], array)
        start = time.perf_counter()
        contestant.call(*values)
        seconds = time.perf_counter() - start
        best, spent = min(best, seconds), spent + seconds
        if spent >= TURN_SECONDS:
            break
    return best
