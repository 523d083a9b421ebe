"""Python functions: their source, argument types, captured values, unique names, trees as text."""

import textwrap

import numpy as np
import pytest

from frontends.kernels import assert_same, compiled, define
from loopwright.diagnostics import DtypeError
from loopwright.frontends.python import ArgType, argument_types
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


def test_unsupported_dtypes() -> None:
    with pytest.raises(DtypeError, match="dtype 'object' is not supported"):
        argument_types([np.zeros(3, object)])
    with pytest.raises(DtypeError, match="byte order of dtype '>f8' is not the machine's"):
        argument_types([np.zeros(3, ">f8")])


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


def test_whole_numbers_of_python_stay_as_they_are() -> None:
    """2**53 + 1, which float64 does not hold."""
    for name in ("floor", "ceil", "trunc"):
        text = f"def f(A, n):\n    for i in range(len(A)):\n        A[i] = math.{name}(n)\n"
        assert_same(define(text), np.zeros(2, np.int64), (1 << 53) + 1)
