"""Roots and quotients computed in strips: the same results, and only where they are the same."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright.ir.check import check_nest
from loopwright.ir.dtypes import FLOAT32, FLOAT64
from loopwright.ir.interpret import interpret_nest
from loopwright.ir.loops import LoopNest
from loopwright.ir.text import nest_text
from loopwright.lower.passes import lower_schedule
from loopwright.lower.values.quotients_apart import quotients_apart
from loopwright.transform.plan import initial_schedule

WIDE = [FLOAT64]
TAKEN = {
    "sum of products": "for (int i = 0; i < n; i++) s[0] += a[i] * (1.0 / sqrt(b[i] + 1.0));",
    "handed on": """for (int i = 0; i < n; i++) {
    double r = sqrt(a[i] * a[i] + 1.0);
    c[i] += r / b[i];
    c[i + 1] -= r / b[i];
  }""",
    "through others": """for (int i = 0; i < n; i++) {
    double d[3], r2 = 0.5;
    for (int k = 0; k < 3; k++) {
      d[k] = a[i] - b[k];
      r2 += d[k] * d[k];
    }
    double r = sqrt(r2);
    s[0] += 0.5 * (r - 1.0) * (r - 1.0);
    for (int k = 0; k < 3; k++) {
      c[i] += (r - 1.0) / r * d[k];
      c[i + 1] -= (r - 1.0) / r * d[k];
    }
  }""",
    "set twice": """for (int i = 0; i < n; i++) {
    double t = a[i] + 1.0;
    s[0] = s[0] * 0.5 + sqrt(t);
    t = b[i] + t;
    s[1] = s[1] * 0.5 + 1.0 / t;
  }""",
    "beside a chain": "for (int i = 0; i < n; i++) s[0] = sqrt(s[0]) + a[i] * (1.0 / sqrt(b[i]));",
}
KEPT = {
    "calls": """for (int i = 0; i < n; i++) {
    double r = hypot(a[i], b[i]);
    s[0] += a[i] * (1.0 / sqrt(r)) + r;
  }""",
    "few": "for (int i = 0; i < n; i++) s[0] += a[i] * (1.0 / b[i]);",
    "short": "for (int i = 0; i < 12; i++) s[0] += a[i] * (1.0 / sqrt(b[i]));",
    "recurrence": "for (int i = 0; i < n; i++) c[i + 1] = sqrt(c[i]) / (c[i] + 1.0);",
    "handed on by a scalar": """double t = 1.0;
  for (int i = 0; i < n; i++) {
    s[0] += a[i] * (sqrt(t) / b[i]);
    t = a[i] + 1.0;
  }""",
    "elements of before": """double d[3] = {0.0};
  for (int i = 0; i < n; i++) {
    double t = 1.0;
    for (int k = 0; k < 3; k++) {
      t += d[k];
      d[k] = a[i] + t;
    }
    s[0] += a[i] * (1.0 / sqrt(t));
  }""",
    "guarded": "for (int i = 0; i < n; i++) s[0] += b[i] > 0.5 ? 1.0 / sqrt(a[i]) : 0.0;",
    "nothing handed on": "for (int i = 0; i < n; i++) c[i] = a[i] / sqrt(b[i]);",
    "one value": "for (int i = 0; i < n; i++) s[0] += a[i] * (1.0 / sqrt(b[0]));",
    "in every turn": """for (int i = 0; i < n; i++)
    for (int k = 0; k < 3; k++) s[0] += a[i] * (1.0 / sqrt(b[i + k]));""",
}


def nest_of(body: str) -> LoopNest:
    arrays = "double a[n], double b[n], double c[n + 1], double s[2]"
    text = (
        f"#include <math.h>\nvoid f(int n, {arrays}) {{\n#pragma scop\n{body}\n#pragma endscop\n}}"
    )
    (program,) = lw.parse_c(text)
    return lower_schedule(initial_schedule(program))


def results(nest: LoopNest, n: int) -> list[np.ndarray]:
    random = np.random.default_rng(n)
    given = {name: random.random(n + (name == "c")) + 0.25 for name in "abc"}
    given["s"] = random.random(2) + 0.25
    arrays = {buffer.name: given[buffer.name] for buffer in nest.buffers}
    interpret_nest(nest, arrays, {name: n if name == "n" else 1 for name in nest.scalars})
    return list(arrays.values())


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize("n", [3, 64, 131])
def test_strips_have_the_same_results(name: str, n: int) -> None:
    nest = nest_of(TAKEN[name])
    found = quotients_apart(nest, WIDE)
    check_nest(found)
    assert "simd for i" in nest_text(found)
    for x, y in zip(results(nest, n), results(found, n), strict=True):
        assert np.array_equal(x, y)


@pytest.mark.parametrize("name", KEPT)
def test_loops_that_stay(name: str) -> None:
    nest = nest_of(KEPT[name])
    assert quotients_apart(nest, WIDE) == nest


def test_other_types_stay() -> None:
    nest = nest_of(TAKEN["handed on"])
    assert quotients_apart(nest, [FLOAT32]) == nest
    assert quotients_apart(nest, []) is nest


def test_plain_sums_are_left() -> None:
    plain = nest_of("for (int i = 0; i < n; i++) s[0] += sqrt(a[i]) / b[i];")
    assert quotients_apart(plain, WIDE) == plain
    for name in ("sum of products", "handed on"):
        nest = nest_of(TAKEN[name])
        assert quotients_apart(nest, WIDE) != nest


@pytest.mark.parametrize("n", [3, 64, 131])
def test_machine_code_has_the_bits_of_the_source(n: int) -> None:
    body = (
        TAKEN["handed on"]
        .replace("double", "float")
        .replace("sqrt", "sqrtf")
        .replace("1.0", "1.0f")
    )
    text = "void f(int n, float a[n], float b[n], float c[n + 1]) {\n#pragma scop\n"
    kernel = lw.compile(f"#include <math.h>\n{text}{body}\n#pragma endscop\n}}")
    random = np.random.default_rng(n)
    a, b, c = (random.random(n + k, dtype=np.float32) + np.float32(0.25) for k in (0, 0, 1))
    wanted = c.copy()
    for i in range(n):
        square = np.float32(np.float64(a[i]) * np.float64(a[i]) + 1.0)  # exact before it is rounded
        each = np.sqrt(square) / b[i]
        wanted[i] += each
        wanted[i + 1] -= each
    kernel(n, a, b, c)
    assert np.array_equal(c, wanted)
