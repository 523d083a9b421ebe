"""Tasks without loops, whose plans behave as they are called: for tests of what may go wrong.

Time passes only by the clocks of this file: in a child process a run takes what its name says, in
the parent an answer and the limit of a candidate that hangs.
"""

from __future__ import annotations

import math
import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from loopwright import clock, options
from loopwright.diagnostics import UsageError
from loopwright.transform.loop_marks import Unroll
from loopwright.transform.plan import Plan
from loopwright.tuning import worker_process
from loopwright.tuning.candidate_worker import Limits
from loopwright.tuning.records import Key
from loopwright.tuning.tasks import Run

# A limit of seconds passes by the parent's clock. By the system's, nothing here takes so long.
LIMITS = Limits(start=600, build=600, run=600, sample=2.0)
SECONDS = {"base": 30e-3, "slow": 60e-3}  # of one run; of all others a tenth of the construction's


def plan_called(name: str) -> Plan:
    """The plan whose code behaves like its name."""
    return Plan((Unroll(name, 2),))


def marker(name: str) -> Path:
    """A file by which child processes say something to other processes."""
    return Path(os.environ[options.variable("data_dir")], name)


def hang() -> None:
    """Say so, and never come back."""
    written = marker("being_written")
    written.write_text(str(os.getpid()), encoding="utf-8")
    written.rename(marker("hanging"))
    threading.Event().wait()


class HandClock:
    """Time that passes only where a test says so; waiting ends where a candidate says it hangs."""

    def __init__(self, per_answer: float = 0.0) -> None:
        self.seconds = 0.0
        self.per_answer = per_answer  # seconds that pass before each answer of a child
        self.at_hang: Callable[[int], None] = lambda process: None
        self.waits: list[float] = []  # limits of what hung

    def now(self) -> float:
        return self.seconds

    def wait(self, connection: Any, seconds: float) -> bool:
        """Wait for an answer as long as it takes, or until it is known that there is none."""
        hanging = marker("hanging")
        while not connection.poll(0.01):
            if hanging.exists():
                process = int(hanging.read_text(encoding="utf-8"))
                hanging.unlink()
                self.seconds += seconds
                self.waits.append(seconds)
                self.at_hang(process)
                return False
        self.seconds += self.per_answer
        return True


class NamedBench:
    """Writes 1 into an array, in the way that a plan names."""

    terms = 1

    def __init__(self) -> None:
        self._out = np.zeros(4)
        self._now = 0.0
        clock.now = lambda: self._now  # of this process, which is a worker's

    def build(self, plan: Plan) -> Run:
        (step,) = plan.steps
        assert isinstance(step, Unroll)
        name = step.loop
        seconds = SECONDS.get(name.split("_")[0], 3e-3)
        match name:
            case "refused":
                raise UsageError("no such code")
            case "hang_build":
                hang()
            case "crash_build":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "no_time":
                worker_process._seconds = lambda run, repeats: math.nan  # type: ignore[assignment]
            case "lucky":  # fast in the first process that builds it
                seconds = 60e-3 if marker("lucky").exists() else 3e-3
                marker("lucky").touch()

        def run() -> None:
            match name:
                case "hang":
                    hang()
                case "leave":
                    os._exit(0)
                case "killed":
                    os.kill(os.getpid(), signal.SIGKILL)
                case "crash":
                    os.kill(os.getpid(), signal.SIGSEGV)
            self._now += seconds
            self._out[...] = 2 if name == "wrong" else 1

        return run

    def restore(self) -> None:
        self._out[...] = 0

    def results(self) -> list[np.ndarray[Any, Any]]:
        return [self._out]

    def arrays(self) -> list[np.ndarray[Any, Any]]:
        return [self._out]


@dataclass(frozen=True)
class NamedTask:
    """Whose candidates are plans of these names."""

    names: tuple[str, ...]
    is_dead: bool = False  # its construction ends every process that runs it
    program: str = "named"

    @property
    def key(self) -> Key:
        return Key(self.program, "here", (4,), 1, "float64")

    def construction(self) -> Plan:
        return plan_called("killed" if self.is_dead else "base")

    def neighbours(self, plan: Plan) -> Iterator[Plan]:
        return (plan_called(name) for name in self.names)

    def fits(self, plan: Plan) -> bool:
        return True

    def predict(self, plan: Plan) -> float:
        return float("nan")  # candidates keep their order

    prediction_error = 2.0
    looks_ahead = 3

    def bench(self) -> NamedBench:
        return NamedBench()
