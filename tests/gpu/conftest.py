"""A driver of fake devices, and CuPy as far as it is read: arrays in NumPy's memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpu.device_einsums import SMALL, compiled, forget
from gpu.fake_cuda import CupyArray, FakeApi, fake_driver
from loopwright.planner.grid_plans import grid_products
from loopwright.runtime import cuda_executable


@pytest.fixture
def driver() -> Iterator[FakeApi]:
    """Two fake devices."""
    with fake_driver(devices=2) as made:
        yield made


@pytest.fixture
def api(driver: FakeApi, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    """Two fake devices with CuPy, and tiles wherever there can be some, for small products too."""

    def empty(shape: tuple[int, ...], dtype: Any, order: str = "C") -> CupyArray:
        kind = np.uint16 if str(dtype) == "bfloat16" else dtype
        return CupyArray(np.full(shape, 77, kind, order), dtype)  # type: ignore[call-overload]

    cuda = SimpleNamespace(
        Device=lambda _: nullcontext(), get_current_stream=lambda: SimpleNamespace(ptr=5)
    )
    cupy = ModuleType("cupy")
    vars(cupy).update(empty=empty, cuda=cuda)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(cuda_executable, "compile_cuda", compiled)
    for table in ("TILES_4", "TILES_8", "TILES_16"):
        monkeypatch.setattr(grid_products, table, SMALL)
    monkeypatch.setattr(grid_products, "_elements_seconds", lambda *_: 1.0)
    forget()
    yield driver
    forget()
