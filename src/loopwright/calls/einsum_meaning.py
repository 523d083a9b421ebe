"""An einsum as one loop nest over all indices: run point by point by the oracle, or compiled.

Both load isl, so this is imported where LOOPWRIGHT_INTERPRET asks for the first, or where an einsum
is not proven a contraction.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NoReturn

import numpy as np

from loopwright.calls.einsum_contraction import Scaling, extents_of, is_one
from loopwright.calls.layout import stride_values, unit_strides
from loopwright.calls.meaning import Meaning
from loopwright.calls.recipe import recipe_key
from loopwright.diagnostics import UsageError
from loopwright.frontends.einsum_syntax import EinsumSubscripts
from loopwright.frontends.einsum_tree import Combine, einsum_tree
from loopwright.frontends.extract import program_of
from loopwright.frontends.source_tree import SourceTree
from loopwright.ir.dtypes import DType, dtype_of
from loopwright.ir.expr import Binary, Const, Expr
from loopwright.ir.interpret import interpret_program
from loopwright.ir.islkit import GaveUp, bounded
from loopwright.ir.kernel_variant import Initial
from loopwright.ir.loops import LoopNest
from loopwright.kernels import nest_kernel, thread_pool
from loopwright.machines.host import host
from loopwright.runtime.array_arguments import Array, element_strides
from loopwright.semirings import Semiring

__all__ = ["interpret_einsum", "loop_einsum"]


@dataclass(frozen=True, slots=True)
class _Call:
    """The loops of one call, and what they run on."""

    tree: SourceTree
    arrays: dict[str, Array]  # by the names of the tree; "out" holds sums, in their type
    params: dict[str, int]
    out: Array  # where the sums belong

    def finish(self) -> None:
        """Put the sums where they belong."""
        with np.errstate(all="ignore"):
            self.out[...] = self.arrays["out"]


def interpret_einsum(
    names: EinsumSubscripts,
    arrays: tuple[Array, ...],
    out: Array,
    ring: Semiring,
    accumulator: DType,
    scaling: Scaling,
) -> None:
    """`out = beta * out plus alpha * products`, every product from left to right."""
    call = _call(names, arrays, out, ring, accumulator, scaling)

    def too_hard(_: GaveUp) -> NoReturn:
        raise UsageError(
            f"einsum '{names.text}' has too many indices for the interpreter",
            hint="LOOPWRIGHT_INTERPRET=0",
        ) from None

    program = bounded(lambda: program_of(call.tree, reassoc=True), too_hard)
    interpret_program(program, call.arrays, call.params)
    call.finish()


def loop_einsum(
    names: EinsumSubscripts,
    arrays: tuple[Array, ...],
    out: Array,
    ring: Semiring,
    accumulator: DType,
    scaling: Scaling,
    threads: int,
) -> None:
    """As `interpret_einsum`, by compiled loops that are planned like those of any program."""
    call = _call(names, arrays, out, ring, accumulator, scaling)
    strides = {name: element_strides(array) for name, array in call.arrays.items()}
    unit, parallel = unit_strides(strides), threads > 1
    key = f"{recipe_key(call.tree, reassoc=True)} {sorted(unit)} {parallel} {host().name}"

    def nest() -> LoopNest:
        return Meaning(call.tree, reassoc=True).nest(unit, parallel=parallel)

    kernel = nest_kernel(f"loops of einsum {key}", nest, f"loops of einsum '{names.text}'")
    values = call.params | stride_values(strides)
    bound = kernel.bind(values, np.zeros(0, dtype=np.int64), threads, thread_pool)
    bound(*(call.arrays[name] for name in kernel.buffers))
    call.finish()


def _call(
    names: EinsumSubscripts,
    arrays: tuple[Array, ...],
    out: Array,
    ring: Semiring,
    accumulator: DType,
    scaling: Scaling,
) -> _Call:
    extents = extents_of(names, arrays)
    zero = ring.zero(accumulator) if scaling.initial is Initial.ZERO else None
    tree = einsum_tree(
        names,
        tuple(dtype_of(a.dtype) for a in arrays),
        accumulator,
        _scaled(partial(ring.plus_expr, accumulator), accumulator, scaling),
        partial(ring.times_expr, accumulator),
        zero,
    )
    sums = np.empty(out.shape, accumulator.numpy)
    with np.errstate(all="ignore"):
        if scaling.initial is not Initial.ZERO:
            sums[...] = out
        if scaling.initial is Initial.SCALED:
            sums *= np.asarray(scaling.beta, accumulator.numpy)
    given = {
        param.name: np.broadcast_to(array, tuple(extents[c] for c in term))
        for param, array, term in zip(tree.params[:-1], arrays, names.operands, strict=True)
    }
    params = {f"n_{c}": extent for c, extent in extents.items()}
    return _Call(tree, {**given, "out": sums}, params, out)


def _scaled(plus: Combine, dtype: DType, scaling: Scaling) -> Combine:
    """x plus alpha * y."""
    if is_one(scaling.alpha):
        return plus
    alpha = Const(scaling.alpha, dtype)

    def join(x: Expr, y: Expr) -> Expr:
        return plus(x, Binary("mul", alpha, y))

    return join
