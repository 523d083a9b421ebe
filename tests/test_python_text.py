"""Python text of users is parsed without warnings that name no place in it."""

import ast
import warnings
from collections.abc import Callable
from contextlib import suppress

import pytest

from loopwright.diagnostics import LoopwrightError, UsageError
from loopwright.python_text import parse_expression, parse_module
from loopwright.sparse.spf.computation_parser import computation
from loopwright.tuning.loop_tree_text import parse_tree

STATEMENT = "s: {[i] : 0<=i<N} at (i): y(i) = 1if N else 2"
ODD = "1if x else 2"  # a number that ends at a keyword: "invalid decimal literal"


@pytest.mark.parametrize(
    "read",
    [
        lambda: ast.unparse(parse_expression(ODD)),
        lambda: ast.unparse(parse_module(ODD)),
        lambda: computation("odd", "out y[N]: float64", STATEMENT),
        lambda: parse_tree(f"odd\nout out: float64[4]\n\n  for i in 4\n    out[i] = {ODD}\n"),
    ],
)  # fmt: skip
def test_no_reader_warns(read: Callable[[], object]) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with suppress(LoopwrightError):  # such a number is no operand, which the readers say
            read()
    assert caught == []


def test_errors_of_syntax_are_raised() -> None:
    with pytest.raises(SyntaxError):
        parse_expression("1 +")


def test_expressions_too_deep_for_python_are_refused() -> None:
    deep = "s: {[i] : 0<=i<N} at (i): y(i) = " + "-" * 5000 + "1"  # Python 3.12 parses it
    with pytest.raises(UsageError, match="statement 's' cannot be read: it is no expression"):
        computation("deep", "out y[N]: float64", deep)
