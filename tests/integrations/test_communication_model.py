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


def test_predictions_reach_a_thousand_nodes_and_stay_below_linear() -> None:
    lines = scaling_table(node(), 2048, 8, 1000)
    rows = [line.replace("|", " ").split() for line in lines[2:]]
    assert [int(row[0]) for row in rows] == [1, 2, 4, 8, 16, 32, 64, 125, 250, 500, 1000]
    speed_ups = np.array([float(row[3]) for row in rows])
    nodes = np.array([int(row[0]) for row in rows])
    assert (np.diff(speed_ups) > 0).all()
    assert (speed_ups <= nodes * 1.01).all()
    assert lines[0].startswith("prediction, 16 ranks to a node, network 2 us and 10 GB/s")
