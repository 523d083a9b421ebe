"""Whole strips of vectors: the shorter strip after them knows where it starts."""

from __future__ import annotations

from textwrap import dedent

import pytest

from loopwright.ir.check import check_nest
from loopwright.ir.loops import LoopNest
from loopwright.ir.program import Program
from loopwright.ir.text import stmt_text
from loopwright.lower.passes import lower_schedule
from loopwright.transform.loop_marks import Simd
from loopwright.transform.plan import apply_plan
from oracle import assert_same
from programs import Do, For, program

ARRAYS = {"a": "inout float64 [n]", "b": "in float64 [n]"}


def strips(value: str) -> Program:
    """A statement for every element, in strips of four that begin at `t`."""
    every = For("t", 0, "n", For("i", "t", "min(n, t + 4)", Do("a[i]", value)), step=4)
    return program("strips", ARRAYS, every, known="n >= 1")


def lowered(source: Program) -> LoopNest:
    return lower_schedule(apply_plan(source, (Simd("i"),)))


def test_shorter_strip_binds_the_start_that_it_reads() -> None:
    assert (
        stmt_text(lowered(strips("b[i] * b[t]")).body)
        == dedent("""
        for t in range(0, n - 3, 4):
            simd for i in range(t, t + 4):
                a[i] = b[i] * b[t]
        let t: int64 = max(n, 0) // 4 * 4
        simd for i in range(t, n):
            a[i] = b[i] * b[t]
        """).strip()
    )


@pytest.mark.parametrize("n", [1, 3, 4, 5, 11])
@pytest.mark.parametrize("value", ["b[i] + 1", "b[i] * b[t]", "b[n - 1 - t]"])
def test_elements_stay(value: str, n: int) -> None:
    source = strips(value)
    nest = lowered(source)
    check_nest(nest)
    assert_same(source, nest, {"n": n})
