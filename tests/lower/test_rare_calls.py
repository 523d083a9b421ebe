"""Branches around calls that are needed under a condition only: the same results, fewer calls."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import loopwright as lw
from backends.c_compiled import compile_c, needs_cc
from loopwright.ir.check import check_nest
from loopwright.ir.dtypes import FLOAT64
from loopwright.ir.expr import Call
from loopwright.ir.interpret import interpret_nest
from loopwright.ir.loops import If, Let, LoopNest, Stmt
from loopwright.ir.text import nest_text
from loopwright.ir.visit import expressions, statements, statements_inside, walk
from loopwright.lower.passes import lower_schedule
from loopwright.lower.values.rare_calls import branch_around_calls
from loopwright.machines.host import host
from loopwright.pipeline import compile_program
from loopwright.targets import told_to_c
from loopwright.transform.plan import initial_schedule

KNOWN = frozenset({("exp", FLOAT64)})
LOOP = "for (int i = 0; i < n; i++) {{ double r = a[i] * b[i]; {} }}"
TAKEN = {
    "a sum": LOOP.format("if (r < 0.5) { double e = erfc(r); s[0] += e * a[i]; }"),
    "elements of their own": LOOP.format("if (r < 0.5) c[i] += a[i] * erf(r);"),
    "through others": LOOP.format(
        "if (r < 0.5) { double d = sqrt(r); double e = erfc(d) / d; double g = (e + exp(r)) / r;"
        " s[0] += e; s[1] -= g * a[i]; }"
    ),
    "two calls": LOOP.format("if (r < 0.5) { s[0] += erfc(r); c[i] = atan2(a[i], r); }"),
    "two conditions": LOOP.format("if (r < 0.5) s[0] += erfc(r); if (r > 0.4) s[1] += tgamma(r);"),
    "read on one side": LOOP.format(
        "double h = hypot(r, b[i]); if (r < 0.5) c[i] += h * cosh(h); else c[i] -= r;"
    ),
    "both sides": LOOP.format("if (r < 0.5) c[i] = erfc(r); else c[i] = cbrt(r);"),
    "a choice": LOOP.format("c[i] = r < 0.5 ? erfc(r) : r;"),
    "the other side": LOOP.format("c[i] = r < 0.5 ? r : erfc(r);"),
    "one store": "for (int i = 0; i < n; i++) c[i] = a[i] < 0.5 ? pow(a[i], b[i]) : 0.0;",
    "conditions inside": LOOP.format(
        "if (r < 0.8) { double e = erfc(r);"
        " if (a[i] > 0.5) s[0] += e * tgamma(r); else s[1] += e; }"
    ),
    "a condition behind another": LOOP.format("if (r < 0.5 && erfc(r) < 0.7) s[0] += a[i];"),
    "a call in a condition inside": LOOP.format(
        "if (r < 0.5) { double e = erfc(r); if (e < 0.7) c[i] = cbrt(e); }"
    ),
    "its own variable": LOOP.format("if (r < 0.5) r = erfc(r); c[i] = r;"),
    "a condition anew": LOOP.format(
        "double m = a[i]; if (m < 0.5) s[0] += erfc(r); m = b[i]; if (m < 0.5) s[1] += erf(r);"
    ),
}
KEPT = {
    "no call": LOOP.format("if (r < 0.5) s[0] += r * sqrt(a[i]);"),
    "a function of vectors": LOOP.format("if (r < 0.5) s[0] += exp(r);"),
    "in the condition": LOOP.format("c[i] = erfc(r) < 0.5 ? erfc(r) : r;"),
    "the condition itself": LOOP.format("double e = erfc(r); if (e < 0.5) s[0] += e;"),
    "on both sides": LOOP.format("c[i] = r < 0.5 ? erfc(r) : 2.0 * erfc(r);"),
    "read elsewhere": LOOP.format("double e = erfc(r); if (r < 0.5) s[0] += e; c[i] = e;"),
    "of before": "double e = 1.0; "
    + LOOP.format("if (r < 0.5) s[0] += e * a[i]; e = erfc(r); c[i] = r;"),
    "a constant power": LOOP.format("if (r < 0.5) s[0] += pow(r, 1.5);"),
}
SIZES = [0, 1, 2, 37]
ROUNDED = 1e-14, 0.0  # the interpreter fuses nothing and has functions of its own


def text_of(body: str) -> str:
    arrays = "double a[n], double b[n], double c[n], double s[2]"
    return (
        f"#include <math.h>\nvoid f(int n, {arrays}) {{\n#pragma scop\n{body}\n#pragma endscop\n}}"
    )


def nest_of(body: str) -> LoopNest:
    (program,) = lw.parse_c(text_of(body))
    return lower_schedule(initial_schedule(program))


def data(n: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(n)
    return {name: random.random(n) + 0.25 for name in "abc"} | {"s": random.random(2)}


def results(nest: LoopNest, n: int) -> dict[str, np.ndarray]:
    given = data(n)
    arrays = {buffer.name: given[buffer.name] for buffer in nest.buffers}
    interpret_nest(nest, arrays, {name: n if name == "n" else 1 for name in nest.scalars})
    return given


def calls_outside(stmt: Stmt) -> Iterator[Call]:
    """Calls of functions that are not known and stand under no branch."""
    for value in expressions(stmt):
        calls = (x for x in walk(value) if isinstance(x, Call))
        yield from (x for x in calls if x.function not in ("exp", "sqrt"))
    if not isinstance(stmt, If):
        for inner in statements_inside(stmt):
            yield from calls_outside(inner)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", TAKEN)
def test_branches_have_the_same_results(name: str) -> None:
    nest = nest_of(TAKEN[name])
    found = branch_around_calls(nest, KNOWN)
    check_nest(found)
    assert not list(calls_outside(found.body))
    for n in SIZES:
        expected, given = results(nest, n), results(found, n)
        for array in expected:
            assert np.array_equal(expected[array], given[array]), (array, n)


@pytest.mark.parametrize("name", KEPT)
def test_rows_that_stay(name: str) -> None:
    nest = nest_of(KEPT[name])
    assert branch_around_calls(nest, KNOWN) == nest


def test_calls_on_two_sides_and_inside() -> None:
    both = nest_text(branch_around_calls(nest_of(TAKEN["both sides"]), KNOWN))
    assert "else:" in both
    inside = branch_around_calls(nest_of(TAKEN["conditions inside"]), KNOWN)
    branches = [s for s in statements(inside.body) if isinstance(s, If)]
    assert len(branches) >= 2
    assert any(isinstance(s, If) for x in branches for s in statements(x.body))


def test_bindings_go_where_they_are_needed() -> None:
    """Loops of vectors bind scalars."""
    (program,) = lw.parse_c(text_of(TAKEN["read on one side"]))
    nest = compile_program(program, host(), 1).nest
    assert any(isinstance(s, Let) and "hypot" in str(s.value) for s in statements(nest.body))
    found = branch_around_calls(nest, KNOWN)
    check_nest(found)
    assert not list(calls_outside(found.body))
    assert nest_text(found).count("hypot") == 1


def test_what_a_branch_looks_like() -> None:
    found = nest_text(branch_around_calls(nest_of(TAKEN["a sum"]), KNOWN))
    assert found.split("for i")[1] == (
        """ in range(n):
        r[] = a[i] * b[i]
        mask[] = r[] < 0.5
        if mask[]:
            e[] = erfc(r[])
            s[0] = s[0] + e[] * a[i]"""
    )


@pytest.mark.drawn(6)
@pytest.mark.parametrize("name", [*TAKEN, *KEPT])
def test_machine_code_has_the_results_of_the_source(name: str) -> None:
    body = (TAKEN | KEPT)[name]
    nest = nest_of(body)
    call = lw.compile(text_of(body))
    for n in SIZES:
        expected, given = results(nest, n), data(n)
        call(n, *given.values())
        for array in expected:
            assert np.allclose(expected[array], given[array], *ROUNDED), (array, n)


@needs_cc
def test_c_text_has_the_results_of_the_source() -> None:
    nests = {name: nest_of(body) for name, body in (TAKEN | KEPT).items()}
    told = []
    for name, nest in nests.items():
        (program,) = lw.parse_c(text_of((TAKEN | KEPT)[name]))
        told.append(told_to_c(program, nest, host(), library=True))
        assert (name in TAKEN) <= any(isinstance(s, If) for s in statements(told[-1].body)), name
    for (name, nest), run in zip(nests.items(), compile_c(told), strict=True):
        for n in SIZES:
            expected, given = results(nest, n), data(n)
            run(given, {name: n if name == "n" else 1 for name in nest.scalars})
            for array in expected:
                assert np.allclose(expected[array], given[array], *ROUNDED), (name, array, n)
