"""Calls of compiled functions: arguments in, results out, refusals that leave all as it was."""

from __future__ import annotations

import pickle
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from calls.comparison import assert_as_python, whole
from drawn import taken
from loopwright.diagnostics import SourceError


@lw.jit
def scale(x, factor=3.0, *, shift=0.0):
    """Multiply and add."""
    for i in range(x.shape[0]):
        x[i] = x[i] * factor + shift
    return x


@lw.jit
def add(x, y):
    for i in range(x.shape[0]):
        x[i] += y[i]


# -- results -----------------------------------------------------------------------------------


def test_numbers_and_tuples() -> None:
    def f(x, n, a, flag):
        s = 0
        for i in range(n):
            s += i * 2
        t = a
        for i in range(n):
            t = t * 0.5 + x[i]
        return s, t, n, a, flag

    assert_as_python(f, whole(9), 5, 2.0, True)
    result = lw.jit(f)(whole(9), 5, 2.0, True)
    assert [type(r) for r in result[:2]] == [np.int64, np.float64]


# -- arguments ---------------------------------------------------------------------------------


def test_each_type_is_compiled_once() -> None:
    @lw.jit
    def negate(x):
        for i in range(x.shape[0]):
            x[i] = -x[i]

    for dtype in ("float64", "int32", "float64"):
        negate(np.ones(3, dtype))
    negate(np.ones(40, "int32"))
    assert [[t.dtype for t in types] for types in negate.signatures] == [["float64"], ["int32"]]
    assert repr(negate) == "<loopwright.jit function negate, 2 signatures>"


def test_unaligned_arrays_are_read() -> None:
    packed = np.zeros(5, dtype=[("tag", "i1"), ("value", "f8")])
    packed["value"] = 2.0
    x = np.ones(5)
    add(x, packed["value"])
    np.testing.assert_array_equal(x, np.full(5, 3.0))


# -- manners -----------------------------------------------------------------------------------


def test_pickled_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("somewhere")
    monkeypatch.setitem(sys.modules, "somewhere", module)
    monkeypatch.setattr(scale, "__module__", "somewhere")
    module.scale = scale  # type: ignore[attr-defined]
    assert pickle.loads(pickle.dumps(scale)) is scale


@pytest.mark.parametrize("threads", [1, 2])
def test_several_python_threads(threads: int) -> None:
    """First calls, calls with new shapes and refused calls, all at once."""

    @lw.jit(threads=threads)
    def smooth(y, x, shift):
        for i in range(y.shape[0]):
            y[i] = x[i + shift] + x[i + shift + 1]

    @lw.jit(threads=threads)
    def matvec(y, A, x):
        for i in range(A.shape[0]):
            s = 0.0
            for j in range(A.shape[1]):
                s += A[i, j] * x[j]
            y[i] = max(s, 0.0)

    ready = threading.Barrier(4)

    def work(number: int) -> None:
        ready.wait()
        for n in taken(range(1, 9), 2):
            x, y = whole(n + 4, seed=number), np.empty(n)
            smooth(y, x, 2)
            np.testing.assert_array_equal(y, x[2 : n + 2] + x[3 : n + 3])
            with pytest.raises(SourceError, match="LW112"):
                smooth(y, x, number + 4)
            A = whole(n, n + 4, seed=number)
            matvec(y, A, x)
            np.testing.assert_array_equal(y, np.maximum(A @ x, 0.0))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


# -- reports -----------------------------------------------------------------------------------


def dot(x, y):
    s = 0.0
    for i in range(x.shape[0]):
        s += x[i] * y[i]
    return s


def test_explain() -> None:
    compiled = lw.jit(dot)
    assert compiled.explain() == ""
    args = np.ones(9), np.ones(9)
    told = compiled.explain(*args).splitlines()
    assert told[:3] == [
        "S0: part of the contraction S1",
        "S1: contraction of x[i] * y[i] by add into s[]: p = (i), in source order",
        "no kernel: sums in source order lie across its vectors, and loops are faster",
    ]
    assert told[3].startswith("loops in source order")
    assert compiled.explain() == "\n".join(told[:2])


@pytest.mark.parametrize("function", [dot, scale.py_func])
def test_inspection(function: Any) -> None:
    args = (np.ones(9), np.ones(9)) if function is dot else (np.ones(9), 2.0, 1.0)
    compiled = lw.jit(function)
    assert f"schedule of {function.__name__}:" in compiled.inspect_schedule(*args)
    assert compiled.inspect_loops(*args).startswith("nest kernel(")
    assert "define" in compiled.inspect_llvm(*args)
    assert "kernel_call" in compiled.inspect_asm(*args)
