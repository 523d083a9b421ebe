"""Triangular parallel loops are balanced: which they are, what they compute, how even they get."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import some
from loopwright.ir.interpret import evaluate
from loopwright.ir.loops import Let, LoopNest
from loopwright.ir.program import Program
from loopwright.ir.text import stmt_text
from loopwright.ir.visit import statements
from loopwright.lower.passes import lower_schedule
from loopwright.transform.loop_marks import Parallel
from loopwright.transform.plan import apply_plan
from loopwright.transform.step import Step
from loopwright.transform.tiling import StripMine
from oracle import assert_same
from programs import Do, For, program


def rows(start: str, stop: str) -> Program:
    """Rows of a matrix, each from one column to another."""
    columns = For("j", start, stop, Do("A[i, j]", "2 * A[i, j]"))
    return program("rows", {"A": "inout int64 [n, n]"}, For("i", 0, "n", columns))


def without(*gaps: str) -> Program:
    """Rows of a matrix without some columns, in their order."""
    starts = ["0", *(f"{gap} + 1" for gap in gaps)]
    parts = [
        For(f"j{at}", start, stop, Do(f"A[i, j{at}]", f"2 * A[i, j{at}]"))
        for at, (start, stop) in enumerate(zip(starts, [*gaps, "n"], strict=True))
    ]
    return program("rows", {"A": "inout int64 [n, n]"}, For("i", 0, "n", *parts))


def lowered(source: Program, *steps: Step) -> LoopNest:
    nest = lower_schedule(apply_plan(source, steps))
    for n, threads in ((0, 2), (1, 2), (6, 1), (7, 2), (9, 3)):
        assert_same(source, nest, {"n": n}, threads)
    return nest


SHAPES = {
    "columns from the row on": (rows("i", "n"), (Parallel("i"),), True),
    "columns up to the row": (rows("0", "i + 1"), (Parallel("i"),), True),
    "strips of a triangle": (rows("i", "n"), (StripMine("i", 2), Parallel("i_t")), True),
    "whole rows": (rows("0", "n"), (Parallel("i"),), False),
    "strips of whole rows": (rows("0", "n"), (StripMine("i", 2), Parallel("i_t")), False),
    "a band": (rows("max(0, i - 2)", "min(n, i + 3)"), (Parallel("i"),), False),
    "rows without their diagonal": (without("i"), (Parallel("i"),), False),
    "rows up to the diagonal, and a constant end": (
        program(
            "rows",
            {"A": "inout int64 [n, n]", "B": "inout int64 [n, n]"},
            For(
                "i",
                0,
                "n",
                For("j", 0, "i", Do("A[i, j]", "2 * A[i, j]")),
                For("k", 0, "n", Do("B[i, k]", "2 * B[i, k]")),
            ),
        ),
        (Parallel("i"),),
        True,
    ),
    "one thread": (rows("i", "n"), (), False),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_only_triangles_are_balanced(shape: str) -> None:
    source, steps, is_balanced = SHAPES[shape]
    assert ("_fold" in stmt_text(lowered(source, *steps).body)) == is_balanced


PAIR, PLACE = (
    stmt.value
    for stmt in statements(lower_schedule(apply_plan(rows("i", "n"), [Parallel("i")])).body)
    if isinstance(stmt, Let) and stmt.name in ("i_pair", "i")
)


def order_of(n: int) -> list[int]:
    """The iterations of a triangular loop in the order in which they run."""
    found = []
    for turn in range(n):
        values = {"i_fold": turn, "i_count": n, "i_team": 2}
        found.append(int(evaluate(PLACE, values | {"i_pair": evaluate(PAIR, values)})))
    assert sorted(found) == list(range(n))
    return found


@settings(max_examples=some(30), deadline=None)
@given(n=st.integers(1, 200), threads=st.integers(1, 8))
def test_ranges_of_equal_length_have_equal_work(n: int, threads: int) -> None:
    """Rows of 1 to n elements, in the ranges of backends: no thread has much more than the mean."""
    ends = [-(-n * t // threads) for t in range(threads + 1)]
    order = order_of(n)
    work = [sum(order[k] + 1 for k in range(*run)) for run in pairwise(ends)]
    assert max(work) <= sum(work) / threads + 2 * n


@pytest.mark.parametrize("n", [20, 33, 100])
def test_two_threads_share_work_that_grows_faster(n: int) -> None:
    """Planes of a pyramid: of equally many from both ends one thread would do two thirds."""
    order = order_of(n)
    first = sum((n - at) ** 2 for at in order[: (n + 1) // 2])
    assert first <= 0.56 * sum((n - at) ** 2 for at in order)
