"""Competitors that need not be installed: numba loops and torch."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

__all__ = ["numba_product", "torch_module"]

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
    "min": lambda x, y: min(x, y),
    "max": lambda x, y: max(x, y),
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
}
_kernels: dict[tuple[str, str], Callable[[Any, Any, Any], None]] = {}


def torch_module() -> Any | None:
    """torch, or None where it is not installed."""
    if find_spec("torch") is None:
        return None
    import torch  # lazy: takes seconds, and only some benchmarks want it

    return torch


def numba_product(
    plus: str, times: str, a: Any, b: Any, zero: Any, out_dtype: Any
) -> Callable[[], Any] | None:
    """The loops i, k, j over a pair of operators, as a numba user writes them; None without numba.

    Floating operators are given leave to ignore NaN and to contract, which only makes them faster.
    """
    kernel = _numba_kernel(plus, times)
    if kernel is None:
        return None
    out = np.empty((a.shape[0], b.shape[1]), out_dtype)

    def run() -> Any:
        out.fill(zero)
        kernel(a, b, out)
        return out

    return run


def _numba_kernel(plus: str, times: str) -> Callable[[Any, Any, Any], None] | None:
    if find_spec("numba") is None:
        return None
    if (plus, times) not in _kernels:
        import numba  # lazy: takes a second, and only some benchmarks want it

        add = numba.njit(_OPERATORS[plus], inline="always")
        mul = numba.njit(_OPERATORS[times], inline="always")

        @numba.njit(fastmath=True)
        def kernel(a: Any, b: Any, out: Any) -> None:
            for i in range(a.shape[0]):
                for k in range(a.shape[1]):
                    x = a[i, k]
                    for j in range(b.shape[1]):
                        out[i, j] = add(out[i, j], mul(x, b[k, j]))

        _kernels[plus, times] = kernel
    return _kernels[plus, times]
