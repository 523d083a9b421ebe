"""Which nests let their threads claim pieces, and which need fixed shares."""

from __future__ import annotations

import pytest

from loopwright.backends.llvm.llvm_emitter import emit_module
from loopwright.backends.llvm.llvm_team import can_claim, is_for_teams
from loopwright.ir.dtypes import FLOAT64, INT64
from loopwright.ir.expr import Const, Expr, Load, Var
from loopwright.ir.loops import (
    Alloc,
    Barrier,
    Block,
    Buffer,
    For,
    If,
    Let,
    LoopNest,
    Mark,
    Space,
    Stmt,
    Store,
)

ONE, i, n = Const(1), Var("i"), Var("n")
BUFFERS = (
    Buffer("x", FLOAT64, (ONE,)),
    Buffer("ends", INT64, (ONE,)),
    Buffer("y", FLOAT64, (ONE,), writable=True),
    Buffer("count", INT64, (ONE,), writable=True),
)
OWN = Buffer("own", FLOAT64, (ONE,), Space.PRIVATE)


def nest(body: Stmt) -> LoopNest:
    return LoopNest("f", BUFFERS, ("n",), body)


def parallel(body: Stmt, stop: Expr = n) -> For:
    return For("i", Const(0), stop, body, ONE, Mark.PARALLEL)


def value(name: str, at: Expr = i) -> Load:
    return Load(name, (at,), FLOAT64)


FILL = parallel(Store("y", (i,), value("x")))
FIRST = Load("count", (Const(0),), INT64)
USE_OWN = parallel(Store("y", (i,), value("own", Const(0))))
MAKE_OWN = Store("own", (Const(0),), value("y", Const(0)))


def with_own(*parts: Stmt) -> Stmt:
    return Alloc(OWN, (ONE,), Block(parts))


@pytest.mark.parametrize(
    ("body", "claims"),
    [
        (FILL, True),
        (Block((FILL, Barrier(), FILL)), True),
        # Bounds from arrays that nobody writes are the same for a thread that is late.
        (parallel(FILL.body, Load("ends", (Const(0),), INT64)), True),
        (parallel(FILL.body, FIRST), False),
        (If(FIRST > 0, FILL), False),
        (Let("k", FIRST, FILL), False),
        # What a thread makes for itself between two barriers holds for pieces between them.
        (with_own(FILL, Barrier(), MAKE_OWN, USE_OWN), True),
        (with_own(MAKE_OWN, Store("own", (Const(0),), value("own", Const(0))), USE_OWN), False),
        # What pieces make for themselves, and what they hand on.
        (with_own(parallel(Block((MAKE_OWN, USE_OWN.body)))), True),
        (with_own(parallel(Block((USE_OWN.body, MAKE_OWN)))), False),
        # Elements of its own that a late thread would choose by what others overwrite.
        (with_own(Store("own", (FIRST,), value("x", Const(0))), USE_OWN), False),
        (with_own(Store("own", (Const(0),), value("x", FIRST)), USE_OWN), False),
        # Shared memory is written by pieces only.
        (Block((Store("y", (Const(0),), value("x", Const(0))), FILL)), False),
    ],
)
def test_claims(body: Stmt, claims: bool) -> None:
    assert can_claim(nest(body)) is claims
    text = emit_module(nest(body)).text
    assert ("call i64 @lw_claim" in text) is claims
    assert is_for_teams(nest(body))


def test_a_nest_for_one_thread_has_no_team() -> None:
    serial = For("i", Const(0), n, FILL.body, ONE)
    assert not is_for_teams(nest(serial))
    assert "lw_" not in emit_module(nest(serial)).text
