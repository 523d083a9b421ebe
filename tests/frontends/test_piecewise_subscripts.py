"""Index-set splitting at piecewise subscripts: the common case, exact accesses, peeled loops."""

import pytest

import loopwright as lw
from loopwright.ir.islkit import inside
from loopwright.ir.program import Program
from loopwright.ir.text import expr_text
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
