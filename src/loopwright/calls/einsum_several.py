"""Three and more operands into one result: pair by pair, in the order of einsum_order.

Without distributivity the intermediate results hold every index of their factors and may be much
larger than the operands. They are then made and used block by block: along an index of out blocks
are independent, along any other they are joined by plus, which is associative and commutative.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from loopwright.calls.einsum_contraction import Scaling, extents_of
from loopwright.calls.einsum_kernel import contract_or_loop
from loopwright.calls.einsum_options import Path
from loopwright.calls.einsum_order import Order, elements, order_of
from loopwright.frontends.einsum_syntax import EinsumSubscripts
from loopwright.ir.dtypes import DType
from loopwright.ir.kernel_variant import Initial
from loopwright.log import log
from loopwright.runtime.array_arguments import Array
from loopwright.semirings import Semiring

__all__ = ["MOST_ELEMENTS", "block_of", "contract_several"]

MOST_ELEMENTS = 1 << 20  # of an intermediate result that holds every index: some caches' worth


def contract_several(
    names: EinsumSubscripts,
    arrays: tuple[Array, ...],
    out: Array,
    ring: Semiring,
    accumulator: DType,
    scaling: Scaling,
    threads: int,
    path: Path,
) -> None:
    """`out = beta * out plus alpha * products` of two or more operands, none of them empty."""
    order = order_of(names, arrays, ring, accumulator, path)
    log("plan", lambda: _text(names, order))
    call = _Call(order, ring, accumulator, threads)
    if block_of(order, extents_of(names, arrays), names.out) is None:
        call.whole(arrays, out, scaling)
        return
    if out.dtype == accumulator.numpy:
        call.in_blocks(names, arrays, out, scaling)
        return
    # Blocks join their sums in the type of sums; rounding comes last.
    sums = np.empty(out.shape, accumulator.numpy)
    if scaling.initial is not Initial.ZERO:
        sums[...] = out
    call.in_blocks(names, arrays, sums, scaling)
    with np.errstate(all="ignore"):
        out[...] = sums


class _Call:
    """The steps of one call."""

    def __init__(self, order: Order, ring: Semiring, accumulator: DType, threads: int) -> None:
        self._order = order
        self._ring = ring
        self._accumulator = accumulator
        self._threads = threads

    def whole(self, arrays: tuple[Array, ...], out: Array, scaling: Scaling) -> None:
        """Every step once."""
        *steps, last = self._order.steps
        left = list(arrays)
        for step in steps:
            pair = left[step.pair[0]], left[step.pair[1]]
            extents = extents_of(step.names, pair)
            shape = tuple(extents[c] for c in step.names.out)
            partial = np.empty(shape, self._accumulator.numpy)
            self._contract(step.names, pair, partial, Scaling())
            left = [x for place, x in enumerate(left) if place not in step.pair]
            left.insert(step.place, partial)
        self._contract(last.names, (left[last.pair[0]], left[last.pair[1]]), out, scaling)

    def in_blocks(
        self, names: EinsumSubscripts, arrays: tuple[Array, ...], out: Array, scaling: Scaling
    ) -> None:
        """Every step once per block, so that intermediate results stay small."""
        found = block_of(self._order, extents_of(names, arrays), names.out)
        if found is None:
            self.whole(arrays, out, scaling)
            return
        letter, size = found
        extent = extents_of(names, arrays)[letter]
        for start in range(0, extent, size):
            here = slice(start, min(start + size, extent))
            parts = tuple(
                _part(term, array, letter, here, extent)
                for term, array in zip(names.operands, arrays, strict=True)
            )
            if letter in names.out:
                self.in_blocks(names, parts, _part(names.out, out, letter, here, extent), scaling)
            else:
                more = scaling if start == 0 else replace(scaling, beta=1)
                self.in_blocks(names, parts, out, more)

    def _contract(
        self, names: EinsumSubscripts, pair: tuple[Array, Array], out: Array, scaling: Scaling
    ) -> None:
        contract_or_loop(names, pair, out, self._ring, self._accumulator, scaling, self._threads)


def block_of(order: Order, extents: dict[str, int], out: str) -> tuple[str, int] | None:
    """The index to cut and the size of its blocks; None when intermediate results are small.

    Where every step may reduce they are as large as they are, unless a limit was asked for. A limit
    of less than MOST_ELEMENTS counts as that: tiny blocks would save nothing worth their calls.
    An index that is reduced is cut by preference, the longest of its kind: the last step keeps all
    of out, and with it the reuse of both its operands.
    """
    term = order.largest(extents)
    size = elements(term, extents)
    most = max(MOST_ELEMENTS, order.limit or 0)
    if size <= most or (not order.reason and order.limit is None):
        return None
    letter = max(term, key=lambda c: (c not in out and extents[c] > 1, extents[c]))
    return letter, max(1, extents[letter] * most // size)


def _text(names: EinsumSubscripts, order: Order) -> str:
    steps = "; ".join(step.names.text for step in order.steps)
    return f"einsum '{names.text}': {steps}{order.reason and f' ({order.reason})'}"


def _part(term: str, array: Array, letter: str, here: slice, extent: int) -> Array:
    """The elements of one block; a dimension of size 1 serves all blocks."""
    # The ellipsis keeps an array of rank 0 an array.
    cuts: list[Any] = [
        here if c == letter and size == extent else slice(None)
        for c, size in zip(term, array.shape, strict=True)
    ]
    return array[(*cuts, ...)]
