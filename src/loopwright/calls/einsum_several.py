"""Three and more operands into one result: pair by pair, in the order of einsum_order.

Without distributivity the intermediate results hold every index of their factors and may be much
larger than the operands. They are then made and used block by block: along an index of out blocks
are independent, along any other they are joined by plus, which is associative and commutative.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from loopwright.calls.einsum_call import EinsumCall, Scaling, extents_of
from loopwright.calls.einsum_contraction import contract
from loopwright.calls.einsum_options import Path
from loopwright.calls.einsum_order import Order, elements, order_of
from loopwright.frontends.einsum_syntax import EinsumSubscripts
from loopwright.ir.kernel_variant import Initial
from loopwright.log import log
from loopwright.runtime.array_arguments import Array

__all__ = ["MOST_ELEMENTS", "block_of", "contract_several"]

MOST_ELEMENTS = 1 << 20  # of an intermediate result that holds every index: some caches' worth


def contract_several(call: EinsumCall, path: Path) -> None:
    """`out = beta * out plus alpha * products` of two or more operands, none of them empty."""
    names, out = call.names, call.out
    order = order_of(names, call.arrays, call.ring, call.accumulator, path)
    log("plan", lambda: _text(names, order))
    if block_of(order, extents_of(names, call.arrays), names.out) is None:
        _whole(call, order)
        return
    if out.dtype == call.accumulator.numpy:
        _in_blocks(call, order)
        return
    # Blocks join their sums in the type of sums; rounding comes last.
    sums = np.empty(out.shape, call.accumulator.numpy)
    if call.scaling.initial is not Initial.ZERO:
        sums[...] = out
    _in_blocks(replace(call, out=sums), order)
    with np.errstate(all="ignore"):
        out[...] = sums


def _whole(call: EinsumCall, order: Order) -> None:
    """Every step once."""
    *steps, last = order.steps
    left = list(call.arrays)
    for step in steps:
        pair = left[step.pair[0]], left[step.pair[1]]
        extents = extents_of(step.names, pair)
        shape = tuple(extents[c] for c in step.names.out)
        partial = np.empty(shape, call.accumulator.numpy)
        contract(replace(call, names=step.names, arrays=pair, out=partial, scaling=Scaling()))
        left = [x for place, x in enumerate(left) if place not in step.pair]
        left.insert(step.place, partial)
    pair = left[last.pair[0]], left[last.pair[1]]
    contract(replace(call, names=last.names, arrays=pair))


def _in_blocks(call: EinsumCall, order: Order) -> None:
    """Every step once per block, so that intermediate results stay small."""
    names = call.names
    extents = extents_of(names, call.arrays)
    found = block_of(order, extents, names.out)
    if found is None:
        _whole(call, order)
        return
    letter, size = found
    extent = extents[letter]
    for start in range(0, extent, size):
        here = slice(start, min(start + size, extent))
        parts = tuple(
            _part(term, array, letter, here, extent)
            for term, array in zip(names.operands, call.arrays, strict=True)
        )
        if letter in names.out:
            out = _part(names.out, call.out, letter, here, extent)
            _in_blocks(replace(call, arrays=parts, out=out), order)
        else:
            scaling = call.scaling if start == 0 else replace(call.scaling, beta=1)
            _in_blocks(replace(call, arrays=parts, scaling=scaling), order)


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
