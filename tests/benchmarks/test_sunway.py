"""The model of a core group is right about plans of others; bounds of kernels."""

from __future__ import annotations

import pytest
from benchmarks.sunway import _KERNELS, _least_seconds, _row
from benchmarks.sunway_plans import by_hand, tiles_of_32

from loopwright.machines.load_mesh import load_mesh

SW = load_mesh("sw26010")


def test_tiles_of_32_reach_some_hundredths_of_the_peak() -> None:
    found = tiles_of_32(SW, 256)
    assert 0.03 < found.share_of_peak < 0.05
    assert found.flops == 2 * 256**3
    assert found.bound[0] == "the queue of DMA requests"


def test_the_product_by_hand_is_near_the_peak() -> None:
    found = by_hand(SW, 6144)
    assert 0.85 < found.share_of_peak < 0.95
    assert found.flops == 2 * 6144**3


@pytest.mark.parametrize(
    ("name", "milliseconds"),
    # By arithmetic: 2 * 1000 * 1100 * 1200 flops; by DMA: 8 * 2000 * 2000 bytes.
    [("gemm", 2.64e9 / 742.4e6), ("mvt", 3.2e7 / 20.4e6), ("doitgen", 5.3964800e7 / 20.4e6)],
)
def test_bounds(name: str, milliseconds: float) -> None:
    kernel = _KERNELS[name]
    assert 1e3 * _least_seconds(kernel, kernel.sizes[0]) == pytest.approx(milliseconds)


def test_no_prediction_is_faster_than_its_bound() -> None:
    found = _row("mvt", {"n": 1000}, 0.0)
    assert found["ratio"] > 1
    assert found["megabytes"] >= 8.0
    assert 0.5 < found["ragged"] < 1.5


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("name", "reassoc", "passes"),
    # How often A is read: once for both sums, also where cores hand the sums on in their order.
    [("mvt", True, 1), ("mvt", False, 1), ("atax", True, 1), ("bicg", True, 1)],
)
def test_a_matrix_is_read_once_for_each_pass(name: str, reassoc: bool, passes: int) -> None:
    sizes = _KERNELS[name].sizes[0]
    found = _row(name, sizes, 0.0, reassoc=reassoc)
    matrix = 8e-6 * _KERNELS[name].elements(sizes)
    assert passes * matrix < found["megabytes"] < (passes + 0.1) * matrix
    assert found["ratio"] < passes * 1.13
