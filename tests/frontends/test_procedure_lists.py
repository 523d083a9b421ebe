"""Lists in whole NumPy functions: sequences where a tuple may stand too, refused elsewhere."""

from types import FunctionType

import numpy as np
import pytest

import loopwright as lw
from frontends.kernels import define
from loopwright.frontends.python.fingerprint import argument_types
from loopwright.frontends.python.procedures.read_procedure import read_procedure

A = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    "body",
    [
        "return np.concatenate([a[0], a[1]])",
        "return a + np.array([1.0, 2.0, 3.0])",
        "return len([1, 2] + [3])",
        "[p, q] = [a[0], a[1]]\n    return p + q",
        "i = [0, 1]\n    return a[i]",
        "return a[[1, 0], [0, 2]]",
    ],
)
def test_a_list_is_a_sequence(body: str) -> None:
    function = define(f"def f(a):\n    {body}\n")
    np.testing.assert_array_equal(lw.jit(function)(A), function(A), strict=True)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            ["return [a, 1]"],
            "f.py:2:5: error: a list is returned [LW128]\n"
            "    return [a, 1]\n"
            "    ^^^^^^^^^^^^^\n"
            "try: a tuple, or np.array of it",
        ),
        (
            ["x = [1, 2]", "x += [3]", "return len(x) * a"],
            "f.py:3:5: error: a list that grows cannot be compiled [LW121]\n"
            "    x += [3]\n"
            "    ^^^^^^^^\n"
            "try: a tuple, or a list made at once",
        ),
        (
            ["x = (1, 2) + [3]", "return a"],
            "f.py:2:9: error: a list and a tuple are added [LW122]\n"
            "    x = (1, 2) + [3]\n"
            "        ^^^^^^^^^^^^\n"
            "note: found a tuple of 2 and a list of 1",
        ),
    ],
)
def test_what_only_a_list_can_do_is_refused(lines: list[str], message: str) -> None:
    text = "\n    ".join(["def f(a):", *lines])
    function = define(f"{text}\n", file="f.py")
    assert isinstance(function, FunctionType)
    with pytest.raises(lw.SourceError) as caught:
        read_procedure(function, argument_types((A,)))
    assert str(caught.value) == message
