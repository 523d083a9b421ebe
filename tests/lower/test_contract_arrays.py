"""Local arrays that become scalars, and those that cannot."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from drawn import in_all
from loopwright.ir.program import Program
from loopwright.ir.text import nest_text, stmt_text
from loopwright.lower.contract_arrays import sink_scalars
from loopwright.lower.passes import lower_schedule
from loopwright.machines import load_machine
from loopwright.planner.plan_choice import choose_plan
from loopwright.transform.plan import apply_plan
from loopwright.transform.unroll_and_jam import UnrollAndJam
from needed_tools import needs_compiler
from oracle import assert_same
from programs import Do, For, program


def lowered(*body: For | Do) -> str:
    arrays = {"a": "inout float64 [n]", "b": "inout float64 [n]", "t": "local float64 [n]"}
    source: Program = program("f", arrays, *body)
    nest = lower_schedule(apply_plan(source, ()))
    for n in (0, 1, 5):
        assert_same(source, nest, {"n": n})
    return stmt_text(nest.body)


SET = Do("t[j]", "2.0 * a[j]")
SET_OTHER = Do("t[i]", "a[i]")


def test_what_one_iteration_sets_and_uses_is_a_scalar() -> None:
    found = lowered(For("j", 0, "n", SET, Do("a[j]", "t[j] + 1.0"), Do("b[j]", "t[j] * t[j]")))
    assert "t[j]" not in found
    assert "scratch" not in found


def test_every_loop_has_its_own() -> None:
    again = For("i", 0, "n", Do("t[i]", "b[i]"), Do("b[i]", "t[i] + a[i]"))
    assert "scratch" not in lowered(For("j", 0, "n", SET, Do("b[j]", "t[j]")), again)


@pytest.mark.parametrize(
    "body",
    [
        (For("j", 0, "n", SET), For("i", 0, "n", Do("b[i]", "t[i]"))),
        (For("i", 0, "n", Do("t[i]", "b[i]")), For("j", 1, "n", SET, Do("b[j]", "t[j - 1]"))),
        (For("i", 0, "n", Do("t[i]", "0.0")), For("j", 0, "n", Do("t[j]", "t[j] + 1.0"), SET)),
        (For("i", 0, "n", SET_OTHER), For("j", 1, "n", Do("t[j]", "t[j - 1]"), Do("b[j]", "t[j]"))),
    ],
    ids=["handed from loop to loop", "a neighbour's", "read before it is set", "made of another"],
)
def test_left_in_memory(body: tuple[For, ...]) -> None:
    assert "scratch" in lowered(*body)


@pytest.mark.parametrize(
    ("body", "sinks"),
    [
        ((For("j", 0, "n", Do("t", "2.0 * a[j]"), Do("a[j]", "t + 1.0")),), True),
        ((Do("t", "a[0]"), For("j", 0, "n", Do("a[j]", "t + 1.0"), Do("t", "b[j]"))), False),
        ((For("j", 0, "n", Do("t", "a[j]")), Do("b[0]", "t")), False),
    ],
    ids=["set in every iteration", "handed to the next iteration", "handed on behind the loop"],
)
def test_scalars_go_into_the_loop_that_sets_them(body: tuple[For | Do, ...], sinks: bool) -> None:
    arrays = {"a": "inout float64 [n]", "b": "inout float64 [n]", "t": "local float64 []"}
    source = program("f", arrays, *body)
    nest = sink_scalars(lower_schedule(apply_plan(source, ())))
    assert_same(source, nest, {"n": 5})
    assert stmt_text(nest.body).startswith("for j") is sinks


PATHS = """void paths(int t, int s, float tr[s][s], float em[t][s], float v[t][s], int back[t][s]) {
#pragma scop
  for (int n = 1; n < t; n++)
    for (int j = 0; j < s; j++) {
      float best = v[n - 1][0] + tr[0][j];
      int from = 0;
      for (int i = 1; i < s; i++) {
        float c = v[n - 1][i] + tr[i][j];
        if (c > best) {
          best = c;
          from = i;
        }
      }
      v[n][j] = best + em[n][j];
      back[n][j] = from;
    }
#pragma endscop
}
"""


@pytest.mark.parametrize("target", ["host", pytest.param("c", marks=needs_compiler)])
def test_scalars_of_unrolled_copies_are_scalars(target: str) -> None:
    """Copies of an iteration have elements of their own of what was expanded: no memory."""
    run = lw.compile(PATHS, target, threads=1)
    random = np.random.default_rng(8)
    sizes = ((0, 1), (1, 3), (2, 1), (3, 2), (5, 7), (4, 16), (3, 41))
    # The text is one for all sizes; calls plan anew for small ones.
    for t, s in sizes if target == "c" or in_all() else ((5, 7), (3, 41)):
        # Integers: all sums are exact, and there are ties.
        tr, em = (random.integers(-3, 4, shape).astype(np.float32) for shape in ((s, s), (t, s)))
        v, back = random.integers(-3, 4, (t, s)).astype(np.float32), np.full((t, s), -1, np.int32)
        values, places = v.copy(), back.copy()
        for n in range(1, t):
            sums = values[n - 1][:, None] + tr
            values[n], places[n] = sums.max(axis=0) + em[n], sums.argmax(axis=0)
        run(t, s, tr, em, v, back)
        np.testing.assert_array_equal(v, values)
        np.testing.assert_array_equal(back, places)
    (program,) = lw.parse_c(PATHS)
    plan = choose_plan(program, load_machine("skylake-avx512"), 1).plan
    assert any(isinstance(step, UnrollAndJam) for step in plan)
    text = nest_text(lower_schedule(apply_plan(program, plan)))
    assert "alloc private" not in text
