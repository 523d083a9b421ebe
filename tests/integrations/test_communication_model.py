"""The model of runs on several ranks: what it fits, and what it says of other grids."""

import numpy as np
import pytest

from loopwright.integrations.mpi.block_layout import ProcessGrid
from loopwright.integrations.mpi.calibrate_ranks import scaling_table
from loopwright.integrations.mpi.communication_model import (
    KernelTimes,
    Link,
    NodeModel,
    fit_kernels,
    fit_link,
)

KERNELS = KernelTimes(call=2e-3, element=1e-9, pair=2e-10, closing=1e-9)
INSIDE, BETWEEN = Link(5e-6, 2e-10), Link(2e-6, 1e-10)
ONE = ProcessGrid(1, 1)


def node(cores: int = 16, contention: float = 0.0) -> NodeModel:
    return NodeModel(KERNELS, INSIDE, BETWEEN, contention, cores)


def test_fits_give_back_what_made_the_times() -> None:
    shapes = [(256, 32), (512, 64), (512, 128), (768, 64), (1024, 64), (1024, 192), (1536, 128)]
    runs = [(n, b, node().closure(n, b, ONE, 8, 1).total) for n, b in shapes]
    fitted = fit_kernels([(n, b, t) for n, b, t in runs if n % b == 0])
    for found, true in (
        (fitted.call, KERNELS.call),
        (fitted.element, KERNELS.element),
        (fitted.pair, KERNELS.pair),
        (fitted.closing, KERNELS.closing),
    ):
        assert found == pytest.approx(true, rel=1e-6)
    link = fit_link([(size, INSIDE.alpha + INSIDE.beta * size) for size in (8, 1000, 10**6)])
    assert (link.alpha, link.beta) == pytest.approx((INSIDE.alpha, INSIDE.beta))


def test_no_time_is_fitted_as_negative() -> None:
    link = fit_link([(10**6, 1.0), (2 * 10**6, 3.0), (3 * 10**6, 5.0)])
    assert link.alpha == 0
    assert link.beta > 0


def test_broadcasts() -> None:
    assert INSIDE.broadcast(1000, 1) == 0
    assert INSIDE.broadcast(1000, 2) == pytest.approx(INSIDE.alpha + 1000 * INSIDE.beta)
    # A tree for short messages, parts of long ones for all to gather.
    assert INSIDE.broadcast(0, 8) == pytest.approx(3 * INSIDE.alpha)
    long = INSIDE.broadcast(10**9, 8)
    assert long == pytest.approx(3 * INSIDE.alpha + 2 * 7 / 8 * 10**9 * INSIDE.beta)


def test_more_ranks_than_cores_share_them() -> None:
    few, many = node(cores=2), node(cores=16)
    grid = ProcessGrid(2, 2)
    crowded = few.closure(2048, 64, grid, 4, 4)
    free = many.closure(2048, 64, grid, 4, 4)
    assert crowded.kernels == pytest.approx(2 * free.kernels)
    assert node(cores=16, contention=0.1).slowdown(4) == pytest.approx(1.3)
    assert node(cores=2, contention=0.1).slowdown(4) == pytest.approx(2 * 1.1)


def test_messages_overlap_with_kernels_between_nodes_only() -> None:
    grid = ProcessGrid(4, 4)
    within = node().closure(4096, 64, grid, 8, per_node=16)
    across = node().closure(4096, 64, grid, 8, per_node=4)
    assert within.total == pytest.approx(within.kernels + within.closings + within.messages)
    assert across.total < across.kernels + across.closings + across.messages


def test_predictions_reach_a_thousand_nodes_and_stay_below_linear() -> None:
    lines = scaling_table(node(), 2048, 8, 1000)
    rows = [line.replace("|", " ").split() for line in lines[2:]]
    assert [int(row[0]) for row in rows] == [1, 2, 4, 8, 16, 32, 64, 125, 250, 500, 1000]
    speed_ups = np.array([float(row[3]) for row in rows])
    nodes = np.array([int(row[0]) for row in rows])
    assert (np.diff(speed_ups) > 0).all()
    assert (speed_ups <= nodes * 1.01).all()
    assert lines[0].startswith("prediction, 16 ranks to a node, network 2 us and 10 GB/s")
