"""The rivals of the model's plan: which there may be, what they are, what is remembered.

    another order            of a plan of all planners the source order; of another, which the model
                             has preferred to it, what all planners have made
    the C compiler's code    of the plan for C text, then of the source order, where the compiler's
                             code has the bits of LLVM's (calls/compiler_code)

Each meets the code that has won so far. What has lost to today's plan before is not tried again.

Loads isl and the planner: only threads that make rivals come here (calls/call_race).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from loopwright import options
from loopwright.calls.call_race import Rival, Run
from loopwright.diagnostics import LoopwrightError
from loopwright.faults import FAULTS, survive
from loopwright.ir.machine import Machine
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.kernels import recall, remember
from loopwright.lazy_dataclass import dataclass
from loopwright.log import log
from loopwright.planner.plan_choice import DECLINED, SOURCE, choose_plan, expected_seconds
from loopwright.planner.source_order import source_order
from loopwright.transform.plan import Plan
from loopwright.tuning.recall import plan_digest
from loopwright.tuning.records import Key, Record, log_of_user
from loopwright.tuning.time_comparison import TimeComparison

__all__ = ["Contest", "first_rival"]

_SURE = 16.0  # predicted times as long: no trial is worth it


@dataclass(frozen=True, slots=True)
class Contest:
    """What rivals of a plan are made for and from.

    `key` names the records of the call, `make` makes the code of a plan, `make_by_compiler` that of
    the C compiler where it may (it raises where it cannot), and `construction` is the digest of the
    model's plan, as far as it is known.
    """

    program: Callable[[], Program]
    machine: Machine
    params: dict[str, int]
    key: Key
    make: Callable[[Plan], Run]
    construction: Callable[[], str]
    make_by_compiler: Callable[[Plan], Run] | None = None


def first_rival(contest: Contest) -> Rival | None:
    """What the model's plan of a program is raced against first; None where there is no race.

    There is none where a search has found a faster plan, where all rivals have lost before, and
    where there are none.
    """
    key, machine = contest.key, contest.machine
    known = log_of_user().of(key) if options.current().records else ()
    ends = [record for record in known if record.is_raced or record.is_faster]
    if ends:
        today = contest.construction()
        ends = [end for end in ends if plan_digest(end.construction) == today]
    if any(end.is_faster for end in ends):
        return None
    content = f"no race {key.program} {key.threads > 1} {machine.content_hash}"
    if contest.make_by_compiler is None:
        match recall(content):
            case {"reason": str(reason)}:
                log("tune", lambda: f"race: none, {reason}")
                return None
    found = contest.program()
    try:
        choice = choose_plan(found, machine, key.threads)
    except FAULTS as error:
        survive(error, f"the plan of '{found.name}'")
        return None
    tried = {(plan_digest(end.plan), end.by_compiler) for end in ends}
    rivals = _Rivals(contest, choice.plan, choice.schedule, tried)
    other, written = choice.declined or source_order(found, machine, key.threads)
    makers: list[Callable[[], Rival | None]] = []
    if choice.plan == other:
        if contest.make_by_compiler is None:
            remember(content, {"reason": "the plan is the source order"})
            return None
    else:
        name = SOURCE if choice.declined is None else DECLINED
        makers.append(partial(rivals.in_order, name, other, written))
    if contest.make_by_compiler is not None:
        makers += [partial(rivals.by_compiler, is_source=x) for x in (False, True)]
    return _first_of(makers)


def _first_of(makers: Sequence[Callable[[], Rival | None]]) -> Rival | None:
    """The first rival that there is, which knows those behind it."""
    for at, make in enumerate(makers, 1):
        rival = make()
        if rival is not None:
            left = makers[at:]
            return replace(rival, then=partial(_first_of, left)) if left else rival
    return None


class _Rivals:
    """Makes the rivals of a plan, one after the other, and remembers how they did."""

    def __init__(
        self, contest: Contest, plan: Plan, schedule: Schedule, tried: set[tuple[str, bool]]
    ) -> None:
        self._contest = contest
        self._plan = plan
        self._schedule = schedule
        self._tried = tried  # digests of plans that have lost, and whether by the C compiler
        self._gain = 1.0  # times as fast as the plan: what has won so far

    def in_order(self, name: str, plan: Plan, schedule: Schedule) -> Rival | None:
        """The code of another plan, unless the model is sure of its own."""
        if self._is_tried(plan, by_compiler=False):
            return None
        contest = self._contest
        ratio = _predicted_ratio(self._schedule, schedule, contest)
        if ratio > _SURE:
            log("tune", lambda: f"race: none, the plan is predicted {ratio:.0f} times as fast")
            return None
        keep = partial(self._keep, plan, by_compiler=False)
        return Rival(contest.make(plan), name, ratio, keep)

    def by_compiler(self, *, is_source: bool) -> Rival | None:
        """The C compiler's code of the plan for text, or of the source order."""
        contest = self._contest
        assert contest.make_by_compiler is not None
        program, machine = contest.program(), contest.machine
        try:
            if is_source:
                plan, schedule = source_order(program, machine, 1)
            else:
                choice = choose_plan(program, machine, 1, text=True)
                plan, schedule = choice.plan, choice.schedule
            ratio = _predicted_ratio(self._schedule, schedule, contest)
            if self._is_tried(plan, by_compiler=True) or ratio > _SURE:
                return None
            run = contest.make_by_compiler(plan)
        except (LoopwrightError, *FAULTS) as error:
            reason = str(error).splitlines()[:1]
            log("tune", lambda: f"race: none against the C compiler, {' '.join(reason)}")
            return None
        name = f"the C compiler's code of {SOURCE if is_source else 'the plan'}"
        return Rival(run, name, ratio, partial(self._keep, plan, by_compiler=True))

    def _is_tried(self, plan: Plan, *, by_compiler: bool) -> bool:
        """Whether a plan has been tried; from now on it has."""
        name = plan_digest(plan.to_json()), by_compiler
        is_tried = name in self._tried
        self._tried.add(name)
        return is_tried

    def _keep(self, rival: Plan, outcome: TimeComparison, *, by_compiler: bool) -> None:
        """Record an outcome as one against the model's plan."""
        before = self._gain
        if outcome.is_faster:
            self._gain *= outcome.base_seconds / outcome.seconds
        if not options.current().records:
            return
        when = datetime.now(UTC).isoformat(timespec="seconds")
        plans = rival.to_json(), self._plan.to_json()
        times = outcome.seconds, before * outcome.base_seconds
        given = self._contest.key, *plans, *times, outcome.is_faster, when
        record = Record(*given, is_raced=True, by_compiler=by_compiler)
        if not log_of_user().add([record]):
            log("tune", lambda: "race: the record could not be written")


def _predicted_ratio(plan: Schedule, rival: Schedule, contest: Contest) -> float:
    """How many times as long as a plan its rival is expected to take; 1 if nobody knows."""
    machine, sizes, threads = contest.machine, contest.params, contest.key.threads
    price = partial(expected_seconds, machine=machine, sizes=sizes, threads=threads)
    ratio = price(rival) / (price(plan) or math.nan)
    return ratio if math.isfinite(ratio) else 1.0
