"""Python functions: their source, argument types, captured values, unique names, trees as text."""

import sys
import textwrap
from typing import Any

import numpy as np
import pytest

from frontends.kernels import assert_same, compiled, define
from loopwright.diagnostics import DtypeError
from loopwright.frontends.fresh_names import FreshNames
from loopwright.frontends.python import ArgType, argument_types, is_unchanged
from loopwright.frontends.tree_text import tree_text


def test_argument_types() -> None:
    args = (np.zeros((2, 3), "f4"), 1, True, 0.5, 1j, np.float32(1), np.int64(2), np.array(3))
    assert argument_types(args) == (
        ArgType("array", "float32", 2),
        ArgType("python", "int64"),
        ArgType("python", "bool"),
        ArgType("python", "float64"),
        ArgType("python", "complex128"),
        ArgType("scalar", "float32"),
        ArgType("scalar", "int64"),
        ArgType("array", "int64", 0),
    )
    assert argument_types(args) is not argument_types(args)
    assert hash(argument_types(args)) == hash(argument_types(args))
    assert argument_types([np.zeros(3)[::2]]) == (ArgType.array(np.float64, 1),)


def test_argument_types_are_quick() -> None:
    """Of types that were seen before, an argument costs two calls of built-in functions."""
    args = (np.zeros((2, 3)), np.zeros(4, "f4"), 5, 0.5)
    argument_types(args)
    calls: list[str] = []

    def count(frame: Any, event: str, called: Any) -> None:
        if event == "call":
            calls.append(frame.f_code.co_name)
        elif event == "c_call" and called is not sys.setprofile:
            calls.append(called.__name__)

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        hash(argument_types(args))
    finally:
        sys.setprofile(before)
    assert sorted(set(calls)) == ["append", "argument_types", "get", "hash"]
    assert len(calls) == 2 + 2 * len(args)


def test_memory_maps_are_arrays(tmp_path: object) -> None:
    mapped = np.memmap(f"{tmp_path}/x", np.int16, "w+", shape=(3, 4))
    assert argument_types([mapped]) == (ArgType("array", "int16", 2),)


def test_unsupported_dtypes() -> None:
    with pytest.raises(DtypeError, match="dtype 'object' is not supported"):
        argument_types([np.zeros(3, object)])
    with pytest.raises(DtypeError, match="byte order of dtype '>f8' is not the machine's"):
        argument_types([np.zeros(3, ">f8")])


def test_captured_values_and_their_changes() -> None:
    outer = {"N": 3, "W": 0.5}
    text = "def f(A):\n    for i in range(N):\n        A[i] = W * math.pi\n"
    function = define(text, **outer)
    tree, _ = compiled(function, np.zeros(4))
    assert dict(tree.captured) == {"range": range, "N": 3, "W": 0.5, "math.pi": np.pi}
    assert is_unchanged(function, tree.captured)
    for name, value in (("N", 4), ("N", 3.0), ("N", True), ("W", -0.5), ("range", len)):
        old = function.__globals__.get(name)
        function.__globals__[name] = value
        assert not is_unchanged(function, tree.captured)
        function.__globals__[name] = old if name in outer else range
        assert is_unchanged(function, tree.captured)
    del function.__globals__["N"]
    assert not is_unchanged(function, tree.captured)


def test_captured_nan_is_unchanged() -> None:
    function = define("def f(A):\n    A[0] = X\n", X=float("nan"))
    tree, _ = compiled(function, np.zeros(4))
    function.__globals__["X"] = float("nan")
    assert is_unchanged(function, tree.captured)


def test_a_closure_not_yet_filled() -> None:
    text = """
    def make():
        def f(A):
            A[0] = w
        compile_now(f)
        w = 1
    """
    reports: list[str] = []

    def compile_now(function: object) -> None:
        with pytest.raises(ValueError) as caught:
            compiled(function, np.zeros(3))  # type: ignore[arg-type]
        reports.append(str(caught.value).splitlines()[0])

    define(text, "k.py", compile_now=compile_now)()
    assert reports == ["k.py:3:16: error: the name 'w' is not defined [LW102]"]


def test_unique_names() -> None:
    names = FreshNames({"taken"})
    wishes = ["i", "i", "i_1", "i", "taken", "min", "Exists", "α"]
    assert [names.fresh(wish) for wish in wishes] == [
        "i", "i_1", "i_1_1", "i_2", "taken_1", "min_", "Exists_", "u03b1",
    ]  # fmt: skip


def test_default_and_keyword_parameters_are_parameters() -> None:
    function = define("def f(a, /, b=2, *, c=3):\n    a[0] = b + c\n")
    tree, program = compiled(function, np.zeros(3), 5, 7)
    assert [param.name for param in tree.params] == ["a", "b", "c"]
    assert program.params == ("a_0", "b", "c")


def test_tree_text() -> None:
    text = """
    def f(A, B, n, x):
        s = 0
        for i in range(n - 1, -1, -2):
            if i > 2 and n != i:
                s += A[i] * x
            else:
                A[i] = B[i, 0] if A[i] > 0 else n
        for i in range(1, n):
            A[i] = A[i - 1] if i > 1 else 0
        return s,
    """
    args = (np.zeros(9, np.float32), np.zeros((9, 1)), 9, 0.5)
    tree, _ = compiled(define(text), *args)
    assert tree_text(tree) == textwrap.dedent("""\
        def f(A: float32[A_0], B: float64[B_0, B_1], n: int, x: float64):
            s: float32
            s[] = 0.0
            for i in range(n - 1, -1, -2):
                if (i > 2) & (n != i):
                    s[] = s[] + A[i] * float32(x[])
                else:
                    A[i] = float32(B[i, 0]) if A[i] > 0.0 else float32(n)
            for i_1 in range(1, n):
                if i_1 > 1:
                    A[i_1] = A[i_1 - 1]
                else:
                    A[i_1] = 0.0
            return s,""")


def test_python_integers_and_floats_of_every_width() -> None:
    text = "def f(A, n):\n    for i in range(len(A)):\n        A[i] = A[i] * 2 + n - 1\n"
    for dtype in ("int8", "uint16", "int64", "uint64", "float16", "float32", "complex64"):
        assert_same(define(text), np.arange(5).astype(dtype), 3)


def test_whole_numbers_of_python_stay_as_they_are() -> None:
    """2**53 + 1, which float64 does not hold."""
    for name in ("floor", "ceil", "trunc"):
        text = f"def f(A, n):\n    for i in range(len(A)):\n        A[i] = math.{name}(n)\n"
        assert_same(define(text), np.zeros(2, np.int64), (1 << 53) + 1)
