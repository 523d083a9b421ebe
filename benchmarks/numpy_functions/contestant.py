"""One contestant on one program, in a process of its own that answers requests one by one.

A request is a line of JSON, `[name, argument...]`; so is the answer. What a program prints goes to
the error stream.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import pickle
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.numpy_functions.sources import Task, source

from numpy_programs.outcomes import gap, leaves, runs_in_python  # isort: skip, found by sources

__all__ = ["SLACK", "Contestant", "main"]

# The allowed error of a floating-point result is this factor times the larger of two numbers: how
# much the result changes when every input moves by half a unit in the last place, and one unit in
# the last place of the largest output.
SLACK = 32.0
TURN_SECONDS = 0.02  # that a turn lasts at least
_clock = time.perf_counter


@dataclass
class Contestant:
    """The state between requests: a call's arguments and what it left."""

    task: Task
    first: Any = None  # what the first call returned, and the arguments that it changed
    changed: list[int] = field(default_factory=list)  # positions of those arguments
    inputs: list[str] = field(default_factory=list)  # fingerprints of all arguments before
    working: tuple[Any, ...] = ()  # the arguments of repeated calls
    fresh: dict[int, Any] = field(default_factory=dict)  # what each call finds in those changed

    def call(self) -> dict[str, Any]:
        """The first call in a warm process: its time, and what kept it from a result."""
        self.task.warm()
        arguments = self.task.make()
        self.inputs = before = [_digest(x) for x in arguments]
        start = _clock()
        try:
            result = self.task.function(*arguments)
        except Exception as error:  # noqa: BLE001, whatever it raises is the answer
            return _failure(error)
        seconds = _clock() - start
        self.changed = [k for k, x in enumerate(arguments) if _digest(x) != before[k]]
        self.first = (result, {k: arguments[k] for k in self.changed})
        return {"seconds": seconds}

    def again(self) -> dict[str, Any]:
        """A second call: whether Python ran it, and whether it leaves the bits of the first."""
        arguments = self.task.make()
        found: list[Any] = []

        def run() -> None:
            found.append(self.task.function(*arguments))

        try:
            in_python = runs_in_python(self.task.plain.__code__, run)
        except Exception as error:  # noqa: BLE001, as above
            return _failure(error)
        second = (found[0], {k: arguments[k] for k in self.changed})
        repeats = not gap(_all(second), _all(self.first))
        return {"in_python": in_python, "repeats": repeats}

    def keep(self, file: str) -> dict[str, Any]:
        """Write what the first call left, and the error that is allowed to others."""
        right = _all(self.first)
        allowed = self._allowed(right)
        content = {"right": self.first, "allowed": allowed, "inputs": self.inputs}
        with Path(file).open("wb") as stream:
            pickle.dump(content, stream, protocol=5)
        return {"results": len(list(leaves(self.first[0]))), "changed": self.changed}

    def _allowed(self, right: list[Any]) -> list[float]:
        """An absolute error for each number and array that comes out."""
        arguments = tuple(_moved(k, x) for k, x in enumerate(self.task.make()))
        try:
            other = (self.task.function(*arguments), {k: arguments[k] for k in self.changed})
        except Exception:  # noqa: BLE001, then rounding alone is allowed
            other = self.first
        flat, moved = list(leaves(right)), list(leaves(_all(other)))
        if len(moved) != len(flat):
            moved = flat
        return [_limit(one, change) for one, change in zip(flat, moved, strict=True)]

    def judge(self, file: str, lenient: bool) -> dict[str, Any]:
        """Compare what the first call left with what is right.

        Where `lenient`, a function may return nothing if NumPy's returns arguments it has changed,
        and Python's numbers for NumPy's.
        """
        with Path(file).open("rb") as stream:
            kept = pickle.load(stream)
        right, allowed = kept["right"], kept["allowed"]
        if self.inputs != kept["inputs"]:
            return {"wrong": "its arguments are not NumPy's", "error": None}
        if self.changed != list(right[1]):
            return {
                "wrong": f"changes arguments {self.changed}, not {list(right[1])}",
                "error": None,
            }
        left = self.first
        if lenient and left[0] is None and _returns_arguments(right):
            left = (right[0], left[1])
        if lenient:
            left, right = ((_plain(result), changed) for result, changed in (left, right))
        found = gap(_all(left), _all(right), allowed)
        return {"wrong": found.wrong, "error": found.error if np.isfinite(found.error) else None}

    def turn(self) -> dict[str, Any]:
        """Seconds of a call: the median of as many as a turn takes, arguments being set before."""
        if not self.working:
            self.working = self.task.make()
            made = self.task.make()
            self.fresh = {k: made[k] for k in self.changed}
            self.first = None
        found, end = [], _clock() + TURN_SECONDS
        while not found or _clock() < end:
            for k, value in self.fresh.items():
                np.copyto(self.working[k], value)
            start = _clock()
            self.task.function(*self.working)
            found.append(_clock() - start)
        return {"seconds": statistics.median(found), "calls": len(found)}


def _all(left: tuple[Any, dict[int, Any]]) -> list[Any]:
    """Results and changed arguments as one structure."""
    return [left[0], list(left[1].values())]


def _plain(value: Any) -> Any:
    """A result with Python's numbers in place of NumPy's."""
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return value.item() if isinstance(value, np.generic) else value


def _returns_arguments(left: tuple[Any, dict[int, Any]]) -> bool:
    """Whether all that is returned stands in changed arguments too."""
    return all(any(not gap(x, y) for y in left[1].values()) for x in leaves(left[0]))


def _failure(error: Exception) -> dict[str, Any]:
    """Why a call has no result: refused, with the place, or failed."""
    is_refusal = any(kind.__name__ == "LoopwrightError" for kind in type(error).__mro__)
    places = getattr(error, "diagnostics", ())
    reason = places[0].message if places else (str(error).strip().splitlines() or [""])[0]
    return {
        "failed": "refused" if is_refusal else "failed",
        "reason": reason if is_refusal else f"{type(error).__name__}: {reason}"[:200],
        "line": places[0].span.line if places else None,
        "text": places[0].span.text.strip() if places else "",
        "places": [[place.span.line, place.message] for place in places],
    }


def _digest(value: Any) -> str:
    """A fingerprint of an argument, by its bytes."""
    if not isinstance(value, np.ndarray):
        return repr(value)
    words = hashlib.blake2b(np.ascontiguousarray(value).view(np.uint8).data, digest_size=16)
    return f"{value.dtype} {value.shape} {words.hexdigest()}"


def _moved(number: int, value: Any) -> Any:
    """A floating argument with every number half a unit in the last place larger or smaller."""
    array = np.asarray(value)
    if array.dtype.kind not in "fc":
        return value
    signs = np.random.default_rng(number).choice([-1.0, 1.0], array.shape)
    moved = (array * (1 + signs * float(np.finfo(array.dtype).eps))).astype(array.dtype)
    return moved if isinstance(value, np.ndarray) else type(value)(moved)


def _limit(right: Any, moved: Any) -> float:
    """The error that is allowed, where `moved` is the result of moved arguments."""
    one, other = np.asarray(right), np.asarray(moved)
    if one.dtype.kind not in "fc":
        return 0.0
    finite = np.isfinite(one)
    rounding = float(np.finfo(one.dtype).eps) * float(np.abs(one[finite]).max(initial=0))
    if one.shape != other.shape:
        return SLACK * rounding
    finite &= np.isfinite(other)
    change = float(np.abs(one[finite] - other[finite]).max(initial=0))
    return SLACK * max(rounding, change)


def main() -> int:
    """Answer requests until there are no more."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.numpy_functions.contestant")
    parser.add_argument("--dir", required=True)
    for name in ("program", "preset", "contestant"):
        parser.add_argument(f"--{name}", required=True)
    args = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(content: dict[str, Any]) -> None:
        answers.write(json.dumps(content) + "\n")
        answers.flush()

    try:
        task = source(args.dir).task(args.program, args.preset, args.contestant)
    except ImportError as error:
        answer({"failed": "absent", "reason": str(error), "line": None, "text": "", "places": []})
        return 0
    answer({})
    one = Contestant(task)
    requests: dict[str, Callable[..., dict[str, Any]]] = {
        request.__name__: request
        for request in (one.call, one.again, one.keep, one.judge, one.turn)
    }
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        answer(requests[name](*arguments))
    return 0


if __name__ == "__main__":
    sys.exit(main())
