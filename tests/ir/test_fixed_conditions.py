"""Conjunctions of iterations: which parts a loop does not change, and that they come first."""

from __future__ import annotations

from loopwright.ir.dtypes import BOOL, INT32
from loopwright.ir.expr import Binary, Const, Load, Select, Var
from loopwright.ir.fixed_conditions import fixed_first, has_fixed_part

FIXED = Binary("eq", Var("y_k", INT32), Const(3, INT32))
LOADED = Binary("eq", Load("y", (Var("i"),), INT32), Const(3, INT32))
MOVING = Binary("lt", Var("j"), Const(7))
NEVER = Const(False, BOOL)


def test_the_part_that_stays_comes_first() -> None:
    chosen, both = Select(MOVING, FIXED, NEVER), Binary("and", MOVING, FIXED)
    assert fixed_first(chosen, {"j"}) == Select(FIXED, MOVING, NEVER)
    assert fixed_first(both, {"j"}) == Binary("and", FIXED, MOVING)
    for cond in (Select(FIXED, MOVING, NEVER), Binary("and", FIXED, MOVING)):
        assert has_fixed_part(cond, {"j"})
        assert fixed_first(cond, {"j"}) == cond


def test_other_conditions_stay() -> None:
    for cond in (
        Select(MOVING, LOADED, NEVER),  # memory may change
        Select(MOVING, FIXED, Const(True, BOOL)),
        Binary("or", MOVING, FIXED),
        Binary("and", MOVING, MOVING),
    ):
        assert not has_fixed_part(cond, {"j"})
        assert fixed_first(cond, {"j"}) == cond
