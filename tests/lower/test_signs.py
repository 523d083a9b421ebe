"""Signs of integers that selections spell are extremes."""

from __future__ import annotations

import itertools

import pytest

from loopwright.ir.dtypes import DTYPES, INT32, DType
from loopwright.ir.expr import Binary, Cast, Const, Expr, Load, Select, Unary, Var
from loopwright.ir.loops import Block, Buffer, For, LoopNest, Mark, Store
from loopwright.lower.values.signs import clamp_signs, takes_signs

AT, N = Var("i"), Var("n")
U = Load("u", (AT,), INT32)
ZERO, ONE = Const(0, INT32), Const(1, INT32)
MINUS = Const(-1, INT32)
CLAMP = Binary("max", Binary("min", U, ONE), MINUS)


def is_(op: str, x: Expr = U, y: Expr = ZERO) -> Expr:
    return Binary(op, x, y)


def as_int(cond: Expr) -> Expr:
    return Cast(cond, INT32)


def loop_of(value: Expr) -> For:
    body = Block((Store("c", (AT,), value),))
    return For("i", Const(0), N, body, Const(1), Mark.SIMD)


def clamped(value: Expr) -> Expr:
    loop = loop_of(value)
    buffers = (Buffer("c", value.dtype, (Const(1),), writable=True),)
    found = clamp_signs(LoopNest("f", buffers, ("n",), loop)).body
    assert isinstance(found, For)
    assert isinstance(found.body, Block)
    store = found.body.body[0]
    assert isinstance(store, Store)
    assert takes_signs(loop) is (store.value != value)
    return store.value


@pytest.mark.parametrize(
    "value",
    [
        Select(is_("gt"), ONE, Select(is_("lt"), MINUS, ZERO)),
        Select(is_("lt"), MINUS, Select(is_("gt"), ONE, ZERO)),
        Select(is_("eq"), ZERO, Select(is_("ge"), ONE, MINUS)),
        Select(is_("ne"), Select(is_("lt", ZERO, U), ONE, MINUS), U),
        Binary("sub", as_int(is_("gt")), as_int(is_("lt"))),
        Binary("sub", as_int(is_("ge")), as_int(is_("le"))),
    ],
    ids=["down", "up", "zero first", "zero last", "difference", "with zero"],
)
def test_spellings(value: Expr) -> None:
    assert clamped(value) == CLAMP


def test_the_other_way_around() -> None:
    assert clamped(Binary("sub", as_int(is_("lt")), as_int(is_("gt")))) == Unary("neg", CLAMP)


@pytest.mark.parametrize(
    "value",
    [
        Select(is_("gt"), ONE, ZERO),
        Select(is_("gt"), ONE, Select(is_("lt"), MINUS, ONE)),
        Select(is_("gt", U, ONE), ONE, Select(is_("lt"), MINUS, ZERO)),
        Select(is_("gt"), ONE, Select(is_("lt", Load("v", (AT,), INT32)), MINUS, ZERO)),
        Select(is_("gt"), U, Select(is_("lt"), MINUS, ZERO)),
    ],
    ids=["a half", "other values", "another number", "two numbers", "the number itself"],
)
def test_what_is_no_sign(value: Expr) -> None:
    assert clamped(value) == value


@pytest.mark.parametrize(
    ("dtype", "is_taken"),
    [(DTYPES["int16"], True), (DTYPES["int64"], False), (DTYPES["uint32"], False)],
    ids=["short", "wide", "unsigned"],
)
def test_types(dtype: DType, is_taken: bool) -> None:
    u = Load("u", (AT,), dtype)
    greater, less = (Binary(op, u, Const(0, dtype)) for op in ("gt", "lt"))
    value = Select(greater, ONE, Select(less, MINUS, ZERO))
    assert (clamped(value) != value) is is_taken


@pytest.mark.parametrize("values", list(itertools.product((-1, 0, 1), repeat=3)))
def test_three_values_decide(values: tuple[int, int, int]) -> None:
    """Any function of the sign is told from any other."""
    low, middle, high = (Const(value, INT32) for value in values)
    value = Select(is_("lt"), low, Select(is_("gt"), high, middle))
    assert (clamped(value) == CLAMP) is (values == (-1, 0, 1))
