"""`einsum` over any semiring and dtype."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from loopwright import options, semirings
from loopwright.calls.einsum_kernel import contract_or_loop
from loopwright.calls.product import Scaling, extents_of, is_one, plan_contraction
from loopwright.calls.scaling import is_value, plain_number
from loopwright.calls.unproven import Unproven
from loopwright.diagnostics import UsageError
from loopwright.frontends.einsum import Subscripts, parse_subscripts, sublist_subscripts
from loopwright.ir.dtypes import DTYPES, DType, dtype_of
from loopwright.ir.form import Initial
from loopwright.recent import Recent
from loopwright.runtime.arguments import Array, as_operand, check_out
from loopwright.runtime.threads import num_threads, thread_count

__all__ = ["einsum"]

Ready: TypeAlias = tuple[Callable[..., None], tuple[int, ...], np.dtype[Any]]

_ready: Recent[tuple[Any, ...], Ready] = Recent(4096)  # calls remembered with their launch
_ndarray = np.ndarray
_empty = np.empty
current = options.current
_ONE, _ZERO = 1, 0  # the default alpha and beta, recognised by identity on the quick path


def einsum(
    subscripts: Any,
    *operands: Any,
    semiring: str | semirings.Semiring = "plus_times",
    out: Array | None = None,
    accumulate: bool = False,
    alpha: Any = _ONE,
    beta: Any = _ZERO,
    accum_dtype: Any = None,
    threads: int | None = None,
) -> Any:
    """Einstein summation over a semiring, in NumPy's grammar.

        out = beta * out  plus  alpha * SUM of products of the operands

    `accumulate` stands for beta = 1. The result has NumPy's dtype; with `accum_dtype` products are
    formed, summed and returned in that type. Floating sums may be reassociated. `out` must have the
    result's shape and share no element with an operand. Three and more operands are contracted
    pair by pair where times distributes over plus for their type and numbers; where it does not,
    all factors meet before anything is reduced (`einsum_path` tells).
    """
    if (
        alpha is _ONE
        and beta is _ZERO
        and accum_dtype is None
        and type(subscripts) is str
        and not current().careful
    ):
        # The quick path: a call laid out like an earlier one. Everything it needs to know about
        # the arrays is in the key, but for where they lie and whether out may be written.
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
            # Operands that are no arrays, or a semiring or number of threads that is none: the
            # general call converts or refuses them.
            found = None
        if found is not None and (out is None or _is_free(out, operands)):
            run, shape, dtype = found
            result = _empty(shape, dtype) if out is None else out
            run(result, operands[0], operands[-1])
            return result if shape or out is not None else result[()]
    scaling = Scaling(plain_number(alpha, "alpha"), plain_number(beta, "beta"))
    if accumulate:
        if scaling.beta not in (0, 1):
            raise UsageError("accumulate stands for beta = 1", found=f"beta = {beta!r}")
        scaling = Scaling(scaling.alpha, 1)
    return _einsum(subscripts, operands, semiring, out, scaling, accum_dtype, threads)


def _einsum(
    subscripts: Any,
    operands: Sequence[Any],
    ring: str | semirings.Semiring,
    out: Array | None,
    scaling: Scaling,
    accum_dtype: Any,
    threads: int | None,
) -> Any:
    """The general call: any number of operands, everything checked."""
    if not isinstance(subscripts, str):
        subscripts, operands = _from_sublists((subscripts, *operands))
    chosen = semirings.semiring(ring)
    arrays = tuple(as_operand(x, f"operand {k}") for k, x in enumerate(operands))
    if not arrays:
        raise UsageError("einsum needs at least one operand")
    names = parse_subscripts(subscripts, tuple(a.ndim for a in arrays))
    count = thread_count(threads)
    extents = extents_of(names, arrays)
    shape = tuple(extents[c] for c in names.out)
    result, accumulator = _types(chosen, arrays, accum_dtype, out)
    _check_scaling(chosen, scaling, out, accumulator)
    target = None if out is None else check_out(out, shape, arrays)
    if target is not None and not np.can_cast(result.numpy, target.dtype, "same_kind"):
        raise UsageError(
            f"out has dtype {target.dtype}", hint=f"the result has dtype {result.name}"
        )
    if target is None and len(arrays) == 1 and _is_view(names, scaling, accum_dtype):
        return np.einsum(names.text, arrays[0])
    direct = target if target is not None and target.dtype == result.numpy else None
    if direct is None:
        direct = _empty(shape, result.numpy)
        if target is not None and scaling.initial is not Initial.ZERO:
            direct[...] = target
    _compute(names, arrays, direct, chosen, accumulator, scaling, count)
    plain = all(a is b for a, b in zip(arrays, operands, strict=True))
    quick = plain and len(arrays) <= 2 and accum_dtype is None and not current().careful
    if quick and (target is None or target is direct):
        start = (subscripts, ring, count)
        _remember(start, names, arrays, chosen, accumulator, scaling, direct, target is None)
    if target is None:
        return direct[()] if direct.ndim == 0 else direct
    if target is not direct:
        with np.errstate(all="ignore"):
            target[...] = direct
    return target


def _compute(
    names: Subscripts,
    arrays: tuple[Array, ...],
    out: Array,
    ring: semirings.Semiring,
    accumulator: DType,
    scaling: Scaling,
    threads: int,
) -> None:
    """Fill `out`, by whoever is asked to."""
    if current().interpret:
        from loopwright.calls.einsum_meaning import interpret_einsum  # lazy: loads isl

        interpret_einsum(names, arrays, out, ring, accumulator, scaling)
    elif len(arrays) > 2 and out.size and all(a.size for a in arrays):
        from loopwright.calls.einsum_several import contract_several  # lazy: most calls have two

        contract_several(names, arrays, out, ring, accumulator, scaling, threads)
    else:
        contract_or_loop(names, arrays, out, ring, accumulator, scaling, threads)


def _is_free(out: Array, operands: tuple[Array, ...]) -> bool:
    """Whether out may be written at once; when in doubt the general call decides, or refuses."""
    return out.flags.writeable and not any(np.may_share_memory(out, x) for x in operands)


def _remember(
    start: tuple[Any, ...],
    names: Subscripts,
    arrays: tuple[Array, ...],
    ring: semirings.Semiring,
    accumulator: DType,
    scaling: Scaling,
    out: Array,
    fresh: bool,
) -> None:
    """Keep the launch of a plain call, so that its repetition costs microseconds."""
    whole = out.size and all(a.size for a in arrays)
    if not whole or not is_one(scaling.alpha) or scaling.initial is Initial.SCALED:
        return
    try:
        choice, bound = plan_contraction(names, arrays, out, ring, accumulator, scaling, start[2])
    except Unproven:
        return
    key = _layout((*start, scaling.initial is Initial.OUT), arrays, None if fresh else out)
    _ready[key] = (bound.quick(choice.instance.swapped), out.shape, out.dtype)


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


def _types(
    ring: semirings.Semiring, arrays: tuple[Array, ...], accum_dtype: Any, out: Any
) -> tuple[DType, DType]:
    """Dtypes of the result and of the accumulators; a wider out widens both, as with NumPy."""
    promoted = dtype_of(np.result_type(*arrays))
    if isinstance(out, _ndarray) and np.can_cast(promoted.numpy, out.dtype, "safe"):
        promoted = DTYPES.get(out.dtype.name, promoted)
    if accum_dtype is not None:
        wide = dtype_of(accum_dtype)
        if not np.can_cast(promoted.numpy, wide.numpy, "same_kind"):
            raise UsageError(f"accum_dtype {wide} cannot hold products of {promoted}")
        promoted = accumulator = wide
    else:
        accumulator = _default_accumulator(promoted)
    ring.check_dtype(accumulator)
    return promoted, accumulator


def _default_accumulator(dtype: DType) -> DType:
    """NumPy sums float16 in float32; every other type in itself."""
    return DTYPES["float32"] if dtype.name == "float16" else dtype


def _check_scaling(
    ring: semirings.Semiring, scaling: Scaling, out: Array | None, accumulator: DType
) -> None:
    if scaling.initial is not Initial.ZERO and out is None:
        raise UsageError("accumulate and beta need the array they add to", hint="pass out=")
    scales = not is_one(scaling.alpha) or scaling.initial is Initial.SCALED
    if scales and ring.name != "plus_times":
        raise UsageError(
            f"alpha and beta scale sums of products, not semiring '{ring.name}'",
            hint="leave alpha 1 and beta 0 or 1",
        )
    for what, number in (("alpha", scaling.alpha), ("beta", scaling.beta)):
        if not is_value(number, accumulator):
            raise UsageError(
                f"{what} is no value of {accumulator}, the type of the sums",
                found=repr(number),
                hint="an accum_dtype that holds it",
            )


def _is_view(names: Subscripts, scaling: Scaling, accum_dtype: Any) -> bool:
    """Whether NumPy would answer with a view: nothing is summed, scaled or converted."""
    kept = set(names.operands[0]) == set(names.out)
    return kept and scaling == Scaling() and accum_dtype is None


def _from_sublists(arguments: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """einsum(op0, sublist0, op1, sublist1, ..., [sublistout])."""
    pairs, rest = divmod(len(arguments), 2)
    operands = arguments[0 : 2 * pairs : 2]
    lists = arguments[1 : 2 * pairs : 2]
    if not all(isinstance(x, Sequence) for x in lists):
        raise UsageError("einsum takes a string of subscripts, or arrays and index lists in turn")
    return sublist_subscripts(lists, arguments[-1] if rest else None), operands
