"""`tune`: a plan for a call, by the machine model or by measuring; what is found is recorded."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import Any, TypeAlias

from loopwright.calls.c_function import CFunction
from loopwright.calls.compile import CompiledFile
from loopwright.calls.compiled_program import CompiledProgram
from loopwright.calls.einsum import einsum_task, forget_calls
from loopwright.calls.jit import JitFunction
from loopwright.calls.specialisation import Specialisation
from loopwright.diagnostics import UsageError, WrongTypeError
from loopwright.transform.plan import Plan
from loopwright.tuning.records import log_of_user
from loopwright.tuning.search import Report, Tuned, recorded_plan, search
from loopwright.tuning.tasks import Task

__all__ = ["tasks_of", "tune", "tune_tasks"]

Code: TypeAlias = Specialisation | CompiledProgram

_WAYS = "by='model' (the construction, or the best record), or by='search' with budget_ms"


def tune(
    subject: Any,
    *args: Any,
    by: str = "model",
    budget_ms: float = 0,
    executor: Executor | None = None,
    **named: Any,
) -> Plan | tuple[Plan, ...]:
    """The plan for a call; einsum, jit and compile use what was found from then on.

    `subject` is the text of an einsum, a function of `jit`, or what `compile` makes; then come
    the arguments of the call, which is not made. Of a function with several regions a plan for
    each is returned, and they share the budget.

    `by="model"` runs nothing: the plan is that of the best record, else the construction, which is
    what the machine model gives. `by="search"` measures plans around it for `budget_ms`
    milliseconds, each in a child process, checked against the construction's result and timed in
    turn with it. A plan takes the construction's place only where it was faster beyond the noise
    of two measurements. Plans that were measured are recorded, so that another search goes on where
    this one ended. Ctrl-C ends the search with the best plan so far. `executor` is one of
    concurrent.futures, whose workers measure then; without it one plan is measured at a time.
    """
    _check_way(by, budget_ms)
    codes, tasks = tasks_of(subject, args, named)
    if by == "model" or not budget_ms:
        plans = [_known_plan(task) for task in tasks]
    else:
        plans = [found.plan for found in tune_tasks(tasks, budget_ms / 1e3, executor)]
        for code in codes:
            code.forget()
    return plans[0] if len(plans) == 1 else tuple(plans)


def tasks_of(
    subject: Any, args: tuple[Any, ...], named: dict[str, Any]
) -> tuple[list[Code], list[Task]]:
    """The code that a call would run, and what is to be measured for it."""
    if isinstance(subject, str):
        return [], [einsum_task(subject, *args, **named)]
    pairs: list[tuple[Code, Task | None]]
    if isinstance(subject, JitFunction):
        pairs = [subject.task(*args, **named)]
    elif isinstance(subject, CompiledProgram):
        pairs = [(subject, subject.task(*args, **named))]
    else:
        pairs = _of_c(subject, args, named)
    if any(task is None for _, task in pairs):
        raise UsageError("there is nothing to compute in this call", hint="sizes above 0")
    return [code for code, _ in pairs], [task for _, task in pairs if task is not None]


def _of_c(
    subject: Any, args: tuple[Any, ...], named: dict[str, Any]
) -> list[tuple[Code, Task | None]]:
    if isinstance(subject, CompiledFile):
        names = list(subject)
        if len(names) != 1:
            hint = f"compiled['{names[0]}']"
            raise UsageError(f"the file has {len(names)} functions", ", ".join(names), hint)
        subject = subject[names[0]]
    if not isinstance(subject, CFunction):
        raise WrongTypeError(
            "tune takes the text of an einsum, a function of jit, or what compile makes",
            found=repr(subject)[:60],
        )
    pairs: list[tuple[Code, Task | None]] = []
    for code, given, threads in subject.region_calls(args, named):
        if not isinstance(code, Specialisation):
            what = "tune is for the target 'host' and the plan 'model'"
            raise UsageError(what, hint="compile(source), without them")
        pairs.append((code, code.task(given, threads)))
    return pairs


def tune_tasks(
    tasks: Iterable[Task],
    seconds: float,
    executor: Executor | None = None,
    report: Callable[[int], Report | None] | None = None,
) -> list[Tuned]:
    """Search for each task; what one leaves of its share of the budget is for those after it.

    Where one is interrupted, those after it are left to what is known of them. `report` gives what
    is told the progress of the task of a number.
    """
    remaining = list(tasks)
    found: list[Tuned] = []
    is_interrupted = False
    left = seconds
    for number, task in enumerate(remaining):
        start = time.monotonic()
        share = 0.0 if is_interrupted else left / (len(remaining) - number)
        told = None if report is None else report(number)
        found.append(search(task, log_of_user(), share, executor=executor, report=told))
        left -= time.monotonic() - start
        is_interrupted = is_interrupted or found[-1].is_interrupted
    forget_calls()
    return found


def _known_plan(task: Task) -> Plan:
    """The plan of the best record against today's construction, else the construction."""
    construction = task.construction()
    data = construction.to_json()
    faster = [x for x in log_of_user().of(task.key) if x.is_faster and x.construction == data]
    best = max(faster, key=lambda record: record.gain, default=None)
    return construction if best is None else recorded_plan(best)


def _check_way(by: str, budget_ms: float) -> None:
    if by == "policy":
        hint = _WAYS
        raise UsageError("there is no learned policy yet", found="by='policy'", hint=hint)
    if by not in ("model", "search"):
        raise UsageError("unknown way to tune", found=repr(by)[:60], hint=_WAYS)
    is_number = isinstance(budget_ms, int | float) and not isinstance(budget_ms, bool)
    if not is_number or not math.isfinite(budget_ms) or budget_ms < 0:
        raise UsageError("budget_ms is a number of milliseconds", found=repr(budget_ms)[:60])
