"""The campaign of random NumPy functions: what it draws, what it finds, how it shrinks."""

import ast
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from outside.campaigns import numpy_functions
from outside.campaigns.campaign import Case, judge, shrunk
from outside.campaigns.numpy_functions import campaign, function_text

COUNT = 40
SOME: Case = {
    "bases": [{"dtype": "float64", "shape": [2, 3], "values": ["1.0", "nan", "-0.0"] * 2}],
    "args": ["b0[1:]", "b0.T", "2"],
    "lines": ["p = a + c", "for i in range(c):", "    a[0, i] = b[i, 0] * 2", "return p, a"],
    "rounds": False,
}
Function = Callable[..., Any]


def using(monkeypatch: pytest.MonkeyPatch, compiler: Callable[[Function], Function]) -> None:
    """Let the campaign test this compiler."""
    monkeypatch.setattr(lw, "jit", compiler)


def other_name(function: Function) -> Function:
    """The same function with other code, as a compiler makes it."""
    code = function.__code__.replace(co_name="compiled")  # type: ignore[attr-defined]
    return FunctionType(code, function.__globals__)  # type: ignore[attr-defined]


def drawn(seed: int, count: int = COUNT) -> list[Case]:
    random = np.random.default_rng(seed)
    one = campaign()
    return [one.draw(random) for _ in range(count)]


def test_numpy_is_equal_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    using(monkeypatch, other_name)
    one = campaign()
    outcomes = [judge(one, case) for case in [SOME, *drawn(1)]]
    assert {verdict.outcome for verdict in outcomes} <= {"right", "unjudged"}
    assert sum(verdict.outcome == "right" for verdict in outcomes) > 0.9 * COUNT


def test_most_functions_end_without_an_error() -> None:
    cases = drawn(2)
    errors = sum(
        numpy_functions.called(
            numpy_functions.define(function_text(case)), numpy_functions._arguments(case)[1]
        ).error
        is not None
        for case in cases
    )
    assert 0 < errors < COUNT / 4


def test_the_grammar_is_drawn() -> None:
    """Every kind of statement and expression of the grammar occurs within a hundred cases."""
    cases = drawn(3, 120)
    text = "\n".join(function_text(case) for case in cases)
    kinds = {type(node).__name__ for node in ast.walk(ast.parse(text))}
    wanted = {"For", "While", "If", "AugAssign", "Assign", "Slice", "Tuple", "Compare", "Break"}
    assert wanted <= kinds
    for word in (
        ".T",
        "None",
        "where",
        "axis=",
        "keepdims",
        "out=",
        "diagonal",
        "reshape",
        "[a > ",
    ):
        assert word in text, word
    args = " ".join(arg for case in cases for arg in case["args"])
    assert "b0[1:]" in args


Wrong = Callable[[Any, tuple[Any, ...]], Any]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda result, args: (result[0] + 1e-9, result[1]), "differ)"),
        (lambda result, args: (result[0].astype(np.float32), result[1]), "float32 array"),
        (lambda result, args: (result[0], result[1].copy()), "that shares memory with argument 1"),
        (lambda result, args: (np.asfortranarray(result[0]), result[1]), "strides"),
        (lambda result, args: (result[0], result[1], None), "NoneType)"),
        (lambda result, args: (args[0].fill(5.0), result)[1], "argument 1 afterwards"),
    ],
)
def test_a_wrong_compiler_is_found_out(
    wrong: Wrong, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = {**SOME, "bases": [{"dtype": "float64", "shape": [3, 2], "values": ["1.5"] * 6}]}

    def compiler(function: Function) -> Function:
        return lambda *args: wrong(other_name(function)(*args), args)

    using(monkeypatch, compiler)
    verdict = judge(campaign(), {**case, "lines": ["p = a + c", "return p, a"]})
    assert verdict.is_fault
    assert said in verdict.told


def test_what_a_view_does_not_show_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    def compiler(function: Function) -> Function:
        def run(a: Any) -> Any:
            a.base[0] = 9.0
            return function(a)

        return run

    using(monkeypatch, compiler)
    case: Case = {
        "bases": [{"dtype": "float64", "shape": [3], "values": ["1.0"] * 3}],
        "args": ["b0[1:]"], "lines": ["return a.sum()"], "rounds": False,
    }  # fmt: skip
    assert "argument 2 afterwards" in judge(campaign(), case).told


def test_other_errors_and_none_are_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    case = {**SOME, "lines": ["return a[7]"]}

    def raising(error: Exception) -> Callable[[Function], Function]:
        def run(*_: Any) -> Any:
            raise error

        return lambda function: run

    using(monkeypatch, raising(IndexError()))
    assert judge(campaign(), case).outcome == "right"
    using(monkeypatch, raising(TypeError("no")))
    assert "raised TypeError: no, not raised IndexError" in judge(campaign(), case).told
    using(monkeypatch, lambda function: lambda *_: None)
    assert "returned NoneType None, not raised IndexError" in judge(campaign(), case).told
    using(monkeypatch, raising(lw.UsageError("not taken")))
    assert judge(campaign(), case).outcome == "refused"


def test_a_fault_is_shrunk_to_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler without NumPy's rule for reads that overlap a write."""

    def compiler(function: Function) -> Function:
        if "a[1:] +=" not in "\n".join(case["lines"] if not tried else tried[-1]):
            return other_name(function)

        def run(*args: Any) -> Any:
            result = other_name(function)(*args)
            args[0][-1:] += 1
            return result

        return run

    case: Case = {
        "bases": [
            {"dtype": "float64", "shape": [3], "values": ["0.5", "2.0", "-0.0"]},
            {"dtype": "int64", "shape": [2, 2], "values": [1, 2, 3, 4]},
        ],
        "args": ["b0", "b1.T", "7"],
        "lines": [
            "p = np.abs(b) + c",
            "for i in range(2):",
            "    if c > 3:",
            "        a[1:] += a[:-1] * np.float64(2)",
            "    p = p * 2",
            "return p, a",
        ],
        "rounds": False,
    }
    tried: list[list[str]] = []
    define = numpy_functions.define

    def remembering(text: str) -> Function:
        tried.append(text.splitlines())
        return define(text)

    monkeypatch.setattr(numpy_functions, "define", remembering)
    using(monkeypatch, compiler)
    one = campaign()
    small, found, repeats = shrunk(one, case, judge(one, case))
    assert repeats
    assert found.is_fault
    assert small["lines"] == ["a[1:] += 1"]
    assert small["bases"][1]["values"] == [1]


@pytest.mark.parametrize(
    ("lines", "row"),
    [
        (["return c / 0"], "Python's numbers divided by zero"),
        (["return a.astype(np.uint8) + (c + 500)"], "an integer beyond its type"),
        (["return 2**62 * (c + 1)"], "Python's integers beyond 64 bits"),
    ],
)
def test_rows_of_the_table_are_counted(
    lines: list[str], row: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    using(monkeypatch, lambda function: lambda *_: 0)
    one = campaign()
    case = {**SOME, "bases": [{"dtype": "float64", "shape": [2, 3], "values": ["1.0"] * 6}]}
    assert judge(one, {**case, "lines": lines}).outcome == "right"
    assert one.counts[f"excused: {row}"] == 1


def test_calls_that_python_runs_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    using(monkeypatch, lambda function: function)
    one = campaign()
    assert judge(one, SOME).outcome == "right"
    assert one.counts == {
        "counted: first call left to Python": 1,
        "counted: second call left to Python": 1,
    }
