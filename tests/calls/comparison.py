"""Compiled functions beside the same functions run by Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import loopwright as lw
from loopwright.calls.jit import JitFunction

Function = Callable[..., Any]


def whole(*shape: int, dtype: str = "float64", seed: int = 0) -> np.ndarray:
    """Small whole numbers: sums and products of them are exact in every dtype but int8."""
    numbers = np.random.default_rng([seed, *shape]).integers(-4, 5, shape)
    if dtype.startswith("uint") or dtype == "bool":
        numbers = abs(numbers) % (2 if dtype == "bool" else 128)
    return np.asarray(numbers).astype(dtype)


def clone(value: Any) -> Any:
    """A copy of an argument in memory of its own, with the very strides it has."""
    if not isinstance(value, np.ndarray):
        return value
    root = value
    while isinstance(root.base, np.ndarray):
        root = root.base
    memory = root.copy(order="K").ravel(order="K")
    offset = value.ctypes.data - root.ctypes.data
    return np.ndarray(value.shape, value.dtype, memory, offset, value.strides)


def assert_as_python(
    function: Function,
    *args: Any,
    threads: Sequence[int] = (1, 2),
    rtol: float = 0.0,
    **options: Any,
) -> JitFunction:
    """Run a function compiled and by Python, and compare arguments and results.

    Bit by bit, unless `rtol` says otherwise. Gives the function compiled for the last of `threads`.
    """
    plain = tuple(map(clone, args))
    with np.errstate(all="ignore"):
        expected = function(*plain)
    for count in threads:
        compiled = lw.jit(threads=count, **options)(function)
        ours = tuple(map(clone, args))
        assert_same(compiled(*ours), expected, rtol)
        for one, other in zip(ours, plain, strict=True):
            assert_same(one, other, rtol)
    return compiled


def assert_same(found: Any, expected: Any, rtol: float = 0.0) -> None:
    """Compare results, tuples of results or arrays; dtypes of arrays must agree."""
    assert (found is None) == (expected is None)
    if isinstance(expected, tuple):
        assert isinstance(found, tuple)
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other, rtol)
    elif isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)
    elif expected is not None:
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)


def is_contraction(compiled: JitFunction, *args: Any) -> bool:
    """Whether a function is run as one contraction."""
    return compiled.specialise(*args).is_contracted(args)
