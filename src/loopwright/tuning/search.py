"""The search for a plan: neighbours of the best so far, measured until the budget is spent.

It starts at the construction (or at the best record) and goes to a neighbour only where that was
faster than the construction in two measurements, and again in a new process: where arrays and code
lie differs from process to process, and a plan that gains by it loses elsewhere. So what it returns
is never worse than the construction by more than the noise of a run. Every measured plan is
recorded; a later search passes over it and goes on from where this one ended. Of the neighbours
those come first that the closed form thinks fastest (evaluators).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Executor, Future
from datetime import UTC, datetime
from itertools import islice

from loopwright import clock
from loopwright.diagnostics import UsageError
from loopwright.lazy_dataclass import dataclass
from loopwright.log import log
from loopwright.transform.plan import Plan
from loopwright.tuning.candidate_worker import Limits, Outcome, Worker, examine
from loopwright.tuning.evaluators import in_promising_order
from loopwright.tuning.records import Log, Record
from loopwright.tuning.tasks import Task
from loopwright.tuning.time_comparison import TimeComparison

__all__ = ["Progress", "Report", "Tuned", "recorded_plan", "search"]

_BATCH = 4  # plans that an executor gets at a time
_PATIENCE = 80  # plans without a gain after which the search ends
_MOST_LOST = 3  # workers in a row that did not start, after which it ends too
_AGAIN = 5.0  # seconds that the best plan has in a new process, if the budget leaves fewer
_GRACE = 5.0  # seconds beyond the budget after which an executor that does not answer is lost


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
    is_recorded: bool = True  # else the log could not be written: calls will not know the plan

    @property
    def gain(self) -> float:
        return 1.0 if self.verdict is None else self.verdict.gain


def recorded_plan(record: Record, task: Task) -> Plan | None:
    """The plan of a record; None where it is none of this version, or illegal for the task.

    A log may have been edited, or come from elsewhere: what it says is data, not a promise.
    """
    plan = _plan_of(record)
    if plan is None or not task.fits(plan):
        log("tune", lambda: f"a record of {record.when} is set aside: its plan does not fit")
        return None
    return plan


def _plan_of(record: Record) -> Plan | None:
    try:
        return Plan.from_json(dict(record.plan))
    except UsageError:
        return None


def search(
    task: Task,
    records: Log,
    budget: float,
    *,
    executor: Executor | None = None,
    limits: Limits | None = None,
    report: Report | None = None,
    first: Iterable[Plan] = (),
) -> Tuned:
    """Look for a plan that is faster than the construction, for `budget` seconds.

    Plans of `first` are tried before all others. With an executor plans are examined by its
    workers, each in a child process of its own. Ctrl-C ends the search; what it has found until
    then counts.
    """
    start = clock.now()
    construction = task.construction()
    limits = limits or Limits()
    known = _comparable(records, task, construction, limits.is_cold)
    best, verdict = construction, None
    before = max((x for x in known if x.is_faster), key=lambda x: x.gain, default=None)
    best_gain = 1.0
    start_plan = None if before is None else recorded_plan(before, task)
    if before is not None and start_plan is not None:
        best, best_gain = start_plan, before.gain
    seen = {construction, *(plan for plan in map(_plan_of, known) if plan is not None)}
    frontier = deque([in_promising_order(task, task.neighbours(best))])
    if best != construction:
        frontier.append(in_promising_order(task, task.neighbours(construction)))
    frontier.appendleft(iter(first))
    states: dict[str, int] = {}
    tried = idle = lost = 0
    is_interrupted, is_recorded = False, True
    examiner = _Examiner(task, construction, executor, limits)
    try:
        while idle < _PATIENCE and lost < _MOST_LOST:
            left = budget - (clock.now() - start)
            plans = list(islice(_unseen(frontier, seen), _BATCH if executor else 1))
            if left <= 0 or not plans:
                break
            for outcome in examiner.outcomes(plans, left):
                tried, idle = tried + 1, idle + 1
                states[outcome.state] = states.get(outcome.state, 0) + 1
                lost = lost + 1 if outcome.state == "lost" else 0
                found = outcome.verdict
                log("tune", lambda outcome=outcome: _told(outcome))  # type: ignore[misc]
                if found is not None and _is_better(found, best_gain):
                    left = budget - (clock.now() - start)
                    outcome = examiner.again(outcome.plan, max(left, _AGAIN))
                    found = outcome.verdict
                    log("tune", lambda outcome=outcome: f"again: {_told(outcome)}")  # type: ignore[misc]
                if found is None:
                    continue
                record = _record(task, construction, outcome, found, limits.is_cold)
                is_recorded = records.add([record]) and is_recorded
                if _is_better(found, best_gain):
                    best, verdict, idle = outcome.plan, found, 0
                    best_gain = found.base_seconds / found.seconds
                    frontier.appendleft(in_promising_order(task, task.neighbours(best)))
            if report is not None:
                report(Progress(clock.now() - start, budget, tried, best_gain))
    except KeyboardInterrupt:
        is_interrupted = True
    finally:
        examiner.close()
    if not is_recorded:
        log("tune", lambda: f"the records cannot be written: {records.path}")
    ends = tuple(sorted(states.items()))
    return Tuned(best, construction, verdict, tried, ends, is_interrupted, is_recorded)


def _comparable(records: Log, task: Task, construction: Plan, is_cold: bool) -> list[Record]:
    """The records of a task that were measured in the same way against today's construction."""
    data = construction.to_json()
    known = records.of(task.key)
    return [record for record in known if record.construction == data and record.is_cold == is_cold]


def _is_better(found: TimeComparison, gain: float) -> bool:
    """Whether a plan is faster than the construction, and by more than the best so far."""
    return found.is_faster and found.base_seconds / found.seconds > gain


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
        end = clock.now() + budget
        jobs: list[Future[Outcome]] = []
        try:
            jobs.extend(
                self._executor.submit(_examined, *given, plan, self._limits, budget)
                for plan in plans
            )
            most = end + _GRACE
            return [job.result(timeout=most - clock.now()) for job in jobs]
        except (CancelledError, TimeoutError, RuntimeError, OSError) as error:
            # RuntimeError: it is broken, or was shut down meanwhile.
            reason = str(error) or type(error).__name__
            log("tune", lambda: f"the executor is lost ({reason}); plans are measured here")
            self._executor = None
            return self._here(plans, end - clock.now())
        finally:
            for job in jobs:
                job.cancel()

    def again(self, plan: Plan, budget: float) -> Outcome:
        """What becomes of a plan in a process that has measured nothing else."""
        self._worker.close()  # the next one to examine starts another; those of executors always do
        (outcome,) = self.outcomes([plan], budget)
        return outcome

    def _here(self, plans: list[Plan], budget: float) -> Iterator[Outcome]:
        end = clock.now() + budget
        for plan in plans:
            yield examine(self._worker, plan, self._limits, end - clock.now())

    def close(self) -> None:
        self._worker.close()


def _examined(task: Task, construction: Plan, plan: Plan, limits: Limits, budget: float) -> Outcome:
    """`examine` in a process of an executor."""
    with Worker(task, construction) as worker:
        return examine(worker, plan, limits, budget)


def _record(
    task: Task, construction: Plan, outcome: Outcome, found: TimeComparison, is_cold: bool
) -> Record:
    when = datetime.now(UTC).isoformat(timespec="seconds")
    plans = outcome.plan.to_json(), construction.to_json()
    times = found.seconds, found.base_seconds
    return Record(task.key, *plans, *times, found.is_faster, when, is_cold)


def _told(outcome: Outcome) -> str:
    found = outcome.verdict
    if found is None:
        return f"{outcome.state}: {outcome.reason or outcome.plan}"
    return f"{found.gain:.3f} times as fast (noise {found.noise:.1%}): {outcome.plan}"
