"""One or two operands into one result: a plan, its kernel, a launch; or plain loops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from loopwright import options
from loopwright.calls.einsum_call import EinsumCall, is_one
from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.faults import FAULTS, survive
from loopwright.ir.dtypes import dtype_of
from loopwright.ir.kernel_variant import Initial
from loopwright.kernels import Unproven, contraction_kernel, thread_pool
from loopwright.lower.contraction_nests.launch import launch
from loopwright.memo import BoundedCache
from loopwright.planner.contraction_plans.analytical import Choice, choose
from loopwright.planner.contraction_plans.explain import log_plan
from loopwright.runtime.array_arguments import Array
from loopwright.runtime.code_memory import bounded
from loopwright.runtime.kernel import BoundKernel
from loopwright.tuning.recall import recorded_choice

if TYPE_CHECKING:
    from loopwright.ir.loops import LoopNest

__all__ = ["choice_of", "contract", "forget_launches", "kernel_arrays", "plan_contraction"]


_MOST_LAUNCHES = 1024
_launches: BoundedCache[tuple[Any, ...], tuple[Choice, BoundKernel]] = bounded(
    BoundedCache(_MOST_LAUNCHES)
)
_unproven: BoundedCache[tuple[Any, ...], None] = BoundedCache(
    _MOST_LAUNCHES
)  # calls that run as plain loops


def contract(call: EinsumCall) -> None:
    """One or two operands into `out`: by a kernel, or by loops where its plan is not proven."""
    out = call.out
    if out.size == 0:
        return
    if any(a.size == 0 for a in call.arrays):
        _fill_initial(call)
        return
    try:
        choice, bound = plan_contraction(call)
    except Unproven:
        from loopwright.calls.einsum_loops import loop_einsum  # lazy: isl, and hardly ever

        loop_einsum(call)
        return
    bound(*kernel_arrays(call, choice))


def kernel_arrays(call: EinsumCall, choice: Choice) -> tuple[Array, ...]:
    """The arrays that the kernel of a choice takes, in its order."""
    left, right = call.arrays[0], call.arrays[-1]
    if choice.variant.swapped:
        left, right = right, left
    extra = []
    if choice.kernel.algebra.scaled:
        extra.append(np.array(call.scaling.alpha, dtype=call.accumulator.numpy))
    if choice.kernel.algebra.initial is Initial.SCALED:
        extra.append(np.array(call.scaling.beta, dtype=call.accumulator.numpy))
    return (call.out, left, right, *extra)


def plan_contraction(call: EinsumCall) -> tuple[Choice, BoundKernel]:
    """Choose a kernel for one or two operands, fetch it and bind the launch.

    Launches are remembered: a call with the layout of an earlier one needs no planning. Raises
    Unproven where the plan of the model is not proven, or a fault of ours is survived, before
    anything is written.
    """
    key = (
        call.names,
        call.ring,
        call.accumulator,
        call.scaling.initial,
        is_one(call.scaling.alpha),
        call.threads,
        call.plan,
        options.current().boundscheck,
        tuple((a.dtype, a.shape, a.strides) for a in (*call.arrays, call.out)),
    )
    found = _launches.get(key)
    if found is not None:
        return found
    text = call.names.text
    if key in _unproven:
        raise Unproven(text)
    try:
        found = _launch(call)
    except (Unproven, *FAULTS) as error:
        if call.plan is not None:
            if isinstance(error, IllegalStep):
                raise
            message = f"the plan of einsum '{text}' is too hard to check"
            raise UsageError(message, found=str(error)) from error
        if not isinstance(error, Unproven):
            survive(error, f"the kernel of einsum '{text}'")
        _unproven[key] = None
        raise Unproven(text) from error
    _launches[key] = found
    return found


def _launch(call: EinsumCall) -> tuple[Choice, BoundKernel]:
    """A new launch: its plan, its kernel from a proven schedule."""
    choice = choice_of(call)
    log_plan(f"einsum '{call.names.text}'", choice, call.machine)

    def nest() -> LoopNest:
        from loopwright.pipeline import compile_einsum  # lazy: isl, for new kernels only

        return compile_einsum(call.names, choice, is_given=call.plan is not None)

    kernel = contraction_kernel(choice.kernel, nest)
    values = launch(choice.variant, choice.blocks, choice.shape)
    return choice, kernel.bind(values.values, values.table, choice.threads, thread_pool)


def forget_launches() -> None:
    """Plan all calls anew: there are other records."""
    _launches.clear()


def choice_of(call: EinsumCall) -> Choice:
    """The kernel for one or two operands, by the user's plan, a record or the model."""
    if call.plan is None:
        given = call.shape, call.algebra, call.machine, call.threads
        made = choose(*given, reassoc=True)
        recorded = recorded_choice(made, *given, reassoc=True)
        return made if recorded is None else recorded[0]
    # lazy: plans load isl
    from loopwright.planner.contraction_plans.given_choice import given_choice

    given = call.shape, call.algebra, call.machine, call.threads
    return given_choice(call.plan, *given, reassoc=True)


def _fill_initial(call: EinsumCall) -> None:
    """The value of an empty reduction: the identity of plus, added to what was there."""
    out = call.out
    match call.scaling.initial:
        case Initial.ZERO:
            out[...] = call.ring.zero(dtype_of(out.dtype))
        case Initial.SCALED:
            with np.errstate(all="ignore"):
                out *= np.asarray(call.scaling.beta, dtype=out.dtype)
        case Initial.OUT:
            return
