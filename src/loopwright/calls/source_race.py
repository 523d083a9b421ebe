"""The source order as the rival of a plan: whether it may be one, what it is, what is remembered.

Loads isl and the planner: only threads that make rivals come here (calls/call_race).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime

from loopwright import options
from loopwright.calls.call_race import Rival, Run
from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.faults import FAULTS
from loopwright.ir.islkit import ISL_QUOTA, bounded
from loopwright.ir.machine import Machine
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.kernels import recall, remember
from loopwright.log import log
from loopwright.planner.planners import model_planner
from loopwright.planner.schedule_cost import schedule_seconds
from loopwright.planner.source_order import source_order
from loopwright.transform.plan import Plan
from loopwright.tuning.recall import plan_digest
from loopwright.tuning.records import Key, Record, log_of_user
from loopwright.tuning.time_comparison import TimeComparison

__all__ = ["source_rival"]

_SURE = 16.0  # predicted times as long: no trial is worth it


def source_rival(
    program: Callable[[], Program],
    machine: Machine,
    params: dict[str, int],
    key: Key,
    make: Callable[[Plan], Run],
    construction: Callable[[], str],
) -> Rival | None:
    """The source order of a program, against the model's plan; None where there is no race.

    There is none where both are the same, where a race or a search has decided before, and where
    the model is sure. `key` names the records of the call, `make` makes the code of a plan, and
    `construction` is the digest of the model's plan, as far as it is known.
    """
    if _is_decided(key, construction):
        return None
    content = f"no race {key.program} {key.threads > 1} {machine.content_hash}"
    match recall(content):
        case {"reason": str(reason)}:
            log("tune", lambda: f"race: none, {reason}")
            return None
    found = program()
    plan, schedule = model_planner(found, machine, key.threads)
    source, written = source_order(found, machine, key.threads)
    if plan == source:
        remember(content, {"reason": "the plan is the source order"})
        return None
    ratio = _predicted_ratio(schedule, written, machine, params, key.threads)
    if ratio > _SURE:
        log("tune", lambda: f"race: none, the plan is predicted {ratio:.0f} times as fast")
        return None

    def keep(outcome: TimeComparison) -> None:
        if not options.current().records:
            return
        when = datetime.now(UTC).isoformat(timespec="seconds")
        plans = source.to_json(), plan.to_json()
        times = outcome.seconds, outcome.base_seconds
        record = Record(key, *plans, *times, outcome.is_faster, when, is_raced=True)
        if not log_of_user().add([record]):
            log("tune", lambda: "race: the record could not be written")

    return Rival(make(source), ratio, keep)


def _is_decided(key: Key, construction: Callable[[], str]) -> bool:
    """Whether a race, or a search with a faster plan, was against today's model."""
    known = log_of_user().of(key) if options.current().records else ()
    ends = [record for record in known if record.is_raced or record.is_faster]
    return bool(ends) and construction() in {plan_digest(end.construction) for end in ends}


def _predicted_ratio(
    plan: Schedule, source: Schedule, machine: Machine, params: dict[str, int], threads: int
) -> float:
    """How many times as long as a plan the source order is expected to take; 1 if nobody knows."""

    def seconds(schedule: Schedule) -> float:
        try:
            return bounded(
                lambda: schedule_seconds(schedule, machine, params, threads),
                lambda _: math.nan,
                ISL_QUOTA,
            )
        except (IllegalStep, UsageError, *FAULTS):
            return math.nan

    ratio = seconds(source) / (seconds(plan) or math.nan)
    return ratio if math.isfinite(ratio) else 1.0
