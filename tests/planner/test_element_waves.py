"""Passes over elements in waves: lattices of prices, on one thread and several."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import options
from loopwright.machines.load import load_machine
from loopwright.planner.loop_plans.stencils import plan_stencils
from loopwright.transform.loop_marks import Parallel, ShareFrom
from loopwright.transform.plan import initial_schedule
from loopwright.transform.scalar_expansion import ExpandScalar
from loopwright.transform.skew import Skew

WIDE = load_machine("cascadelake")

# The first line is another nest before the one in waves.
LATTICE = """
void lattice(int n, double p, double q, double k, double u[{long} * n], double v[n + 1]) {{
#pragma scop
  for (int j = 0; j <= n; j++) v[j] = v[j] > 0.0 ? v[j] : 0.0;
  for (int t = n - 1; t >= 0; t--)
    for (int i = 0; i <= t; i++) {{
      double held = p * v[i + 1] + q * v[i];
      double now = k - u[{at}];
      v[i] = held > now ? held : now;
    }}
#pragma endscop
}}
"""
PUT = LATTICE.format(long=2, at="2 * i - t + n")
PLAIN = LATTICE.format(long=1, at="i")
# Every element needs what the same pass has made of the one before.
IN_ORDER = PLAIN.replace("v[i] = held > now", "v[i + 1] = held > now")


def steps_of(text: str, *, parallel: bool) -> tuple[object, ...]:
    (program,) = lw.parse_c(text)
    return plan_stencils(initial_schedule(program), WIDE, parallel=parallel)


@pytest.mark.parametrize("text", [PUT, PLAIN], ids=["put", "plain"])
def test_lattices_go_in_waves(text: str) -> None:
    """With scalars of each element its own; threads share tiles from some work on."""
    alone, shared = (steps_of(text, parallel=p) for p in (False, True))
    for steps in (alone, shared):
        assert {s.array for s in steps if isinstance(s, ExpandScalar)} == {"held", "now"}
        assert sum(isinstance(s, Skew) for s in steps) == 1
    assert not any(isinstance(s, Parallel) for s in alone)
    assert isinstance(shared[-1], ShareFrom)
    assert isinstance(shared[-2], Parallel)


@pytest.mark.parametrize("parallel", [False, True])
def test_what_a_pass_hands_on_keeps_its_order(*, parallel: bool) -> None:
    assert not any(isinstance(s, Skew) for s in steps_of(IN_ORDER, parallel=parallel))


def expected(text: str, n: int, p: float, q: float, k: float, u, v) -> np.ndarray:
    v = np.where(v > 0.0, v, 0.0)
    for t in range(n - 1, -1, -1):
        i = np.arange(t + 1)
        at = u[2 * i - t + n] if text is PUT else u[i]
        held, now = p * v[i + 1] + q * v[i], k - at
        v[i] = np.where(held > now, held, now)
    return v


@pytest.mark.drawn(5)
@pytest.mark.parametrize("n", [511, 6001, 1, 2, 1025])
@pytest.mark.parametrize("text", [PUT, PLAIN], ids=["put", "plain"])
def test_machine_code_of_lattices(text: str, n: int) -> None:
    """Halves of numbers are exact, so that a sum of two products rounds once in NumPy too."""
    draws = np.random.default_rng(n)
    u, v = draws.integers(-64, 64, 2 * n) / 8.0, draws.integers(-64, 64, n + 1) / 8.0
    if text is PLAIN:
        u = u[:n].copy()
    p, q, k = 0.5, 0.5, 1.0
    wanted = expected(text, n, p, q, k, u, v)
    function = lw.compile(text)
    for threads in (1, 2, 3):
        found = v.copy()
        with options.override(num_threads=threads):
            function(n, p, q, k, u, found)
        assert np.array_equal(found, wanted)
