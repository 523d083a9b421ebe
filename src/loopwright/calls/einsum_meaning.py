"""An einsum by the oracle: one loop nest over all indices, run point by point.

It loads isl, so it is imported where LOOPWRIGHT_INTERPRET asks for it.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from loopwright.calls.product import Scaling, extents_of, is_one
from loopwright.diagnostics import UsageError
from loopwright.frontends.einsum import Subscripts
from loopwright.frontends.einsum_tree import Combine, einsum_tree
from loopwright.frontends.program import program_of
from loopwright.ir.dtypes import DType, dtype_of
from loopwright.ir.expr import Binary, Const, Expr
from loopwright.ir.form import Initial
from loopwright.ir.interpret import interpret_program
from loopwright.ir.islkit import ISL_QUOTA, GaveUp, attempt
from loopwright.runtime.arguments import Array
from loopwright.semirings import Semiring

__all__ = ["interpret_einsum"]


def interpret_einsum(
    names: Subscripts,
    arrays: tuple[Array, ...],
    out: Array,
    ring: Semiring,
    accumulator: DType,
    scaling: Scaling,
) -> None:
    """`out = beta * out plus alpha * products`, every product from left to right."""
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
    try:
        with attempt(ISL_QUOTA):
            program = program_of(tree, reassoc=True)
    except GaveUp:
        raise UsageError(
            f"einsum '{names.text}' has too many indices for the interpreter",
            hint="LOOPWRIGHT_INTERPRET=0",
        ) from None
    sums = np.empty(out.shape, accumulator.numpy)
    with np.errstate(all="ignore"):
        if scaling.initial is not Initial.ZERO:
            sums[...] = out
        if scaling.initial is Initial.SCALED:
            sums *= np.asarray(scaling.beta, accumulator.numpy)
    terms = (*names.operands, names.out)
    given = {
        param.name: np.broadcast_to(array, tuple(extents[c] for c in term))
        for param, array, term in zip(tree.params[:-1], arrays, terms, strict=False)
    }
    given["out"] = sums
    interpret_program(program, given, {f"n_{c}": extent for c, extent in extents.items()})
    with np.errstate(all="ignore"):
        out[...] = sums


def _scaled(plus: Combine, dtype: DType, scaling: Scaling) -> Combine:
    """x plus alpha * y."""
    if is_one(scaling.alpha):
        return plus
    alpha = Const(scaling.alpha, dtype)

    def join(x: Expr, y: Expr) -> Expr:
        return plus(x, Binary("mul", alpha, y))

    return join
