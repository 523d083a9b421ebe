"""Random loop nests: compiled code leaves what the interpreter leaves."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.compiled import assert_compiled
from backends.random_nests import SIZE, nests
from drawn import some
from loopwright.ir.dtypes import DType
from loopwright.ir.loops import LoopNest


def data(dtype: DType, seed: int) -> np.ndarray:
    """Small numbers, and for floating types a few that are none."""
    random = np.random.default_rng(seed)
    numbers = random.integers(0 if dtype.kind == "u" else -4, 5, 2 * SIZE)
    found = numbers.astype(dtype.name)
    if dtype.is_float:
        found /= 2
        found[random.integers(0, 2 * SIZE, 8)] = [np.nan, np.inf, -np.inf, -0.0] * 2
    return found


def arrays(nest: LoopNest, launch: dict[str, int], seed: int) -> dict[str, np.ndarray]:
    """The arguments in memory with the strides of the launch."""
    found = {}
    for buffer in nest.buffers:
        stride = launch.get(f"{buffer.name}s", 1)
        found[buffer.name] = data(buffer.dtype, seed)[::stride][:SIZE]
    return found


@given(nests(), st.integers(0, 3))
@settings(max_examples=some(60))
def test_random_nest(case: tuple[LoopNest, dict[str, int]], seed: int) -> None:
    nest, launch = case
    assert_compiled(nest, arrays(nest, launch, seed), launch)


@given(nests(), st.integers(0, 3))
@settings(max_examples=some(20))
def test_random_nest_with_bounds_checks(case: tuple[LoopNest, dict[str, int]], seed: int) -> None:
    """What stays inside computes the same, and nothing is told."""
    nest, launch = case
    assert_compiled(nest, arrays(nest, launch, seed), launch, bounds=True)


@given(nests(parallel=True), st.integers(0, 3))
@settings(max_examples=some(30))
def test_random_parallel_nest(case: tuple[LoopNest, dict[str, int]], seed: int) -> None:
    nest, launch = case
    assert_compiled(nest, arrays(nest, launch, seed), launch, threads=(1, 2, 3))
