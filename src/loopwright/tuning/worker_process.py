"""The child process of a worker: builds the code of plans, checks it, times it beside the base.

    parent:  (task, construction)            child:  ("ready", seconds of one run, remark)
             ("build", plan)                         ("built",) or ("refused", reason)
             ("time", rounds, is_cold, most)         ("timed", base, own) or ("wrong", reason)

Each message comes as a pair with the seconds that its answer may take. Whatever goes wrong in
generated code ends this process and no other. No kernel that is made here is written to disk.
"""

from __future__ import annotations

import math
import os
import signal
import sys
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from loopwright import clock, options
from loopwright.diagnostics import LoopwrightError
from loopwright.faults import FAULTS
from loopwright.kernels import Unproven
from loopwright.runtime.array_arguments import Array
from loopwright.tuning.oracle_check import oracle_of
from loopwright.tuning.rounding_noise import rounding_noise
from loopwright.tuning.tasks import Bench, Measurable, Run

__all__ = ["difference", "main", "timed_pair"]

_SAMPLE = 500e-6  # seconds of one sample: shorter runs are repeated
_MOST_REPEATS = 2000
_LONG = 10e-3  # seconds of a run whose time says something by itself
_HOPELESS = 1.15  # a candidate this much slower after two rounds is given up
_HOPELESS_LONG = 1.03  # the same where runs are long
_AT_ONCE = 1.4  # one this much slower in the run that is checked, at once where runs are long
_GRACE = 2.0  # seconds in which the parent ends a child that is late, before it ends by itself
_FLUSHED = 64 << 20  # bytes that a cold measurement writes between two runs


def main(handle: int) -> None:
    """Answer the parent until it goes away."""
    connection = Connection(handle)
    # What is printed here is nobody's answer.
    os.dup2(2, 1)
    try:
        task, construction = _received(connection)
        with options.override(cache=False):
            _Desk(task, construction).serve(connection)
    except (EOFError, BrokenPipeError):
        sys.exit(0)


def _received(connection: Connection) -> Any:
    """The next message, with an alarm set to the time that its answer may take.

    The parent ends a child that is late; where the parent is gone, killed itself, the alarm does.
    Nothing handles it, so that it ends the process in the midst of generated code too.
    """
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    seconds, message = connection.recv()
    signal.setitimer(signal.ITIMER_REAL, seconds + _GRACE)
    return message


class _Desk:
    def __init__(self, task: Measurable, construction: Any) -> None:
        self._bench: Bench = task.bench()
        self._base = self._bench.build(construction)
        self._bench.restore()
        self._base()
        self._expected = [array.copy() for array in self._bench.results()]
        self._bench.restore()
        self._once = _seconds(self._base, 1)
        self._own: Run = self._base
        self._own_once = self._once
        self._plan = construction
        self._noise: list[float] | None = None  # of results; known where one has differed
        self._oracle = oracle_of(task)
        self._remark = self._wrong_by_oracle()
        if self._remark:
            self._oracle = None  # rounding of an unstable computation, or a fault of ours

    def serve(self, connection: Connection) -> None:
        connection.send(("ready", self._once, self._remark))
        while True:
            match _received(connection):
                case ("build", plan):
                    connection.send(self._built(plan))
                case ("time", int(rounds), bool(is_cold), float(most)):
                    connection.send(self._timed(rounds, is_cold, most))

    def _built(self, plan: Any) -> tuple[Any, ...]:
        try:
            self._own = self._bench.build(plan)
            self._plan = plan
        except (LoopwrightError, Unproven, *FAULTS) as error:
            return "refused", str(error)
        return ("built",)

    def _timed(self, rounds: int, is_cold: bool, most: float) -> tuple[Any, ...]:
        reason = self._wrong_by_oracle() or self._wrong()
        if reason:
            return "wrong", reason
        if self._once > _LONG and self._own_once > _AT_ONCE * self._once:
            return "timed", [self._once], [self._own_once]
        times = timed_pair(
            self._base, self._own, self._bench.restore, rounds, most, is_cold=is_cold
        )
        if self._once > _LONG and min(times[1]) > min(times[0]):
            return "timed", *times  # it is not taken, so that another run is saved
        # What ran many times must still be right: a race shows now and then only.
        reason = self._wrong()
        return ("wrong", reason) if reason else ("timed", *times)

    def _wrong(self) -> str:
        self._bench.restore()
        self._own_once = _seconds(self._own, 1)
        found = self._bench.results()
        reason = self._difference(found, [0.0] * len(found))
        if not reason or self._noise is not None:
            return reason and self._difference(found, self._noise or [])
        copies = [array.copy() for array in found]
        self._bench.restore()
        self._noise = rounding_noise(self._base, self._bench.arrays(), self._bench.results())
        return self._difference(copies, self._noise)

    def _difference(self, found: list[Array], noise: list[float]) -> str:
        given = zip(found, self._expected, noise, strict=True)
        reasons = (difference(x, y, self._bench.terms, noise=z) for x, y, z in given)
        return next(filter(None, reasons), "")

    def _wrong_by_oracle(self) -> str:
        """How the plan's result on few elements differs from the interpreter's."""
        found = None if self._oracle is None else self._oracle.found(self._plan)
        if found is None:
            return ""
        assert self._oracle is not None
        pairs = zip(found, self._oracle.expected, strict=True)
        terms = self._oracle.bench.terms
        reasons = (difference(x, y, terms, "the interpreter's") for x, y in pairs)
        return next(filter(None, reasons), "")


def difference(
    found: Array,
    expected: Array,
    terms: int,
    whose: str = "the construction's",
    noise: float = 0.0,
) -> str:
    """How a result differs from the expected one by more than rounding; empty where it does not.

    Sums of `terms` numbers in another order differ by as many roundings at most; what is computed
    from rounded numbers by `noise` (rounding_noise).
    """
    if found.dtype.kind not in "fc":
        same = np.array_equal(found, expected)
        return "" if same else f"another result than {whose}"
    eps = np.finfo(found.dtype).eps
    with np.errstate(all="ignore"):
        finite = expected[np.isfinite(expected)]
        scale = float(np.abs(finite).max()) if finite.size else 1.0
        near = np.isclose(
            found,
            expected,
            rtol=eps * (terms + 64),
            atol=max(eps * scale * 64, noise),
            equal_nan=True,
        )
    if near.all():
        return ""
    count = int(near.size - near.sum())
    return f"{count} of {near.size} elements differ from {whose}"


def timed_pair(
    base: Run, own: Run, restore: Run, rounds: int, most: float, *, is_cold: bool = False
) -> tuple[list[float], list[float]]:
    """Seconds of runs of `base` and `own` in turn, so that what disturbs one disturbs both.

    Stops after `most` seconds, and early where `own` is far behind. A run that has to bring arrays
    to its code and back has an attribute `timed`, which does no more than what is to be timed, on
    what `restore` has brought.
    """
    base, own = (getattr(run, "timed", run) for run in (base, own))
    end = clock.now() + most
    restore()
    repeats, once = 1, 0.0
    if not is_cold:
        once = max(_seconds(base, 1), 1e-7)
        if once < _LONG:
            once = max(min(once, _seconds(own, 1)), 1e-7)
        repeats = max(1, min(_MOST_REPEATS, math.ceil(_SAMPLE / once)))
    sweep = np.zeros(_FLUSHED // 8 if is_cold else 0)
    base_times: list[float] = []
    own_times: list[float] = []
    hopeless = _HOPELESS_LONG if once > _LONG else _HOPELESS
    for k in range(rounds):
        pair = [(base, base_times), (own, own_times)]
        for run, times in pair if k % 2 else pair[::-1]:
            restore()
            sweep += 1
            times.append(_seconds(run, repeats))
        if len(own_times) >= 2 and min(own_times) > hopeless * min(base_times):
            break
        if clock.now() > end:
            break
    return base_times, own_times


def _seconds(run: Run, repeats: int) -> float:
    start = clock.now()
    for _ in range(repeats):
        run()
    return (clock.now() - start) / repeats
