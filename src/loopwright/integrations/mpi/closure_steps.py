"""The closure of a dealt matrix by blocked elimination, with the next panels sent ahead.

For each block K, as on one machine (`paths.elimination`), with p and q the row and the column of
the grid that have K:

    the rank (p, q) closes a[K, K] to D and sends 1 plus D along row p
    the ranks of row p compute R = (1 plus D) a[K, :], but for R[:, K] = D, and send their parts
        along the columns
    the ranks of column q send their parts of a[:, K] along the rows
    every rank adds a[I, K] R to its part of a[I, :], for the rows I outside K;  a[K, :] = R

Lookahead: as soon as the panels of step K are there, the rows and columns of K+1 are brought up to
date, and the panels of K+1 are on their way while the rest of the matrix is. Between the strips of
that rest transfers are moved on, since most libraries of MPI do so only inside their calls.

Each element goes through the same operations in the same order on every grid. So results on
all grids with the same block are bit-equal where plus is exact (min, max, or, integers).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from loopwright.calls.einsum import einsum
from loopwright.integrations.mpi.block_cyclic import BlockCyclic
from loopwright.integrations.mpi.communicator import GridRanks, PendingBroadcast
from loopwright.ir.dtypes import dtype_of
from loopwright.paths.cycles import CycleError
from loopwright.paths.elimination import PRODUCT, add_one, add_product, close_block
from loopwright.paths.semiring_closure import better_cycles, endless
from loopwright.runtime.array_arguments import Array
from loopwright.semirings.named import Semiring

__all__ = ["CLOSURE_STRIPS", "add_empty_paths", "close_blocks"]

CLOSURE_STRIPS = 4  # between which transfers are moved on
_HEADER = 64  # bytes before a panel: the vertex of a cycle, or -1; as much as keeps it aligned

AfterStep = Callable[[int], None]


class _Panel:
    """Part of a row or column of blocks, with a word on whether its step went well.

    It lies in the first bytes of `memory`.
    """

    def __init__(self, memory: Array, shape: tuple[int, int], dtype: np.dtype[Any]) -> None:
        self.message = memory[: _message_size(shape, dtype)]
        self.message[:_HEADER] = 0
        self.values = self.message[_HEADER:].view(dtype).reshape(shape)
        self.vertex = self.message[:8].view(np.int64)
        self.vertex[0] = -1


def _message_size(shape: tuple[int, int], dtype: np.dtype[Any]) -> int:
    return _HEADER + shape[0] * shape[1] * dtype.itemsize


class _Step:
    """The panels of one step: R over this rank's columns, a[:, K] over its rows."""

    def __init__(
        self, rows: _Panel, columns: _Panel, transfers: tuple[PendingBroadcast, ...]
    ) -> None:
        self.rows = rows
        self.columns = columns
        self.transfers = transfers

    def poll(self) -> None:
        for transfer in self.transfers:
            transfer.test()

    def wait(self) -> None:
        for transfer in self.transfers:
            transfer.wait()


def close_blocks(
    matrix: BlockCyclic,
    ring: Semiring,
    ranks: GridRanks,
    *,
    threads: int,
    first: int = 0,
    lookahead: bool = True,
    after_step: AfterStep | None = None,
) -> None:
    """Replace a dealt square matrix by a plus a^2 plus ..., from block `first` on.

    `after_step` is called on every rank when the local array is what `first` = its argument
    continues from. A cycle better than the empty path raises CycleError on all ranks.
    """
    _Elimination(matrix, ring, ranks, threads).run(first, lookahead, after_step)


class _Elimination:
    def __init__(self, matrix: BlockCyclic, ring: Semiring, ranks: GridRanks, threads: int) -> None:
        rows, columns = matrix.layout.dimensions
        assert rows.extent == columns.extent, "a square matrix"
        assert rows.block == columns.block, "of square blocks"
        assert (rows.axis, columns.axis) == (0, 1), "dealt over rows and columns"
        self._a = matrix.local
        self._dims = (rows, columns)
        self._ring = ring
        self._ranks = ranks
        self._threads = threads
        # Panels of this step and of the next, in turns: a rank holds these four and no others,
        # whatever an allocator would keep of panels that were freed.
        height, width = self._a.shape
        b = min(rows.block, rows.extent)
        self._memory = [
            tuple(
                np.empty(_message_size(shape, self._a.dtype), np.uint8)
                for shape in ((b, width), (height, b))
            )
            for _ in range(2)
        ]

    def run(self, first: int, lookahead: bool, after_step: AfterStep | None) -> None:
        steps = self._dims[0].blocks
        if first >= steps:
            return
        now = self._start(first)
        for k in range(first, steps):
            now.wait()
            self._check(now)
            mine = self._own(0, k)
            done = [] if mine is None else [mine]
            if mine is not None:
                self._a[mine] = now.rows.values
            ahead = None
            if lookahead and k + 1 < steps:
                done += self._update_next(k + 1, now, done)
                ahead = self._start(k + 1)
            for rows in self._strips(done):
                self._update(now, rows, slice(None))
                if ahead is not None:
                    ahead.poll()
            columns = self._own(1, k + 1) if ahead is not None else None
            if ahead is not None and columns is not None:
                # They were brought up to date before the rest, and now once more with it.
                self._a[:, columns] = ahead.columns.values
            if after_step is not None:
                after_step(k + 1)
            if k + 1 < steps:
                now = self._start(k + 1) if ahead is None else ahead

    def _own(self, axis: int, block: int) -> slice | None:
        """Where a block of rows (0) or columns (1) lies in the local array, where it is there."""
        owner, place = self._dims[axis].find(block, self._ranks.grid.count(axis))
        return place if owner == self._ranks.place[axis] else None

    def _start(self, k: int) -> _Step:
        """Close the square of step k and begin to send its panels."""
        a, ring, ranks = self._a, self._ring, self._ranks
        owners = tuple(
            dim.find(k, ranks.grid.count(axis))[0] for axis, dim in enumerate(self._dims)
        )
        rows, columns = self._own(0, k), self._own(1, k)
        b = self._dims[0].size_of(k)
        of_rows, of_columns = self._memory[k % 2]
        row_panel = _Panel(of_rows, (b, a.shape[1]), a.dtype)
        column_panel = _Panel(of_columns, (a.shape[0], b), a.dtype)
        transfers: list[PendingBroadcast] = []
        if columns is not None:
            column_panel.values[...] = a[:, columns]
        transfers.append(ranks.along[1].start_broadcast(column_panel.message, owners[1]))
        if rows is not None:
            shape = (b, b)
            square = _Panel(np.empty(_message_size(shape, a.dtype), np.uint8), shape, a.dtype)
            if columns is not None:
                square.values[...] = a[rows, columns]
                square.vertex[0] = self._close(square.values, k)
                closed = square.values.copy()
                if self._dims[0].blocks > 1:
                    add_one(square.values, ring)
            ranks.along[1].broadcast(square.message, owners[1])
            row_panel.vertex[0] = square.vertex[0]
            if self._dims[0].blocks == 1:  # it gets its empty paths at the end, as on one machine
                row_panel.values[...] = square.values[:, : a.shape[1]]
            elif a.shape[1] and square.vertex[0] < 0:
                # The panel's own memory, so that nothing else of its size is allocated.
                out = row_panel.values
                einsum(
                    PRODUCT, square.values, a[rows], semiring=ring, out=out, threads=self._threads
                )
                if columns is not None:
                    out[:, columns] = closed
        transfers.append(ranks.along[0].start_broadcast(row_panel.message, owners[0]))
        return _Step(row_panel, column_panel, tuple(transfers))

    def _close(self, square: Array, k: int) -> int:
        """Close a square; a vertex of a cycle that improves, or -1."""
        first = k * self._dims[0].block
        close_block(square, self._ring, self._threads)
        if self._ring.idempotent:
            better = better_cycles(square, self._ring)
            if better.any():
                return first + int(np.argmax(better))
        return -1

    def _check(self, step: _Step) -> None:
        vertex = int(step.rows.vertex[0])
        if vertex >= 0:
            error = endless(self._ring, vertex, ())
            raise CycleError(error.message, found=error.found, hint="another graph")

    def _update_next(self, k: int, now: _Step, done: list[slice]) -> list[slice]:
        """Bring the rows and columns of block k up to date; the rows, where they are here."""
        rows, columns = self._own(0, k), self._own(1, k)
        if rows is not None:
            self._update(now, rows, slice(None))
        mine = [] if rows is None else [rows]
        if columns is not None:
            for part in self._strips([*done, *mine]):
                self._update(now, part, columns)
        return mine

    def _strips(self, done: list[slice]) -> list[slice]:
        """The local rows but those that are done, in strips.

        Strips begin at the same rows in every step, so that a few shapes of products recur and
        their plans are found again.
        """
        height, block = self._a.shape[0], self._dims[0].block
        size = max(-(-height // (CLOSURE_STRIPS * block)), 1) * block
        cuts = set(range(0, height, size)) | {height}
        for part in done:
            cuts |= {part.start, part.stop}
        left = (slice(*ends) for ends in pairwise(sorted(cuts)))
        return [part for part in left if not any(d.start <= part.start < d.stop for d in done)]

    def _update(self, step: _Step, rows: slice, columns: slice) -> None:
        left, right = step.columns.values[rows], step.rows.values[:, columns]
        add_product(self._a[rows, columns], left, right, self._ring, self._threads)


def add_empty_paths(matrix: BlockCyclic, ring: Semiring) -> None:
    """Add one to the diagonal of a dealt matrix; for an idempotent plus it is one then."""
    rows, columns = matrix.layout.dimensions
    grid, place = matrix.layout.grid, matrix.layout.grid.place(matrix.rank)
    for block in range(rows.blocks):
        (p, at), (q, along) = rows.find(block, grid.rows), columns.find(block, grid.columns)
        if (p, q) != place:
            continue
        square = matrix.local[at, along]
        if ring.idempotent:
            np.fill_diagonal(square, ring.one(dtype_of(square.dtype)))
        else:
            add_one(square, ring)
