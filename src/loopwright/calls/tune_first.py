"""The keyword `tune=` of einsum, jit and compile: a search before the first run on new sizes.

`tune="policy"` measures what the learned policy proposes against the construction, where it
proposes anything else, and takes it where it is faster beyond the noise.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from loopwright.diagnostics import UsageError
from loopwright.log import log
from loopwright.tuning.policy_files import policy_for
from loopwright.tuning.policy_plan import policy_plan
from loopwright.tuning.records import log_of_user
from loopwright.tuning.search import search
from loopwright.tuning.tasks import Task

if TYPE_CHECKING:
    from loopwright.calls.specialisation import Specialisation, TuneFirst

__all__ = ["tune_once", "tuning_first"]

_USUAL_SECONDS = 10.0  # of tune="search"
_POLICY_SECONDS = 1.0  # of tune="policy": its plan is measured first


def checked_seconds(tune: str | float) -> float:
    """The budget that tune= asks for; 0 for none."""
    if tune == "model":
        return 0.0
    if tune == "search":
        return _USUAL_SECONDS
    if tune == "policy":
        return _POLICY_SECONDS
    is_number = isinstance(tune, int | float) and not isinstance(tune, bool)
    if is_number and 0 <= float(tune) < math.inf:
        return float(tune)
    hint = "'search', 'policy', 'model', or seconds"
    raise UsageError("unknown way to tune", found=repr(tune)[:60], hint=hint)


def tune_once(task: Task, tune: str | float) -> bool:
    """Search for a task that has no records against today's construction; whether it did."""
    seconds = checked_seconds(tune)
    if not seconds:
        return False
    construction = task.construction()
    data = construction.to_json()
    known = (record for record in log_of_user().of(task.key) if not record.is_raced)
    if any(record.construction == data for record in known):
        return False
    given = task, log_of_user(), seconds
    if tune == "policy":
        proposed = policy_plan(task, policy_for("general"), 1.0)
        if proposed == construction:
            return False
        found = search(*given, first=[proposed])
    else:
        found = search(*given)
    log("tune", lambda: f"{found.tried} plans tried, {found.gain:.2f} times as fast")
    return True


def tuning_first(tune: str | float) -> TuneFirst:
    """What a function does before it makes code for new sizes."""
    checked_seconds(tune)

    def first(code: Specialisation, args: tuple[Any, ...], threads: int) -> None:
        task = code.task(args, threads)
        if task is not None:
            tune_once(task, tune)

    return first
