"""The queue of DMA requests: the published table, alignment, and what tiles cost before any run."""

from __future__ import annotations

import pytest

from loopwright.machines.dma_model import (
    DmaRequest,
    dma_bandwidth,
    kernel_cycles,
    queue_cycles,
    request_service_cycles,
    step_cost,
)
from loopwright.machines.load_mesh import load_mesh

SW26010 = load_mesh("sw26010")
PRO = load_mesh("sw26010pro")
LENGTH = 24 << 10
# GB/s of STREAM copy on 64 CPEs (swCandle, raw results): requests of one block, by its bytes.
SINGLE = {
    8: 0.47, 16: 0.94, 32: 1.33, 64: 1.86, 128: 2.95, 256: 5.99, 512: 8.78, 1024: 12.5,
    2048: 15.3, 4096: 18.4, 8192: 19.1, 16384: 20.0, 24576: 20.4,
}  # fmt: skip
# Requests of 24 KiB: GB/s by bytes of a block, for gaps of 8, 32, 128, 512, 2048, 8192 bytes.
GAPS = (8, 32, 128, 512, 2048, 8192)
STRIDED = {
    8: (0.36, 0.55),
    32: (1.55, 1.19, 2.11),
    64: (2.68, 2.83, 3.30),
    128: (4.94, 4.80, 5.16, 4.94),
    256: (8.58, 8.18, 8.42, 8.02),
    512: (11.98, 11.37, 11.79, 11.28, 11.18),
    1024: (15.25, 14.64, 14.45, 15.10, 15.03),
    2048: (17.00, 17.36, 17.41, 17.51, 17.47, 17.27),
    4096: (18.40, 18.32, 18.70, 18.60, 18.54, 18.38),
    8192: (19.34, 19.37, 19.60, 19.68, 19.49, 19.39),
}
TABLE = [(size, 0, DmaRequest(1, size), rate) for size, rate in SINGLE.items()]
TABLE += [
    (size, gap, DmaRequest(LENGTH // size, size, gap), rate)
    for size, rates in STRIDED.items()
    for gap, rate in zip(GAPS, rates, strict=False)
]


@pytest.mark.parametrize(("size", "gap", "request_", "rate"), TABLE)
def test_the_published_table(size: int, gap: int, request_: DmaRequest, rate: float) -> None:
    error = dma_bandwidth(SW26010, request_) / (rate * 1e9) - 1
    assert abs(error) < (0.06 if size >= 256 else 0.15 if size >= 64 else 0.01)


def test_lines_that_are_written_in_part() -> None:
    def put(size: int, offset: int = 0, gap: int = 0, blocks: int = 1) -> float:
        return request_service_cycles(PRO, DmaRequest(blocks, size, gap, True, offset))

    whole = put(128)
    assert put(128, offset=4) / whole == pytest.approx(11.8, rel=0.1)  # measured
    assert put(124) - whole == pytest.approx(40, abs=1)
    assert put(132) - whole == pytest.approx(40, abs=1)
    assert put(256, offset=128) == put(256)
    assert put(64, offset=32) - put(64, offset=0) == pytest.approx(0)  # a part of one line, both
    # Every second block begins in the middle of a line.
    assert put(128, gap=64, blocks=4) == pytest.approx(4 * whole - 3 * 1.4 + 4 * 40)
    get = DmaRequest(1, 128, offset=4)
    aligned = request_service_cycles(PRO, DmaRequest(1, 128))
    assert request_service_cycles(PRO, get) / aligned == pytest.approx(1.39, rel=0.02)
    # SW26010 was measured with blocks beside their lines: they cost nothing more.
    assert request_service_cycles(SW26010, get) == SW26010.dma_cycles(1, 1, 128)


def test_a_broadcast_is_slower_than_one_get_and_faster_than_two() -> None:
    one = request_service_cycles(SW26010, DmaRequest(1, LENGTH))
    all_ = request_service_cycles(SW26010, DmaRequest(1, LENGTH, receivers=64))
    assert one < all_ < 2 * one
    assert LENGTH / all_ * SW26010.frequency_hz == pytest.approx(12e9, rel=0.05)


def test_requests_add_up() -> None:
    a, b = DmaRequest(32, 256, 4096), DmaRequest(1, 24)
    assert queue_cycles(SW26010, [(a, 3), (b, 2)]) == pytest.approx(
        3 * request_service_cycles(SW26010, a) + 2 * request_service_cycles(SW26010, b)
    )


def test_two_buffers_hide_what_is_shorter() -> None:
    requests = [(DmaRequest(32, 256, 4096), 1.0)]
    one = step_cost(SW26010, requests, 5000.0, buffers=1)
    two = step_cost(SW26010, requests, 5000.0, buffers=2)
    assert one.cycles == pytest.approx(one.dma_cycles + 5000 + 350)
    assert two.cycles == two.dma_cycles > 5000
    assert two.is_bound_by_dma
    assert kernel_cycles(SW26010, two, 100) < kernel_cycles(SW26010, one, 100)
    assert kernel_cycles(SW26010, two, 0, launches=2) > 2 * SW26010.launch_cycles
