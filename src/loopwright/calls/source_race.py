"""The rival of the model's plan: whether there may be one, what it is, what is remembered.

Of a plan of all planners that is the source order; of another, which the model has preferred to it,
what all planners have made.

Loads isl and the planner: only threads that make rivals come here (calls/call_race).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from loopwright import options
from loopwright.calls.call_race import Rival, Run
from loopwright.faults import FAULTS, survive
from loopwright.ir.machine import Machine
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.kernels import recall, remember
from loopwright.log import log
from loopwright.planner.plan_choice import DECLINED, SOURCE, choose_plan, expected_seconds
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
    """What the model's plan of a program is raced against; None where there is no race.

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
    try:
        choice = choose_plan(found, machine, key.threads)
    except FAULTS as error:
        survive(error, f"the plan of '{found.name}'")
        return None
    plan = choice.plan
    rival, written = choice.declined or source_order(found, machine, key.threads)
    if plan == rival:
        remember(content, {"reason": "the plan is the source order"})
        return None
    ratio = _predicted_ratio(choice.schedule, written, machine, params, key.threads)
    if ratio > _SURE:
        log("tune", lambda: f"race: none, the plan is predicted {ratio:.0f} times as fast")
        return None

    def keep(outcome: TimeComparison) -> None:
        if not options.current().records:
            return
        when = datetime.now(UTC).isoformat(timespec="seconds")
        plans = rival.to_json(), plan.to_json()
        times = outcome.seconds, outcome.base_seconds
        record = Record(key, *plans, *times, outcome.is_faster, when, is_raced=True)
        if not log_of_user().add([record]):
            log("tune", lambda: "race: the record could not be written")

    name = SOURCE if choice.declined is None else DECLINED
    return Rival(make(rival), name, ratio, keep)


def _is_decided(key: Key, construction: Callable[[], str]) -> bool:
    """Whether a race, or a search with a faster plan, was against today's model."""
    known = log_of_user().of(key) if options.current().records else ()
    ends = [record for record in known if record.is_raced or record.is_faster]
    return bool(ends) and construction() in {plan_digest(end.construction) for end in ends}


def _predicted_ratio(
    plan: Schedule, rival: Schedule, machine: Machine, params: dict[str, int], threads: int
) -> float:
    """How many times as long as a plan its rival is expected to take; 1 if nobody knows."""
    price = partial(expected_seconds, machine=machine, sizes=params, threads=threads)
    ratio = price(rival) / (price(plan) or math.nan)
    return ratio if math.isfinite(ratio) else 1.0
