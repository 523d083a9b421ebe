"""Kernels of products that a device's compiler spills give way to others of the same tile."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import loopwright as lw
from gpu.device_einsums import numbers, texts
from gpu.fake_cuda import CupyArray, FakeApi
from loopwright import options
from loopwright.ir.grid_kernel import GridVariant
from loopwright.ir.grid_registers import relieved

TEXT = "ij,jk->ik"


def product() -> tuple[np.ndarray, list[CupyArray]]:
    hosts = [numbers((17, 12), "float32"), numbers((12, 20), "float32")]
    return np.einsum(TEXT, *hosts), [*map(CupyArray, hosts)]


def loads(driver: FakeApi) -> int:
    return driver.names().count("cuModuleLoadData")


def test_second_choice(api: FakeApi, caplog: pytest.LogCaptureFixture) -> None:
    api.spilled = lambda text: 0 if "lw_anew" in text else 16
    wanted, given = product()
    with options.override(log=("plan",)), caplog.at_level(logging.INFO, logger="loopwright"):
        found = lw.einsum(TEXT, *given)
    np.testing.assert_allclose(found.host, wanted, 1e-5)
    assert ["lw_anew" in text for text in texts()] == [False, True]
    told = [line for line in caplog.messages if "spills" in line]
    assert len(told) == 1
    assert "spills 16 bytes of a thread, taken so that its end computes places anew" in told[0]
    before = loads(api)
    np.testing.assert_allclose(lw.einsum(TEXT, *given).host, wanted, 1e-5)
    assert loads(api) == before  # the choice is remembered


def test_order_of_the_tries() -> None:
    variant = GridVariant(128, 128, 8, 8, 8, True, False, resident=2, copies=2)
    tried = [(x.ends_anew, x.copies, x.resident) for x in relieved(variant)]
    assert tried == [(True, 2, 2), (True, 1, 2), (True, 2, 1)]
    last = GridVariant(64, 64, 8, 8, 8, True, False, resident=1, copies=1, ends_anew=True)
    assert relieved(last) == ()
    assert relieved(GridVariant(64, 64, 8, 8, 8, True, False, uses_mma=True)) == ()
