"""Branches around quotients that sums under a condition need: the same results, nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import loopwright as lw
from backends.c_compiled import needs_cc
from loopwright.cli import main
from loopwright.ir.check import check_nest
from loopwright.ir.interpret import interpret_nest
from loopwright.ir.loops import LoopNest
from loopwright.ir.text import nest_text
from loopwright.lower.passes import lower_schedule
from loopwright.lower.values.plain_reductions import plain_reductions
from loopwright.lower.values.rare_quotients import branch_around_quotients
from loopwright.planner.generic import default_plan
from loopwright.transform.plan import apply_plan, initial_schedule
from loopwright.transform.privatize import Privatize

LOOP = "for (int i = 0; i < n; i++) {{ double r = a[i] * b[i]; {} }}"
TAKEN = {
    "a quotient": LOOP.format("if (r < 0.5) { double f = 1.0 / r; s[0] += f * a[i]; }"),
    "two sums": LOOP.format(
        "if (r < 0.5) { double f = 1.0 / (r * r); s[0] += f * a[i]; s[1] -= f * b[i]; }"
    ),
    "through others": LOOP.format(
        "if (r < 0.5) { double q = sqrt(r); double f = a[i] / q; s[0] += f * f; }"
    ),
    "changed": LOOP.format(
        "if (r < 0.5) { double f = a[i] / r; f = f > 2.0 ? 2.0 : f; s[0] += f * a[i]; }"
    ),
    "both ends of a pair": LOOP.format(
        "if (r < 0.5) { double f = 1.0 / r; s[0] += f * a[i]; c[i] -= f * a[i]; }"
    ),
    "in the sum itself": LOOP.format("if (r < 0.5) s[0] += a[i] * (b[i] / r);"),
}
KEPT = {
    "an extreme": LOOP.format("if (r < 0.5) s[0] = fmax(s[0], a[i]);"),
    "no quotient": LOOP.format("if (r < 0.5) s[0] += r * a[i];"),
    "elements of their own": LOOP.format("if (r < 0.5) c[i] += a[i] * (b[i] / r);"),
    "read elsewhere": LOOP.format("double f = 1.0 / r; if (r < 0.5) s[0] += f * a[i]; c[i] = f;"),
    "changed from before": "double f = 1.0; "
    + LOOP.format("f = f * 0.5 + a[i] / r; if (r < 0.5) s[0] += f * a[i];"),
    "of before": "double f = 1.0; "
    + LOOP.format("if (r < 0.5) s[0] += f * a[i]; f = 1.0 / r; c[i] = r;"),
}


def text_of(body: str) -> str:
    arrays = "double a[n], double b[n], double c[n], double s[2]"
    return (
        f"#include <math.h>\nvoid f(int n, {arrays}) {{\n#pragma scop\n{body}\n#pragma endscop\n}}"
    )


def nest_of(body: str) -> LoopNest:
    (program,) = lw.parse_c(text_of(body))
    return lower_schedule(initial_schedule(program))


def results(nest: LoopNest, n: int) -> list[np.ndarray]:
    random = np.random.default_rng(n)
    given = {name: random.random(n) + 0.25 for name in "abc"} | {"s": random.random(2)}
    arrays = {buffer.name: given[buffer.name] for buffer in nest.buffers}
    interpret_nest(nest, arrays, {name: n if name == "n" else 1 for name in nest.scalars})
    return list(arrays.values())


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize("n", [0, 1, 37])
def test_branches_have_the_same_results(name: str, n: int) -> None:
    nest = nest_of(TAKEN[name])
    found = branch_around_quotients(nest)
    check_nest(found)
    before, branch = re.split(r"\n +if .*:\n", nest_text(found))
    assert "/" in branch
    assert "/" not in before.split("for i")[1]
    for x, y in zip(results(nest, n), results(found, n), strict=True):
        assert np.array_equal(x, y)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize("n", [0, 1, 37])
def test_branches_among_bindings(name: str, n: int) -> None:
    """As the plan of the source order has them, and sums that add nothing where they fail."""
    (program,) = lw.parse_c(text_of(TAKEN[name]))
    plan, _ = default_plan(program, lw.machine("zen3"))
    nest = lower_schedule(apply_plan(program, [x for x in plan if isinstance(x, Privatize)]))
    for before in (nest, plain_reductions(nest)):
        found = branch_around_quotients(before)
        check_nest(found)
        assert "/" not in re.split(r"\n +if .*:\n", nest_text(found))[0].split("for i")[1]
        for x, y in zip(results(nest, n), results(found, n), strict=True):
            assert np.array_equal(x, y)


@pytest.mark.parametrize("name", TAKEN)
def test_branches_for_compilers_of_c(name: str) -> None:
    """Strips in which no iteration needs a quotient are passed over; the results stay the same."""
    nest = nest_of(TAKEN[name])
    found = branch_around_quotients(nest, singly=True)
    check_nest(found)
    assert found != nest
    for n in (0, 1, 15, 16, 17, 40):
        for x, y in zip(results(nest, n), results(found, n), strict=True):
            assert np.array_equal(x, y)


@needs_cc
@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("name", "told"), [("two sums", "lw_any |="), ("both ends of a pair", "__asm__ volatile")]
)
def test_c_text_keeps_the_branch(name: str, told: str, tmp_path: Path) -> None:
    """The region is written anew: its loop goes by strips, or an element at a time."""
    (source := tmp_path / "f.c").write_text(text_of(TAKEN[name]))
    found = tmp_path / "found.c"
    assert main(["cc", str(source), "-o", str(found)]) == 0
    text = found.read_text()
    branch = text[text.index("if (mask") :]
    assert "/" in branch.split("}")[0]
    assert told in text


def test_c_text_with_functions_in_strips_has_no_branch(tmp_path: Path) -> None:
    """They are computed for all elements, in vectors: so may the quotients be."""
    body = LOOP.format("if (r < 0.5) { double f = exp(-r); s[0] += f / r; }")
    (source := tmp_path / "f.c").write_text(text_of(body))
    found = tmp_path / "found.c"
    assert main(["cc", str(source), "-o", str(found)]) == 0
    text = found.read_text()
    assert "lw_exp" in text
    assert "__asm__ volatile" not in text


@pytest.mark.parametrize("name", KEPT)
def test_loops_that_stay(name: str) -> None:
    nest = nest_of(KEPT[name])
    assert branch_around_quotients(nest) == nest


def test_machine_code_has_the_bits_of_the_source() -> None:
    text = f"""#include <math.h>
void f(int n, double a[n], double b[n], double s[2]) {{
#pragma scop
{TAKEN["two sums"]}
#pragma endscop
}}"""
    random = np.random.default_rng(1)
    a, b = random.random(1001) + 0.25, random.random(1001) + 0.25
    given, expected = np.zeros(2), np.zeros(2)
    lw.compile(text)(1001, a, b, given)
    nest = nest_of(TAKEN["two sums"])
    arrays = {x.name: {"a": a, "b": b, "s": expected}[x.name] for x in nest.buffers}
    interpret_nest(nest, arrays, {name: 1001 if name == "n" else 1 for name in nest.scalars})
    assert np.array_equal(given, expected)
