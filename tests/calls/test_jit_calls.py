"""Calls of compiled functions: arguments in, results out, refusals that leave all as it was."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from calls.comparison import assert_same, clone, whole
from drawn import taken
from frontends.kernels import define
from loopwright import options
from loopwright.diagnostics import SourceError, UsageError
from loopwright.runtime.kernel import BoundKernel


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


def refusal(function: Any, *args: Any, **named: Any) -> str:
    """The text of the error that a call raises, which must leave its arrays alone."""
    before = [clone(a) for a in args]
    with pytest.raises((SourceError, UsageError)) as error:
        function(*args, **named)
    for one, other in zip(args, before, strict=True):
        if isinstance(one, np.ndarray):
            np.testing.assert_array_equal(one, other)
    return str(error.value)


def floored(n):
    return n // 3 + n % 5


@pytest.mark.parametrize("wrong", [2**63, np.uint64(2**63), -(2**63) - 1])
def test_integers_beyond_int64(wrong: Any) -> None:
    told = refusal(lw.jit(floored), wrong)
    assert told == f"argument 'n' does not fit int64\nnote: found {int(wrong)}"


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


def test_memory_shared_with_what_is_written() -> None:
    x = np.ones(6)
    told = "arguments 'x' and 'y' share memory, and 'x' is written\ntry: pass a copy of one of them"
    assert refusal(add, x, x) == told
    assert refusal(add, x[:4], x[2:]) == told
    assert refusal(add, x[1:], x[:-1][::-1]) == told
    add(x[::2], x[1::2])  # interleaved, and apart
    np.testing.assert_array_equal(x, [2.0, 1.0] * 3)


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


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "2", 10_000])
def test_number_of_threads(wrong: Any) -> None:
    with pytest.raises(UsageError) as error:
        lw.jit(threads=wrong)
    assert str(error.value) == (
        f"threads must be a whole number\nnote: found {wrong!r}\ntry: 1 to 256"
    )


def matvec(y, A, x):
    for i in range(A.shape[0]):
        s = 0.0
        for j in range(A.shape[1]):
            s += A[i, j] * x[j]
        y[i] = max(s, 0.0)


def prefix_sums(x):
    for i in range(1, x.shape[0]):
        x[i] += x[i - 1]
    return x


def fresh(n):
    out = np.zeros(n)
    for i in range(n):
        out[i] = i
    return out, n


CALLS: dict[Callable[..., Any], tuple[Any, ...]] = {
    matvec: (whole(5), whole(5, 7), whole(7)),
    prefix_sums: (whole(14)[::-2],),
    fresh: (4,),
}


# -- the oracle --------------------------------------------------------------------------------


@pytest.mark.parametrize("function", CALLS)
def test_the_oracle_runs_instead(
    function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("compiled code has run")

    monkeypatch.setattr(BoundKernel, "__call__", refuse)
    plain, ours = (tuple(map(clone, CALLS[function])) for _ in range(2))
    compiled = lw.jit(threads=2)(function)
    with options.override(interpret=True):
        assert_same(compiled(*ours), function(*plain))
    assert_same(ours, plain)
    with pytest.raises(AssertionError, match="compiled code has run"):
        compiled(*ours)


# -- what is not supported ---------------------------------------------------------------------


def with_set(x):
    x[list({0})] = 2.0
    x[:] = 2.0
    return x


def test_unsupported_is_left_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = lw.jit(on_unsupported="python")(with_set)
    np.testing.assert_array_equal(compiled(np.ones(3)), np.full(3, 2.0))
    # Refused once, the types are not tried again.
    monkeypatch.setattr("loopwright.calls.jit.Specialisation", None)
    monkeypatch.setattr("loopwright.calls.jit.JitDefinition", None)
    np.testing.assert_array_equal(compiled(np.ones(4)), np.full(4, 2.0))
    assert compiled.signatures == []


def test_on_unsupported_has_two_values() -> None:
    with pytest.raises(UsageError) as error:
        lw.jit(on_unsupported="ignore")  # type: ignore[call-overload]
    assert str(error.value) == (
        "on_unsupported has two values\nnote: found 'ignore'\ntry: 'raise' or 'python'"
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
