"""`tune`: a plan for a call, by the machine model or by measuring; what is found is recorded."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import Any, TypeAlias

from loopwright import clock
from loopwright.calls.c_function import CFunction
from loopwright.calls.compile import CompiledFile
from loopwright.calls.compiled_program import CompiledProgram
from loopwright.calls.einsum import einsum_task, forget_calls
from loopwright.calls.jit import JitFunction
from loopwright.calls.specialisation import Specialisation
from loopwright.diagnostics import UsageError, WrongTypeError
from loopwright.transform.plan import Plan
from loopwright.tuning.candidate_worker import Limits
from loopwright.tuning.evaluators import modelled_plan
from loopwright.tuning.policy import Policy
from loopwright.tuning.policy_files import policy_for
from loopwright.tuning.policy_plan import policy_plan
from loopwright.tuning.records import best_of, log_of_user
from loopwright.tuning.search import Report, Tuned, recorded_plan, search
from loopwright.tuning.tasks import Task

__all__ = ["tasks_of", "tune", "tune_tasks"]

Code: TypeAlias = Specialisation | CompiledProgram

_WAYS = "by='model' (the construction, or the best record), 'policy', or 'search' with budget_ms"


def tune(
    subject: Any,
    *args: Any,
    by: str = "model",
    budget_ms: float = 0,
    executor: Executor | None = None,
    cold: bool = False,
    **named: Any,
) -> Plan | tuple[Plan, ...]:
    """The plan for a call; einsum, jit and compile use what was found from then on.

    `subject` is the text of an einsum, a function of `jit`, or what `compile` makes; then come
    the arguments of the call, which is not made. Of a function with several regions a plan for
    each is returned, and they share the budget.

    `by="model"` runs nothing: the plan is that of the best record, else the construction, which is
    what the machine model gives, unless a plan around it is predicted faster by more than the
    prediction may be wrong. `by="search"` measures plans around it for `budget_ms`
    milliseconds, each in a child process, checked against the construction's result and timed in
    turn with it. A plan takes the construction's place only where it was faster beyond the noise
    of two measurements. Plans that were measured are recorded, so that another search goes on where
    this one ended. Ctrl-C ends the search with the best plan so far. `executor` is one of
    concurrent.futures, whose workers measure then; without it one plan is measured at a time.
    With `cold` the caches are flushed before every run, for calls whose operands come from memory;
    the plan of the last search counts, cold or warm.

    `by="policy"` asks the learned policy, in milliseconds; what it proposes takes the place of the
    construction unmeasured only where the cost model promises a quarter more. With `budget_ms` it
    is measured first, then the plans around the construction, as by a search.
    """
    _check_way(by, budget_ms, cold)
    codes, tasks = tasks_of(subject, args, named)
    if by == "model" or not budget_ms:
        plans = [_known_plan(task, by == "policy") for task in tasks]
    else:
        policy = policy_for("general") if by == "policy" else None
        found = tune_tasks(tasks, budget_ms / 1e3, executor, cold=cold, policy=policy)
        plans = [each.plan for each in found]
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
    *,
    cold: bool = False,
    policy: Policy | None = None,
) -> list[Tuned]:
    """Search for each task; what one leaves of its share of the budget is for those after it.

    Where one is interrupted, those after it are left to what is known of them. `report` gives what
    is told the progress of the task of a number. A plan of `policy` is tried first.
    """
    remaining = list(tasks)
    found: list[Tuned] = []
    is_interrupted = False
    left = seconds
    for number, task in enumerate(remaining):
        start = clock.now()
        share = 0.0 if is_interrupted else left / (len(remaining) - number)
        told = None if report is None else report(number)
        first = [] if policy is None else [policy_plan(task, policy, 1.0)]
        limits = Limits(is_cold=cold)
        where = task, log_of_user(), share
        found.append(search(*where, executor=executor, limits=limits, report=told, first=first))
        left -= clock.now() - start
        is_interrupted = is_interrupted or found[-1].is_interrupted
    forget_calls()
    return found


def _known_plan(task: Task, by_policy: bool = False) -> Plan:
    """The plan of the best record against today's construction, else what the model thinks best.

    With `by_policy`, the learned policy's in place of the model's where it promises enough.
    """
    construction = task.construction()
    data = construction.to_json()
    best = best_of(x for x in log_of_user().of(task.key) if x.construction == data)
    recorded = None if best is None else recorded_plan(best, task)
    if recorded is not None:
        return recorded
    proposed = policy_plan(task, policy_for("general")) if by_policy else construction
    return modelled_plan(task) if proposed == construction else proposed


def _check_way(by: str, budget_ms: float, cold: bool) -> None:
    if by not in ("model", "search", "policy"):
        raise UsageError("unknown way to tune", found=repr(by)[:60], hint=_WAYS)
    is_number = isinstance(budget_ms, int | float) and not isinstance(budget_ms, bool)
    if not is_number or not math.isfinite(budget_ms) or budget_ms < 0:
        raise UsageError("budget_ms is a number of milliseconds", found=repr(budget_ms)[:60])
    if not isinstance(cold, bool):
        raise UsageError("cold is True or False", found=repr(cold)[:60])
