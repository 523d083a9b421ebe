"""An einsum as one loop nest over all indices: run point by point by the oracle, or compiled.

Both load isl, so this is imported where LOOPWRIGHT_INTERPRET asks for the first, or where an einsum
is not proven a contraction.
"""

from __future__ import annotations

from functools import partial
from typing import NoReturn

import numpy as np

from loopwright.calls.arguments import short_strides, stride_values
from loopwright.calls.einsum_call import EinsumCall, Scaling, extents_of, is_one
from loopwright.calls.function_summary import summary_key
from loopwright.calls.polyhedral_function import PolyhedralFunction
from loopwright.diagnostics import UsageError
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
from loopwright.lazy_dataclass import dataclass
from loopwright.runtime.array_arguments import Array, element_strides

__all__ = ["interpret_einsum", "loop_einsum"]


@dataclass(frozen=True, slots=True)
class _Loops:
    """The loops of one call, and what they run on."""

    tree: SourceTree
    arrays: dict[str, Array]  # by the names of the tree; "out" holds sums, in their type
    params: dict[str, int]
    out: Array  # where the sums belong

    def finish(self) -> None:
        """Put the sums where they belong."""
        with np.errstate(all="ignore"):
            self.out[...] = self.arrays["out"]


def interpret_einsum(call: EinsumCall) -> None:
    """`out = beta * out plus alpha * products`, every product from left to right."""
    loops = _loops(call)

    def too_hard(_: GaveUp) -> NoReturn:
        raise UsageError(
            f"einsum '{call.names.text}' has too many indices for the interpreter",
            hint="LOOPWRIGHT_INTERPRET=0",
        ) from None

    program = bounded(lambda: program_of(loops.tree, reassoc=True), too_hard)
    interpret_program(program, loops.arrays, loops.params)
    loops.finish()


def loop_einsum(call: EinsumCall) -> None:
    """As `interpret_einsum`, by compiled loops that are planned like those of any program."""
    loops, text = _loops(call), call.names.text
    strides = {name: element_strides(array) for name, array in loops.arrays.items()}
    unit, parallel = short_strides(strides), call.threads > 1
    made_for = call.machine.content_hash
    key = f"{summary_key(loops.tree, reassoc=True)} {sorted(unit.items())} {parallel} {made_for}"

    def nest() -> LoopNest:
        function = PolyhedralFunction(loops.tree, reassoc=True)
        return function.compiled(call.machine, call.threads, None, unit).nest

    kernel = nest_kernel(f"loops of einsum {key}", nest, f"loops of einsum '{text}'")
    values = loops.params | stride_values(strides)
    bound = kernel.bind(values, np.zeros(0, dtype=np.int64), call.threads, thread_pool)
    bound(*(loops.arrays[name] for name in kernel.buffers))
    loops.finish()


def _loops(call: EinsumCall) -> _Loops:
    names, accumulator, scaling = call.names, call.accumulator, call.scaling
    extents = extents_of(names, call.arrays)
    zero = call.ring.zero(accumulator) if scaling.initial is Initial.ZERO else None
    tree = einsum_tree(
        names,
        tuple(dtype_of(a.dtype) for a in call.arrays),
        accumulator,
        _scaled(partial(call.ring.plus_expr, accumulator), accumulator, scaling),
        partial(call.ring.times_expr, accumulator),
        zero,
    )
    sums = np.empty(call.out.shape, accumulator.numpy)
    with np.errstate(all="ignore"):
        if scaling.initial is not Initial.ZERO:
            sums[...] = call.out
        if scaling.initial is Initial.SCALED:
            sums *= np.asarray(scaling.beta, accumulator.numpy)
    given = {
        param.name: np.broadcast_to(array, tuple(extents[c] for c in term))
        for param, array, term in zip(tree.params[:-1], call.arrays, names.operands, strict=True)
    }
    params = {f"n_{c}": extent for c, extent in extents.items()}
    return _Loops(tree, {**given, "out": sums}, params, call.out)


def _scaled(plus: Combine, dtype: DType, scaling: Scaling) -> Combine:
    """x plus alpha * y."""
    if is_one(scaling.alpha):
        return plus
    alpha = Const(scaling.alpha, dtype)

    def join(x: Expr, y: Expr) -> Expr:
        return plus(x, Binary("mul", alpha, y))

    return join
