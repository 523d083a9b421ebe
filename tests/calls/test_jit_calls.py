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

FACTOR = 2


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


def test_nothing_is_returned() -> None:
    assert add(np.zeros(3), np.ones(3)) is None


def test_an_argument_is_returned_itself() -> None:
    x = np.ones(3)
    assert scale(x) is x


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


def test_a_tuple_of_one() -> None:
    def f(x):
        s = 0.0
        for i in range(x.shape[0]):
            s += x[i]
        return (s,)

    assert lw.jit(f)(np.ones(3)) == (3.0,)


def test_a_fresh_array_is_returned() -> None:
    @lw.jit
    def squares(n):
        out = np.zeros(n)
        for i in range(n):
            out[i] = i * i
        return out

    first, second = squares(5), squares(5)
    np.testing.assert_array_equal(first, [0.0, 1.0, 4.0, 9.0, 16.0])
    assert first.base is None
    assert not np.shares_memory(first, second)
    assert squares(0).shape == (0,)


def floored(n):
    return n // 3 + n % 5


def test_loops_may_be_absent() -> None:
    assert lw.jit(floored)(-7) == -7 // 3 + -7 % 5


# -- arguments ---------------------------------------------------------------------------------


def test_keywords_and_defaults() -> None:
    np.testing.assert_array_equal(scale(np.ones(2)), [3.0, 3.0])
    np.testing.assert_array_equal(scale(np.ones(2), 2.0), [2.0, 2.0])
    np.testing.assert_array_equal(scale(factor=4.0, x=np.ones(2)), [4.0, 4.0])
    np.testing.assert_array_equal(scale(np.ones(2), shift=1.0), [4.0, 4.0])
    assert "x[i] * factor" in scale.inspect_schedule(np.ones(2), shift=1.0)


@pytest.mark.parametrize("number", [2, True, 2.5, np.int8(3), np.float32(1.5), np.uint64(7)])
def test_numbers_of_every_kind(number: Any) -> None:
    def f(x, a):
        for i in range(x.shape[0]):
            x[i] = x[i] * a

    assert_as_python(f, whole(5), number)


def test_arrays_of_rank_zero() -> None:
    def f(s, x):
        for i in range(x.shape[0]):
            s[()] += x[i]

    assert_as_python(f, np.array(1.0), whole(9))


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


def test_names_that_look_like_ours() -> None:
    def f(A, A_s0, kernel, thread):
        for A_s1 in range(1, A_s0):
            A[A_s1] = A[A_s1 - 1] + kernel[A_s1] * thread

    assert_as_python(f, whole(9), 4, whole(9), 2)


def test_memory_maps(tmp_path: Any) -> None:
    x = np.memmap(tmp_path / "x", "float64", "w+", shape=(5,))
    x[:] = 1.0
    scale(x, 2.0)
    np.testing.assert_array_equal(x, np.full(5, 2.0))


def test_unaligned_arrays_are_read() -> None:
    packed = np.zeros(5, dtype=[("tag", "i1"), ("value", "f8")])
    packed["value"] = 2.0
    x = np.ones(5)
    add(x, packed["value"])
    np.testing.assert_array_equal(x, np.full(5, 3.0))


def test_outer_numbers_that_change(monkeypatch: pytest.MonkeyPatch) -> None:
    @lw.jit
    def multiplied(x):
        s = 0.0
        for i in range(x.shape[0]):
            s += x[i] * FACTOR
        return s

    assert multiplied(np.ones(3)) == 6.0
    monkeypatch.setitem(globals(), "FACTOR", 0.5)
    assert multiplied(np.ones(3)) == 1.5
    assert len(multiplied.signatures) == 1


# -- manners -----------------------------------------------------------------------------------


def test_the_function_keeps_its_identity() -> None:
    assert scale.__name__ == "scale"
    assert scale.__doc__ == "Multiply and add."
    assert scale.py_func(np.ones(1), 2.0) == [2.0]
    assert scale.lower(np.ones(1), 1.0, 0.0) is scale.specialise(np.ones(1), 1.0, 0.0)


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


def test_explain_kernel() -> None:
    told = lw.jit(reassoc=True)(dot).explain(np.ones(9), np.ones(9)).splitlines()
    assert told[1:3] == [
        "S1: contraction of x[i] * y[i] by add into s[]: p = (i), in any order",
        "contraction of 1 x (1 x 9) by (9 x 1): dot products, vectors along the reduction",
    ]


def test_explain_loops() -> None:
    args = np.ones((9, 9)), np.ones((9, 9))

    def shifted(x, y):
        for i in range(x.shape[0]):
            for j in range(1, x.shape[1]):
                x[i, j] = y[i, j - 1]

    def prefix_sums(x):
        for i in range(1, x.shape[0]):
            x[i] += x[i - 1]

    told = lw.jit(threads=2)(shifted).explain(*args).splitlines()
    assert told[1:3] == ["loops in source order, but for", "  parallel(loop='i')"]
    assert told[3] == "  simd(loop='j')"
    assert lw.jit(prefix_sums).explain(np.ones(9)).splitlines()[-1] == "loops in source order"


@pytest.mark.parametrize("function", [dot, scale.py_func])
def test_inspection(function: Any) -> None:
    args = (np.ones(9), np.ones(9)) if function is dot else (np.ones(9), 2.0, 1.0)
    compiled = lw.jit(function)
    assert f"schedule of {function.__name__}:" in compiled.inspect_schedule(*args)
    assert compiled.inspect_loops(*args).startswith("nest kernel(")
    assert "define" in compiled.inspect_llvm(*args)
    assert "kernel_call" in compiled.inspect_asm(*args)


def test_inspection_of_prologues_and_nothing() -> None:
    def f(y, A, x):
        for i in range(A.shape[0]):
            s = 0.0
            for j in range(A.shape[1]):
                s += A[i, j] * abs(x[j])
            y[i] = max(s, 0.0)

    compiled = lw.jit(reassoc=True)(f)
    assert (
        compiled.inspect_loops(np.ones(3), np.ones((3, 4)), np.ones(4)).count("nest kernel(") == 3
    )
    empty = np.ones(3), np.ones((3, 0)), np.ones(0)
    assert compiled.inspect_loops(*empty).count("nest kernel(") == 3
    assert compiled.explain(*empty).endswith("nothing to compute")
