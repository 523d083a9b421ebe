"""Repeated calls of compiled functions run natively, and do what the road of Python does."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright.diagnostics import LoopwrightError
from loopwright.ir.call_dispatch import STATE
from loopwright.kernels import dispatcher

pytestmark = pytest.mark.skipif(dispatcher() is None, reason="another layout of objects")

FACTOR = 2.0


@lw.jit
def add_scaled(s, x, y):
    for i in range(x.shape[0]):
        y[i] = y[i] + s * x[i]
    return y


@lw.jit
def product(a, b):
    c = np.zeros((a.shape[0], b.shape[1]))
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            for k in range(a.shape[1]):
                c[i, j] += a[i, k] * b[k, j]
    return c


@lw.jit
def total(x):
    s = 0.0
    for i in range(x.shape[0]):
        s += x[i]
    return s


@lw.jit
def first(x, n):
    for i in range(n):
        x[i] = x[i] * FACTOR


def is_native(call: Callable[[], Any]) -> bool:
    """Whether a call does without Python; a fallback settles the countdown anew."""
    found = dispatcher()
    assert found is not None
    found.words[STATE["countdown"]] = 100
    call()
    return int(found.words[STATE["countdown"]]) == 99


def becomes_native(call: Callable[[], Any]) -> bool:
    call(), call()
    return is_native(call)


def test_integers_count() -> None:
    x = np.ones(6)
    for n in (2, 2, 2, 2, 5, 5, 5):
        x[:] = 1
        first(x, n)
        np.testing.assert_array_equal(x, [FACTOR] * n + [1.0] * (6 - n))
    assert is_native(lambda: first(x, 5))
    with pytest.raises(LoopwrightError):
        first(x, 7)
    with pytest.raises(LoopwrightError):
        first(x, 1 << 70)
    x[:] = 1
    first(x, -1)  # nothing to do
    np.testing.assert_array_equal(x, np.ones(6))


def test_outer_names_that_change(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.ones(3)
    assert becomes_native(lambda: first(x, 3))
    x[:] = 1
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    first(x, 3)
    np.testing.assert_array_equal(x, [3.0] * 3)
    assert becomes_native(lambda: first(x, 3))


def test_closures() -> None:
    def make(n: float) -> tuple[Any, Callable[[float], None]]:
        @lw.jit
        def times(x):
            for i in range(x.shape[0]):
                x[i] = x[i] * n

        def change(to: float) -> None:
            nonlocal n
            n = to

        return times, change

    times, change = make(2.0)
    x = np.ones(4)
    assert becomes_native(lambda: times(x))
    change(5.0)
    x[:] = 1
    times(x)
    np.testing.assert_array_equal(x, [5.0] * 4)


def test_what_is_written_lies_apart() -> None:
    x, y = np.ones(8), np.zeros(8)
    assert becomes_native(lambda: add_scaled(1.0, x, y))
    with pytest.raises(LoopwrightError, match="share memory"):
        add_scaled(1.0, x, x)
    block = np.ones(12)
    with pytest.raises(LoopwrightError, match="share memory"):
        add_scaled(1.0, block[:8], block[4:])
    y.flags.writeable = False
    with pytest.raises(LoopwrightError, match="read-only"):
        add_scaled(1.0, x, y)


def test_functions_go_with_their_calls() -> None:
    def double(x):
        for i in range(x.shape[0]):
            x[i] = x[i] * 2

    x = np.ones(4)

    def called() -> weakref.ref[Any]:
        compiled = lw.jit(double)
        assert becomes_native(lambda: compiled(x))
        return weakref.ref(compiled)

    kept = called()
    gc.collect()
    assert kept() is None


def test_many_calls_leave_nothing() -> None:
    x, y, s = np.ones(4), np.zeros(4), 0.5
    a = np.ones((2, 2))
    assert becomes_native(lambda: add_scaled(s, x, y))
    assert becomes_native(lambda: product(a, a))
    assert becomes_native(lambda: total(x))
    everything = (x, y, s, a, a.dtype, None, add_scaled)
    gc.collect()  # what compilation has left refers to None
    before = [sys.getrefcount(x) for x in everything]
    for _ in range(20_000):
        add_scaled(s, x, y)
        product(a, a)
        total(x)
    gc.collect()
    after = [sys.getrefcount(x) for x in everything]
    assert all(abs(x - y) < 50 for x, y in zip(before, after, strict=True))
