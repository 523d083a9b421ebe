"""What a schedule costs, predicted or measured, behind one type of function.

    predicting(task)    seconds of a Schedule by the closed form of its kind; NaN where it has none
    measuring(task)     seconds of a Plan by runs in a child process; inf where it is refused,
                        wrong, hangs or crashes

A Schedule does not know the steps that made it, and isl's objects stay in their process: what is
measured is a Plan, which a child proves and builds anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import islice
from types import TracebackType
from typing import TypeAlias

from loopwright.ir.schedule import Schedule
from loopwright.planner.cost.schedule_cost import schedule_seconds
from loopwright.transform.contract import Contract
from loopwright.transform.plan import Plan
from loopwright.tuning.candidate_worker import Limits, Lost, Worker
from loopwright.tuning.tasks import ProgramTask, Task

__all__ = [
    "Evaluator",
    "MeasuredPlans",
    "PlanEvaluator",
    "in_promising_order",
    "measuring",
    "modelled_plan",
    "predicting",
]

Evaluator: TypeAlias = Callable[[Schedule], float]
PlanEvaluator: TypeAlias = Callable[[Plan], float]

_ROUNDS = 5
_MOST_LOOKED_AT = 200  # plans that the model is asked about


def predicting(task: Task) -> Evaluator:
    """Seconds of schedules of a task's program by the closed form."""

    def predicted(schedule: Schedule) -> float:
        whole = schedule.whole_contraction
        if whole is not None:
            return task.predict(Plan((Contract((), whole.variants, whole.blocks),)))
        if isinstance(task, ProgramTask):
            return schedule_seconds(schedule, task.machine, task.params, task.threads)
        return math.nan

    return predicted


class MeasuredPlans:
    """Seconds of plans, measured by a worker of a task; use it in `with`."""

    def __init__(self, task: Task, limits: Limits | None = None) -> None:
        self._worker = Worker(task, task.construction())
        self._limits = limits or Limits()

    def __call__(self, plan: Plan) -> float:
        """The fastest run of a plan; inf where there is none."""
        try:
            self._worker.start(self._limits)
            if self._worker.build(plan, self._limits):
                return math.inf
            found = self._worker.time(_ROUNDS, self._limits)
        except Lost:
            return math.inf
        best = math.inf if isinstance(found, str) else min(found[1], default=math.inf)
        return best if best > 0 else math.inf

    def close(self) -> None:
        """End the child process."""
        self._worker.close()

    def __enter__(self) -> MeasuredPlans:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def measuring(task: Task, limits: Limits | None = None) -> MeasuredPlans:
    """Seconds of plans of a task, measured."""
    return MeasuredPlans(task, limits)


def in_promising_order(task: Task, plans: Iterator[Plan]) -> Iterator[Plan]:
    """The same plans, those first that the model thinks fastest.

    As many at a time are looked at as the task finds quick; those without a prediction keep their
    places among them.
    """
    while chunk := list(islice(plans, task.looks_ahead)):
        costs = [task.predict(plan) for plan in chunk]
        known = [k for k, cost in enumerate(costs) if math.isfinite(cost)]
        ordered = sorted(known, key=lambda k: costs[k])
        places = list(range(len(chunk)))
        for place, k in zip(known, ordered, strict=True):
            places[place] = k
        yield from (chunk[k] for k in places)


def modelled_plan(task: Task) -> Plan:
    """The plan that the model thinks fastest by more than its error, else the construction.

    Neighbours of the construction are looked at, then those of the best among them.
    """
    construction = task.construction()
    base = task.predict(construction)
    if not math.isfinite(base):
        return construction
    best, least, seen = construction, base, 0
    for _ in range(2):
        start = best
        for plan in islice(task.neighbours(start), _MOST_LOOKED_AT - seen):
            seen += 1
            cost = task.predict(plan)
            if cost < least:  # never where it is NaN
                best, least = plan, cost
        if best == start:
            break
    return best if base > least * task.prediction_error else construction
