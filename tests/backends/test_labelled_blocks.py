"""Blocks that are left early: their text, their check, and code beside the interpreter."""

import pytest

from ir.examples import load, loop, nest_of, store
from loopwright.diagnostics import InternalError
from loopwright.ir.check import check_nest
from loopwright.ir.dtypes import FLOAT64
from loopwright.ir.expr import Binary, Const, Var
from loopwright.ir.loops import Block, If, LabelledBlock, Leave, Let, LoopNest, Mark, Stmt
from loopwright.ir.text import nest_text

i, n = Var("i"), Var("n")


def first_above(limit: float) -> LoopNest:
    """y[i] = 2 x[i] up to the first x[i] above a limit, without those below zero."""
    is_above = Binary("gt", Var("t", FLOAT64), Const(limit, FLOAT64))
    is_below = Binary("lt", Var("t", FLOAT64), Const(0.0, FLOAT64))
    double = Binary("mul", Var("t", FLOAT64), Const(2.0, FLOAT64))
    steps = Block(
        (If(is_above, Leave("all")), If(is_below, Leave("turn.1")), store("y", i, double))
    )
    body = LabelledBlock("turn.1", Let("t", load("x", i), steps))
    last = store("y", n - 1, Const(5.0, FLOAT64))
    return nest_of(LabelledBlock("all", Block((loop("i", 0, n, body), last))))


def test_text() -> None:
    assert nest_text(first_above(3.0)).splitlines()[3:] == [
        "    scope all:",
        "        for i in range(n):",
        "            scope turn.1:",
        "                let t: float64 = x[i]",
        "                if t > 3.0:",
        "                    leave all",
        "                if t < 0.0:",
        "                    leave turn.1",
        "                y[i] = t * 2.0",
        "        y[n - 1] = 5.0",
    ]


def fault(body: Stmt) -> str:
    with pytest.raises(InternalError) as caught:
        check_nest(nest_of(body))
    return caught.value.message.removeprefix("nest f is not valid: ")


def test_what_is_left_stands_around() -> None:
    out = "no scope a can be left from here\nat leave a"
    assert fault(Leave("a")) == out
    assert fault(Block((LabelledBlock("a", Block(())), Leave("a")))) == out
    assert fault(LabelledBlock("a", loop("i", 0, n, Leave("a"), Mark.SIMD))) == out
    assert fault(LabelledBlock("a", loop("i", 0, n, Leave("a"), Mark.PARALLEL))) == out


def test_a_label_is_open_once() -> None:
    inner = LabelledBlock("a", Block(()))
    told = "scope a is open already\nat scope a:\n    pass"
    assert fault(LabelledBlock("a", inner)) == told
    check_nest(nest_of(Block((inner, inner))))
