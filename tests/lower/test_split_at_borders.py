"""Loops in three parts where only their ends have cases of their own: which, and their results."""

from __future__ import annotations

import re

import numpy as np
import pytest

import loopwright as lw
from loopwright import machine, parse_c
from loopwright.ir.check import check_nest
from loopwright.ir.interpret import interpret_nest
from loopwright.ir.loops import LoopNest
from loopwright.ir.text import stmt_text
from loopwright.lower.passes import lower_schedule
from loopwright.lower.split_at_borders import split_at_borders
from loopwright.planner.plan_choice import choose_plan

# Scalars of an iteration keep isl from separating a loop by itself.
RING = """for (int c = 0; c < {n}; c++) {{
    int l = c < 1 ? c + {n} - 1 : c - 1, r = c + 1 < {n} ? c + 1 : c + 1 - {n};
    double p = a[l] - a[c], q = p * a[r];
    b[c] = q / (p * p + 1.0) + q * p;
}}"""
WALLS = """for (int c = 0; c < {n}; c++) {{
    int l = c > 0 ? c - 1 : 0, r = c < {n} - 1 ? c + 1 : {n} - 1;
    double p = a[r] - a[l], q = p * p;
    if (c == 2) q = q + 1.0;
    b[c] = q * p + q;
}}"""
PLANES = """for (int i = 0; i < {n}; i++)
    for (int j = 0; j < {n}; j++) {{
        int l = i > 0 ? i - 1 : 0, r = j < {n} - 1 ? j + 1 : {n} - 1;
        double p = a[l] - a[r], q = p * a[j] + a[i];
        s[0] = s[0] + q * p;
        b[j] = q * q + p;
    }}"""
CASES = {"ring": RING, "walls": WALLS, "planes": PLANES}
# No end of a loop is near; three iterations; a condition on data.
KEPT = {
    "inside": "for (int i = 0; i < n; i++) { double p = a[i]; if (i < m) p = b[i]; b[i] = p * p; }",
    "few": "for (int t = 0; t < 3; t++) for (int i = 0; i < n; i++)"
    " { if (t == 0) b[i] = a[i]; else if (t == 1) b[i] += a[i]; else a[i] = b[i]; }",
    "data": "for (int i = 0; i < n; i++) { double p = a[i]; if (p > 0.0) b[i] = p; }",
}


def text_of(body: str) -> str:
    arrays = "double a[n], double b[n], double s[1]"
    return f"void f(int n, int m, {arrays}) {{\n#pragma scop\n{body}\n#pragma endscop\n}}"


def nest_of(body: str) -> LoopNest:
    (program,) = parse_c(text_of(body))
    return lower_schedule(choose_plan(program, machine("skylake-avx512"), 1).schedule)


def results(nest: LoopNest, n: int) -> list[np.ndarray]:
    random = np.random.default_rng(n)
    given = {name: random.random(n) for name in "ab"} | {"s": random.random(1)}
    arrays = {buffer.name: given[buffer.name] for buffer in nest.buffers}
    interpret_nest(nest, arrays, {name: n if name == "n" else 1 for name in nest.scalars})
    return list(arrays.values())


@pytest.mark.drawn(6)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("n", [37, 0, 1, 2, 3, 4])
def test_parts_have_the_same_results(name: str, n: int) -> None:
    nest = nest_of(CASES[name].format(n="n"))
    found = split_at_borders(nest)
    check_nest(found)
    for x, y in zip(results(nest, n), results(found, n), strict=True):
        assert np.array_equal(x, y)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("size", ["n", "1000"])
def test_no_guard_is_left_inside(name: str, size: str) -> None:
    nest = nest_of(CASES[name].format(n=size))
    assert "if" in stmt_text(nest.body), "nothing is left to do"
    inside = _bodies(stmt_text(split_at_borders(nest).body))
    assert any(body and "if" not in body for body in inside)


def _bodies(text: str) -> list[str]:
    """The texts of innermost loops."""
    lines = text.splitlines()
    found = []
    for at, line in enumerate(lines):
        if not re.match(r" *(simd )?for ", line):
            continue
        depth = len(line) - len(line.lstrip())
        body = []
        for inner in lines[at + 1 :]:
            if len(inner) - len(inner.lstrip()) <= depth:
                break
            body.append(inner)
        if not any(re.match(r" *(simd )?for ", inner) for inner in body):
            found.append("\n".join(body))
    return found


@pytest.mark.parametrize("name", KEPT)
def test_loops_that_stay(name: str) -> None:
    nest = nest_of(KEPT[name])
    assert split_at_borders(nest) == nest


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", ["host", "c"])
def test_code_has_the_bits_of_the_source(name: str, target: str) -> None:
    text = text_of(CASES[name].format(n="n"))
    planned = lw.compile(text, target, threads=1)
    in_order = lw.compile(text, "c", threads=1, plan=[lw.Plan(())])
    for n in (1, 2, 3, 4, 17, 101):
        random = np.random.default_rng(n)
        # Small integers: products and sums are exact in any case, quotients round once.
        a, b, s = random.integers(-3, 4, n).astype(float), np.zeros(n), np.zeros(1)
        results = []
        for run in (planned, in_order):
            own = [a.copy(), b.copy(), s.copy()]
            run(n, 0, *own)
            results.append(own)
        for found, expected in zip(*results, strict=True):
            np.testing.assert_array_equal(found, expected, err_msg=f"{n}")
