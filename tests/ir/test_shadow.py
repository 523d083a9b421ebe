"""Shadow runs: names beside numbers, in programs and in nests alike."""

from __future__ import annotations

import numpy as np

from loopwright.ir.dtypes import FLOAT64
from loopwright.ir.expr import Binary, Const, Load
from loopwright.ir.interpret import interpret_nest, interpret_program
from loopwright.ir.loops import Alloc, Block, Buffer, Copy, LoopNest, Space, Store
from loopwright.ir.memory import Memory
from loopwright.ir.shadow import ShadowRules
from loopwright.ir.terms import Terms
from programs import Do, program
from programs import For as Loop

TERMS = Terms(reassociate=False)


def names_of(body: object, data: np.ndarray) -> dict[int, int]:
    """What a nest over one array leaves."""
    rules = ShadowRules(TERMS, {"x": (1,)})
    nest = LoopNest("nest", (Buffer("x", FLOAT64, (Const(1),), writable=True),), (), body)  # type: ignore[arg-type]
    interpret_nest(nest, {"x": Memory.of(data)}, {}, rules=rules)
    return rules.contents("x")


def test_program_names_writers_and_slacks() -> None:
    body = Loop("i", 1, "n", Do("x[i]", "x[i - 1] / 3"))
    shift = program("shift", {"x": "inout float64 [n]"}, body)
    rules = ShadowRules(TERMS, {"x": (1,)})
    data = np.arange(1.0, 4.0)
    interpret_program(shift, {"x": data}, {"n": 3}, rules)
    first = TERMS.binary("div", FLOAT64, TERMS.initial("x", 0), TERMS.constant(np.float64(3)))
    assert rules.contents("x")[1] == first
    assert 0 not in rules.contents("x")
    assert rules.writer("x", 2) == ("S0", (2,))
    assert rules.first[first] == ("S0", (1,))
    assert list(rules.slack("x") > 0) == [False, True, True]
    assert list(rules.touched("x")) == [False, True, True]


def test_copies_and_scratch_keep_names() -> None:
    scratch = Buffer("t", FLOAT64, (Const(1),), Space.STACK, writable=True)
    copy = Copy("t", (Const(0),), "x", (Const(1),), (Const(2),))
    back = Store("x", (Const(0),), Load("t", (Const(1),), FLOAT64))
    found = names_of(Alloc(scratch, (Const(2),), Block((copy, back))), np.arange(3.0))
    assert found == {0: TERMS.initial("x", 2)}


def test_constants_that_round_have_slacks_and_stay_constants() -> None:
    """Machines may fuse what is left of them with data: 1/3 is not the same for all of them."""
    third = Binary("div", Const(1.0, FLOAT64), Const(3.0, FLOAT64))
    scratch = Buffer("t", FLOAT64, (), Space.STACK, writable=True)
    used = Binary("mul", Load("t", (), FLOAT64), Const(5.0, FLOAT64))
    body = Alloc(scratch, (), Block((Store("t", (), third), Store("x", (Const(0),), used))))
    nest = LoopNest("nest", (Buffer("x", FLOAT64, (Const(1),), writable=True),), (), body)
    rules = ShadowRules(TERMS, {"x": (1,)})
    interpret_nest(nest, {"x": Memory.of(np.zeros(1))}, {}, rules=rules)
    assert rules.contents("x") == {0: TERMS.constant(np.float64(1 / 3 * 5))}
    assert rules.slack("x")[0] > 0
