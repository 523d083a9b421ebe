"""Loop variables and sizes that loops compare or choose as the narrow integers of a program."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright.backends.llvm.llvm_emitter import emit_module
from loopwright.machines.load import load_machine
from loopwright.pipeline import compile_program

COUNTS = """
void f(int n, unsigned char x[n], int hist[32]) {
#pragma scop
  for (int b = 0; b < 32; b++) {
    hist[b] = 0;
    for (int i = 0; i < n; i++)
      hist[b] += x[i] / 8 == b;
  }
#pragma endscop
}
"""
CHOICES = """
void f(int n, int same, int other, int x[n], int y[n]) {
#pragma scop
  for (int i = 0; i < n; i++)
    y[i] += x[i] > 3 ? same : other;
#pragma endscop
}
"""
# The variable of the loop itself differs from lane to lane.
OWN = """
void f(int n, int x[n], int y[n]) {
#pragma scop
  for (int i = 0; i < n; i++)
    y[i] = x[i] == i ? x[i] : y[i];
#pragma endscop
}
"""


@pytest.mark.parametrize(("source", "count"), [(COUNTS, 1), (CHOICES, 2), (OWN, 0)])
def test_what_is_hidden_from_llvm(source: str, count: int) -> None:
    (program,) = lw.parse_c(source)
    machine = load_machine("neoverse-n1")
    nest = compile_program(program, machine, 1, unit={}).nest
    assert emit_module(nest, machine.features).text.count("asm") == count


def test_counts_and_choices() -> None:
    x = np.random.default_rng(0).integers(0, 256, 1000, dtype=np.uint8)
    hist = np.zeros(32, np.int32)
    lw.compile(COUNTS.encode(), "c")(1000, x, hist)
    np.testing.assert_array_equal(hist, np.bincount(x // 8, minlength=32))
    y = np.zeros(1000, np.int32)
    lw.compile(CHOICES.encode(), "c")(1000, 2**31 - 1, -(2**31), x.astype(np.int32), y)
    np.testing.assert_array_equal(y, np.where(x > 3, 2**31 - 1, -(2**31)))
