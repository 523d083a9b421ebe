"""Values of several types in Python functions, and their refusals: the full text of each."""

from pathlib import Path

import numpy as np
import pytest

from frontends.kernels import assert_same, compiled, define, interpreted
from loopwright.diagnostics import SourceError, UsageError
from loopwright.frontends.python import ArgType, argument_types, parse_function

KINDS = ("uint8", "uint16", "uint64", "int8")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("t", [-(2**62), -1, 0, 5, 300, 2**62])
def test_arrays_of_integers_compare_with_pythons_integers(kind: str, t: int) -> None:
    text = """
    def f(B, t, n, c):
        for i in range(10):
            c[0] += 1 if B[i] > t else 0
            c[1] += 1 if B[i] > -i else 0
            c[2] += 1 if n - 100 < B[i] <= 300 * i else 0
            c[3] += 1 if B[i] == t else 0
            c[4] += 1 if B[i] > -1 else 0
            c[5] += 1 if B[i] != 300 else 0
    """
    assert_same(define(text), np.arange(10, dtype=kind), t, 10, np.zeros(6, np.int64))


@pytest.mark.parametrize("n", [0, 3, 2**53 + 1, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("x", [0.5, 3.0, 2.0**53, 2.0**63, -(2.0**63), np.inf, np.nan])
def test_a_python_integer_and_a_python_float_compare_exactly(n: int, x: float) -> None:
    text = """
    def f(n, x, c):
        c[0] = n < x
        c[1] = n <= x
        c[2] = n == x
        c[3] = x != n
        c[4] = x < n
        c[5] = n >= x
        c[6] = n < 2.5
        c[7] = 3.0 <= n
        c[8] = n == 9007199254740992.0
    """
    assert_same(define(text), n, x, np.zeros(9, bool))


EXTREMES = [-3.0, -0.0, 0.0, 2.0, np.nan, np.inf, -np.inf]


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_min_and_max_keep_the_first_unless_the_second_is_beyond_it(kind: str) -> None:
    text = """
    def f(x, y, out, least):
        for i in range(len(x)):
            out[i, 0] = min(x[i], y[i])
            out[i, 1] = max(x[i], y[i], 0.0)
            out[i, 2] = np.fabs(np.minimum(x[i], y[i]))
            out[i, 3] = min(y[i], 1) + max(2.5, x[i])
            least[i] = min(least[i], x[i])
    """
    pairs = np.array([(x, y) for x in EXTREMES for y in EXTREMES], kind)
    x, y = pairs[:, 0].copy(), pairs[:, 1].copy()
    least = np.where(y == 0, 1, y).astype(kind)  # which of two zeros stays is left open
    assert_same(define(text), x, y, np.zeros((len(x), 4), kind), least)


def refused(text: str, *args: object) -> str:
    with pytest.raises(SourceError) as caught:
        compiled(define(text, "k.py"), *args)
    return str(caught.value)


def test_a_name_that_no_type_holds_is_refused() -> None:
    text = """
    def f(A, I):
        x = 0.5
        for i in range(3):
            if I[i] > 0:
                x = I[i]
            A[i] = x
    """
    assert refused(text, np.zeros(3), np.zeros(3, np.int64)) == (
        "k.py:5:13: error: 'x' is float or int64: float64 does not hold every int64 [LW119]\n"
        "    x = I[i]\n"
        "    ^\n"
        "try: use another name, or convert: float(...) rounds, int(...) truncates"
    )


def test_a_result_that_no_type_holds_is_refused() -> None:
    text = "def f(A, I):\n    return I[0] if A[0] > 0 else A[0]\n"
    assert refused(text, np.zeros(3), np.zeros(3, np.int64)) == (
        "k.py:2:5: error: 'I[0] if A[0] > 0 else A[0]' is float64 or int64: float64 does not hold"
        " every int64 [LW119]\n"
        "    return I[0] if A[0] > 0 else A[0]\n"
        "    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "try: use another name, or convert: float(...) rounds, int(...) truncates"
    )


def test_a_value_of_too_many_types_is_refused() -> None:
    text = "def f(A, I, F, p):\n    A[0] = "
    for count in (3, 20):
        text += " + ".join(f"(I[{k}] if p[{k}] else F[{k}])" for k in range(count))
        args = np.zeros(1), np.zeros(20, np.int8), np.zeros(20, np.float16), np.zeros(20, bool)
        if count == 3:
            interpreted(define(text + "\n"), *args)
        text += "\n    A[0] = "
    lines = refused(text + "0\n", *args).splitlines()
    assert lines[0] == (
        "k.py:3:12: error: the type of this value depends on too many conditions [LW119]"
    )
    assert lines[3:] == [
        "note: found int8 or float16",
        "try: convert the sides of conditional expressions, min and max to one type",
    ]


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
