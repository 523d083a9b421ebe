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
from calls.comparison import assert_as_python, clone, whole
from frontends.kernels import define
from loopwright.diagnostics import SourceError, UsageError

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


def refusal(function: Any, *args: Any, **named: Any) -> str:
    """The text of the error that a call raises, which must leave its arrays alone."""
    before = [clone(a) for a in args]
    with pytest.raises((SourceError, UsageError)) as error:
        function(*args, **named)
    for one, other in zip(args, before, strict=True):
        if isinstance(one, np.ndarray):
            np.testing.assert_array_equal(one, other)
    return str(error.value)


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


@pytest.mark.parametrize("wrong", [2**63, np.uint64(2**63), -(2**63) - 1])
def test_integers_beyond_int64(wrong: Any) -> None:
    told = refusal(lw.jit(floored), wrong)
    assert told == f"argument 'n' does not fit int64\nnote: found {int(wrong)}"


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


# -- refusals ----------------------------------------------------------------------------------


def test_wrong_arguments() -> None:
    x = np.ones(3)
    assert refusal(add, x) == "add(): missing a required argument: 'y'"
    assert refusal(add, x, x, x) == "add(): too many positional arguments"
    assert refusal(scale, x, other=1) == "scale(): got an unexpected keyword argument 'other'"
    assert refusal(add, x, [1.0, 2.0]) == (
        "argument 2 has a type that cannot be compiled\n"
        "note: found an object of type 'builtins.list'\n"
        "try: pass NumPy arrays (np.asarray makes one) and numbers"
    )


def test_starred_parameters() -> None:
    function = define(
        """
        def f(x, *rest):
            x[0] = 1.0
        """,
        "starred.py",
    )
    assert refusal(lw.jit(function), np.ones(1), 2, 3) == (
        "starred.py:1:11: error: a starred parameter cannot be compiled [LW127]\n"
        "    def f(x, *rest):\n"
        "              ^^^^\n"
        "try: name every parameter"
    )


def test_memory_shared_with_what_is_written() -> None:
    x = np.ones(6)
    told = "arguments 'x' and 'y' share memory, and 'x' is written\ntry: pass a copy of one of them"
    assert refusal(add, x, x) == told
    assert refusal(add, x[:4], x[2:]) == told
    assert refusal(add, x[1:], x[:-1][::-1]) == told
    add(x[::2], x[1::2])  # interleaved, and apart
    np.testing.assert_array_equal(x, [2.0, 1.0] * 3)


def test_memory_shared_by_what_is_read() -> None:
    def f(C, A, B):
        for i in range(C.shape[0]):
            C[i] = A[i] + B[i]

    x, out = np.ones(3), np.zeros(3)
    lw.jit(f)(out, x, x)
    np.testing.assert_array_equal(out, np.full(3, 2.0))


def test_elements_that_share_memory() -> None:
    x = np.lib.stride_tricks.as_strided(np.ones(4), (3, 2), (8, 8))

    def f(x):
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                x[i, j] += 1.0

    assert refusal(lw.jit(f), x) == (
        "elements of argument 'x' share memory, and 'x' is written\ntry: pass a copy"
    )


def test_read_only_arrays() -> None:
    x = np.ones(3)
    x.flags.writeable = False
    assert refusal(scale, x) == "argument 'x' is written but read-only\ntry: pass a copy"
    add(np.zeros(3), x)


def test_unaligned_arrays_are_not_written() -> None:
    packed = np.zeros(5, dtype=[("tag", "i1"), ("value", "f8")])
    assert refusal(scale, packed["value"]) == (
        "argument 'x' is not aligned to its elements, and 'x' is written\ntry: pass a copy"
    )


BOUNDS = define(
    """
    def shifted(x, y, k):
        for i in range(x.shape[0]):
            x[i] = y[i + k]
    """,
    "bounds.py",
)


@pytest.mark.parametrize(
    ("shift", "found", "hint"),
    [
        (2, "y[5] in y of shape (5), at i = 3", ""),
        (-1, "y[-1] in y of shape (5), at i = 0", "\ntry: only a constant subscript below zero"),
        (2**62, f"y[{2**62}] in y of shape (5), at i = 0", ""),
    ],
)
def test_accesses_outside_an_array(shift: int, found: str, hint: str) -> None:
    told = refusal(lw.jit(BOUNDS), np.zeros(5), np.ones(5), shift)
    assert told.startswith(
        "bounds.py:3:9: error: subscript 1 of 'y' is outside the array [LW112]\n"
        "    x[i] = y[i + k]\n"
        "    ^^^^^^^^^^^^^^^\n"
        f"note: found {found}" + hint
    )


def test_a_refused_call_does_not_spoil_the_next() -> None:
    compiled = lw.jit(BOUNDS)
    for _ in range(2):
        refusal(compiled, np.zeros(5), np.ones(5), 1)
        x = np.zeros(5)
        compiled(x, np.arange(7.0), 2)
        np.testing.assert_array_equal(x, np.arange(2.0, 7.0))


def test_a_contraction_outside_its_arrays() -> None:
    def f(C, A, B):
        for i in range(C.shape[0]):
            for j in range(C.shape[1]):
                for k in range(A.shape[1]):
                    C[i, j] += A[i, k] * B[k, j]

    told = refusal(lw.jit(f), np.zeros((2, 2)), np.ones((2, 4)), np.ones((3, 2)))
    assert "note: found B[3, 0] in B of shape (3, 2), at i = 0, j = 0, k = 3" in told


def test_values_never_set() -> None:
    function = define(
        """
        def last(x):
            for i in range(x.shape[0]):
                s = x[i]
            return s
        """,
        "unset.py",
    )
    assert lw.jit(function)(np.arange(3.0)) == 2.0
    told = refusal(lw.jit(function), np.zeros(0))
    assert told.startswith("unset.py:3:9: error: 's' is returned before it is assigned [LW108]")


def test_negative_extents() -> None:
    function = define(
        """
        def zeros(n):
            out = np.zeros(n)
            return out
        """,
        "extent.py",
    )
    assert lw.jit(function)(0).shape == (0,)
    told = refusal(lw.jit(function), -1)
    assert "the local array 'out' has a negative extent [LW117]" in told


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "2", 10_000])
def test_number_of_threads(wrong: Any) -> None:
    with pytest.raises(UsageError) as error:
        lw.jit(threads=wrong)
    assert str(error.value) == (
        f"threads must be a whole number\nnote: found {wrong!r}\ntry: 1 to 256"
    )


def test_only_functions_are_compiled() -> None:
    with pytest.raises(UsageError) as error:
        lw.jit(len)  # type: ignore[call-overload]
    assert str(error.value) == ("jit takes a function\nnote: found <built-in function len>")


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
        for n in range(1, 9):
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
        "contraction of 1 x (1 x 9) by (9 x 1): columns, several steps of the reduction at a time",
    ]
    assert compiled.explain() == "\n".join(told[:2])


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
    assert told[3].startswith("  vectorize(loop='j', lanes=")
    assert lw.jit(prefix_sums).explain(np.ones(9)).splitlines()[-1] == "loops in source order"


@pytest.mark.parametrize("function", [dot, scale.py_func])
def test_inspection(function: Any) -> None:
    args = (np.ones(9), np.ones(9)) if function is dot else (np.ones(9), 2.0, 1.0)
    compiled = lw.jit(function)
    assert compiled.inspect_schedule(*args).startswith(f"program {function.__name__}(")
    assert compiled.inspect_loops(*args).startswith("nest kernel(")
    assert "define" in compiled.inspect_llvm(*args)
    assert "kernel_call" in compiled.inspect_asm(*args)


def test_inspection_of_prologues_and_nothing() -> None:
    def f(y, A, x):
        for i in range(A.shape[0]):
            s = 0.0
            for j in range(A.shape[1]):
                s += abs(A[i, j]) * x[j]
            y[i] = max(s, 0.0)

    compiled = lw.jit(f)
    assert (
        compiled.inspect_loops(np.ones(3), np.ones((3, 4)), np.ones(4)).count("nest kernel(") == 3
    )
    empty = np.ones(3), np.ones((3, 0)), np.ones(0)
    assert compiled.inspect_loops(*empty).count("nest kernel(") == 3
    assert compiled.explain(*empty).endswith("nothing to compute")
