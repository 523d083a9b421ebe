"""`einsum` over any semiring and dtype."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

# Bound here: a program that puts another einsum in the place of NumPy's may put ours there.
from numpy import einsum as numpy_einsum

from loopwright import options, semirings
from loopwright.calls.einsum_call import (
    EinsumCall,
    NumpyOptions,
    Path,
    Scaling,
    as_operands,
    check_scaling,
    extents_of,
    from_text_or_lists,
    is_one,
    memory_order,
    no_single_contraction,
    plain_number,
    read_options,
    types_of,
)
from loopwright.calls.einsum_contraction import (
    choice_of,
    contract,
    forget_launches,
    plan_contraction,
)
from loopwright.diagnostics import DtypeError, LoopwrightError, UsageError
from loopwright.frontends.einsum_syntax import parse_subscripts
from loopwright.ir.kernel_variant import Initial
from loopwright.kernels import Unproven
from loopwright.lazy_dataclass import dataclass
from loopwright.machines.machine_argument import target_machine
from loopwright.memo import BoundedCache
from loopwright.runtime.array_arguments import Array, check_out, takes_results
from loopwright.runtime.code_memory import bounded
from loopwright.runtime.thread_pool import num_threads, thread_count
from loopwright.tracebacks import hide_frames

if TYPE_CHECKING:
    from loopwright.runtime.foreign_arrays import ArrayLibrary
    from loopwright.transform.plan import Plan
    from loopwright.tuning.tasks import ContractionTask

__all__ = [
    "einsum",
    "einsum_plan",
    "einsum_task",
    "forget_calls",
    "forgetting",
    "prepared",
    "scaling_of",
    "view_of",
]

Ready: TypeAlias = tuple[Callable[..., None], tuple[int, ...], np.dtype[Any]]

# Calls remembered with their launch.
_ready: BoundedCache[tuple[Any, ...], Ready] = bounded(BoundedCache(1024))
forgetting: list[Callable[[], None]] = []  # of others who remember calls
_ndarray = np.ndarray
_empty = np.empty
current = options.current
_HOST = frozenset({_ndarray, str, bytes, list, tuple, int, float, type(None)})
_ONE, _ZERO, _KEEP = 1, 0, "K"  # defaults, recognised by identity on the quick path


def einsum(
    subscripts: Any = None,
    *operands: Any,
    semiring: str | semirings.Semiring = "plus_times",
    out: Array | None = None,
    dtype: Any = None,
    order: Any = _KEEP,
    casting: Any = None,
    optimize: Any = False,
    accumulate: bool = False,
    alpha: Any = _ONE,
    beta: Any = _ZERO,
    accum_dtype: Any = None,
    threads: int | None = None,
    plan: Plan | None = None,
    tune: str | float | None = None,
) -> Any:
    """Einstein summation over a semiring, in NumPy's grammar.

        out = beta * out  plus  alpha * SUM of products of the operands

    `accumulate` stands for beta = 1. The result has NumPy's dtype; with `accum_dtype` products are
    formed, summed and returned in that type. Floating sums may be reassociated. `out` must have the
    result's shape. Three and more operands are contracted pair by pair where times distributes over
    plus for their type and numbers; where it does not, all factors meet before anything is reduced
    (`einsum_path` tells).

    As in numpy.einsum: `dtype` is the type of the calculation and of the result, to which operands
    are converted as far as `casting` allows; `order` is the memory order of a new result ('K' is
    'C' but for views); `optimize` names the order of contraction: 'greedy' (also True and False),
    'optimal', (name, elements of an intermediate result), a path of einsum_path or of opt_einsum,
    or an optimizer of opt_einsum or its name. One operand of which nothing is summed gives a view.

    `plan` runs one or two operands by a plan of `einsum_plan`, made for these or other sizes.
    `tune="search"`, or a number of seconds, first measures plans for one or two operands, where
    none has been recorded for such a call: see `loopwright.tune`.

    Operands on a CUDA device (arrays of PyTorch, CuPy, Numba, or of any library that has
    `__cuda_array_interface__` or DLPack) are contracted there, in the current stream of their
    library, and the call does not wait: see calls/device_einsum. `threads` have no meaning then,
    and there are no views. Operands of other libraries in this process's memory (PyTorch's on the
    processor) are read where they lie, and the result is an array of theirs.
    """
    if (
        plan is None
        and tune is None
        and alpha is _ONE
        and beta is _ZERO
        and accum_dtype is None
        and dtype is None
        and casting is None
        and order is _KEEP
        and (optimize is False or optimize is True)
        and type(subscripts) is str
        and not current().careful
    ):
        # The quick path: a call laid out like an earlier one. Everything it needs to know about
        # the arrays is in the key, but for where they lie and whether out may be written.
        if out is None and operands and type(operands[0]) is not _ndarray and not accumulate:
            again = _repeated_on_device(subscripts, operands, semiring)
            if again is not None:
                return again
        count = num_threads() if threads is None else threads
        try:
            if out is None and len(operands) == 2:
                a, b = operands
                found = _ready.get((
                    subscripts, semiring, count, accumulate,
                    type(a), a.dtype, a.shape, a.strides, a.flags.aligned,
                    type(b), b.dtype, b.shape, b.strides, b.flags.aligned,
                ))  # fmt: skip
            else:
                start = (subscripts, semiring, count, accumulate)
                found = _ready.get(_layout(start, operands, out))
        except (TypeError, AttributeError):
            # Operands that are no arrays of NumPy, or a semiring or number of threads that is none:
            # the general call converts or refuses them.
            found = None
        if found is not None and (out is None or _is_free(out, operands)):
            run, shape, kind = found
            result = _empty(shape, kind) if out is None else out
            run(result, operands[0], operands[-1])
            return result if shape or out is not None else result[()]
    try:
        on_device = _any_on_device((subscripts, *operands, out))
        library = None if on_device else _library_of((subscripts, *operands, out))
        if library is not None:
            *seen, place = library.views((subscripts, *operands, out), "operand", 0)
            result = einsum(
                *seen, semiring=semiring, out=place, dtype=dtype, order=order, casting=casting,
                optimize=optimize, accumulate=accumulate, alpha=alpha, beta=beta,
                accum_dtype=accum_dtype, threads=threads, plan=plan, tune=tune,
            )  # fmt: skip
            return out if out is not None else library.in_kind(result)
        scaling = scaling_of(alpha, beta, accumulate)
        asked = read_options(optimize, dtype, order, casting)
        if tune is not None:
            how = scaling, accum_dtype, threads, asked
            _tune_first(tune, subscripts, operands, semiring, out, *how, plan)
        if on_device:
            from loopwright.calls.device_einsum import device_einsum  # lazy: for users of GPUs

            given = scaling, accum_dtype, asked, plan
            return device_einsum(subscripts, operands, semiring, out, *given)
        return _einsum(
            subscripts, operands, semiring, out, scaling, accum_dtype, threads, asked, plan
        )
    except LoopwrightError as error:
        hide_frames(error)
        raise


def einsum_plan(
    subscripts: Any,
    *operands: Any,
    semiring: str | semirings.Semiring = "plus_times",
    out: Array | None = None,
    dtype: Any = None,
    accumulate: bool = False,
    alpha: Any = _ONE,
    beta: Any = _ZERO,
    accum_dtype: Any = None,
    threads: int | None = None,
) -> Plan:
    """The plan of an einsum of one or two operands, which `einsum(..., plan=)` takes.

    Nothing is computed. The keywords are those of `einsum` that a plan depends on. The plan of
    arrays on a device is for arrays on devices.
    """
    scaling = scaling_of(alpha, beta, accumulate)
    asked = read_options(False, dtype, "K", None)
    if _any_on_device((subscripts, *operands, out)):
        from loopwright.calls.device_einsum import device_einsum_plan  # lazy: for users of GPUs

        given = scaling, accum_dtype, asked
        return device_einsum_plan(subscripts, operands, semiring, out, *given)
    made = prepared(subscripts, operands, semiring, out, scaling, accum_dtype, threads, asked)
    _require_pair(made.call)
    from loopwright.planner.contraction_plans.given_choice import plan_of  # lazy: plans load isl

    return plan_of(choice_of(made.call))


def einsum_task(
    subscripts: Any,
    *operands: Any,
    semiring: str | semirings.Semiring = "plus_times",
    out: Array | None = None,
    dtype: Any = None,
    accumulate: bool = False,
    alpha: Any = _ONE,
    beta: Any = _ZERO,
    accum_dtype: Any = None,
    threads: int | None = None,
) -> ContractionTask:
    """What tuning measures for an einsum of one or two operands."""
    scaling = scaling_of(alpha, beta, accumulate)
    asked = read_options(False, dtype, "K", None)
    made = prepared(subscripts, operands, semiring, out, scaling, accum_dtype, threads, asked)
    return _task(made.call)


def _task(call: EinsumCall) -> ContractionTask:
    _require_pair(call)
    from loopwright.tuning.tasks import ContractionTask  # lazy: tuning loads isl

    return ContractionTask(call.algebra, call.shape, call.machine, call.threads)


def _tune_first(
    tune: str | float,
    subscripts: Any,
    operands: Sequence[Any],
    ring: str | semirings.Semiring,
    out: Array | None,
    scaling: Scaling,
    accum_dtype: Any,
    threads: int | None,
    asked: NumpyOptions,
    plan: Plan | None,
) -> None:
    """Tune a call that has not been tuned; one that cannot be, says why."""
    # lazy: almost nobody tunes
    from loopwright.calls.tune_first import tune_once

    if plan is not None:
        raise UsageError("plan= and tune= exclude each other", hint="the plan that tune gave")
    if _any_on_device((subscripts, *operands, out)):
        raise UsageError("tune= is for arrays of NumPy", hint="leave it out for arrays of a GPU")
    made = prepared(subscripts, operands, ring, out, scaling, accum_dtype, threads, asked)
    if tune_once(_task(made.call), tune):
        forget_calls()


def forget_calls() -> None:
    """Plan all calls anew: there are other records."""
    _ready.clear()
    forget_launches()
    for forget in forgetting:
        forget()


def _any_on_device(values: Iterable[Any]) -> bool:
    """Whether some argument lies on a CUDA device; arrays of NumPy are told at a glance."""
    others = [x for x in values if type(x) not in _HOST]
    if not others:
        return False
    from loopwright.runtime.device_arrays import is_device_array  # lazy: hardly any call needs it

    return any(map(is_device_array, others))


def _library_of(values: Iterable[Any]) -> ArrayLibrary | None:
    """Whose arrays some arguments are; None where all are NumPy's, or no arrays."""
    others = [x for x in values if type(x) not in _HOST]
    if not others:
        return None
    from loopwright.runtime.foreign_arrays import library_of  # lazy: most arrays are NumPy's

    return library_of(others)


def _repeated_on_device(
    subscripts: str, operands: tuple[Any, ...], semiring: str | semirings.Semiring
) -> Any | None:
    """The result of a call laid out like an earlier one on a device; None where there was none."""
    device_einsum = sys.modules.get("loopwright.calls.device_einsum")
    if device_einsum is None:
        return None  # no call of this process had arrays of a device
    return device_einsum.repeated_einsum(subscripts, operands, semiring)


def _require_pair(call: EinsumCall, *, may_be_empty: bool = False) -> None:
    """Refuse a plan for a call that is no single contraction."""
    is_empty = not call.out.size or not all(a.size for a in call.arrays)
    if len(call.arrays) > 2 or (is_empty and not may_be_empty):
        raise no_single_contraction(call.names.text, len(call.arrays))


def scaling_of(alpha: Any, beta: Any, accumulate: bool) -> Scaling:
    scaling = Scaling(plain_number(alpha, "alpha"), plain_number(beta, "beta"))
    if not accumulate:
        return scaling
    if scaling.beta not in (0, 1):
        raise UsageError("accumulate stands for beta = 1", found=f"beta = {beta!r}")
    return Scaling(scaling.alpha, 1)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A call whose arguments are checked and converted."""

    call: EinsumCall  # its out may be a temporary
    subscripts: str
    target: Array | None  # the user's out

    def given(self) -> Any:
        """What the user receives, once `call.out` is computed."""
        direct, target = self.call.out, self.target
        if target is None:
            return direct[()] if direct.ndim == 0 else direct
        if target is not direct:
            with np.errstate(all="ignore"):
                target[...] = direct
        return target


def _einsum(
    subscripts: Any,
    operands: Sequence[Any],
    ring: str | semirings.Semiring,
    out: Array | None,
    scaling: Scaling,
    accum_dtype: Any,
    threads: int | None,
    asked: NumpyOptions,
    plan: Plan | None,
) -> Any:
    """The general call: any number of operands, everything checked."""
    if not isinstance(subscripts, str):
        subscripts, operands = from_text_or_lists(subscripts, operands)
    is_plain = len(operands) == 1 and out is None and accum_dtype is None and plan is None
    if is_plain and scaling == Scaling():
        view = view_of(subscripts, operands[0], asked)
        if view is not None:
            semirings.semiring(ring), thread_count(threads)  # what is wrong with them is told
            return view
    made = prepared(subscripts, operands, ring, out, scaling, accum_dtype, threads, asked)
    call = made.call
    if plan is not None:
        from loopwright.planner.planners import checked_plan  # lazy: plans load isl

        call = replace(call, plan=checked_plan(plan))
        _require_pair(call, may_be_empty=True)
    _compute(call, asked.path)
    plain = all(a is b for a, b in zip(call.arrays, operands, strict=True)) and asked.are_default
    quick = plain and len(call.arrays) <= 2 and accum_dtype is None and not current().careful
    if quick and plan is None and (made.target is None or made.target is call.out):
        _remember((subscripts, ring, call.threads), call, made.target is None)
    return made.given()


def prepared(
    subscripts: Any,
    operands: Sequence[Any],
    ring: str | semirings.Semiring,
    out: Array | None,
    scaling: Scaling,
    accum_dtype: Any,
    threads: int | None,
    asked: NumpyOptions,
) -> _Prepared:
    """Check and convert everything."""
    if not isinstance(subscripts, str):
        subscripts, operands = from_text_or_lists(subscripts, operands)
    if not operands:
        raise UsageError("einsum needs at least one operand")
    chosen = semirings.semiring(ring)
    count = thread_count(threads)
    arrays = as_operands(operands, asked)
    names = parse_subscripts(subscripts, tuple(a.ndim for a in arrays))
    extents = extents_of(names, arrays)
    shape = tuple(extents[c] for c in names.out)
    result, accumulator = types_of(
        chosen,
        [a.dtype for a in arrays],
        accum_dtype,
        out.dtype if isinstance(out, _ndarray) else None,
        asked,
    )
    check_scaling(chosen, scaling, out, accumulator)
    target = None if out is None else check_out(out, shape)
    rule: Any = asked.casting or "same_kind"
    if target is not None and not np.can_cast(result.numpy, target.dtype, rule):
        raise DtypeError(
            f"out has dtype {target.dtype}", hint=f"the result has dtype {result.name}"
        )
    if target is not None and takes_results(target, result.numpy, arrays):
        direct = target
    else:
        direct = _empty(shape, result.numpy, memory_order(arrays, asked.order))
        if target is not None and scaling.initial is not Initial.ZERO:
            direct[...] = target
    call = EinsumCall(names, arrays, direct, chosen, accumulator, scaling, count, target_machine())
    return _Prepared(call, subscripts, target)


def view_of(subscripts: str, operand: Any, asked: NumpyOptions) -> Any:
    """NumPy's view of an array of which nothing is summed or converted; else None."""
    if not isinstance(operand, _ndarray) or (asked.dtype or operand.dtype) != operand.dtype:
        return None
    names = parse_subscripts(subscripts, (operand.ndim,))
    if set(names.operands[0]) != set(names.out):
        return None
    extents_of(names, (operand,))
    return numpy_einsum(names.text, operand)


def _compute(call: EinsumCall, path: Path) -> None:
    """Fill `out`, by whoever is asked to."""
    if current().interpret:
        from loopwright.calls.einsum_loops import interpret_einsum  # lazy: loads isl

        interpret_einsum(call)
    elif len(call.arrays) > 2 and call.out.size and all(a.size for a in call.arrays):
        from loopwright.calls.einsum_path import contract_several  # lazy: most calls have two

        contract_several(call, path)
    else:
        contract(call)


def _is_free(out: Array, operands: tuple[Array, ...]) -> bool:
    """Whether out may be written at once; when in doubt the general call decides, or refuses."""
    return out.flags.writeable and not any(np.may_share_memory(out, x) for x in operands)


def _remember(start: tuple[Any, ...], call: EinsumCall, fresh: bool) -> None:
    """Keep the launch of a plain call, so that its repetition costs microseconds."""
    out, initial = call.out, call.scaling.initial
    whole = out.size and all(a.size for a in call.arrays)
    if not whole or not is_one(call.scaling.alpha) or initial is Initial.SCALED:
        return
    try:
        choice, bound = plan_contraction(call)
    except Unproven:
        return
    key = _layout((*start, initial is Initial.OUT), call.arrays, None if fresh else out)
    _ready[key] = (bound.quick(choice.variant.swapped), out.shape, out.dtype)


def _layout(start: tuple[Any, ...], operands: Sequence[Any], out: Array | None) -> tuple[Any, ...]:
    """The key of a call: what its operands look like, wherever they lie."""
    arrays = operands if out is None else (*operands, None, out)
    parts = [
        x
        for a in arrays
        for x in (
            (type(a), a.dtype, a.shape, a.strides, a.flags.aligned) if a is not None else (a,)
        )
    ]
    return (*start, *parts)
