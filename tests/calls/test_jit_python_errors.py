"""`jit(error_model="python")`: what Python raises, and the arrays as Python leaves them."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from frontends.kernels import define

SUMS = """
def f(a, b, n):
    for i in range(n):
        b[i] = a[i] * 2 + i
    return b
"""
CASTS = """
def f(x, k):
    s = 0
    for i in range(len(x)):
        k[i] = int(x[i]) if i > 0 else int(x[i] + 1)
        s += k[i]
    return s
"""
QUOTIENTS = """
def f(x, p, q):
    t = 0.0
    for i in range(len(x)):
        if i > 0 and x[i - 1] > 0:
            t += 1.0 / (i - p)
        if x[i] > 5.0:
            x[i] = math.sqrt(q) * i ** 2
    return t, p
"""
GROWING = """
def f(k):
    s = 3
    for i in range(len(k)):
        k[i] = 1 if s > 2 ** 40 else 0
        s = s * s
    return s,
"""
CALLS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "nothing raises": (SUMS, (np.arange(5, dtype=np.int8), np.zeros(5), 5)),
    "int8 + 128": (SUMS, (np.full(300, 100, np.int8), np.zeros(300), 300)),
    "stored to int8": (SUMS, (np.full(300, 1, np.int32), np.zeros(300, np.int8), 300)),
    "numbers to integers": (CASTS, (np.array([1.5, 2.5]), np.zeros(2, np.int32))),
    "nan to an integer": (CASTS, (np.array([1.5, np.nan, 3]), np.zeros(3, np.int32))),
    "1e20 to int64": (CASTS, (np.array([1.5, 1e20, 3]), np.zeros(3, np.int64))),
    "no zero": (QUOTIENTS, (np.array([1.5, 9.0, 3]), 7, 2.0)),
    "1.0 / 0": (QUOTIENTS, (np.array([1.5, 9.0, 3]), 1, 2.0)),
    "a large argument": (QUOTIENTS, (np.array([1.5, 9.0, 3]), 2**40, 2.0)),
    "sqrt(-1)": (QUOTIENTS, (np.array([1.5, 9.0, 3]), 7, -1.0)),
    "integers beyond 64 bits": (GROWING, (np.zeros(7, np.int8),)),
    "integers within 64 bits": (GROWING, (np.zeros(4, np.int8),)),
}


def outcome(function: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a call returns or raises, and its arguments afterwards."""
    args = copy.deepcopy(args)
    try:
        with np.errstate(all="ignore"):
            result = function(*args)
    except (ArithmeticError, ValueError) as error:
        result = repr(error)
    return result, *args


@pytest.mark.parametrize("name", CALLS)
def test_what_python_raises_is_raised(name: str) -> None:
    text, args = CALLS[name]
    function = define(text)
    expected, found = (
        outcome(one, args) for one in (function, lw.jit(error_model="python")(function))
    )
    assert len(expected) == len(found)
    for one, other in zip(expected, found, strict=True):
        assert type(one) is type(other) or np.isscalar(one)
        np.testing.assert_equal(other, one)


def test_another_model_is_refused() -> None:
    with pytest.raises(lw.UsageError) as caught:
        lw.jit(error_model="c")  # type: ignore[call-overload]
    assert str(caught.value) == (
        "error_model has two values\nnote: found 'c'\ntry: 'numpy' or 'python'"
    )
