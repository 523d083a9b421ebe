"""One or two operands into one result: a plan, its kernel, a launch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from loopwright import options, semirings
from loopwright.calls.plan_log import log_plan
from loopwright.calls.unproven import Unproven
from loopwright.diagnostics import UsageError
from loopwright.faults import FAULTS, survive
from loopwright.frontends.einsum_syntax import EinsumSubscripts
from loopwright.ir.contraction_shape import ContractionShape, Dim
from loopwright.ir.dtypes import DType, dtype_of
from loopwright.ir.expr import Var
from loopwright.ir.kernel_variant import Algebra, Initial
from loopwright.kernels import contraction_kernel, thread_pool
from loopwright.lower.launch import launch
from loopwright.machines.host import host
from loopwright.planner.analytical import Choice, choose
from loopwright.recent import Recent
from loopwright.runtime.array_arguments import Array, element_strides
from loopwright.runtime.kernel import BoundKernel

if TYPE_CHECKING:
    from loopwright.ir.loops import LoopNest

__all__ = ["Scaling", "contract", "extents_of", "is_one", "plan_contraction", "planned"]


_MOST_LAUNCHES = 1024
_launches: Recent[tuple[Any, ...], tuple[Choice, BoundKernel]] = Recent(_MOST_LAUNCHES)
_unproven: Recent[tuple[Any, ...], None] = Recent(_MOST_LAUNCHES)  # calls that run as plain loops


@dataclass(frozen=True, slots=True)
class Scaling:
    """out = beta * out plus alpha * products; kept apart from the operands' algebra."""

    alpha: Any = 1
    beta: Any = 0

    @property
    def initial(self) -> Initial:
        if isinstance(self.beta, int | float | complex) and self.beta in (0, 1):
            return Initial.OUT if self.beta else Initial.ZERO
        return Initial.SCALED


def contract(
    names: EinsumSubscripts,
    arrays: tuple[Array, ...],
    out: Array,
    ring: semirings.Semiring,
    accumulator: DType,
    scaling: Scaling,
    threads: int,
) -> None:
    """One kernel call: one or two operands into `out`, which has the result's dtype.

    Raises Unproven before anything is written: see plan_contraction.
    """
    if out.size == 0:
        return
    if any(a.size == 0 for a in arrays):
        _fill_initial(out, ring, scaling)
        return
    choice, bound = plan_contraction(names, arrays, out, ring, accumulator, scaling, threads)
    left, right = arrays[0], arrays[-1]
    if choice.variant.swapped:
        left, right = right, left
    extra = []
    if choice.kernel.algebra.scaled:
        extra.append(np.array(scaling.alpha, dtype=accumulator.numpy))
    if choice.kernel.algebra.initial is Initial.SCALED:
        extra.append(np.array(scaling.beta, dtype=accumulator.numpy))
    bound(out, left, right, *extra)


def plan_contraction(
    names: EinsumSubscripts,
    arrays: tuple[Array, ...],
    out: Array,
    ring: semirings.Semiring,
    accumulator: DType,
    scaling: Scaling,
    threads: int,
) -> tuple[Choice, BoundKernel]:
    """Choose a kernel for one or two operands, fetch its kernel and bind the launch.

    Launches are remembered: a call with the layout of an earlier one needs no planning. Raises
    Unproven where the plan of the model is not proven, or a fault of ours is survived.
    """
    key = (
        names,
        ring,
        accumulator,
        scaling.initial,
        is_one(scaling.alpha),
        threads,
        options.current().boundscheck,
        tuple((a.dtype, a.shape, a.strides) for a in (*arrays, out)),
    )
    found = _launches.get(key)
    if found is not None:
        return found
    if key in _unproven:
        raise Unproven(names.text)
    try:
        found = _launch(names, arrays, out, ring, accumulator, scaling, threads)
    except (Unproven, *FAULTS) as error:
        if not isinstance(error, Unproven):
            survive(error, f"the kernel of einsum '{names.text}'")
        _unproven[key] = None
        raise Unproven(names.text) from error
    _launches[key] = found
    return found


def _launch(
    names: EinsumSubscripts,
    arrays: tuple[Array, ...],
    out: Array,
    ring: semirings.Semiring,
    accumulator: DType,
    scaling: Scaling,
    threads: int,
) -> tuple[Choice, BoundKernel]:
    """A new launch: its plan, the proof of it, its kernel."""
    choice = planned(names, arrays, out, ring, accumulator, scaling, threads)
    log_plan(f"einsum '{names.text}'", choice)

    def nest() -> LoopNest:
        from loopwright.calls.contraction_schedule import einsum_nest  # lazy: isl, new kernels only

        return einsum_nest(names, choice)

    kernel = contraction_kernel(choice.kernel, nest)
    values = launch(choice.variant, choice.blocks, choice.shape)
    return choice, kernel.bind(values.values, values.table, choice.threads, thread_pool)


def planned(
    names: EinsumSubscripts,
    arrays: tuple[Array, ...],
    out: Array,
    ring: semirings.Semiring,
    accumulator: DType,
    scaling: Scaling,
    threads: int,
) -> Choice:
    """The plan of the model for one or two operands; nothing is compiled."""
    algebra = _algebra(arrays, out, ring, accumulator, scaling)
    return choose(_shape(names, arrays, out), algebra, host(), threads, reassoc=True)


def _algebra(
    arrays: tuple[Array, ...],
    out: Array,
    ring: semirings.Semiring,
    accumulator: DType,
    scaling: Scaling,
) -> Algebra:
    times = ring.times_on(accumulator)
    return Algebra(
        _operator(ring.plus, ring, accumulator, plus=True),
        "first" if len(arrays) == 1 else _operator(times, ring, accumulator, plus=False),
        ring.zero(accumulator),
        dtype_of(arrays[0].dtype),
        dtype_of(arrays[-1].dtype),
        dtype_of(out.dtype),
        accumulator,
        scaling.initial,
        not is_one(scaling.alpha),
    )


def _operator(operator: Any, ring: semirings.Semiring, dtype: DType, *, plus: bool) -> Any:
    """The name of a known operator; the traced expression of a user's function."""
    if isinstance(operator, str):
        return operator
    make = ring.plus_expr if plus else ring.times_expr
    return make(dtype, Var("x", dtype), Var("y", dtype))


def is_one(value: Any) -> bool:
    return isinstance(value, int | float | complex) and value == 1


def _shape(names: EinsumSubscripts, arrays: tuple[Array, ...], out: Array) -> ContractionShape:
    """The loops of the bundles; a repeated letter walks along a diagonal, size 1 stands still."""
    extents = extents_of(names, arrays)
    left, right = names.operands[0], names.operands[-1] if len(arrays) > 1 else ""
    strides = [
        _letter_strides(term, array, extents)
        for term, array in zip((left, right, names.out), (arrays[0], arrays[-1], out), strict=True)
    ]
    bundles: dict[str, list[Dim]] = {"batch": [], "i": [], "j": [], "p": []}
    for c, extent in extents.items():
        dim = Dim(extent, *(s.get(c, 0) for s in strides))
        if c not in names.out:
            bundle = "p"
        elif c in left and c in right:
            bundle = "batch"
        else:
            bundle = "i" if c in left else "j"
        bundles[bundle].append(dim)
    batch, i, j, p = (tuple(dims) for dims in bundles.values())
    return ContractionShape(batch, i, j, p)


def _letter_strides(term: str, array: Array, extents: dict[str, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for c, stride, extent in zip(term, element_strides(array), array.shape, strict=False):
        moves = stride if extent == extents[c] else 0
        found[c] = found.get(c, 0) + moves
    return found


def extents_of(names: EinsumSubscripts, arrays: tuple[Array, ...]) -> dict[str, int]:
    """Size of every letter; a size of 1 broadcasts."""
    found: dict[str, int] = {}
    where: dict[str, int] = {}
    for number, (term, array) in enumerate(zip(names.operands, arrays, strict=True), 1):
        here = dict(zip(term, array.shape, strict=True))
        for c, extent in zip(term, array.shape, strict=True):
            known = found.get(c, 1)
            if here[c] != extent:
                raise UsageError(
                    f"einsum '{names.text}': index '{c}' has two sizes",
                    found=f"{extent} and {here[c]} in operand {number}",
                    hint="a diagonal of equal sizes",
                )
            if extent != known and extent != 1 and known != 1:
                raise UsageError(
                    f"einsum '{names.text}': index '{c}' has two sizes",
                    found=f"{known} in operand {where[c]}, {extent} in operand {number}",
                    hint="operands that agree, or a size of 1",
                )
            if c not in found or extent != 1:
                found[c], where[c] = extent, number
    return found


def _fill_initial(out: Array, ring: semirings.Semiring, scaling: Scaling) -> None:
    """The value of an empty reduction: the identity of plus, added to what was there."""
    match scaling.initial:
        case Initial.ZERO:
            out[...] = ring.zero(dtype_of(out.dtype))
        case Initial.SCALED:
            with np.errstate(all="ignore"):
                out *= np.asarray(scaling.beta, dtype=out.dtype)
        case Initial.OUT:
            return
