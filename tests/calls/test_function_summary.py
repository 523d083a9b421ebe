"""Summaries of functions: complete, storable, and nothing in them is taken on trust."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from loopwright.calls.function_summary import FunctionSummary, compile_test
from loopwright.calls.polyhedral_function import PolyhedralFunction
from loopwright.frontends.python import argument_types, parse_function
from loopwright.frontends.source_tree import SourceTree
from loopwright.ir.serial import Malformed


def matvec(y, A, x):
    for i in range(A.shape[0]):
        s = 0.0
        for j in range(A.shape[1]):
            s += A[i, j] * abs(x[j])
        y[i] = max(s, 0.0)


MATVEC = (np.ones(3), np.ones((3, 4)), np.ones(4))


def parsed(function: Callable[..., Any], *args: Any) -> SourceTree:
    return parse_function(function, argument_types(args))


def summary(function: Callable[..., Any], *args: Any) -> FunctionSummary:
    return PolyhedralFunction(parsed(function, *args), reassoc=False).summary()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "p",
        "p['m'] >= 0",
        "p[0] >= 0",
        "q['n'] >= 0",
        "'n'",
        "1.5",
        "None",
        "len(p)",
        "p.clear()",
        "p['n'] ** 99",
        "p['n'] >> 1",
        "[p['n']]",
        "(lambda: 1)()",
        "__import__('os')",
        "1, 2",
        "1\n2",
        "1 if 1 else 1",
        "(p := 1)",
    ],
)
def test_anything_else_is_malformed(text: str) -> None:
    with pytest.raises(Malformed) as refusal:
        compile_test(text, ("n",))
    assert str(refusal.value) == f"not a test of sizes: {text!r}"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"params": ["A_0", "A_1", "x_0"]}, "variable y_0 is not in scope"),
        ({"params": [1]}, "not a summary"),
        ({"name": None}, "not a summary"),
        ({"arguments": [["array", "y", "float64"]]}, "not an argument: ['array', 'y', 'float64']"),
        ({"arguments": [["array", "y", "text", ["y_0"]]]}, "not an argument: ['array', 'y', 'te"),
        ({"arguments": [["list", "y", "float64", ["y_0"]]]}, "not an argument: ['list'"),
        ({"arguments": [["array", "y", "float64", [0]]]}, "not an argument: ['array', 'y'"),
        ({"arguments": [["array", "y", "float32", ["y_0"]]]}, "not an argument: 'y'"),
        ({"arguments": [["array", "y", "float64", ["n"]]]}, "not an argument: 'y'"),
        ({"arguments": [["int", "t", "int64", []]]}, "not an argument: 't'"),
        ({"result": "y"}, "not a result: 'y'"),
        ({"result": [["y", 1], True]}, "not a result: [['y', 1], True]"),
        ({"result": [["z"], False]}, "not a result: ('z',)"),
        ({"unsafe": "print()"}, "not a test of sizes: 'print()'"),
        ({"unsafe": None}, "not a summary"),
        ({"arrays": []}, "array A is not declared"),
        ({"contraction": []}, "not a contraction"),
        ({"contraction": {"final": ["var", "other", "float64"]}}, "other is not in scope"),
        ({"contraction": {"initial": ["var", "j", "int64"]}}, "variable j is not in scope"),
        ({"contraction": {"out": ["access", "y", [], "float64"]}}, "0 subscripts for rank 1"),
        ({"contraction": {"dtype": "float32"}}, "variable accumulator is float32, not float64"),
    ],
)
def test_malformed_recipes(change: dict[str, Any], told: str) -> None:
    data = summary(matvec, *MATVEC).to_json()
    inner = change.get("contraction")
    if isinstance(inner, dict):
        change = {"contraction": {**data["contraction"], **inner}}
    with pytest.raises(Malformed) as refusal:
        FunctionSummary.from_json({**data, **change})
    assert told in str(refusal.value)
