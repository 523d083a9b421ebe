"""Summaries of functions: complete, storable, and nothing in them is taken on trust."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from frontends.kernels import define
from loopwright.calls.function_summary import FunctionSummary, compile_test, summary_key
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


def seidel(x, t):
    for _ in range(t):
        for i in range(1, x.shape[0] - 1, 2):
            x[i] = (x[i - 1] + x[i + 1]) / 2


MATVEC = (np.ones(3), np.ones((3, 4)), np.ones(4))
SEIDEL = (np.ones(3), 3)


def parsed(function: Callable[..., Any], *args: Any) -> SourceTree:
    return parse_function(function, argument_types(args))


def summary(function: Callable[..., Any], *args: Any) -> FunctionSummary:
    return PolyhedralFunction(parsed(function, *args), reassoc=False).summary()


@pytest.mark.parametrize(("function", "args"), [(matvec, MATVEC), (seidel, SEIDEL)])
def test_recipes_come_back(function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    found = summary(function, *args)
    assert (found.contraction is not None) == (function is matvec)
    back = FunctionSummary.from_json(json.loads(json.dumps(found.to_json())))
    assert back == found
    assert repr(back) == repr(found)


@pytest.mark.parametrize(
    ("text", "is_kernel"),
    [
        ("for g in range(n): for i in range(8): for p in range(8): y[g,i] += a[g,i,p]*x[g,p]", 0),
        ("for g in range(n): for i in range(n): for p in range(8): y[g,i] += a[g,i,p]*x[g,p]", 1),
        (
            "for g in range(n): for i in range(64): for p in range(9): y[g,i] += a[g,i,p]*x[g,p]",
            1,
        ),
        ("for g in range(n): for i in range(4): for p in range(4): y[g,i] += a[0,i,p]*x[g,p]", 0),
        ("for g in range(n): for i in range(8): for p in range(8): y[g,i] += a[0,i,p]*x[g,p]", 1),
    ],
    ids=["small", "of unknown size", "large", "one small matrix", "one matrix"],
)
def test_many_small_products_are_loops(text: str, is_kernel: int) -> None:
    parts = [part + ":" for part in text.split(": ")]
    lines = ["def f(n, y, a, x):", *parts[:-1], parts[-1][:-1]]
    function = define("\n".join("    " * depth + line for depth, line in enumerate(lines)))
    args = 3, np.ones((3, 64)), np.ones((3, 64, 9)), np.ones((3, 9))
    assert (summary(function, *args).contraction is not None) == bool(is_kernel)


@pytest.mark.parametrize(
    ("product", "is_kernel"),
    [
        ("A[i, j] * x[j]", 1),
        ("A[i, j] * (x[j] + 1.0)", 1),
        ("abs(A[i, j]) * x[j]", 0),
        ("x[j] * (1.0 - A[i, j])", 0),
        ("abs(A[i, j])", 0),
        ("A[i, j]", 1),
    ],
)
def test_values_of_one_use_are_not_stored(product: str, is_kernel: int) -> None:
    lines = ["def f(y, A, x):", "for i in range(A.shape[0]):", "for j in range(A.shape[1]):"]
    lines.append(f"y[i] += {product}")
    function = define("\n".join("    " * depth + line for depth, line in enumerate(lines)))
    assert (summary(function, *MATVEC).contraction is not None) == bool(is_kernel)


def test_the_test_of_sizes() -> None:
    found = summary(matvec, *MATVEC)
    is_unsafe = compile_test(found.unsafe, found.params)
    sizes = {"y_0": 3, "A_0": 3, "A_1": 4, "x_0": 4}
    assert not is_unsafe(sizes)
    assert is_unsafe({**sizes, "y_0": 2})
    assert is_unsafe({**sizes, "x_0": 3})
    assert not is_unsafe({**sizes, "A_0": 0, "x_0": 0})
    huge = {**sizes, "A_0": 2**62, "y_0": 2**62 - 1}
    assert is_unsafe(huge)


def test_a_test_is_integer_arithmetic() -> None:
    test = compile_test("(-3 + 2 * p['n'] >= 0 and (p['n']) // 2 == 1) or (False)", ("n",))
    assert [n for n in range(6) if test({"n": n})] == [2, 3]


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


# -- identity ----------------------------------------------------------------------------------


def key(text: str, *args: Any, reassoc: bool = False, **outer: object) -> str:
    return summary_key(parsed(define(text, **outer), *args), reassoc=reassoc)


TEXT = "def f(x, a):\n    for i in range(x.shape[0]):\n        x[i] = x[i] * a + K\n"


def test_places_do_not_count() -> None:
    moved = "# moved\n\n" + TEXT.replace("    ", "  ").replace(" + K", "  +  K  # here")
    assert key(TEXT, np.ones(3), 2.0, K=1) == key(moved, np.ones(3), 2.0, K=1)


def test_everything_else_counts() -> None:
    x = np.ones(3)
    keys = [
        key(TEXT, x, 2.0, K=1),
        key(TEXT, x, 2.0, K=1, reassoc=True),
        key(TEXT, x, 2.0, K=2),
        key(TEXT, x, 2.0, K=0.0),
        key(TEXT, x, 2.0, K=-0.0),
        key(TEXT, x, 2, K=1),
        key(TEXT, x, np.float32(2.0), K=1),
        key(TEXT, x.astype("float32"), 2.0, K=1),
        key(TEXT.replace("* a", "- a"), x, 2.0, K=1),
        key(TEXT.replace("range(", "range(1, "), x, 2.0, K=1),
    ]
    assert len(set(keys)) == len(keys)
