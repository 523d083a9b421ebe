"""Einsums on the fake device beside those of the host, and the kernels that were made for them."""

from __future__ import annotations

from typing import Any

import numpy as np

import loopwright as lw
from gpu.fake_cuda import CupyArray
from loopwright.calls import device_contraction, device_einsum
from loopwright.planner.grid_plans.grid_tiles import ProductTile

__all__ = ["SMALL", "compare", "compiled", "forget", "numbers", "texts"]

SMALL = (
    ProductTile(16, 16, 8, 4, 4),
    ProductTile(16, 8, 4, 4, 2, slices=2),
    ProductTile(8, 16, 4, 2, 4, resident=1),
)


def forget() -> None:
    """Forget all kernels that were made."""
    for cache in (device_contraction._executables, device_contraction._launches):
        cache.clear()
    device_einsum._ready.clear()


def texts() -> list[str]:
    """The kernels that were made since all was forgotten, in order."""
    return [found.text for found in device_contraction._executables.values()]


def compiled(text: str, arch: str, options: tuple[str, ...] = (), name: str = "") -> bytes:
    """The text for machine code: what the fake driver runs."""
    wide = "// wide\n" if "-DLW_INDEX=long long" in options else ""
    return (wide + text).encode()


def numbers(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    """Whole numbers, complex ones of two; of floating-point types others, which round."""
    rng = np.random.default_rng([seed, *shape])
    kind = np.dtype(dtype).kind
    if kind == "f":
        return (rng.random(shape) - 0.3).astype(dtype)
    if kind == "c":
        return (rng.integers(-4, 5, shape) + 1j * rng.integers(-4, 5, shape)).astype(dtype)
    return rng.integers(0, 2 if dtype == "bool" else 9, shape).astype(dtype)


def compare(text: str, hosts: list[np.ndarray], **given: Any) -> None:
    """Require the device's result to be that of the host."""
    found = lw.einsum(text, *map(CupyArray, hosts), **given)
    wanted = np.asarray(lw.einsum(text, *hosts, **given))
    assert type(found) is CupyArray
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    if wanted.dtype.kind == "f":
        slack = 2e-3 if wanted.dtype == np.float16 else 1e-5
        np.testing.assert_allclose(found.host, wanted, slack, slack)
    else:
        assert np.array_equal(found.host, wanted)
