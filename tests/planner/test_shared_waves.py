"""Waves over passes for threads: tiles of waves and passes, side by side along diagonals."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

import loopwright as lw
from drawn import combined
from loopwright import options
from loopwright.ir.loops import LoopNest
from loopwright.ir.program import Program
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load import load_machine
from loopwright.planner.draft import Draft
from loopwright.planner.loop_plans.shared_waves import take_shared_waves
from loopwright.planner.loop_plans.stencils import plan_stencils
from loopwright.planner.plan_choice import PLANNED, choose_plan
from loopwright.transform.loop_marks import Parallel
from loopwright.transform.plan import initial_schedule
from loopwright.transform.skew import Skew, smallest_skew
from loopwright.transform.tiling import Tile
from oracle import assert_same
from planner.pass_programs import PASSES
from programs import Do, For, program

WIDE = load_machine("cascadelake")
PLANE = "inout float64 [n, n]"


def rows(i: str, j: str, do: Do, first: int = 1, last: str = "n - 1") -> For:
    return For(i, first, last, For(j, first, last, do))


def passes(*body: For, **arrays: str) -> Program:
    return program("passes", arrays, For("t", 0, "m", *body), params="n m")


JACOBI = passes(
    rows("i", "j", Do("B[i, j]", "A[i - 1, j] + A[i, j + 1] + A[i + 1, j]")),
    rows("k", "l", Do("A[k, l]", "B[k - 1, l] + B[k, l - 1] + B[k + 1, l]")),
    A=PLANE,
    B=PLANE,
)
IN_PLACE = passes(rows("i", "j", Do("A[i, j]", "A[i - 1, j] + A[i, j + 1] + A[i + 1, j]")), A=PLANE)
EDGES = passes(
    For("z", 0, "n", Do("h[0, z]", "f[t]")),
    For("i", 1, "n", For("j", 0, "n", Do("e[i, j]", "e[i, j] - h[i - 1, j]"))),
    For("k", 0, "n - 1", For("l", 0, "n", Do("h[k, l]", "h[k, l] + e[k + 1, l]"))),
    e=PLANE,
    h=PLANE,
    f="in float64 [m]",
)


@cache
def in_waves(source: Program, width: int, passes: int, of_tile: int = 0) -> tuple[Draft, LoopNest]:
    """The loops of waves that threads share, for all sizes."""
    draft = Draft(initial_schedule(source))
    skew = smallest_skew(draft.schedule, "t", passes, apart=False, width=width)
    assert skew is not None
    assert take_shared_waves(draft, skew, of_tile)
    return draft, lower_schedule(draft.schedule)


@pytest.mark.drawn(8)
@pytest.mark.parametrize(
    ("source", "width", "sizes"),
    combined(
        [JACOBI, IN_PLACE, EDGES],
        [1, 2],
        [(0, 3), (1, 2), (2, 5), (3, 1), (7, 0), (11, 9), (37, 5), (41, 8)],
        one_in=2,
    ),
)
def test_meaning(source: Program, width: int, sizes: tuple[int, int]) -> None:
    """The bits of the source order, for any number of rows and passes."""
    n, m = sizes
    draft, nest = in_waves(source, width, 5)
    assert isinstance(draft.steps[-1], Parallel)
    assert_same(source, nest, {"n": n, "m": m}, threads=2)


# What a pass reads of elements behind its own is what the pass before has left.
PRICES = passes(
    For("i", 0, "n - 1", Do("v[i]", "0.5 * v[i] + 0.25 * v[i + 1] + f[t]")),
    v="inout float64 [n]",
    f="in float64 [m]",
)


@pytest.mark.parametrize("sizes", [(0, 1), (1, 3), (2, 7), (9, 1), (23, 9), (50, 13)])
@pytest.mark.parametrize("of_tile", [1, 3])
def test_waves_of_elements(of_tile: int, sizes: tuple[int, int]) -> None:
    """Tiles of as many waves as passes, of several elements each."""
    n, m = sizes
    draft, nest = in_waves(PRICES, 4, 6, of_tile)
    _, tile, *_ = draft.steps
    assert isinstance(tile, Tile)
    assert tile.sizes == (4 * of_tile, of_tile)
    assert_same(PRICES, nest, {"n": n, "m": m}, threads=2)


def test_blocks_are_whole_tiles() -> None:
    draft = Draft(initial_schedule(JACOBI))
    skew = smallest_skew(draft.schedule, "t", 5, apart=False)
    assert skew is not None
    assert take_shared_waves(draft, skew)
    skewed, tile, *_ = draft.steps
    assert isinstance(skewed, Skew)
    assert isinstance(tile, Tile)
    assert (skewed.block, tile.sizes[1]) == (4, 2)
    assert tile.sizes[0] % 2 == 0


def test_one_pass_is_no_wave() -> None:
    draft = Draft(initial_schedule(JACOBI))
    skew = smallest_skew(draft.schedule, "t", 1, apart=False)
    assert skew is not None
    assert not take_shared_waves(draft, skew)
    assert draft.steps == []


CUBES = """
void f(int steps, double e[160][160][160], double h[160][160][160]) {
#pragma scop
  for (int t = 0; t < steps; t++) {
    for (int i = 1; i < 160; i++)
      for (int j = 0; j < 160; j++)
        for (int k = 0; k < 160; k++)
          e[i][j][k] -= 0.5 * (h[i][j][k] - h[i - 1][j][k]);
    for (int i = 0; i < 159; i++)
      for (int j = 0; j < 160; j++)
        for (int k = 0; k < 160; k++)
          h[i][j][k] -= 0.5 * (e[i + 1][j][k] - e[i][j][k]);
  }
#pragma endscop
}
"""


@pytest.mark.parametrize(
    ("text", "is_taken"),
    [(PASSES.format(n=1700), True), (PASSES.format(n=200), False), (CUBES, False)],
    ids=["planes", "what L2 holds", "planes that L2 does not hold"],
)
def test_where_threads_share_waves(text: str, is_taken: bool) -> None:
    """Not over arrays that L2 holds, nor over rows of which it holds too few."""
    (source,) = lw.parse_c(text)
    steps = plan_stencils(initial_schedule(source), WIDE, parallel=True)
    assert any(isinstance(step, Skew) for step in steps) == is_taken
    assert any(isinstance(step, Parallel) for step in steps) == is_taken


@pytest.mark.drawn(2)
@pytest.mark.parametrize("is_text", [False, True])
def test_shared_waves_are_chosen(is_text: bool) -> None:
    """They have no price of their own, and take at least a share of the time of one thread."""
    (source,) = lw.parse_c(PASSES.format(n=1700))
    chosen = choose_plan(source, WIDE, 2, text=is_text)
    assert chosen.taken == PLANNED
    assert any(isinstance(step, Skew) for step in chosen.plan)
    assert any(isinstance(step, Parallel) for step in chosen.plan)


def test_machine_code_of_shared_waves() -> None:
    """Threads that meet at tiles compute what one thread does."""
    (source,) = lw.parse_c(PASSES.format(n=700))
    function = lw.compile(source)
    for steps in (0, 1, 7):
        check_threads(function, 700, steps)


def check_threads(function: Callable[..., object], n: int, steps: int) -> None:
    """The results of one, two and three threads are equal."""
    draws = np.random.default_rng(0)
    q, u = (draws.random((n, n), dtype=np.float32) - 0.5 for _ in range(2))
    found = []
    for threads in (1, 2, 3):
        own, following = q.copy(), q.copy()
        with options.override(num_threads=threads):
            function(steps, np.float32(0.1), own, following, u)
        found.append(own)
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])
