"""What one iteration of a loop waits for the one before."""

from __future__ import annotations

import pytest

import loopwright as lw
from loopwright.machines.load import load_machine
from loopwright.planner.cost.carried_values import carried_cycles, may_meet
from loopwright.planner.cost.statement_work import latency, operations

N1 = load_machine("neoverse-n1")


def cycles(body: str, types: str = "double") -> float:
    text = f"""
void f({types} a[64][64], {types} b[64][64], {types} s[1]) {{
  {types} t;
#pragma scop
  for (int i = 1; i < 63; i++)
    for (int j = 1; j < 63; j++) {{
      {body}
    }}
#pragma endscop
}}
"""
    (program,) = lw.parse_c(text)
    moving = {x.name: "j" for x in program.statements}
    return carried_cycles(program.statements, moving, N1)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("a[i][j] = b[i][j] + a[i - 1][j];", 0.0),
        ("a[i][j] = b[i][j] + a[i][j + 1];", 0.0),
        ("s[0] = s[0] + b[i][j];", 2.0),  # an addition
        ("s[0] = s[0] + b[i][j] * a[i][j];", 2.0),  # the addend of a multiply-add
        ("a[i][j] = b[i][j] * a[i][j - 1];", 3.0),
        ("a[i][j] = b[i][j] / a[i][j - 1];", 15.0),
        ("t = b[i][j] * 2.0; a[i][j] = t + 1.0;", 0.0),  # set anew by every iteration
        ("a[i][j] = t + 1.0; t = a[i][j] * 2.0;", 5.0),  # handed to the next one
    ],
)
def test_chains(body: str, expected: float) -> None:
    assert cycles(body) == expected


def test_integers_are_added_in_any_order() -> None:
    assert cycles("s[0] = b[i][j] < s[0] ? b[i][j] : s[0];", "int") == 0.0
    assert cycles("s[0] = b[i][j] < 7 ? b[i][j] : s[0];", "int") > 0.0
    assert cycles("s[0] = s[0] + b[i][j];", "int") == 0.0


def test_extremes_that_pass_over_nan_cost_more_where_no_instruction_does_it() -> None:
    (program,) = lw.parse_c("""
void f(int n, double a[n], double b[n]) {
#pragma scop
  for (int i = 0; i < n; i++)
    a[i] = fmax(a[i], b[i]);
#pragma endscop
}
""")
    (statement,) = program.statements
    by_machine = {
        name: operations(statement, load_machine(name)).plain
        for name in ("neoverse-n1", "sapphirerapids", "broadwell-e5-2697-v4")
    }
    assert by_machine["broadwell-e5-2697-v4"] > 2 * by_machine["sapphirerapids"]
    wide, narrow = (load_machine(x) for x in ("sapphirerapids", "broadwell-e5-2697-v4"))
    assert latency(statement, {"a"}, narrow) > 2 * latency(statement, {"a"}, wide)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("a[i][j] = a[i][j] + a[i][i];", True),
        ("a[i][j] = a[i][j] + a[j][i];", False),  # in the same iteration
        ("a[i][j] = a[i][j] + a[i - 1][j];", False),
        ("a[0][j] = a[0][j] + a[1][i];", False),  # another row
        ("a[i][j] = b[i][i];", False),
        ("if (j < i) a[0][j] = a[0][j] + a[0][i];", False),  # never the same
    ],
)
def test_iterations_that_may_meet_at_places_nobody_knows(body: str, expected: bool) -> None:
    (program,) = lw.parse_c(
        f"""
void f(double a[64][64], double b[64][64]) {{
#pragma scop
  for (int i = 1; i < 63; i++)
    for (int j = 1; j < 63; j++)
      {body}
#pragma endscop
}}
"""
    )
    moving = {x.name: "j" for x in program.statements}
    assert may_meet(program, program.statements, moving) == expected
