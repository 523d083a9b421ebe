"""The search for a plan: neighbours of the best so far, measured until the budget is spent.

It starts at the construction (or at the best record) and goes to a neighbour only where that was
faster than the construction in two measurements, so what it returns is never worse than the
construction by more than the noise of a run. Every measured plan is recorded; a later search passes
over it and goes on from where this one ended.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor
from datetime import UTC, datetime
from itertools import islice

from loopwright.lazy_dataclass import dataclass
from loopwright.log import log
from loopwright.transform.plan import Plan
from loopwright.tuning.candidate_worker import Limits, Outcome, TimeComparison, Worker, examine
from loopwright.tuning.records import Log, Record
from loopwright.tuning.tasks import Task

__all__ = ["Progress", "Report", "Tuned", "recorded_plan", "search"]

_BATCH = 4  # plans that an executor gets at a time
_PATIENCE = 80  # plans without a gain after which the search ends


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a search has come."""

    spent: float  # seconds
    budget: float
    tried: int
    gain: float  # of the best so far over the construction


Report = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class Tuned:
    """What a search has found."""

    plan: Plan
    construction: Plan
    verdict: TimeComparison | None  # None: the construction, or an older record's
    tried: int  # plans that were examined now
    states: tuple[tuple[str, int], ...]  # how many of them ended how
    is_interrupted: bool  # by Ctrl-C

    @property
    def gain(self) -> float:
        return 1.0 if self.verdict is None else self.verdict.gain


def recorded_plan(record: Record) -> Plan:
    """The plan of a record; raises UsageError where it is none of this version."""
    return Plan.from_json(dict(record.plan))


def search(
    task: Task,
    records: Log,
    budget: float,
    *,
    executor: Executor | None = None,
    limits: Limits | None = None,
    report: Report | None = None,
) -> Tuned:
    """Look for a plan that is faster than the construction, for `budget` seconds.

    With an executor plans are examined by its workers, each in a child process of its own. Ctrl-C
    ends the search; what it has found until then counts.
    """
    start = time.monotonic()
    construction = task.construction()
    known = _comparable(records, task, construction)
    best, verdict = construction, None
    before = max((x for x in known if x.is_faster), key=lambda x: x.gain, default=None)
    best_gain = 1.0
    if before is not None:
        best, best_gain = recorded_plan(before), before.gain
    seen = {construction, *map(recorded_plan, known)}
    frontier = deque([task.neighbours(best)])
    if best != construction:
        frontier.append(task.neighbours(construction))
    states: dict[str, int] = {}
    tried = idle = 0
    is_interrupted = False
    examiner = _Examiner(task, construction, executor, limits or Limits())
    try:
        while idle < _PATIENCE:
            left = budget - (time.monotonic() - start)
            plans = list(islice(_unseen(frontier, seen), _BATCH if executor else 1))
            if left <= 0 or not plans:
                break
            for outcome in examiner.outcomes(plans, left):
                tried, idle = tried + 1, idle + 1
                states[outcome.state] = states.get(outcome.state, 0) + 1
                found = outcome.verdict
                log("tune", lambda outcome=outcome: _told(outcome))  # type: ignore[misc]
                if found is None:
                    continue
                records.add([_record(task, construction, outcome, found)])
                if found.is_faster and found.base_seconds / found.seconds > best_gain:
                    best, verdict, idle = outcome.plan, found, 0
                    best_gain = found.base_seconds / found.seconds
                    frontier.appendleft(task.neighbours(best))
            if report is not None:
                report(Progress(time.monotonic() - start, budget, tried, best_gain))
    except KeyboardInterrupt:
        is_interrupted = True
    finally:
        examiner.close()
    return Tuned(best, construction, verdict, tried, tuple(sorted(states.items())), is_interrupted)


def _comparable(records: Log, task: Task, construction: Plan) -> list[Record]:
    """The records of a task that were measured against today's construction."""
    data = construction.to_json()
    return [record for record in records.of(task.key) if record.construction == data]


def _unseen(frontier: deque[Iterator[Plan]], seen: set[Plan]) -> Iterator[Plan]:
    """Plans of the newest neighbourhood first, each once."""
    while frontier:
        plan = next(frontier[0], None)
        if plan is None:
            frontier.popleft()
        elif plan not in seen:
            seen.add(plan)
            yield plan


class _Examiner:
    """Who examines plans: a worker here, or those of an executor until it is lost."""

    def __init__(
        self, task: Task, construction: Plan, executor: Executor | None, limits: Limits
    ) -> None:
        self._worker = Worker(task, construction)
        self._task, self._construction = task, construction
        self._executor = executor
        self._limits = limits

    def outcomes(self, plans: list[Plan], budget: float) -> Iterable[Outcome]:
        if self._executor is None:
            return self._here(plans, budget)
        given = self._task, self._construction
        try:
            jobs = [
                self._executor.submit(_examined, *given, plan, self._limits, budget)
                for plan in plans
            ]
            return [job.result() for job in jobs]
        except (BrokenExecutor, OSError) as error:
            reason = str(error)
            log("tune", lambda: f"the executor is lost ({reason}); plans are measured here")
            self._executor = None
            return self._here(plans, budget)

    def _here(self, plans: list[Plan], budget: float) -> Iterator[Outcome]:
        end = time.monotonic() + budget
        for plan in plans:
            yield examine(self._worker, plan, self._limits, end - time.monotonic())

    def close(self) -> None:
        self._worker.close()


def _examined(task: Task, construction: Plan, plan: Plan, limits: Limits, budget: float) -> Outcome:
    """`examine` in a process of an executor."""
    with Worker(task, construction) as worker:
        return examine(worker, plan, limits, budget)


def _record(task: Task, construction: Plan, outcome: Outcome, found: TimeComparison) -> Record:
    when = datetime.now(UTC).isoformat(timespec="seconds")
    plans = outcome.plan.to_json(), construction.to_json()
    return Record(task.key, *plans, found.seconds, found.base_seconds, found.is_faster, when)


def _told(outcome: Outcome) -> str:
    found = outcome.verdict
    if found is None:
        return f"{outcome.state}: {outcome.reason or outcome.plan}"
    return f"{found.gain:.3f} times as fast (noise {found.noise:.1%}): {outcome.plan}"
