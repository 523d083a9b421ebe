"""Closures by blocked elimination: n^3 pairs of operators, nearly all in contraction kernels.

For each block K of the vertices, with S* = 1 plus S plus S^2 plus ... :

    D = the closure of a[K, K]
    R = D* times a[K, :]
    a[I, :] = a[I, :] plus a[I, K] times R          for the rows I outside K
    a[K, :] = R

R[:, K] = D is known, and the columns of K are closed by the same product as all others: whatever is
no part of D is a product on views of the matrix, and all products have n^3 - n b^2 pairs. Every
path is found once, by the last block it enters, which is why sums that are not idempotent come out
right as well, where there are finitely many paths (seed algorithms 4 and 5 close rows and columns
apart from the rest).

Several threads wait for each other at no step where blocks are many: see `step_order`.

The empty path is left out until the end: what is returned is A plus A^2 plus ...
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from loopwright.calls.einsum import einsum
from loopwright.ir.dtypes import dtype_of
from loopwright.paths.step_kernels import close_square
from loopwright.paths.step_order import StepOrder, StepPiece
from loopwright.runtime.array_arguments import Array
from loopwright.semirings.named import Semiring

__all__ = [
    "PRODUCT",
    "ROUTE_BLOCK",
    "add_one",
    "add_product",
    "block_size",
    "close_block",
    "eliminate",
]

PRODUCT = "ik,kj->ij"
# The side up to which one compiled step does it all (Neoverse N1: at 128 it takes 0.37 ms in
# float32). Products of blocks were not measured beside it at this size.
_SQUARE = 128
_INNER = 64
# Reading and writing an element of the matrix once takes as long as this many pairs of operators:
# the loss at n = 2000 and 2048 for blocks of 96 to 256 in float32 (about 12). For float64 the same
# is expected, since both the bytes and the time of a pair double, but was not measured.
_PASS = 12.0
# How much longer a pair takes in the closing of a square than in a product. Neoverse N1, blocks of
# 160 to 320 at n = 2048: 2.0 to 2.2 in float32, 1.5 to 1.7 in float64.
_CLOSING = 2.0
# Panels of more steps fill the first cache: at 320 products are 2% slower than at 256 (n = 2048).
_MOST = 256
_UNIT = 4  # sides are multiples of it: products take two or four steps at a time
# Rows are closed ahead of their step where a matrix has so many blocks for each thread: to update
# the rows of a block and to close them takes one thread as long as two blocks, and meanwhile the
# others need work.
_AHEAD = 3
# With predecessors the search for vertices costs b comparisons an element, and blocks are smaller.
# Neoverse N1, n = 2048, one thread, blocks of 128: products take 0.94 s of 2.14 s in float32, the
# search 0.71 s, the closing of rows 0.33 s, marks 0.05 s. Half the side halves the second and third
# and costs the products a tenth.
ROUTE_BLOCK = 64

Check = Callable[[Array, int], None]


def block_size(n: int, threads: int = 1) -> int:
    """The side of blocks for which the passes over the matrix and the closings take least.

    For each of the n / b blocks all n^2 elements are read and written, and b^3 pairs are done by
    one thread, in the place of as many that all threads would share: of the whole,
    _PASS / b + (_CLOSING threads - 1) (b / n)^2, which is least where its derivative is 0. Blocks
    are of one size, as nearly as it goes: a last one of a few vertices costs a whole pass. Threads
    that close rows ahead lose no more by closings than one thread does.
    """
    if n <= _SQUARE:
        return max(n, 1)
    best = float((_PASS * n * n / (2 * (_CLOSING * threads - 1))) ** (1 / 3))
    count = max(1, round(n / min(max(best, _INNER), _MOST)))
    return -(-n // (count * _UNIT)) * _UNIT


def eliminate(
    a: Array, ring: Semiring, threads: int, block: int = 0, check: Check | None = None
) -> None:
    """Replace a C-contiguous square matrix by a plus a^2 plus a^3 ...

    `check` is given every closed square and its first vertex, before anything else depends on it.
    """
    n = len(a)
    step = block or block_size(n, threads)
    if n <= step <= _SQUARE:
        close_square(a, ring)
        if check is not None and n:
            check(a, 0)
    elif threads > 1 and n >= _AHEAD * (block or block_size(n)) * threads:
        _eliminate_ahead(a, ring, threads, block or block_size(n), check)
    else:
        rows = np.empty((step, n), a.dtype)
        for first in range(0, n, step):
            end = min(n, first + step)
            _close_rows(a, (first, end), rows[: end - first], ring, threads, check)
            for part in (slice(0, first), slice(end, n)):
                _through(a, part, (first, end), ring, threads)


def _eliminate_ahead(
    a: Array, ring: Semiring, threads: int, block: int, check: Check | None
) -> None:
    """Every thread updates rows of its own, and rows are closed before their step has come."""
    order = StepOrder(len(a), block, threads)
    rows = np.empty((block, len(a)), a.dtype)

    def do(piece: StepPiece) -> None:
        first, end = order.blocks[piece.step]
        if piece.closes:
            # All threads wait for the first one.
            team = threads if piece.step == 0 else 1
            _close_rows(a, (first, end), rows[: end - first], ring, team, check)
        else:
            _through(a, slice(piece.first, piece.end), (first, end), ring, 1)

    order.run(do)


def _close_rows(
    a: Array,
    block: tuple[int, int],
    rows: Array,
    ring: Semiring,
    threads: int,
    check: Check | None,
) -> None:
    """Replace the rows of a block by D* times them, and its square by D; `rows` is memory."""
    first, end = block
    square = a[first:end, first:end].copy()
    close_block(square, ring, threads)
    if check is not None:
        check(square, first)
    a[first:end, first:end] = square
    add_one(square, ring)
    for part in (slice(0, first), slice(end, len(a))):
        if part.stop > part.start:
            old, new = a[first:end, part], rows[:, part]
            einsum(PRODUCT, square, old, semiring=ring, out=new, threads=threads)
            np.copyto(old, new)


def _through(a: Array, rows: slice, block: tuple[int, int], ring: Semiring, threads: int) -> None:
    """Add the paths that enter a block, whose rows are closed, to rows outside of it."""
    first, end = block
    # A copy: einsum would make one as well, since the product is written over it.
    add_product(a[rows], a[rows, first:end].copy(), a[first:end], ring, threads)


def close_block(square: Array, ring: Semiring, threads: int) -> None:
    """Close a square that is a block of a larger matrix, by smaller blocks than one of its own."""
    eliminate(square, ring, threads, 0 if len(square) <= _SQUARE else _INNER)


def add_product(out: Array, left: Array, right: Array, ring: Semiring, threads: int) -> None:
    """`out = out plus left times right`, where there is something to add to."""
    if out.size and right.size:
        einsum(PRODUCT, left, right, semiring=ring, out=out, accumulate=True, threads=threads)


def add_one(a: Array, ring: Semiring) -> None:
    """Add the empty path: `a[k, k] = a[k, k] plus one`."""
    diagonal = a.diagonal().copy()
    one = np.full(len(a), ring.one(dtype_of(a.dtype)), a.dtype)
    einsum("i,i->i", one, one, semiring=ring, out=diagonal, accumulate=True, threads=1)
    np.fill_diagonal(a, diagonal)
