"""Functions computed in strips: the same results, and only where nothing stands against it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import loopwright as lw
from loopwright.ir.check import check_nest
from loopwright.ir.dtypes import FLOAT64
from loopwright.ir.interpret import interpret_nest
from loopwright.ir.loops import For, LoopNest, Mark, Stmt
from loopwright.ir.text import nest_text
from loopwright.ir.visit import rebuild
from loopwright.lower.contract_arrays import sink_scalars
from loopwright.lower.passes import lower_schedule
from loopwright.lower.values.functions_apart import functions_apart
from loopwright.lower.values.promote_registers import promote_scalars
from loopwright.transform.plan import initial_schedule

KNOWN = [("exp", FLOAT64)]
SUM = "for (int i = 0; i < n; i++) s[0] += exp(a[i]);"
TWO = "for (int i = 0; i < n; i++) { s[0] += exp(a[i]) * b[i]; s[1] -= exp(b[i]) + exp(a[i]); }"
INSIDE = """for (int i = 0; i < n; i++) {
    double t = 0;
    for (int j = 0; j < 3; j++) t += a[i] * b[j];
    s[0] = s[0] * 0.5 + exp(t);
  }"""
NESTED = "for (int i = 0; i < n; i++) s[0] += exp(exp(a[i]));"
SHARED = """for (int i = 0; i < n; i++) {
    double t = a[i] * b[0];
    s[0] += exp(t) * b[i];
    s[1] -= exp(t + 1.0) / (1.0 + exp(t));
  }"""
OWN = "for (int i = 0; i < n; i++) { a[i] = exp(a[i] - b[0]); s[0] += a[i]; }"
BOUND = """for (int i = 0; i < n; i++) {
    double t = a[i] - b[0], u = exp(t);
    s[0] += u * t;
    s[1] += u / (1.0 + exp(-t));
  }"""
TAKEN = {"sum": SUM, "two": TWO, "inside": INSIDE, "nested": NESTED, "shared": SHARED}
ROWS = """for (int i = 1; i + 1 < n; i++) {
    c[0][i] = exp(c[0][i] - b[0]);
    c[1][i] = exp(c[1][i] - b[1]) + c[0][i];
    s[0] += c[0][i] * c[1][i];
  }"""
TAKEN |= {"own elements": OWN, "rows": ROWS}
KEPT = {
    "recurrence": "for (int i = 1; i < n; i++) a[i] = exp(a[i - 1]);",
    "argument of the sum": "for (int i = 0; i < n; i++) s[0] += exp(s[0] - a[i]);",
    "guarded": "for (int i = 0; i < n; i++) s[0] += i % 3 ? exp(a[i]) : 0.0;",
    "one value": "for (int i = 0; i < n; i++) s[0] += a[i] * exp(b[0]);",
    "few": "for (int i = 0; i < 7; i++) s[0] += exp(a[i]);",
    "argument used again": """for (int i = 1; i < n; i++) {
    double t = a[i - 1] + b[i];
    a[i] = exp(t);
  }""",
    "changed before": "for (int i = 0; i < n; i++) { a[i] = a[i] + s[0]; s[0] += exp(a[i]); }",
    "changed between": """for (int i = 0; i < n; i++) {
    a[i] = s[0] + exp(a[i]);
    s[0] += exp(a[i]);
  }""",
    "elements of others": "for (int i = 1; i < n; i++) { a[i] = exp(a[i]); s[0] += a[i - 1]; }",
    "other function": "for (int i = 0; i < n; i++) s[0] += log(a[i] + 1.0);",
}


def nest_of(body: str) -> LoopNest:
    text = "void f(int n, double a[n], double b[n], double s[2], double c[2][n]) {\n"
    text += f"#pragma scop\n{body}\n"
    (program,) = lw.parse_c(text + "#pragma endscop\n}\n")
    return lower_schedule(initial_schedule(program))


def results(nest: LoopNest, n: int) -> list[np.ndarray]:
    random = np.random.default_rng(n)
    given = {"a": random.random(n), "b": random.random(n), "s": random.random(2)}
    given["c"] = random.random((2, n))
    sizes = {"n": n, "c_s0": n}
    arrays = {buffer.name: given[buffer.name] for buffer in nest.buffers}
    interpret_nest(nest, arrays, {name: sizes.get(name, 1) for name in nest.scalars})
    return list(arrays.values())


@pytest.mark.drawn(4)
@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize("n", [3, 63, 64, 65, 131])
def test_strips_have_the_same_results(name: str, n: int) -> None:
    nest = nest_of(TAKEN[name])
    found = functions_apart(nest, KNOWN)
    check_nest(found)
    assert "simd for" in nest_text(found)
    for x, y in zip(results(nest, n), results(found, n), strict=True):
        assert np.array_equal(x, y)


@pytest.mark.parametrize("name", KEPT)
def test_loops_that_stay(name: str) -> None:
    nest = nest_of(KEPT[name])
    assert functions_apart(nest, KNOWN) == nest


@pytest.mark.parametrize("n", [3, 65, 131])
def test_bindings_go_to_where_they_are_needed(n: int) -> None:
    nest = nest_of(BOUND)
    found = functions_apart(promote_scalars(sink_scalars(nest)), KNOWN)
    check_nest(found)
    assert nest_text(found).count("simd for") == 1
    for x, y in zip(results(nest, n), results(found, n), strict=True):
        assert np.array_equal(x, y)


def in_copies(nest: LoopNest) -> LoopNest:
    """With the short loops inside marked as copies, as rows taken side by side have them."""

    def marked(stmt: Stmt) -> Stmt:
        is_short = isinstance(stmt, For) and stmt.var.startswith("j")
        return replace(stmt, mark=Mark.UNROLL) if is_short else stmt

    return replace(nest, body=rebuild(nest.body, marked))


COPIES = """for (int i = 0; i < n; i++)
    for (int j = 0; j < 2; j++) {
      double t = a[i] * b[j];
      c[j][0] += exp(t) * b[i];
      s[j] -= exp(t + 1.0) / (1.0 + exp(t));
    }"""


@pytest.mark.parametrize("n", [2, 3, 65, 131])
def test_copies_of_rows_have_calls_of_their_own(n: int) -> None:
    nest = in_copies(promote_scalars(sink_scalars(nest_of(COPIES))))
    found = functions_apart(nest, KNOWN)
    check_nest(found)
    assert nest_text(found).count("exp_of") >= 8
    for x, y in zip(results(nest, n), results(found, n), strict=True):
        assert np.array_equal(x, y)


@pytest.mark.parametrize(
    "body",
    [
        "double t = s[j]; s[1 - j] += exp(t + a[i]);",  # bindings read what copies write
        "s[j] += exp(s[0] + a[i]);",
        "s[j] += a[i];",
    ],
)
def test_copies_that_stay(body: str) -> None:
    loops = f"for (int i = 0; i < n; i++) for (int j = 0; j < 2; j++) {{ {body} }}"
    nest = in_copies(promote_scalars(sink_scalars(nest_of(loops))))
    assert "unroll for" in nest_text(nest)
    assert functions_apart(nest, KNOWN) == nest


def test_a_loop_over_the_rest_of_a_tile_stays() -> None:
    body = (
        "for (int i = 0; i < n; i += 4) for (int j = i; j < n && j < i + 4; j++) s[0] += exp(a[j]);"
    )
    nest = nest_of(body)
    assert functions_apart(nest, KNOWN) == nest


@pytest.mark.parametrize("n", [3, 65, 131])
def test_loops_of_vectors_that_must_not_run_twice(n: int) -> None:
    nest = nest_of("for (int i = 0; i < n; i++) a[i] = a[i] + exp(a[i] * b[i]);")
    marked = replace(nest, body=rebuild(nest.body, _in_vectors))
    assert functions_apart(marked, KNOWN) == marked
    found = functions_apart(marked, KNOWN, KNOWN)
    check_nest(found)
    assert nest_text(found).count("simd for") == 2
    for x, y in zip(results(nest, n), results(found, n), strict=True):
        assert np.array_equal(x, y)


def _in_vectors(stmt: Stmt) -> Stmt:
    return replace(stmt, mark=Mark.SIMD) if isinstance(stmt, For) else stmt


def test_without_functions_in_vectors_nothing_changes() -> None:
    nest = nest_of(SUM)
    assert functions_apart(nest, []) is nest


def test_two_calls_share_a_strip() -> None:
    text = nest_text(functions_apart(nest_of(TWO), KNOWN))
    assert text.count("simd for") == 1
    assert text.count("exp(") == 2  # that of a[i] once
