"""Loops behind the conditions that choose their statements: the same results, fewer iterations."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright.ir.check import check_nest
from loopwright.ir.interpret import interpret_nest
from loopwright.ir.loops import LoopNest
from loopwright.ir.text import nest_text
from loopwright.lower.passes import lower_schedule
from loopwright.transform.loop_marks import Simd
from loopwright.transform.plan import initial_schedule

ROWS = """for (int i = 0; i < n; i++)
    for (int p = 0; p < n; p++)
      if (a[i][p] > 0.5)
        for (int j = 0; j < n; j++)
          c[i][j] += a[i][p] * b[p][j];"""
TWO = """for (int i = 0; i < n; i++)
    if (x[i] > 0.5)
      for (int j = 0; j < n; j++) {
        c[i][j] = b[i][j];
        if (b[i][j] > 0.2)
          a[i][j] -= c[i][j];
      }"""
INSIDE = """for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
      if (x[i] > 0.5 && b[i][j] > 0.5)
        c[i][j] += 1.0;"""
ALL_OF_A_ROW = """for (int i = 0; i < n; i++)
    if (x[i] > 0.5)
      for (int p = 0; p < n; p++)
        for (int j = 0; j < n; j++)
          c[i][j] += b[p][j];"""
GUARDED = {"rows": ROWS, "two": TWO, "inside": INSIDE, "all of a row": ALL_OF_A_ROW}
KEPT = {
    "changes its condition": """for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
      if (x[i] > 0.5)
        x[j] -= 0.25;""",
    "another statement": """for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      if (x[i] > 0.5)
        c[i][j] += 1.0;
      a[i][j] = 0.0;
    }""",
    "two values": """for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
      c[i][j] = x[i] > 0.5 ? 1.0 : 2.0;""",
    "few": """for (int i = 0; i < n; i++)
    for (int j = 0; j < 4; j++)
      if (x[i] > 0.5)
        y[i][j] += 1.0;""",
    "asked for where another holds": """for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
      if (b[i][j] > 0.5 && x[i] > 0.5)
        c[i][j] += 1.0;""",
    "each where another holds": """for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      if (b[i][j] > 0.5 && x[i] > 0.5)
        c[i][j] += 1.0;
      if (b[i][j] < 0.5 && x[i] > 0.5)
        a[i][j] += 1.0;
    }""",
    "moves with the loop": """for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
      if (x[j] > 0.5)
        c[i][j] += 1.0;""",
}


def nest_of(body: str, *simd: str) -> LoopNest:
    arrays = ", ".join(f"double {name}[n][n]" for name in "abc")
    text = f"void f(int n, {arrays}, double x[n], double y[n][4]) {{\n#pragma scop\n{body}\n"
    text += "#pragma endscop\n}\n"
    (program,) = lw.parse_c(text)
    schedule = initial_schedule(program)
    for loop in simd:
        schedule = Simd(loop).apply(schedule)
    return lower_schedule(schedule)


def results(nest: LoopNest, n: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(n)
    given = {name: random.random((n, n)) for name in "abc"} | {"x": random.random(n)}
    arrays = {buffer.name: given[buffer.name] for buffer in nest.buffers}
    rows = {"n", "a_s0", "b_s0", "c_s0"}
    interpret_nest(nest, arrays, {name: n if name in rows else 1 for name in nest.scalars})
    return arrays


def by_numpy(name: str, n: int) -> dict[str, np.ndarray]:
    """What the loops mean, written down once more."""
    random = np.random.default_rng(n)
    a, b, c = (random.random((n, n)) for _ in "abc")
    x = random.random(n)
    for i in range(n):
        match name:
            case "rows":
                for p in range(n):
                    if a[i, p] > 0.5:
                        c[i] += a[i, p] * b[p]
            case "two" if x[i] > 0.5:
                c[i] = b[i]
                a[i] = np.where(b[i] > 0.2, a[i] - c[i], a[i])
            case "inside" if x[i] > 0.5:
                c[i] += b[i] > 0.5
            case "all of a row" if x[i] > 0.5:
                for p in range(n):
                    c[i] += b[p]
    return {"a": a, "b": b, "c": c, "x": x}


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", GUARDED)
@pytest.mark.parametrize("n", [0, 1, 7, 13])
def test_guarded_loops_have_the_same_results(name: str, n: int) -> None:
    nest = nest_of(GUARDED[name])
    check_nest(nest)
    lines = [line.strip() for line in nest_text(nest).splitlines()]
    innermost = max(at for at, line in enumerate(lines) if line.startswith("for j"))
    above = [line for line in lines[:innermost] if line.startswith("if")]
    assert any("[" in line for line in above), "the test on data stands before the loop"
    wanted = by_numpy(name, n)
    for array, found in results(nest, n).items():
        np.testing.assert_array_equal(found, wanted[array])


@pytest.mark.parametrize("name", KEPT)
def test_loops_that_stay(name: str) -> None:
    text = nest_text(nest_of(KEPT[name]))
    before = text[: text.rindex("for j")]
    assert not any("[" in line for line in before.splitlines() if line.strip().startswith("if"))


def test_nothing_is_asked_for_without_iterations() -> None:
    """The test on x[i] stands before the loop over p, behind the one for iterations of j."""
    lines = [line.strip() for line in nest_text(nest_of(ALL_OF_A_ROW)).splitlines()]
    asked = next(at for at, line in enumerate(lines) if line.startswith("if") and "[" in line)
    assert lines[asked + 1].startswith(("if", "for"))
    text = """void f(int n, int m, double b[n][m], double c[n][m], double x[n]) {
#pragma scop
  for (int i = 0; i < n; i++)
    for (int p = 0; p < n; p++)
      for (int j = 0; j < m; j++)
        if (x[i] > 0.5)
          c[i][j] += b[p][j];
#pragma endscop
}
"""
    (program,) = lw.parse_c(text)
    found = nest_text(lower_schedule(initial_schedule(program)))
    guards = [line.strip() for line in found.splitlines() if line.strip().startswith("if")]
    first = next(at for at, line in enumerate(guards) if "x[i]" in line)
    assert "0 < m" in guards[first] or any("0 < m" in line for line in guards[:first])


def test_independent_iterations_ask_before_they_write() -> None:
    """What all read before they write has one value: x[0] is written by none."""
    body = """for (int j = 1; j < n; j++)
    if (x[0] > 0.5 && x[j] < 0.5)
      x[j] += 1.0;"""
    for simd in ((), ("j",)):
        lines = [line.strip() for line in nest_text(nest_of(body, *simd)).splitlines()]
        assert any(line.startswith("if x[0] > 0.5") for line in lines) is bool(simd)
