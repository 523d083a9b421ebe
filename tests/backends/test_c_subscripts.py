"""Loops whose lanes lie apart are left to the compiler's own estimate."""

from __future__ import annotations

import pytest

import loopwright as lw
from loopwright.backends.c_text.c_subscripts import lanes_lie_apart
from loopwright.ir.loops import For
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


def test_text() -> None:
    text = """void f(int n, double a[n][3][3], double d[n]) {
#pragma scop
  for (int p = 0; p < n; p++) BODY
#pragma endscop
}"""
    apart = text.replace("BODY", "a[p][0][0] = a[p][1][1] - a[p][2][2];")
    near = text.replace("BODY", "d[p] = 2.0 * d[p];")
    for source, is_marked in ((apart, False), (near, True)):
        (program,) = lw.parse_c(source)
        assert ("omp simd" in lw.compile(program, "openmp").inspect_c()) is is_marked
