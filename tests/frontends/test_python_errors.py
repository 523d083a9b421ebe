"""Refused Python: the full text of every message.

Each file of tests/errors/python holds a function, a line of dashes, and the report it gets.
Arguments have the types their first letters stand for.
"""

from pathlib import Path

import numpy as np
import pytest

from frontends.kernels import compiled, define
from loopwright.diagnostics import SourceError, UsageError
from loopwright.frontends.python import ArgType, argument_types, parse_function

CASES = sorted((Path(__file__).parent.parent / "errors" / "python").glob("*.txt"))
TYPES = {
    "A": ArgType.array("float64", 1),
    "B": ArgType.array("float64", 2),
    "I": ArgType.array("int32", 1),
    "Z": ArgType.array("complex128", 1),
    "n": ArgType("python", "int64"),
    "x": ArgType("python", "float64"),
}


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_report(case: Path) -> None:
    text, _, expected = case.read_text(encoding="utf-8").partition("----\n")
    function = define(text, "k.py", W=np.zeros(3), BIG=2**70)
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    with pytest.raises(SourceError) as caught:
        parse_function(function, [TYPES[name[0]] for name in names])
    assert str(caught.value) + "\n" == expected


def report(function: object, *args: object) -> str:
    with pytest.raises(SourceError) as caught:
        compiled(function, *args)  # type: ignore[arg-type]
    return str(caught.value)


def test_no_source() -> None:
    names: dict[str, object] = {}
    exec("def f(A):\n    A[0] = 1\n", names)
    assert report(names["f"], np.zeros(3)) == (
        "<string>:1:1: error: the source of 'f' is not available [LW120]\n"
        "try: define the function in a file, or type it in IPython or a notebook, which keep what"
        " is typed; exec and, before 3.13, Python's own prompt do not"
    )


def test_source_that_has_changed() -> None:
    function = define("def f(A):\n    A[0] = 1\n", "k.py")
    define("x = 1\ndef g():\n    pass\n", "k.py")
    assert report(function, np.zeros(3)) == (
        "k.py:1:1: error: the source of 'f' is not where Python says it is [LW120]\n"
        "    x = 1\n"
        "    ^^^^^\n"
        "try: reload the module if its file has changed since it was imported"
    )


def test_lambda() -> None:
    function = define("f = lambda A: A[0]\n", "k.py")
    assert report(function, np.zeros(3)) == (
        "k.py:1:1: error: a lambda cannot be compiled [LW127]\n"
        "    f = lambda A: A[0]\n"
        "    ^^^^^^^^^^^^^^^^^^\n"
        "try: define the function with def"
    )


def test_async() -> None:
    function = define("async def f(A):\n    A[0] = 1\n", "k.py")
    assert report(function, np.zeros(3)) == (
        "k.py:1:1: error: an asynchronous function cannot be compiled [LW127]\n"
        "    async def f(A):\n"
        "    ^^^^^^^^^^^^^^^\n"
        "try: define the function with def"
    )


def usage(*args: object) -> str:
    with pytest.raises(UsageError) as caught:
        parse_function(*args)  # type: ignore[arg-type]
    return str(caught.value)


def test_not_a_function() -> None:
    assert usage(len, ()) == (
        "only a Python function can be compiled\n"
        "note: found an object of type 'builtins.builtin_function_or_method'\n"
        "try: decorate a function defined with def"
    )


def test_wrong_number_of_arguments() -> None:
    function = define("def f(A, n):\n    pass\n")
    assert usage(function, argument_types([1])) == "'f' takes 2 arguments\nnote: found 1"


def test_expressions_nested_too_deeply() -> None:
    text = "def f(A):\n    A[0] = " + " + ".join(["A[0]"] * 900) + "\n    A[1] = nowhere\n"
    lines = report(define(text, "k.py"), np.zeros(3)).splitlines()
    assert lines[0] == "k.py:2:5: error: this statement is nested too deeply [LW121]"
    assert lines[3] == "try: split it into several statements"
    assert lines[4] == "k.py:3:12: error: the name 'nowhere' is not defined [LW102]"
