"""Tiles of given sizes: which loops get them, which statements loops of their own, and refusals."""

from __future__ import annotations

import pytest

import loopwright as lw
from loopwright.diagnostics import UsageError
from loopwright.machines.load import load_machine
from loopwright.planner.given_tiles import given_tiles
from loopwright.planner.planners import tile_planner
from loopwright.transform.plan import initial_schedule

LOOPS = "for (int i = 1; i < n; i++) "
SQUARE = LOOPS + "for (int j = 1; j < n; j++) "


def tiled(body: str, *sizes: int) -> tuple[list[str], str]:
    """The steps as text, and the reasons."""
    head = "void f(int n, double A[n][n], double B[n][n], double x[n]) {\n#pragma scop\n"
    (program,) = lw.parse_c(f"{head}{body}\n#pragma endscop\n}}\n")
    steps, reason = given_tiles(initial_schedule(program), sizes)
    return [str(step) for step in steps], reason


def test_statements_between_loops_get_loops_of_their_own() -> None:
    steps, _ = tiled(
        LOOPS + "{ x[i] = 2; for (int j = 1; j < n; j++) A[i][j] = x[i] * B[j][i]; }", 4, 8
    )
    assert steps == [
        "distribute_statements(loop='i', statements=('S0', 'S1'), sizes=(1, 1))",
        "tile(loops=('i_2', 'j'), sizes=(4, 8))",
    ]


def test_a_statement_that_cannot_be_tiled_leaves_the_others_their_tiles() -> None:
    body = SQUARE + "{ A[i][j] = A[i - 1][j + 1]; B[i][j] = 2 * A[i][j]; }"
    steps, reason = tiled(body, 4, 8)
    assert len(steps) == 2
    assert steps[0].startswith("distribute_statements")
    assert steps[1] == "tile(loops=('i_2', 'j_2'), sizes=(4, 8))"
    assert "would reverse flow" in reason


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (
            LOOPS + "{ x[i] = A[i - 1][i]; for (int j = 1; j < n; j++) A[i][j] = x[i] + x[j]; }",
            "no two loops stand directly inside each other",
        ),
        (
            SQUARE + "A[i][j] = A[i - 1][j + 1];\n" + SQUARE + "x[j] = 2 * x[i];",
            "tile(loops=('i', 'j'), sizes=(4, 8)): would reverse flow S0[1, 8] -> S0[2, 7] "
            "(<c>:3 -> <c>:3); tile(loops=('i_1', 'j_1'), sizes=(4, 8)): would reverse flow "
            "S1[8, 9] -> S1[9, 1] (<c>:4 -> <c>:4)",
        ),
    ],
)
def test_refusals_say_why(body: str, told: str) -> None:
    steps, reason = tiled(body, 4, 8)
    assert steps == []
    assert reason == told


def test_the_whole_refusal() -> None:
    text = "void f(int n, double x[n]) {\n#pragma scop\nfor (int i = 0; i < n; i++) x[i] = 1;\n"
    (program,) = lw.parse_c(text + "#pragma endscop\n}\n")
    with pytest.raises(UsageError) as error:
        tile_planner([4, 8])(program, load_machine("zen3"), 1)
    assert str(error.value) == (
        "no loops of 'f' can be tiled\nnote: found no two loops stand directly inside each other"
    )
