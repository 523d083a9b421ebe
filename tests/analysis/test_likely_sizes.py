"""Guesses of sizes leave every loop its iterations."""

from __future__ import annotations

import pytest

import loopwright as lw
from loopwright.analysis.size_estimates import likely_sizes, likely_trips, other_shapes
from loopwright.ir.program import Program


def program(body: str, parameters: str) -> Program:
    text = f"void f({parameters}) {{\n#pragma scop\n{body}\n#pragma endscop\n}}\n"
    (found,) = lw.parse_c(text)
    return found


LOOPS = {
    "both ends": ("for (int i = t; i < n - t; i++)", 8),
    "twice": ("for (int i = 2 * t; i < n - 2 * t; i++)", 16),
    "one end": ("for (int i = t; i < n; i++)", 4),
    "valid part": ("for (int i = 0; i < n - t + 1; i++)", 4),
}


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("rows", [False, True])
def test_what_is_taken_from_the_ends_is_small(name: str, rows: bool) -> None:
    """A filter's length in an array of one dimension would else be guessed beyond its signal's."""
    loop, share = LOOPS[name]
    x = "x[1][i]" if rows else "x[i]"
    kind = "double x[m][n]" if rows else "double x[n]"
    found = program(
        f"{loop} for (int k = 0; k < t; k++) {x} += h[k];",
        f"int m, int n, int t, {kind}, double h[t]",
    )
    sizes = likely_sizes(found)
    assert sizes["n"] == (2048 if rows else 1 << 22)
    assert abs(sizes["t"] - sizes["n"] // share) <= 1
    (trips,) = likely_trips(found).values()
    assert trips["i"] >= 0.7 * sizes["n"]


def test_sizes_that_arrays_bound_stay() -> None:
    found = program(
        "for (int i = t; i < n; i++) x[i] += h[t - 1];", "int n, int t, double x[100], double h[9]"
    )
    assert likely_sizes(found) == {"n": 100, "t": 24}


def test_parameters_apart_keep_their_guesses() -> None:
    found = program(
        "for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) x[i][j] += 1.0;",
        "int n, int m, double x[n][m]",
    )
    assert likely_sizes(found) == {"n": 2048, "m": 2048}


def test_other_shapes_of_guessed_sizes() -> None:
    head, loop = "int n, int m, double x[n][m]", "for (int i = 0; i < n; i++) x[i][m - 1] += 1.0;"
    found = program(loop, head)
    assert other_shapes(found) == [{"n": 32768, "m": 128}, {"n": 128, "m": 32768}]
    assert other_shapes(program("for (int i = 0; i < n; i++) x[i] = 1;", "int n, int x[n]")) == []
