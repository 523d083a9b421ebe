"""The refused reordering of `loopwright demo`: the two instances that forbid it, in words."""

from __future__ import annotations

import re

import loopwright as lw
from loopwright.diagnostics import IllegalStep, InternalError
from loopwright.ir.schedule import Schedule
from loopwright.transform.apply import apply_step, initial_schedule
from loopwright.transform.interchange import Interchange
from loopwright.transform.skew import Skew
from loopwright.transform.step import Step

__all__ = ["REORDERED", "refusal_paragraphs"]

REORDERED = """\
void relax(int steps, int n, double u[n]) {
#pragma scop
  for (int t = 0; t < steps; t++)
    for (int i = 1; i < n - 1; i++)
      u[i] = (u[i - 1] + u[i + 1]) / 2;
#pragma endscop
}
"""


def refusal_paragraphs() -> tuple[str, ...]:
    """An interchange that reverses a dependence, with its witness, and a step that keeps all."""
    (program,) = lw.parse_c(REORDERED.encode())
    schedule = initial_schedule(program)
    refused = _refused(schedule, Interchange(("i", "t")))
    (t, i), (next_t, next_i) = re.findall(r"\[(\d+), (\d+)\]", refused.witness)
    legal = next(Skew.candidates(schedule))
    apply_step(schedule, legal)
    return (
        "With i outside and t inside, u[i] could stay in a register. Loopwright refuses:",
        f"  {refused}",
        f"Line 5 stores u[{i}] in the instance t = {t}, i = {i} and reads it in the instance "
        f"t = {next_t}, i = {next_i}. With i outside, all of i = {next_i} runs before i = {i}, "
        f"and reads the old u[{i}]. A skewed order is proven to keep every dependence:",
        f"  {legal}",
    )


def _refused(schedule: Schedule, step: Step) -> IllegalStep:
    try:
        apply_step(schedule, step)
    except IllegalStep as error:
        return error
    raise InternalError(f"{step} is illegal and was accepted", REORDERED)
