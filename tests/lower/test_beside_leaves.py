"""Loops that run to their end are rewritten; what leaves early stays as it is."""

from loopwright.ir.check import check_nest
from loopwright.ir.dtypes import FLOAT64, INT64
from loopwright.ir.expr import Binary, Const, Load, Var
from loopwright.ir.loops import (
    Block,
    Buffer,
    For,
    If,
    LabelledBlock,
    Leave,
    Let,
    LoopNest,
    Mark,
    Stmt,
    Store,
)
from loopwright.lower.beside_leaves import beside_leaves

ZERO, ONE, N = Const(0), Const(1), Var("n")
STEP = (ONE,)


def loop(var: str, body: Stmt, mark: Mark = Mark.SERIAL) -> For:
    return For(var, ZERO, N, body, ONE, mark)


def nest(body: Stmt) -> LoopNest:
    buffers = (Buffer("a", FLOAT64, STEP, writable=True), Buffer("x", INT64, STEP))
    return LoopNest("f", buffers, ("n",), body, leave_to_llvm=True, fuses=False)


def store(var: str) -> Store:
    return Store("a", (Var(var),), Const(2.0, FLOAT64))


def test_each_outermost_loop_that_nothing_leaves_is_a_nest() -> None:
    inner, last = loop("j", store("j"), Mark.SIMD), loop("k", loop("l", store("l")))
    stop = If(Binary("gt", Load("x", (Var("i"),), INT64), N), Leave("all"))
    outer = loop("i", Let("t", Var("i") + 1, Block((stop, inner))))
    seen = []

    def change(part: LoopNest) -> LoopNest:
        seen.append((part.body, part.scalars))
        check_nest(part)
        return part

    given = nest(LabelledBlock("all", Block((outer, last))))
    check_nest(given)
    assert beside_leaves(given, change) == given
    assert seen == [(inner, ("n", "i", "t")), (last, ("n",))]


def test_a_nest_that_nothing_leaves_is_given_whole() -> None:
    given = nest(loop("i", store("i")))
    seen = []
    beside_leaves(given, lambda part: seen.append(part) or part)
    assert seen == [given]
