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


HALF = 0.5


def halves(x):
    return x * HALF


def put(x, at, values):
    for k in range(len(at)):
        x[at[k]] = values[k]


def of_new(x):
    y = x * 2
    return y[1:], y, float(x[0]), x[0] > 1


def same(found: Any, want: Any) -> None:
    """Equal in values, types, strides and in what shares memory with what."""
    assert type(found) is type(want)
    if isinstance(want, tuple):
        assert len(found) == len(want)
        for one, other in zip(found, want, strict=True):
            same(one, other)
    elif isinstance(want, np.ndarray):
        np.testing.assert_array_equal(found, want, strict=True)
        assert found.strides == want.strides
        assert found.flags.writeable == want.flags.writeable
    else:
        assert found == want


def test_whole_functions_return_what_they_return_in_python() -> None:
    compiled = lw.jit(of_new)
    x = np.arange(1.0, 7.0)
    assert becomes_native(lambda: compiled(x))
    same(compiled(x), of_new(x))
    view, whole, *_ = compiled(x)
    assert view.base is whole


def test_what_is_returned_of_arguments_is_theirs() -> None:
    def parts(x, y):
        y[...] = halves(x).T
        total = x.sum()
        return (x, y[::-1, 1:], (total, 3, 2.5, True)), x + 1, x.T * 2, None, y.T

    compiled = lw.jit(parts)
    x, y = np.arange(6.0).reshape(2, 3), np.zeros((3, 2))
    assert becomes_native(lambda: compiled(x, y))
    before = sys.getrefcount(x), sys.getrefcount(y), sys.getrefcount(None)
    for _ in range(50):
        found = compiled(x, y)
    assert found[0][0] is x
    assert np.shares_memory(found[0][1], y)
    same(found, parts(x, y.copy()))
    del found
    after = sys.getrefcount(x), sys.getrefcount(y), sys.getrefcount(None)
    assert after[:2] == before[:2]
    assert abs(after[2] - before[2]) < 25


def test_a_check_that_fails_raises_from_native_calls() -> None:
    compiled = lw.jit(put)
    x, at, values = np.zeros(4), np.array([0, 3, 1]), np.array([1.0, 2.0, 3.0])
    assert becomes_native(lambda: compiled(x, at, values))
    at[1], x[:] = 4, 0
    found = dispatcher()
    assert found is not None
    found.words[STATE["countdown"]] = 100
    for _ in range(3):
        with pytest.raises(IndexError, match="index 4 is out of bounds for axis 0 with size 4"):
            compiled(x, at, values)
    assert found.words[STATE["countdown"]] == 97
    assert list(x) == [1, 0, 0, 0]
    at[1] = 2
    compiled(x, at, values)
    assert list(x) == [1, 3, 2, 0]


def test_outer_names_of_helpers_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    @lw.jit
    def compiled(x):
        return halves(x) + 1

    x = np.ones(3)
    assert becomes_native(lambda: compiled(x))
    monkeypatch.setitem(globals(), "HALF", 4.0)
    np.testing.assert_array_equal(compiled(x), np.full(3, 5.0))


def test_whole_functions_whose_arguments_overlap_go_to_python() -> None:
    @lw.jit
    def shift(x, y):
        x[...] = y + 1

    memory = np.arange(8.0)
    shift(memory[:3], memory[5:])
    assert becomes_native(lambda: shift(memory[:3], memory[5:]))
    memory[:] = np.arange(8.0)
    shift(memory[1:4], memory[:3])
    np.testing.assert_array_equal(memory, [0, 1, 2, 3, 4, 5, 6, 7])
    fixed = np.zeros(3)
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        shift(fixed, memory[5:])
