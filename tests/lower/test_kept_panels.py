"""Operands that are packed by the first iteration of a loop around a contraction only."""

from __future__ import annotations

import pytest

from contract_steps import contract_loops
from loopwright.ir.loops import Alloc, For, LoopNest
from loopwright.ir.program import Program
from loopwright.ir.visit import statements
from loopwright.lower.passes import lower_schedule
from loopwright.transform.plan import apply_plan
from oracle import assert_same
from programs import Do, program
from programs import For as Loop

ARRAYS = {
    "A": "inout float64 [n, n]",
    "B": "inout float64 [n, n, n]",
    "C": "inout float64 [n, n, n]",
    "x": "in float64 [n]",
}


def batch(
    value: str, *before: Do, rows: str = "n", blocks: tuple[int, ...] = (8, 8, 8)
) -> tuple[Program, LoopNest]:
    """A product for every b, after other statements of the same b."""
    update = Loop("i", 0, rows, Loop("j", 0, "n", Loop("k", 0, "n", Do("C[b, i, j]", value))))
    source = program("batch", ARRAYS, Loop("b", 0, "n", *before, update))
    step = contract_loops("i", "j", "k", tile=(2, 2, 2, 2, 4), blocks=blocks, broadcast="lane")
    return source, lower_schedule(apply_plan(source, [step]))


def kept(nest: LoopNest) -> list[str]:
    """The panels whose memory stands around the loop b."""
    found = []
    for stmt in statements(nest.body):
        if isinstance(stmt, Alloc):
            inside = [x.var for x in statements(stmt.body) if isinstance(x, For)]
            found += [stmt.buffer.name] if "b" in inside else []
    return found


# What is added, and the panels that stay.
PRODUCTS = {
    "C[b, i, j] + A[i, k] * B[b, k, j]": ["left_packed"],
    "C[b, i, j] + B[b, i, k] * A[k, j]": ["right_packed"],
    "C[b, i, j] + B[b, i, k] * B[b, k, j]": [],
    "C[b, i, j] + A[i, k] * A[k, j]": ["left_packed", "right_packed"],
    "C[b, i, j] + 2.0 * A[i, k] * B[b, k, j]": ["left_packed"],
    "C[b, i, j] + x[b] * A[i, k] * B[b, k, j]": [],
}


@pytest.mark.drawn(6)
@pytest.mark.parametrize("value", PRODUCTS)
@pytest.mark.parametrize("blocks", [(8, 8, 8), (2, 4, 4)], ids=["one block", "several"])
def test_operands_that_stay(value: str, blocks: tuple[int, ...]) -> None:
    """Of several blocks each is packed again, though there is memory that would stay."""
    source, nest = batch(value, blocks=blocks)
    assert sorted(kept(nest)) == PRODUCTS[value]
    for n in (0, 1, 3, 7):
        assert_same(source, nest, {"n": n})


def test_rows_that_grow_with_the_loop() -> None:
    source, nest = batch("C[b, i, j] + A[i, k] * A[k, j]", rows="b + 1")
    assert kept(nest) == ["right_packed"]
    for n in (1, 3, 7):
        assert_same(source, nest, {"n": n})
