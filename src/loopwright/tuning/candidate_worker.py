"""A worker: a child process that builds and times plans, each step under a time limit of its own.

A plan that crashes, hangs or computes something else costs a child process and is reported as an
outcome; the next plan gets a new child.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from multiprocessing import Pipe
from types import TracebackType
from typing import Any

from loopwright import clock
from loopwright.child_process import Child
from loopwright.lazy_dataclass import dataclass
from loopwright.log import log
from loopwright.transform.plan import Plan
from loopwright.tuning.tasks import Measurable
from loopwright.tuning.time_comparison import FEWEST_PAIRS, TimeComparison, compared

__all__ = ["Limits", "Lost", "Outcome", "Worker", "examine"]

_START = "import sys; from loopwright.tuning.worker_process import main; main(int(sys.argv[1]))"
_QUICK, _SURE = FEWEST_PAIRS, 15  # rounds of a first and of a second measurement


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds that the steps of one plan may take."""

    start: float = 60.0  # a child with the construction's code
    build: float = 30.0
    run: float = 30.0
    sample: float = 1.0  # that timing goes on, at most; longer where runs take long
    is_cold: bool = False  # caches are flushed between runs

    def within(self, seconds: float) -> Limits:
        """The same inside of a budget."""
        left = max(seconds, 0.0)
        start, build, run = (min(part, left) for part in (self.start, self.build, self.run))
        return Limits(start, build, run, min(self.sample, left), self.is_cold)


class Lost(Exception):  # noqa: N818, an outcome and no error
    """The child is gone: it crashed, or took longer than its limit and was ended."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a plan."""

    plan: Plan
    # "measured", "refused", "wrong", "crashed", "hung", "unfinished", or "lost": no worker started.
    state: str
    reason: str = ""
    verdict: TimeComparison | None = None  # of a plan that was measured


class Worker:
    """A child process for one task; use it in `with`. It is started again after it was lost."""

    def __init__(self, task: Measurable, construction: Plan) -> None:
        self._task = task
        self._construction = construction
        self._child: Child | None = None
        self._connection: Any = None
        self._once = 0.0  # seconds of a run of the construction

    def start(self, limits: Limits) -> None:
        """Have a child that has run the construction; raises Lost."""
        if self._child is not None:
            return
        ours, theirs = Pipe()
        with theirs:
            try:
                # Ctrl-C is for the parent, which ends the child.
                self._child = Child(
                    [sys.executable, "-c", _START, str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                )
            except OSError as error:  # no memory, or no more processes
                ours.close()
                raise Lost(f"did not start ({error.strerror})") from error
        self._connection = ours
        match self._asked((self._task, self._construction), limits.start):
            case ("ready", float(once), str(remark)):
                self._once = once
                if remark:
                    log("tune", lambda: f"the construction on few elements: {remark}")

    def build(self, plan: Plan, limits: Limits) -> str:
        """Build the code of a plan; why it was refused, if it was. Raises Lost."""
        match self._asked(("build", plan), limits.build):
            case ("refused", str(reason)):
                return reason
        return ""

    def time(self, rounds: int, limits: Limits) -> tuple[list[float], list[float]] | str:
        """Check and time what was built, in turn with the construction; or what is wrong with it.

        Raises Lost.
        """
        # Long runs take longer than a sample to be compared as often as a verdict needs.
        most = min(max(limits.sample, 3 * _QUICK * self._once), limits.run / 2)
        match self._asked(("time", rounds, limits.is_cold, float(most)), limits.run):
            case ("timed", list(base), list(own)):
                return base, own
            case ("wrong", str(reason)):
                return reason
        raise Lost("crashed")

    def _asked(self, message: Any, seconds: float) -> Any:
        """The answer to a message; raises Lost and ends the child where there is none in time."""
        try:
            self._connection.send((seconds, message))
            if clock.wait(self._connection, seconds):
                return self._connection.recv()
            reason = "hung"
        except (EOFError, OSError, pickle.UnpicklingError):
            reason = "crashed"
        self.close()
        raise Lost(reason)

    def close(self) -> None:
        """End the child."""
        child, self._child = self._child, None
        if child is None:
            return
        child.end()
        self._connection.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def examine(worker: Worker, plan: Plan, limits: Limits, budget: float) -> Outcome:
    """Build, check and time a plan within `budget` seconds.

    One that looks faster is measured again, for longer: the first of many to look fast by chance is
    not taken for fast.
    """
    end = clock.now() + budget

    def left() -> float:
        return end - clock.now()

    def lost(error: Lost) -> Outcome:
        if left() <= 0.0:
            return Outcome(plan, "unfinished", "the budget was spent")
        return Outcome(plan, str(error))

    try:
        worker.start(limits.within(left()))
    except Lost as error:
        if left() <= 0.0:
            return lost(error)
        return Outcome(plan, "lost", f"the child {error} before the construction had run")
    try:
        refused = worker.build(plan, limits.within(left()))
        if refused:
            return Outcome(plan, "refused", refused)
        verdict = None
        for rounds in (_QUICK, _SURE):
            found = worker.time(rounds, limits.within(left()))
            if isinstance(found, str):
                return Outcome(plan, "wrong", found)
            verdict = compared(*found)
            if verdict is None:
                return Outcome(plan, "wrong", "times that are no numbers")
            if not verdict.is_faster:
                break
        return Outcome(plan, "measured", "", verdict)
    except Lost as error:
        return lost(error)
