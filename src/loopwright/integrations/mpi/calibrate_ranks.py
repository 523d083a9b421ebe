"""Measures closures on 1 and 2 ranks, fits the communication model, and checks it on all ranks."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from loopwright.calls.einsum import forget_calls
from loopwright.diagnostics import UsageError
from loopwright.integrations.mpi.block_cyclic import BlockCyclic
from loopwright.integrations.mpi.block_layout import BlockLayout, ProcessGrid, grid_for
from loopwright.integrations.mpi.closure_steps import close_blocks
from loopwright.integrations.mpi.communication_model import (
    KernelTimes,
    Link,
    NodeModel,
    fit_kernels,
    fit_link,
)
from loopwright.integrations.mpi.communicator import Communicator, on_grid
from loopwright.integrations.mpi.dealt_calls import dealt_block
from loopwright.integrations.mpi.mpi_communicator import MpiCommunicator
from loopwright.semirings.named import Semiring

__all__ = ["measure_model", "model_report"]

_RUNS = ((256, 32), (512, 64), (512, 128), (768, 64), (1024, 64), (1024, 192), (1536, 128))
_SIZES = tuple(1 << power for power in (6, 10, 13, 15, 17, 18, 19, 20, 21))
_REPEATS = 3
_TOGETHER = 6
_SCALING = (1, 2, 4, 8, 16, 32, 64, 125, 250, 500, 1000)


def measure_model(
    ranks: MpiCommunicator, ring: Semiring, dtype: np.dtype[Any], network: tuple[float, float]
) -> tuple[NodeModel, float] | None:
    """The model of this node and the worst error of its fit, on rank 0; None on other ranks.

    Ranks that do not take part sleep. A collective call.
    """
    one, two = ranks.split(int(ranks.rank > 0), ranks.rank), None
    pair = ranks.split(int(ranks.rank > 1), ranks.rank)
    runs: list[tuple[int, int, float]] = []
    if ranks.rank == 0:
        for n, block in _RUNS:
            runs.append((n, block, timed_closure(one, ring, dtype, n, block)))
    ranks.idle_barrier()
    link, contention = Link(0.0, 0.0), 0.0
    if ranks.rank < 2 and ranks.size > 1:
        two = _messages(pair)
        link = fit_link(two)
        # Both close a matrix of their own at the same time: what they share makes them slower.
        alone = ranks.rank  # a communicator of its own for each
        own = pair.split(alone, 0)
        n, block = _RUNS[-1]
        both = _together(pair, _closing(own, ring, dtype, n, block))
        if ranks.rank == 0:
            contention = max(0.0, both / runs[-1][2] - 1)
    ranks.idle_barrier()
    if ranks.rank:
        return None
    kernels = fit_kernels(runs)
    model = NodeModel(kernels, link, Link(*network), contention, os.cpu_count() or 1)
    single = ProcessGrid(1, 1)
    errors = [abs(model.closure(n, b, single, dtype.itemsize, 1).total / t - 1) for n, b, t in runs]
    return model, max(errors)


def timed_closure(
    world: Communicator,
    ring: Semiring,
    dtype: np.dtype[Any],
    n: int,
    block: int,
    grid: ProcessGrid | None = None,
) -> float:
    """The least of some times of a closure, planned anew each time, as a long run is."""
    run = _closing(world, ring, dtype, n, block, grid)
    run()  # compiles kernels
    return min(run() for _ in range(_REPEATS))


def _closing(
    world: Communicator,
    ring: Semiring,
    dtype: np.dtype[Any],
    n: int,
    block: int,
    grid: ProcessGrid | None = None,
) -> Callable[[], float]:
    """A closure of random weights; each call gives its seconds."""
    grid = grid or grid_for(world.size)
    ranks = on_grid(world, grid)
    layout = BlockLayout.matrix(grid, (n, n), block)

    def run() -> float:
        random = np.random.default_rng(world.rank)
        local = random.integers(1, 100, layout.local_shape(world.rank)).astype(dtype)
        matrix = BlockCyclic(layout, world.rank, local)
        forget_calls()
        world.barrier()
        start = time.perf_counter()
        close_blocks(matrix, ring, ranks, threads=1)
        world.barrier()
        return time.perf_counter() - start

    return run


def _together(pair: Communicator, run: Callable[[], float]) -> float:
    """Seconds of the slower of two ranks that run at the same time, the least of some runs.

    Ranks whom the system puts beside each other on one core (as hyperthreads) are half as fast
    meanwhile; what they always share shows in their best run only.
    """
    run()  # compiles kernels
    seconds = []
    for _ in range(_TOGETHER):
        pair.barrier()
        seconds.append(float(pair.reduce_all(np.array([run()]), "max")[0]))
    return min(seconds)


def _messages(pair: Communicator) -> list[tuple[int, float]]:
    """Bytes and seconds of broadcasts between two ranks, there and back in turns."""
    found = []
    for size in _SIZES:
        message = np.zeros(size, np.uint8)
        rounds = max(4, min(400, (1 << 22) // size))
        best = np.inf
        for _ in range(_REPEATS):
            pair.barrier()
            start = time.perf_counter()
            for number in range(rounds):
                pair.start_broadcast(message, number % 2).wait()
            best = min(best, (time.perf_counter() - start) / rounds)
        found.append((size, float(best)))
    return found


def model_report(
    ranks: MpiCommunicator,
    ring: Semiring,
    dtype: np.dtype[Any],
    n: int,
    block: int,
    *,
    nodes: int,
    network: tuple[float, float],
) -> str:
    """Fit the model, check it against all ranks, and predict more nodes; "" but on rank 0."""
    if ranks.on_this_node().size != ranks.size:
        raise UsageError("the model is fitted on the ranks of one node", hint="one node")
    grid = grid_for(ranks.size)
    block = block or dealt_block(n, grid)
    fitted = measure_model(ranks, ring, dtype, network)
    measured = timed_closure(ranks, ring, dtype, n, block, grid)
    if fitted is None:
        return ""
    model, worst = fitted
    predicted = model.closure(n, block, grid, dtype.itemsize, ranks.size)
    error = predicted.total / measured - 1
    lines = [
        _kernels_line(model.kernels, worst),
        f"2 ranks: latency {model.inside.alpha * 1e6:.1f} us, "
        f"{1e-9 / max(model.inside.beta, 1e-15):.1f} GB/s, "
        f"each further rank makes kernels {model.contention:.1%} slower",
        f"{ranks.size} ranks ({grid}) on {model.cores} cores, n = {n}, blocks of {block}: "
        f"predicted {predicted.total:.3f} s (kernels {predicted.kernels:.3f}, closings "
        f"{predicted.closings:.3f}, messages {predicted.messages:.3f}), measured {measured:.3f} s: "
        f"{error:+.1%}",
        *scaling_table(model, n, dtype.itemsize, nodes),
    ]
    return "\n".join(lines)


def _kernels_line(kernels: KernelTimes, worst: float) -> str:
    return (
        f"1 rank: a pair {kernels.pair * 1e9:.3f} ns, an element and step "
        f"{kernels.element * 1e9:.2f} ns, a step {kernels.call * 1e3:.2f} ms, a pair of a closing "
        f"{kernels.closing * 1e9:.2f} ns; worst error of the fit {worst:.1%}"
    )


def scaling_table(model: NodeModel, n: int, itemsize: int, nodes: int) -> list[str]:
    """Predicted times for more and more nodes with a rank on each core: fixed and growing n."""
    cores = model.cores
    fixed = 16 * n
    one = model.closure(fixed, *_dealt(fixed, cores), itemsize, cores).total
    lines = [
        f"prediction, {cores} ranks to a node, network {model.between.alpha * 1e6:g} us and "
        f"{1e-9 / model.between.beta:g} GB/s:",
        f"{'nodes':>6} {'n':>9} {'seconds':>10} {'speed-up':>9} | {'n':>9} {'seconds':>10} "
        f"{'efficiency':>10}",
    ]
    for count in _SCALING:
        if count > nodes:
            break
        total = model.closure(fixed, *_dealt(fixed, cores * count), itemsize, cores).total
        # Work grows with n^3: so does n with the cube root of the nodes, for the same time.
        grown = round(fixed * count ** (1 / 3))
        weak = model.closure(grown, *_dealt(grown, cores * count), itemsize, cores).total
        lines.append(
            f"{count:6} {fixed:9} {total:10.2f} {one / total:9.1f} | {grown:9} {weak:10.2f} "
            f"{one / weak:10.0%}"
        )
    return lines


def _dealt(n: int, ranks: int) -> tuple[int, ProcessGrid]:
    grid = grid_for(ranks)
    return dealt_block(n, grid), grid
