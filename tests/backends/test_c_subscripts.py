"""Loops whose lanes lie apart are left to the compiler's own estimate."""

from __future__ import annotations

from dataclasses import replace

import pytest

import loopwright as lw
from loopwright.backends.c_text.c_subscripts import lanes_lie_apart, leave_to_estimate
from loopwright.ir.loops import For, Mark
from loopwright.ir.visit import statements
from loopwright.lower.passes import lower_schedule
from loopwright.transform.plan import initial_schedule

APART = {
    "small matrices": "b[p][0][1] = a[p][1][2] * a[p][0][0]; b[p][2][2] = a[p][2][1] - a[p][0][2];",
    "one result": "d[p] = a[p][0][0] * a[p][1][1] * a[p][2][2] - a[p][0][1] * a[p][1][0];",
    "columns": "c[p][m - 1] = c[p][m - 2] + c[p][m - 3];",
    "sixth elements": "e[6 * p] = e[6 * p + 1];",
}
NEAR = {
    "a row": "d[p] = 2.0 * d[p];",
    "pairs": "z[p][0] = z[p][1] * d[3];",
    "some columns": "d[p] = d[p] + c[p][m - 1];",
    "much to do": "b[p][0][0] = exp(a[p][0][0]) / exp(a[p][1][1]) + sqrt(a[p][2][2]);",
    "nothing moves": "d[0] = d[1];",
}


def is_apart(body: str) -> bool:
    arrays = "double a[n][3][3], double b[n][3][3], double c[n][m], double d[n], double e[6 * n]"
    head = f"#include <math.h>\nvoid f(int n, int m, {arrays}, double z[n][2])"
    (program,) = lw.parse_c(
        f"{head} {{\n#pragma scop\nfor (int p = 0; p < n; p++) {{ {body} }}\n#pragma endscop\n}}"
    )
    nest = lower_schedule(initial_schedule(program))
    (loop,) = (stmt for stmt in statements(nest.body) if isinstance(stmt, For))
    return lanes_lie_apart(loop)


@pytest.mark.parametrize("name", APART)
def test_left_to_the_compiler(name: str) -> None:
    assert is_apart(APART[name])


@pytest.mark.parametrize("name", NEAR)
def test_vectors(name: str) -> None:
    assert not is_apart(NEAR[name])


# Bodies of loops over a few iterations p, with M of them.
BADLY_SHORT = {
    "three coordinates": (3, "z[i][p] = z[i][p] * d[i];"),
    "five of a row": (5, "z[i][p] = z[i][p] * d[i];"),
    "a pair of floats": (2, "w[i][p] = w[i][p] + 1.0f;"),
    "rows of a matrix": (4, "z[i][p] = a[p][0] * d[0] + a[p][1] * d[1];"),
    "every second": (4, "z[i][p] = z[i][2 * p] * d[i];"),
    "the unit matrix": (3, "a[i][p] = i == p ? 1.0 : 0.0;"),
}
SHORT = {
    "a row of four": (4, "z[i][p] = z[i][p] * d[i];"),
    "backwards": (4, "z[i][p] = z[i][7 - p] * d[i];"),
    "a row of sixteen": (16, "z[i][p] = d[i];"),
    "columns, but many": (12, "z[i][p] = d[i] * a[p][0] + z[i][p];"),
    "choices by data": (3, "z[i][p] = d[p] > 0.0 ? d[p] : 0.0;"),
    "sums by choice": (6, "z[i][p] = c == p ? z[i][p] + d[i] : z[i][p];"),
}


def is_left(trips: int, body: str) -> bool:
    arrays = "double a[n][4], double z[n][16], float w[n][4], double d[n]"
    source = f"""void f(int n, int c, {arrays}) {{
#pragma scop
  for (int i = 0; i < n; i++) for (int p = 0; p < {trips}; p++) {{ {body} }}
#pragma endscop
}}"""
    (program,) = lw.parse_c(source)
    nest = lower_schedule(initial_schedule(program))
    loops = [stmt for stmt in statements(nest.body) if isinstance(stmt, For)]
    return leave_to_estimate(replace(loops[-1], mark=Mark.SIMD))


@pytest.mark.parametrize("name", BADLY_SHORT)
def test_few_iterations_are_left_to_the_compiler(name: str) -> None:
    assert is_left(*BADLY_SHORT[name])


@pytest.mark.parametrize("name", SHORT)
def test_few_iterations_as_vectors(name: str) -> None:
    assert not is_left(*SHORT[name])
