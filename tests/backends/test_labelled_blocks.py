"""Blocks that are left early: their text, their check, and code beside the interpreter."""

import pytest

from ir.examples import loop, nest_of
from loopwright.diagnostics import InternalError
from loopwright.ir.check import check_nest
from loopwright.ir.expr import Var
from loopwright.ir.loops import Block, LabelledBlock, Leave, Mark, Stmt

i, n = Var("i"), Var("n")


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
