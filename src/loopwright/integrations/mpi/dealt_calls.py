"""`closure`, `paths` and `einsum` of arrays that are dealt over the ranks of a process grid.

All of them are collective: every rank calls them with the same arguments, and gets its part of the
result as a `BlockCyclic`, which `gather` brings together and `write_npy` writes.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from loopwright.diagnostics import UsageError
from loopwright.integrations.mpi.block_cyclic import BlockCyclic, filled, read_blocks
from loopwright.integrations.mpi.block_layout import BlockLayout, ProcessGrid, grid_for
from loopwright.integrations.mpi.block_sources import BlockSource
from loopwright.integrations.mpi.checkpoint import Checkpoint
from loopwright.integrations.mpi.closure_checks import (
    check_acyclic,
    check_dealt_laws,
    least_weight,
)
from loopwright.integrations.mpi.closure_steps import add_empty_paths, close_blocks
from loopwright.integrations.mpi.communicator import Communicator, agree, on_grid
from loopwright.integrations.mpi.contraction_steps import contract_blocks, deal_einsum
from loopwright.ir.dtypes import dtype_of
from loopwright.lazy_dataclass import dataclass
from loopwright.paths.elimination import block_size
from loopwright.paths.graph_input import require_room
from loopwright.paths.problems import PROBLEMS, PathProblem, check_weights, underflowing
from loopwright.runtime.array_arguments import Array
from loopwright.semirings.named import SEMIRINGS, Semiring
from loopwright.semirings.named import semiring as find_semiring

__all__ = ["GridOptions", "closure", "dealt_block", "einsum", "paths"]

# Panels, two of rows and two of columns, take at most this share of a rank's part of the matrix.
_PANELS = 0.1
_LEAST_BLOCK = 32
_EINSUM_BLOCK = 256

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class GridOptions:
    """How a problem is dealt and run; the default is chosen by its size and the ranks."""

    grid: str = ""  # rows x columns; nearest to a square
    block: int = 0  # side of the blocks
    threads: int = 1  # of each rank
    checkpoint: str | os.PathLike[str] | None = None  # the folder that steps are saved in
    every: int = 1  # steps from one that is saved to the next
    fresh: bool = False  # begin anew, whatever the folder holds
    lookahead: bool = True  # send the panels of a step during the one before
    progress: Progress | None = None  # called with steps that are done, and all


def closure(
    source: BlockSource,
    semiring: str | Semiring,
    world: Communicator,
    options: GridOptions = GridOptions(),  # noqa: B008, it is frozen
) -> BlockCyclic:
    """The closure of a square matrix over a semiring, as `lw.paths.closure` has it.

    Results on grids with the same block are bit-equal for idempotent semirings and integers, and
    bit-equal to `lw.paths` where its block is the same, or where times rounds nothing.
    """
    return _closed(None, source, find_semiring(semiring), world, options)


def paths(
    problem: str,
    source: BlockSource,
    world: Communicator,
    options: GridOptions = GridOptions(),  # noqa: B008, it is frozen
) -> BlockCyclic:
    """A path problem between all pairs, by its name in `lw.paths`: shortest, widest, ..."""
    found = PROBLEMS.get(problem)
    if found is None:
        raise UsageError("unknown path problem", found=repr(problem), hint=", ".join(PROBLEMS))
    return _closed(found, source, SEMIRINGS[found.ring], world, options)


def einsum(
    subscripts: str,
    left: BlockSource,
    right: BlockSource,
    semiring: str | Semiring,
    world: Communicator,
    options: GridOptions = GridOptions(),  # noqa: B008, it is frozen
) -> BlockCyclic:
    """The einsum of two operands over a semiring, such as the product 'ik,kj->ij'."""
    ring = find_semiring(semiring)
    grid = grid_for(world.size, options.grid)
    shapes = (left.shape, right.shape)
    block = options.block or _einsum_block(shapes, grid)
    plan = deal_einsum(subscripts, shapes, grid, block)
    dtype = np.result_type(left.dtype, right.dtype)
    zero = ring.zero(dtype_of(dtype))
    layouts = plan.layouts
    dtypes = (left.dtype, right.dtype, dtype)
    _require_parts(world, list(zip(layouts, dtypes, strict=True)))
    out = filled(layouts[2], world.rank, dtype, zero)
    saved = None
    if options.checkpoint is not None:
        problem = {
            "problem": f"einsum {plan.text}",
            "semiring": _named(ring),
            "dtype": dtype.str,
            "layout": layouts[2].describe(),
            "block": block,
            "sources": [left.fingerprint(world), right.fingerprint(world)],
        }
        saved = _checkpoint(options, world, problem, plan.steps)
    first = saved.restore(out.local) if saved is not None else 0
    if not first:
        out.local[...] = zero
    operands = read_blocks(layouts[0], world, left), read_blocks(layouts[1], world, right)
    ranks = on_grid(world, grid)
    after = _after_step(out.local, saved, options, plan.steps, first)
    threads = options.threads
    contract_blocks(
        plan, operands, out, ring, ranks, threads=threads, first=first, after_step=after
    )
    return out


def dealt_block(n: int, grid: ProcessGrid, threads: int = 1) -> int:
    """The side of blocks for the closure of n vertices on a grid.

    That of one machine (`paths.elimination.block_size`) as far as the panels of two steps stay
    small beside a rank's part of the matrix, and every rank has a part.
    """
    if n <= 0:
        return 1
    height, width = n / grid.rows, n / grid.columns
    fits = _PANELS * height * width / (2 * (height + width))
    best = min(block_size(n, threads), fits)
    block = max(int(best) // _LEAST_BLOCK * _LEAST_BLOCK, _LEAST_BLOCK)
    return max(1, min(block, -(-n // max(grid.rows, grid.columns))))


def _einsum_block(shapes: tuple[tuple[int, ...], ...], grid: ProcessGrid) -> int:
    """Blocks wide enough for the kernels, as long as every rank has several."""
    largest = max((n for shape in shapes for n in shape), default=1)
    share = -(-largest // (4 * max(grid.rows, grid.columns)))
    return max(1, min(_EINSUM_BLOCK, share))


def _closed(
    problem: PathProblem | None,
    source: BlockSource,
    ring: Semiring,
    world: Communicator,
    options: GridOptions,
) -> BlockCyclic:
    if len(source.shape) != 2 or source.shape[0] != source.shape[1]:
        raise UsageError("a graph is a square matrix of weights", found=f"shape {source.shape}")
    n = source.shape[0]
    ring.check_dtype(dtype_of(source.dtype))
    grid = grid_for(world.size, options.grid)
    block = options.block or dealt_block(n, grid, options.threads)
    layout = BlockLayout.matrix(grid, (n, n), block)
    steps = layout.dimensions[0].blocks
    _require_parts(world, [(layout, source.dtype)])
    saved, matrix = None, None
    if options.checkpoint is not None:
        content = {
            "problem": "closure" if problem is None else problem.ring,
            "semiring": _named(ring),
            "dtype": source.dtype.str,
            "layout": layout.describe(),
            "sources": [source.fingerprint(world)],
        }
        saved = _checkpoint(options, world, content, steps)
    first = 0
    if saved is not None:
        local = np.empty(layout.local_shape(world.rank), source.dtype)
        first = saved.restore(local)
        if first:
            matrix = BlockCyclic(layout, world.rank, local)
        del local
    if matrix is None:
        matrix = read_blocks(layout, world, source)
    # What is checked of a matrix that was restored was checked when it was read. Which ring
    # underflows depends on the least weight, and elimination keeps that: see `_ring_of`.
    ring = _ring_of(problem, ring, matrix, world, is_read=not first)
    ranks = on_grid(world, grid)
    after = _after_step(matrix.local, saved, options, steps, first)
    close_blocks(
        matrix,
        ring,
        ranks,
        threads=options.threads,
        first=first,
        lookahead=options.lookahead,
        after_step=after,
    )
    add_empty_paths(matrix, ring)
    return matrix


def _ring_of(
    problem: PathProblem | None,
    ring: Semiring,
    matrix: BlockCyclic,
    world: Communicator,
    *,
    is_read: bool,
) -> Semiring:
    """The semiring to compute in; weights are checked where they were just read.

    min_times may have to stop at the least normal number. After some steps the least element is
    smaller than in the graph, never larger, and a ring that stops where nothing underflows gives
    the same numbers, so that a run that goes on may take either.
    """
    if problem is not None and is_read:
        found = problem
        agree(world, lambda: _check_weights(found, ring, matrix))
    if problem is PROBLEMS["least_reliable"]:
        low = least_weight(matrix, np.inf, world)
        return underflowing(ring, dtype_of(matrix.dtype), low, matrix.shape[0])
    if is_read:
        check_dealt_laws(matrix, ring, world)
        if not ring.idempotent:
            check_acyclic(matrix, ring, world)
    return ring


def _check_weights(problem: PathProblem, ring: Semiring, matrix: BlockCyclic) -> None:
    """Refuse weights without an answer, a row at a time: masks of all would take memory."""
    for row, values in enumerate(matrix.local):
        check_weights(problem, values, ring, partial(_edge, matrix, row))


def _edge(matrix: BlockCyclic, row: int, column: int) -> tuple[int, ...]:
    return matrix.place_of((row, column))


def _named(ring: Semiring) -> list[str]:
    return [ring.name, str(ring.plus), str(ring.times)] if ring.name in SEMIRINGS else [ring.name]


def _checkpoint(
    options: GridOptions, world: Communicator, problem: Mapping[str, Any], steps: int
) -> Checkpoint:
    assert options.checkpoint is not None
    made = Checkpoint(options.checkpoint, world, problem, steps, options.every)
    if options.fresh:
        made.clear()
    return made


def _after_step(
    local: Array, saved: Checkpoint | None, options: GridOptions, steps: int, first: int
) -> Callable[[int], None]:
    if options.progress is not None:
        options.progress(first, steps)

    def after_step(step: int) -> None:
        if saved is not None:
            saved.save(step, local)
        if options.progress is not None:
            options.progress(step, steps)

    return after_step


def _require_parts(world: Communicator, arrays: list[tuple[BlockLayout, np.dtype[Any]]]) -> None:
    """Refuse what does not fit into this machine's memory, before any of it is allocated."""
    needed = sum(
        int(np.prod(layout.local_shape(world.rank))) * dtype.itemsize for layout, dtype in arrays
    )
    host = socket.gethostname()
    here = [size for name, size in world.collect((host, needed)) if name == host]
    what = f"the part of {host}, {len(here)} of {world.size} ranks,"
    agree(world, lambda: require_room(sum(here), what))
