"""Contract steps of the tests: tiny tiles, packings by their names."""

from __future__ import annotations

from loopwright.ir.kernel_variant import Algorithm, Broadcast, KernelVariant, Packing
from loopwright.transform.contract import Contract

__all__ = ["contract_loops"]


def contract_loops(
    *loops: str,
    tile: tuple[int, ...] = (2, 1, 2, 1, 0),
    blocks: tuple[int, ...] = (4, 4, 4),
    packing: tuple[str, ...] = ("gather", "gather"),
    broadcast: str = "broadcast",
    shares: int = 1,
) -> Contract:
    """Three loops by a product of M_r, vectors, lanes, steps at a time, prefetch ahead.

    `packing` holds that of left and right for every product of the update.
    """
    rows, vectors, lanes, unroll, ahead = tile
    variants = tuple(
        KernelVariant(
            Algorithm.PRODUCT,
            rows,
            vectors,
            lanes,
            Packing(left),
            Packing(right),
            broadcast=Broadcast(broadcast),
            unroll=unroll,
            ahead=ahead,
        )
        for left, right in zip(packing[::2], packing[1::2], strict=True)
    )
    return Contract(loops, variants, blocks, shares)
