"""Variables of C text that gather signed integers are unsigned: sums wrap, and gcc sees them."""

from __future__ import annotations

import pytest

from loopwright.backends.c_text.c_modulo_sums import gathers_modulo
from loopwright.ir.dtypes import DTYPES, INT32, DType
from loopwright.ir.expr import Const, Expr, Load, Var
from loopwright.ir.loops import Alloc, Block, Buffer, Space, Stmt, Store

S = Load("s", (), INT32)
ELEMENT = Load("a", (Var("i"),), INT32)


def alloc(*values: Expr, dtype: DType = INT32) -> Alloc:
    stores: tuple[Stmt, ...] = tuple(Store("s", (), value) for value in values)
    return Alloc(Buffer("s", dtype, (), Space.REGISTER, writable=True), (), Block(stores))


@pytest.mark.parametrize(
    ("found", "is_gathered"),
    [
        (alloc(Const(0), S + ELEMENT), True),
        (alloc(ELEMENT, S - ELEMENT), True),
        (alloc(ELEMENT), False),
        (alloc(Const(0), ELEMENT - S), False),
        (alloc(Const(0), S + S), False),
        (alloc(ELEMENT * ELEMENT, S + ELEMENT), False),
        (alloc(Const(0), S + ELEMENT, dtype=DTYPES["int16"]), False),
        (alloc(Const(0), S + ELEMENT, dtype=DTYPES["float32"]), False),
    ],
)
def test_which_variables(found: Alloc, *, is_gathered: bool) -> None:
    assert gathers_modulo(found) == is_gathered
