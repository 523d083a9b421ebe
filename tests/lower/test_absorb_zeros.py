"""Loops that clear the results of a contraction: left out where they do nothing else."""

from __future__ import annotations

import pytest

from contract_steps import contract_loops
from loopwright.ir.expr import Const
from loopwright.ir.loops import If, LoopNest, Store
from loopwright.ir.program import Program
from loopwright.ir.visit import statements
from loopwright.lower.passes import lower_schedule
from loopwright.transform.plan import apply_plan
from oracle import assert_same
from programs import Do, For, program

ARRAYS = {"A": "in float64 [n, m]", "B": "inout float64 [m, n]", "C": "inout float64 [n, n]"}


def cleared(
    first: For, value: str = "C[i, j] + A[i, k] * B[k, j]", before: tuple[For, ...] = ()
) -> tuple[Program, LoopNest]:
    """Loops that set C, then a product added to it in tiny tiles and blocks."""
    update = For("i", 0, "n", For("j", 0, "n", For("k", 0, "m", Do("C[i, j]", value))))
    source = program("cleared", ARRAYS, *before, first, update, params="n m")
    step = contract_loops("i", "j", "k", tile=(2, 2, 2, 2, 4), blocks=(4, 6, 4), broadcast="lane")
    return source, lower_schedule(apply_plan(source, [step]))


def is_absorbed(nest: LoopNest) -> bool:
    """Whether constants are stored to C only where the contraction does not run."""
    others = [x.orelse for x in statements(nest.body) if isinstance(x, If) and x.orelse is not None]
    stores = [x for orelse in others for x in statements(orelse) if isinstance(x, Store)]
    return any(x.buffer == "C" and isinstance(x.value, Const) for x in stores)


def loops(value: str, rows: str = "n", order: str = "xy", target: str = "C[x, y]") -> For:
    one, other = order
    ends = {"x": rows, "y": "n"}
    return For(one, 0, ends[one], For(other, 0, ends[other], Do(target, value)))


@pytest.mark.parametrize("order", ["xy", "yx"])
def test_zeros_are_absorbed(order: str) -> None:
    """Without steps nothing is summed up, and the zeros are stored all the same."""
    source, nest = cleared(loops("0.0", order=order))
    assert is_absorbed(nest)
    for n, m in ((0, 3), (1, 0), (1, 1), (5, 0), (5, 4), (9, 7)):
        assert_same(source, nest, {"n": n, "m": m})


def test_statements_before_the_zeros_stay() -> None:
    halved = For("x", 0, "m", For("y", 0, "n", Do("B[x, y]", "B[x, y] / 2")))
    source, nest = cleared(loops("0.0"), before=(halved,))
    assert is_absorbed(nest)
    assert_same(source, nest, {"n": 5, "m": 4})


OTHERS = {
    "one": loops("1.0"),
    "negative zero": loops("-0.0"),
    "fewer rows": loops("0.0", rows="n - 1"),
    "other rows": loops("0.0", rows="n - 1", target="C[x + 1, y]"),
}


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", OTHERS)
def test_other_values_and_elements_are_stored(name: str) -> None:
    source, nest = cleared(OTHERS[name])
    assert not is_absorbed(nest)
    for n, m in ((1, 0), (1, 1), (5, 4), (9, 7)):
        assert_same(source, nest, {"n": n, "m": m})
