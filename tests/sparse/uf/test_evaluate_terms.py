"""Values of terms: arrays, tables and code as functions, and what has no value."""

from collections.abc import Callable

import numpy as np
import pytest

from loopwright.diagnostics import UsageError
from loopwright.sparse.uf import (
    FALSE,
    TRUE,
    Constraint,
    Sym,
    Term,
    TupleVar,
    evaluate,
    parse_linear,
)

ARRAY = np.array([3, 1, 4], dtype=np.int32)


def value(text: str, **functions: object) -> int:
    return evaluate(parse_linear(text, ["i"]), {"i": 2, "N": 5}, functions)  # type: ignore[arg-type]


def test_functions_of_three_kinds() -> None:
    assert value("f(i) + N", f=ARRAY) == 9
    assert value("f(i-1, 0)", f=ARRAY[:, None]) == 1
    assert value("f(i)", f={(2,): 7}) == 7
    assert value("f(i)[1] - f(i)", f=lambda i: (i, 10)) == 8
    assert type(value("f(i)", f=ARRAY)) is int
    assert value("f(i)*N", f=np.array([0, 0, 2**31 - 1], dtype=np.int32)) == 5 * (2**31 - 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: value("f(i+1)", f=ARRAY), "f(3) lies outside the array 'f'"),
        (lambda: value("f(i-3)", f=ARRAY), "f(-1) lies outside the array 'f'"),
        (lambda: value("f(i,i)", f=ARRAY), "f(2, 2) lies outside the array 'f'"),
        (lambda: value("f(i)", f={}), "the table of 'f' has no entry for f(2)"),
        (lambda: value("f(i)[2]", f=lambda i: (i, i)), "f(2) has no result 2"),
        (lambda: value("f(i)[1]", f=ARRAY), "f(2) has no result 1"),
        (lambda: value("f(i)"), "the function 'f' has no value"),
        (lambda: value("M"), "'M' has no value"),
        (lambda: value("floor(i/(N-5))"), "the divisor of floor(i/(N-5)) is not positive"),
    ],
    ids=[
        "after",
        "before",
        "rank",
        "table",
        "result",
        "array result",
        "function",
        "name",
        "divisor",
    ],
)
def test_what_has_no_value_is_told(make: Callable[[], int], message: str) -> None:
    with pytest.raises(UsageError) as error:
        make()
    assert error.value.message == message


def test_constraints_are_canonical() -> None:
    x, n = Term.of(TupleVar("x")), Term.of(Sym("N"))
    assert Constraint.ge(x * 2, 1) == Constraint.ge(x, 1) == Constraint.gt(x)
    assert Constraint.eq(x, n) == Constraint.eq(n * 3, x * 3)
    assert Constraint.eq(x * 2, 1) is FALSE
    assert Constraint.eq(x, x) is TRUE
    assert Constraint.le(x, x - 1) is FALSE
    assert Constraint.ge(x).negated() == (Constraint.lt(x),)
    assert set(Constraint.eq(x).negated()) == {Constraint.lt(x), Constraint.gt(x)}
