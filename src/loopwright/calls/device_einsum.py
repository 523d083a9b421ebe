"""`einsum` on arrays of a CUDA device: the same grammar and semirings, arrays where they lie.

Operands are arrays of PyTorch, CuPy, Numba or of any library that has `__cuda_array_interface__` or
DLPack, all on one device. The result is an array of the first operand's library, made in its
current stream; nothing waits for the device, so that calls can be captured in a graph once a call
of the same layout has been made. Three and more operands go pair by pair, as on the host; where the
values of operands would have to be read to know that they may, only the last step reduces.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from loopwright import semirings
from loopwright.calls.device_contraction import (
    DeviceCall,
    DeviceContraction,
    contract_on_device,
    copy_on_device,
    device_choice,
)
from loopwright.calls.einsum_call import (
    NumpyOptions,
    Scaling,
    check_scaling,
    extents_of,
    from_text_or_lists,
    no_single_contraction,
    types_of,
)
from loopwright.calls.einsum_path import Order, block_of, order_unread
from loopwright.diagnostics import DtypeError, UsageError
from loopwright.frontends.einsum_syntax import EinsumSubscripts, parse_subscripts
from loopwright.ir.dtypes import BFLOAT16, DType
from loopwright.ir.kernel_variant import Initial
from loopwright.memo import BoundedCache
from loopwright.runtime.cuda_driver import CudaDevice, cuda_device
from loopwright.runtime.cuda_executable import in_stream_order
from loopwright.runtime.device_arrays import (
    DeviceArray,
    check_result,
    current_stream,
    device_array,
    empty_like_arguments,
    overlap,
)
from loopwright.runtime.dlpack_tensor import row_major

if TYPE_CHECKING:
    from loopwright.transform.plan import Plan

__all__ = ["device_einsum", "device_einsum_plan", "repeated_einsum"]

_MOST_BETWEEN = 1 << 26  # elements of an intermediate result that holds every index


_ALIGNED = 16  # bytes that loads move at most


class _Ready(NamedTuple):
    """What a call laid out like an earlier one needs."""

    contraction: DeviceContraction
    shape: tuple[int, ...]  # of the result
    dtype: Any  # of the result, as the library has it
    device: CudaDevice


_PLAIN = Scaling()
_ready: BoundedCache[tuple[Any, ...], _Ready] = BoundedCache(512)  # plain calls by their layout


def repeated_einsum(
    subscripts: str, operands: Sequence[Any], ring: str | semirings.Semiring
) -> Any | None:
    """The result of a plain call laid out like an earlier one; None where there was none.

    A call of a few microseconds: arrays are read by the attributes of their own library.
    """
    try:
        key = _layout(subscripts, ring, operands)
        found = _ready.get(key) if key is not None else None
    except (TypeError, AttributeError, RuntimeError):
        return None  # the general call tells what is wrong
    if found is None:
        return None
    contraction, shape, dtype, device = found
    left, right = operands[0], operands[-1]
    if type(left).__module__ == "torch":
        out = left.new_empty(shape, dtype=dtype)
        stream = current_stream("torch", device.ordinal)
        places = out.data_ptr(), left.data_ptr(), right.data_ptr()
    else:
        with device.current():
            out = sys.modules["cupy"].empty(shape, dtype)
        stream = current_stream("cupy", device.ordinal)
        places = out.data.ptr, left.data.ptr, right.data.ptr
    contraction.launch(places, _PLAIN, stream, device)
    return out


def _layout(
    subscripts: str, ring: str | semirings.Semiring, operands: Sequence[Any]
) -> tuple[Any, ...] | None:
    """What the launches of a plain call depend on; None for libraries that take the long way.

    Tensors that are refused have keys that no call was made with.
    """
    parts: list[Any] = [subscripts, ring]
    for x in operands:
        match type(x).__module__:
            case "torch":
                parts += (
                    *(x.dtype, x.shape, x.stride(), x.device, x.data_ptr() % _ALIGNED),
                    *(x.requires_grad, x.is_conj(), x.is_neg()),
                )
            case "cupy":
                parts += (x.dtype, x.shape, x.strides, x.device.id, x.data.ptr % _ALIGNED)
            case _:
                return None
    return tuple(parts)


class _Prepared(NamedTuple):
    """A call whose arguments are checked."""

    subscripts: str
    operands: Sequence[Any]
    names: EinsumSubscripts
    views: tuple[DeviceArray, ...]
    ring: semirings.Semiring
    shape: tuple[int, ...]  # of the result
    dtype: DType  # of the result
    accumulator: DType
    out: DeviceArray | None  # the user's


def device_einsum(
    subscripts: Any,
    operands: Sequence[Any],
    ring: str | semirings.Semiring,
    out: Any,
    scaling: Scaling,
    accum_dtype: Any,
    asked: NumpyOptions,
    plan: Plan | None = None,
) -> Any:
    """`einsum` where an operand, or out, lies on a device; see this module."""
    made = _prepared(subscripts, operands, ring, out, scaling, accum_dtype, asked)
    views, result = made.views, made.dtype
    if plan is not None:
        from loopwright.planner.planners import checked_plan  # lazy: plans load isl

        plan = checked_plan(plan)
        if len(views) > 2:
            raise no_single_contraction(made.names.text, len(views))
        plan = None if any(0 in view.shape for view in views) else plan
    is_fresh, given = out is None, made.out
    if given is None:
        out = empty_like_arguments(views, made.shape, result, _order(views, asked.order))
        given = device_array(out, "out")
    if math.prod(made.shape) == 0:
        return out
    with in_stream_order((*views, given)) as (device, stream):
        launch = scaling, device, stream, plan
        call = DeviceCall(made.names, views, given, made.ring, made.accumulator, *launch)
        is_direct = given.dtype == result and not any(overlap(given, v) for v in views)
        if is_direct and len(views) <= 2:
            contraction = contract_on_device(call)
            plain = is_fresh and scaling == _PLAIN and accum_dtype is None and asked.are_default
            alone = all(v.stream is None and v.library == views[0].library for v in views)
            key = _layout(made.subscripts, ring, made.operands)
            if not (plain and alone) or plan is not None or key is None:
                return out
            if given.pointer % _ALIGNED == 0:
                _ready[key] = _Ready(contraction, made.shape, out.dtype, device)
        elif is_direct:
            _compute(call, asked)
        else:
            _by_copy(call, result, asked)
    return out


def device_einsum_plan(
    subscripts: Any,
    operands: Sequence[Any],
    ring: str | semirings.Semiring,
    out: Any,
    scaling: Scaling,
    accum_dtype: Any,
    asked: NumpyOptions,
) -> Plan:
    """The plan of such an einsum of one or two operands; nothing is computed."""
    made = _prepared(subscripts, operands, ring, out, scaling, accum_dtype, asked)
    views, result = made.views, made.out
    is_empty = 0 in made.shape or any(0 in view.shape for view in views)
    if len(views) > 2 or is_empty:
        raise no_single_contraction(made.names.text, len(views))
    if result is None or result.dtype != made.dtype or any(overlap(result, v) for v in views):
        # A new array, row by row.
        strides = row_major(made.shape)
        result = views[0]._replace(pointer=0, shape=made.shape, strides=strides, dtype=made.dtype)
    device = cuda_device(views[0].device)
    given = scaling, device, 0
    call = DeviceCall(made.names, views, result, made.ring, made.accumulator, *given)
    from loopwright.planner.grid_plans.given_grid import grid_plan_of  # lazy: plans load isl

    return grid_plan_of(device_choice(call))


def _prepared(
    subscripts: Any,
    operands: Sequence[Any],
    ring: str | semirings.Semiring,
    out: Any,
    scaling: Scaling,
    accum_dtype: Any,
    asked: NumpyOptions,
) -> _Prepared:
    """Check everything."""
    if not isinstance(subscripts, str):
        subscripts, operands = from_text_or_lists(subscripts, operands)
    views = tuple(device_array(x, f"operand {k}") for k, x in enumerate(operands, 1))
    if not views:
        raise UsageError("einsum needs at least one operand")
    _check_types(views, asked)
    chosen = semirings.semiring(ring)
    names = parse_subscripts(subscripts, tuple(len(v.shape) for v in views))
    extents = extents_of(names, views)
    shape = tuple(extents[c] for c in names.out)
    given = None if out is None else device_array(out, "out")
    for number, view in enumerate(views[1:], 2):
        _check_device(views[0], view, f"operand {number}")
    result, accumulator = _types(chosen, views, given, accum_dtype, asked)
    check_scaling(chosen, scaling, out, accumulator)
    if given is not None:
        _check_device(views[0], given, "out")
        check_result(given, shape, "out")
        rule: Any = asked.casting or "same_kind"
        if not np.can_cast(_stand_in(result), _stand_in(given.dtype), rule):
            raise DtypeError(
                f"out has dtype {given.dtype}", hint=f"the result has dtype {result.name}"
            )
    return _Prepared(subscripts, operands, names, views, chosen, shape, result, accumulator, given)


def _order(views: Sequence[DeviceArray], asked: str) -> str:
    """C or F for a new result, as on the host."""
    if asked == "A":
        return "F" if all(map(_is_column_major, views)) else "C"
    return "F" if asked == "F" else "C"


def _is_column_major(view: DeviceArray) -> bool:
    wanted = row_major(view.shape[::-1])[::-1]
    return all(e == 1 or s == w for e, s, w in zip(view.shape, view.strides, wanted, strict=True))


def _check_types(views: Sequence[DeviceArray], asked: NumpyOptions) -> None:
    if asked.dtype is None:
        return
    for number, view in enumerate(views, 1):
        held = np.dtype("float32") if view.dtype == BFLOAT16 else view.dtype.numpy
        if not np.can_cast(held, asked.dtype, "safe"):
            raise DtypeError(
                f"operand {number} has dtype {view.dtype}, which dtype {asked.dtype} cannot hold",
                hint="convert it before the call",
            )


def _types(
    ring: semirings.Semiring,
    views: Sequence[DeviceArray],
    out: DeviceArray | None,
    accum_dtype: Any,
    asked: NumpyOptions,
) -> tuple[DType, DType]:
    """Types of the result and of the sums, as on the host; bfloat16 is promoted as in PyTorch.

    With itself, integers and booleans it stays itself, with any other type it is a float32. Its
    sums are of float32.
    """
    target = None if out is None or out.dtype == BFLOAT16 else out.dtype.numpy
    if all(view.dtype != BFLOAT16 for view in views):
        dtypes = [view.dtype.numpy for view in views]
        return types_of(ring, dtypes, accum_dtype, target, asked)
    stand_ins = [
        np.dtype(
            "float32"
            if view.dtype == BFLOAT16
            else "bool"
            if view.dtype.is_exact
            else view.dtype.name
        )
        for view in views
    ]
    result, accumulator = types_of(ring, stand_ins, accum_dtype, target, asked)
    is_own = all(view.dtype == BFLOAT16 or view.dtype.is_exact for view in views)
    if is_own and target is None and accum_dtype is None and asked.dtype is None:
        result = BFLOAT16
    return result, accumulator


def _stand_in(dtype: DType) -> np.dtype[Any]:
    """NumPy's type that converts to others by the same rules."""
    return np.dtype("float16") if dtype == BFLOAT16 else dtype.numpy


def _check_device(first: DeviceArray, view: DeviceArray, what: str) -> None:
    if view.device != first.device:
        raise UsageError(
            "arrays lie on different devices",
            found=f"operand 1 on {first.device}, {what} on {view.device}",
            hint="move them to one device",
        )


def _compute(call: DeviceCall, asked: NumpyOptions) -> None:
    """Fill `out`, of which there is at least one element."""
    is_empty = any(0 in view.shape for view in call.views)
    if len(call.views) <= 2:
        contract_on_device(call)
    elif is_empty:
        # A reduction of nothing, whatever the operands are.
        sums = "".join(dict.fromkeys("".join(call.names.operands)))
        extents = extents_of(call.names, call.views)
        shape = tuple(extents[c] for c in sums)
        nothing = call.views[0]._replace(shape=shape, strides=row_major(shape))
        names = replace(call.names, operands=(sums,))
        contract_on_device(replace(call, names=names, views=(nothing,)))
    else:
        order = order_unread(call.names, call.views, call.ring, call.accumulator, asked.path)
        extents = extents_of(call.names, call.views)
        is_cut = block_of(order, extents, call.names.out, _MOST_BETWEEN) is not None
        if is_cut and call.out.dtype != call.accumulator:
            # Blocks join their sums in the type of sums; rounding comes last.
            _by_copy(call, call.accumulator, asked)
        else:
            _in_blocks(call, order)


def _by_copy(call: DeviceCall, dtype: DType, asked: NumpyOptions) -> None:
    """The result in memory of its own first: out shares some with operands, or differs in type."""
    out = call.out
    with _Memory(call) as memory:
        own = memory.array(out.shape, dtype)
        if call.scaling.initial is not Initial.ZERO:
            copy_on_device(call, out, own)
        _compute(replace(call, out=own), asked)
        copy_on_device(call, own, out)


def _whole(call: DeviceCall, order: Order) -> None:
    """Every step once."""
    *steps, last = order.steps
    left = list(call.views)
    with _Memory(call) as memory:
        for step in steps:
            pair = left[step.pair[0]], left[step.pair[1]]
            extents = extents_of(step.names, pair)
            shape = tuple(extents[c] for c in step.names.out)
            partial = memory.array(shape, call.accumulator)
            contract_on_device(
                replace(call, names=step.names, views=pair, out=partial, scaling=Scaling())
            )
            left = [x for place, x in enumerate(left) if place not in step.pair]
            left.insert(step.place, partial)
        pair = left[last.pair[0]], left[last.pair[1]]
        contract_on_device(replace(call, names=last.names, views=pair))


def _in_blocks(call: DeviceCall, order: Order) -> None:
    """Every step once per block of an index, so that intermediate results stay small."""
    names = call.names
    extents = extents_of(names, call.views)
    found = block_of(order, extents, names.out, _MOST_BETWEEN)
    if found is None:
        _whole(call, order)
        return
    letter, size = found
    for start in range(0, extents[letter], size):
        stop = min(start + size, extents[letter])
        views = tuple(
            _part(term, view, letter, start, stop, extents[letter])
            for term, view in zip(names.operands, call.views, strict=True)
        )
        if letter in names.out:
            out = _part(names.out, call.out, letter, start, stop, extents[letter])
            _in_blocks(replace(call, views=views, out=out), order)
        else:
            scaling = call.scaling if start == 0 else replace(call.scaling, beta=1)
            _in_blocks(replace(call, views=views, scaling=scaling), order)


def _part(
    term: str, view: DeviceArray, letter: str, start: int, stop: int, extent: int
) -> DeviceArray:
    """The elements of one block; a dimension of size 1 serves all blocks."""
    pointer, shape = view.pointer, list(view.shape)
    for axis, c in enumerate(term):
        if c == letter and shape[axis] == extent:
            pointer += start * view.strides[axis] * view.dtype.bytes
            shape[axis] = stop - start
    return view._replace(pointer=pointer, shape=tuple(shape))


class _Memory:
    """Memory of a call between launches, in stream order."""

    def __init__(self, call: DeviceCall) -> None:
        self._call = call
        self._taken: list[int] = []

    def __enter__(self) -> _Memory:
        return self

    def array(self, shape: tuple[int, ...], dtype: DType) -> DeviceArray:
        """An array that lies row by row, of undefined contents."""
        call = self._call
        with call.device.current():
            place = call.device.allocate(call.stream, math.prod(shape) * dtype.bytes)
        self._taken.append(place)
        return call.out._replace(
            pointer=place, shape=shape, strides=row_major(shape), dtype=dtype, owner=self
        )

    def __exit__(self, *_: object) -> None:
        call = self._call
        with call.device.current():
            for place in self._taken:
                call.device.release(call.stream, place)
