"""Tasks without loops, whose plans behave as they are called: for tests of what may go wrong."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from loopwright.transform.loop_marks import Unroll
from loopwright.transform.plan import Plan
from loopwright.tuning import worker_process
from loopwright.tuning.candidate_worker import Limits
from loopwright.tuning.records import Key
from loopwright.tuning.tasks import Run

LIMITS = Limits(start=60, build=2.0, run=20.0, sample=2.0)


def plan_called(name: str) -> Plan:
    """The plan whose code behaves like its name."""
    return Plan((Unroll(name, 2),))


class NamedBench:
    """Writes 1 into an array, in the way that a plan names."""

    terms = 1

    def __init__(self) -> None:
        self._out = np.zeros(4)

    def build(self, plan: Plan) -> Run:
        (step,) = plan.steps
        assert isinstance(step, Unroll)
        name = step.loop
        if name == "no_time":
            worker_process._seconds = lambda run, repeats: math.nan  # type: ignore[assignment]
        seconds = {"base": 20e-3, "slow": 40e-3}.get(name.split("_")[0], 2e-3)

        def run() -> None:
            match name:
                case "hang":
                    time.sleep(60)
                case "leave":
                    os._exit(0)
                case "killed":
                    os.kill(os.getpid(), signal.SIGKILL)
                case "say_nothing":
                    os.close(3)
            time.sleep(seconds)
            self._out[...] = 1

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
