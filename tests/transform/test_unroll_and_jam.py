"""Copies of a loop's iterations in inner loops: of each statement, or of the whole body."""

from __future__ import annotations

import pytest

import loopwright as lw
from loopwright.diagnostics import IllegalStep
from loopwright.ir.schedule_tree import Sequence, bands, nodes_of
from loopwright.transform.plan import Plan, apply_plan
from loopwright.transform.unroll_and_jam import UnrollAndJam

# A statement reads what the one before it has written in this iteration of t, and in no later one.
PATHS = """
void f(int steps, int paths, float z[steps][paths], float price[paths], float mean[paths]) {
#pragma scop
  for (int t = 0; t < steps; t++)
    for (int p = 0; p < paths; p++) {
      price[p] *= 1.0f + z[t][p];
      mean[p] += price[p];
    }
#pragma endscop
}
"""
# Iterations of t need elements further to the right, which those before have not yet written.
SHIFTED = PATHS.replace("price[p] *= 1.0f + z[t][p];", "price[p] = mean[p + 1] + z[t][p];").replace(
    "p < paths;", "p < paths - 1;"
)


def test_copies_of_the_body_keep_the_order_of_its_statements() -> None:
    (program,) = lw.parse_c(PATHS)
    after = apply_plan(program, Plan((UnrollAndJam("t", 4),)))
    (copied,) = [band for band in bands(nodes_of(after)) if isinstance(band.child, Sequence)]
    assert after.factors == ((copied.loop, 4),)


def test_loops_that_may_not_be_interchanged_are_refused() -> None:
    (program,) = lw.parse_c(SHIFTED)
    with pytest.raises(IllegalStep, match="would reverse"):
        apply_plan(program, Plan((UnrollAndJam("t", 2),)))
