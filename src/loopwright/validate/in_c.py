"""Validation of a nest whose code is C as well, by the C compiler at hand."""

from __future__ import annotations

import contextlib

from loopwright.diagnostics import ToolchainError
from loopwright.ir.islkit import ISL_QUOTA, GaveUp, attempt
from loopwright.ir.loops import LoopNest
from loopwright.ir.program import Program
from loopwright.lower.passes import lower_schedule
from loopwright.transform.plan import initial_schedule
from loopwright.validate.check import validate
from loopwright.validate.data import Runner
from loopwright.validate.difference import Report
from loopwright.validate.runners import c_runners

__all__ = ["validate_with_c"]

# Products and sums are rounded one by one, in the new code as in the old: a compiler that makes one
# operation of both may do so in one and not in the other.
_FLAGS = ("-ffp-contract=off", "-w")


def validate_with_c(
    program: Program, nest: LoopNest, *, flags: tuple[str, ...] = ("-O1",), seed: int = 0
) -> Report:
    """Compare a nest with its program: interpreted, as machine code and as C.

    C of the source order is made beside it, for large sizes. Without a compiler C is left out.
    """
    try:
        with attempt(ISL_QUOTA):
            nests = [nest, lower_schedule(initial_schedule(program))]
    except GaveUp:
        nests = [nest]
    runs: list[dict[str, Runner]] = []
    with contextlib.suppress(ToolchainError):
        runs = [{"c": run} for run in c_runners(nests, (*flags, *_FLAGS))]
    new, old = (*runs, {}, {})[:2]
    return validate(program, nest, seed=seed, runners=new, originals=old)
