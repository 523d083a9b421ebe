"""Differences between plans that rounding explains, and those that it does not."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright.tuning.rounding_noise import rounding_noise
from loopwright.tuning.worker_process import difference


def test_a_recurrence_amplifies_what_is_rounded() -> None:
    """A logistic map doubles a difference in every step; a sum keeps it."""
    start, chaotic, plain = np.full(4, 0.3), np.zeros(4), np.zeros(4)

    def run() -> None:
        x = start.copy()
        for _ in range(30):
            x = 4 * x * (1 - x)
        chaotic[...] = x
        plain[...] = start + 1

    first = start.copy()
    far, near = rounding_noise(run, [start, chaotic, plain], [chaotic, plain])
    assert np.array_equal(start, first)
    assert 1e-12 < far < 1e-3
    assert near < 1e-14
    run()
    moved = chaotic + far / 2
    assert difference(moved, chaotic, 1)
    assert not difference(moved, chaotic, 1, noise=far)
    assert difference(chaotic + 2 * far, chaotic, 1, noise=far)


@pytest.mark.parametrize("dtype", ["float32", "complex128", "int64"])
def test_arrays_are_as_they_were(dtype: str) -> None:
    array, out = np.arange(6).astype(dtype), np.zeros(6, dtype)

    def run() -> None:
        out[...] = array * 3

    (noise,) = rounding_noise(run, [array, out], [out])
    assert np.array_equal(array, np.arange(6))
    assert not out.any()
    assert (noise > 0) == (dtype != "int64")
