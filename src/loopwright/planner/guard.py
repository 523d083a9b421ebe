"""Run a planner so that giving up, or an internal fault, only costs speed.

All planners of all machines are called through `guarded`, and so is whatever else a plan can do
without: prices, marks on loops of a given order (ADR 8 and 27).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, TypeVar

from loopwright.faults import FAULTS, survive
from loopwright.ir.islkit import GaveUp, attempt, isl
from loopwright.ir.program import Program
from loopwright.log import log

__all__ = ["OnFault", "guarded"]

T = TypeVar("T")

# Called with the fault of a planner and where it came up: returns if the plan is to go on without
# it.
OnFault: TypeAlias = Callable[[Exception, str], None]


def guarded(
    plan: Callable[[], T],
    otherwise: Callable[[], T],
    what: str,
    program: Program,
    quota: int,
    on_fault: OnFault = survive,
) -> T:
    """`plan()`, or `otherwise()` where isl fails or spends the quota, or a fault is survived.

    `what` names the planner in the log and in the record of faults. Where its parts have quotas of
    their own, `quota` is for the work between them (islkit.OUTER_QUOTA). What was broken off may be
    half done: `otherwise` uses nothing of it.
    """
    try:
        with attempt(quota):
            return plan()
    except (GaveUp, isl.Error) as error:
        reason = str(error)
        log("plan", lambda: f"{what} gave up on '{program.name}': {reason}")
    except FAULTS as error:
        on_fault(error, f"{what} of '{program.name}'")
    return otherwise()
