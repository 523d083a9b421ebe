"""Index-set splitting at piecewise subscripts: the common case, exact accesses, peeled loops."""

from textwrap import dedent

import numpy as np
import pytest

import loopwright as lw
from loopwright.ir.islkit import inside
from loopwright.ir.program import Program
from loopwright.ir.text import expr_text, stmt_text
from loopwright.lower.passes import lower_schedule
from loopwright.transform.schedule_legality import initial_schedule
from oracle import assert_same


def region(body: str, params: str = "int n, double u[n], double v[n]") -> Program:
    (program,) = lw.parse_c(f"void f({params})\n{{\n#pragma scop\n{body}\n#pragma endscop\n}}\n")
    return program


def statements(program: Program) -> list[tuple[str, str]]:
    """What every statement computes, and where."""
    return [(expr_text(s.value), inside(s.domain)) for s in program.statements]


def periodic(place: str) -> Program:
    return region(f"for (int i = 0; i < n; i++) v[i] = u[{place}];")


@pytest.mark.parametrize(
    ("place", "common", "where"),
    [
        ("i == 0 ? n - 1 : i - 1", "u[i - 1]", "S0[i] : 0 < i < n"),
        ("i > 0 ? i - 1 : n - 1", "u[i - 1]", "S0[i] : 0 < i < n"),
        ("i > 0 ? i - 1 : 0", "u[i - 1]", "S0[i] : 0 < i < n"),
        ("(i + 1) % n", "u[i + 1]", "S0[i] : 0 <= i <= -2 + n"),
        ("(i - 1 + n) % n", "u[i - 1]", "S0[i] : 0 < i < n"),
        ("(i + 1 + n) % n", "u[i + 1]", "S0[i] : 0 <= i <= -2 + n"),
        ("i + 2 < n ? i + 2 : n - 1", "u[i + 2]", "S0[i] : 0 <= i <= -3 + n"),
    ],
)
def test_the_common_case_has_a_plain_subscript(place: str, common: str, where: str) -> None:
    program = periodic(place)
    assert statements(program)[0] == (common, where)
    assert len(program.statements) == 2
    first, second = (s.domain.reset_tuple_id() for s in program.statements)
    assert first.is_disjoint(second)
    nest = lower_schedule(initial_schedule(program))
    for n in (0, 1, 2, 3, 7):
        assert_same(program, nest, {"n": n})


def test_cases_that_cannot_be_are_left_out() -> None:
    function = "static int wrap(int i, int n) { return i < 0 ? i + n : i >= n ? i - n : i; }\n"
    text = "#pragma scop\nfor (int i = 0; i < n; i++) v[i] = u[wrap(i + 1, n)];\n#pragma endscop\n"
    (program,) = lw.parse_c(function + f"void f(int n, double *u, double *v)\n{{\n{text}}}\n")
    found = [value for value, _ in statements(program)]
    assert found == ["u[i + 1]", "u[i + 1 - n if i + 1 >= n else i + 1]"]


def test_a_remainder_that_is_the_number_itself_has_no_cases() -> None:
    assert statements(periodic("i % n")) == [("u[i]", "S0[i] : 0 <= i < n")]


def test_what_is_left_is_split_while_it_is_large() -> None:
    program = periodic("i < n / 2 ? 2 * i : n - 1 - i")
    assert [text for text, _ in statements(program)] == ["u[2 * i]", "u[n - 1 - i]"]


def test_loops_are_peeled() -> None:
    program = periodic("i == 0 ? n - 1 : i - 1")
    nest = lower_schedule(initial_schedule(program))
    expected = """\
        if n >= 1:
            v[0] = u[n - 1]
            for i in range(1, n):
                v[i] = u[i - 1]
    """
    assert stmt_text(nest.body).strip() == dedent(expected).strip()


def test_python_subscripts_have_cases_too() -> None:
    @lw.jit
    def turned(u: np.ndarray, v: np.ndarray) -> None:
        n = u.shape[0]
        for i in range(n):
            v[i] = u[i - 1 if i > 0 else n - 1]

    u, v = np.arange(9.0), np.zeros(9)
    turned(u, v)
    np.testing.assert_array_equal(v, np.roll(u, 1))
