"""One or two operands into one result: by a kernel, or by loops where its plan is not proven."""

from __future__ import annotations

from loopwright.calls.einsum_contraction import Scaling, contract
from loopwright.calls.unproven import Unproven
from loopwright.frontends.einsum_syntax import EinsumSubscripts
from loopwright.ir.dtypes import DType
from loopwright.runtime.array_arguments import Array
from loopwright.semirings import Semiring

__all__ = ["contract_or_loop"]


def contract_or_loop(
    names: EinsumSubscripts,
    arrays: tuple[Array, ...],
    out: Array,
    ring: Semiring,
    accumulator: DType,
    scaling: Scaling,
    threads: int,
) -> None:
    """`out = beta * out plus alpha * products` of one or two operands."""
    try:
        contract(names, arrays, out, ring, accumulator, scaling, threads)
    except Unproven:
        from loopwright.calls.einsum_meaning import loop_einsum  # lazy: isl, and hardly ever

        loop_einsum(names, arrays, out, ring, accumulator, scaling, threads)
