"""Plans of records for calls: what tuning has found before is taken in place of the construction.

A record was measured against a construction. Where the model gives another one now (an upgrade, a
calibration), the comparison no longer says anything, and the record is set aside until the program
is tuned again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from loopwright import options
from loopwright.diagnostics import UsageError
from loopwright.ir.contraction_shape import ContractionShape
from loopwright.ir.kernel_variant import Algebra
from loopwright.ir.machine import Machine
from loopwright.log import log
from loopwright.tuning.records import Record, best_of, contraction_key, log_of_user, program_key

if TYPE_CHECKING:
    from loopwright.planner.contraction_plans.choice import Choice
    from loopwright.transform.plan import Plan

__all__ = ["origin_line", "plan_digest", "recorded_choice", "recorded_loops"]


def recorded_choice(
    construction: Choice,
    shape: ContractionShape,
    algebra: Algebra,
    machine: Machine,
    threads: int,
    *,
    reassoc: bool,
) -> tuple[Choice, Record] | None:
    """The choice of the best record of a contraction; None: the construction is to be taken."""
    records = log_of_user()
    if records.is_empty() or not options.current().records:
        return None
    given = algebra, shape, machine, threads
    known = records.of(contraction_key(*given, reassoc=reassoc))
    if best_of(known) is None:
        return None
    # lazy: plans load isl, which a call without a record does without
    from loopwright.planner.contraction_plans.given_choice import given_choice, plan_of
    from loopwright.transform.plan import Plan  # lazy: likewise

    best = _comparable(known, plan_digest(plan_of(construction).to_json()))
    if best is None:
        return None
    try:
        plan = Plan.from_json(dict(best.plan))
        choice = given_choice(plan, shape, algebra, machine, threads, reassoc=reassoc)
    except UsageError as error:
        reason = str(error)
        log("tune", lambda: f"a record is set aside: {reason}")
        return None
    log("tune", lambda: origin_line(best))
    return choice, best


def recorded_loops(
    program: str,
    params: Mapping[str, int],
    strides: Mapping[str, tuple[int, ...]],
    dtype: str,
    machine: Machine,
    threads: int,
    construction: Callable[[], str],
) -> tuple[Plan, Record] | None:
    """The plan of the best record of a function's loops; None: the construction is to be taken.

    `construction` gives the digest of today's construction, and is asked where there is a record.
    """
    records = log_of_user()
    if records.is_empty() or not options.current().records:
        return None
    known = records.of(program_key(program, params, strides, dtype, machine, threads))
    if best_of(known) is None:
        return None
    best = _comparable(known, construction())
    if best is None:
        return None
    # lazy: likewise
    from loopwright.transform.plan import Plan

    try:
        plan = Plan.from_json(dict(best.plan))
    except UsageError as error:
        reason = str(error)
        log("tune", lambda: f"a record is set aside: {reason}")
        return None
    log("tune", lambda: origin_line(best))
    return plan, best


def _comparable(known: Iterable[Record], digest: str) -> Record | None:
    """The best of the records that were measured against today's construction."""
    best = best_of(record for record in known if plan_digest(record.construction) == digest)
    if best is None:
        log("tune", lambda: "a record is set aside: the construction has changed since")
    return best


def plan_digest(plan: Mapping[str, Any]) -> str:
    """A hash of a plan's data, but for `strided`, which follows from the shape of a call."""
    import json  # lazy: a call without records does without

    def decided(data: Any) -> Any:
        if isinstance(data, Mapping):
            return {name: decided(x) for name, x in data.items() if name != "strided"}
        return [decided(x) for x in data] if isinstance(data, list | tuple) else data

    return hashlib.sha256(json.dumps(decided(plan), sort_keys=True).encode()).hexdigest()


def origin_line(record: Record) -> str:
    """Where a plan comes from, for people."""
    times = f"{_time(record.seconds)} against {_time(record.base_seconds)}"
    if record.is_raced:
        what = "the C compiler's code" if record.by_compiler else "another order"
        return (
            f"{what}, {record.gain:.2f} times as fast as the construction in a race of "
            f"calls ({times}, {record.when[:10]})"
        )
    return (
        f"plan of a tuning record: {record.gain:.2f} times as fast as the construction ({times}, "
        f"measured in turn, beyond the noise, {record.when[:10]})"
    )


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e3)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"
