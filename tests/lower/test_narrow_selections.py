"""Selections of integers in the narrow type they come from: fewer conversions, the same values."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import loopwright as lw
from loopwright.ir.dtypes import DTYPES, DType
from loopwright.ir.evaluate import evaluate
from loopwright.ir.expr import Binary, Cast, Const, Expr, Load, Select, Var
from loopwright.ir.loops import Buffer, For, Let, LoopNest, Mark, Stmt, Store
from loopwright.ir.text import stmt_text
from loopwright.lower.values.narrow_selections import narrow_selections

BYTE, SIGNED, INT = DTYPES["uint8"], DTYPES["int8"], DTYPES["int32"]


def wide(name: str, dtype: DType = BYTE) -> Expr:
    return Cast(Load(name, (), dtype), INT)


def lesser(x: Expr, y: Expr) -> Expr:
    return Select(Binary("lt", x, y), x, y)


def value(expr: Expr, **numbers: int) -> int:
    return int(evaluate(expr, {}, {name: np.array(n, np.uint8) for name, n in numbers.items()}))


def narrowed(value: Expr, mark: Mark = Mark.SIMD) -> Expr:
    body: Stmt = Store("a", (Var("j"),), value)
    loop = For("j", Const(0), Const(9), body, Const(1), mark)
    buffer = Buffer("a", value.dtype, (Const(1),), writable=True)
    found = narrow_selections(LoopNest("f", (buffer,), (), loop)).body
    assert isinstance(found, For)
    assert isinstance(found.body, Store)
    return found.body.value


def test_a_chain_of_selections_has_no_conversions() -> None:
    both = lesser(wide("x"), lesser(wide("y"), Const(200, INT)))
    found = narrowed(Cast(both, BYTE))
    assert "int32" not in stmt_text(Store("a", (Const(0),), found))
    for x, y in itertools.product((0, 3, 200, 255), repeat=2):
        assert value(found, x=x, y=y) == min(x, y, 200)


@pytest.mark.parametrize(
    "value",
    [
        lesser(wide("x"), wide("y", SIGNED)),  # no type of eight bits holds both
        lesser(wide("x"), Const(256, INT)),
        lesser(wide("x"), Const(-1, INT)),
        Cast(Binary("add", wide("x"), wide("y")), BYTE),
    ],
)
def test_others_stay(value: Expr) -> None:
    assert narrowed(value) == value


def test_a_constant_choice_takes_the_type_it_is_stored_in() -> None:
    chosen = Select(Binary("lt", wide("x"), Const(9, INT)), Const(255, INT), Const(0, INT))
    found = narrowed(Cast(chosen, BYTE))
    assert isinstance(found, Select)
    assert found.dtype == BYTE
    assert [value(found, x=x) for x in (8, 9)] == [255, 0]
    outside = Cast(Select(chosen.cond, Const(256, INT), Const(0, INT)), BYTE)
    assert isinstance(narrowed(outside), Cast)


def test_bindings_are_narrow_for_what_is_made_of_them() -> None:
    least = lesser(wide("x"), wide("y"))
    store = Store("a", (Var("j"),), Cast(lesser(Var("least", INT), wide("z")), BYTE))
    loop = For("j", Const(0), Const(9), Let("least", least, store), Const(1), Mark.SIMD)
    nest = LoopNest("f", (Buffer("a", BYTE, (Const(1),), writable=True),), (), loop)
    assert "int32" not in stmt_text(narrow_selections(nest).body)


def test_loops_without_vectors_stay() -> None:
    value = Cast(lesser(wide("x"), wide("y")), BYTE)
    assert narrowed(value, Mark.SERIAL) == value


MEDIAN = """
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
void median(int n, TYPE x[n + 2], TYPE y[n]) {
#pragma scop
    for (int i = 0; i < n; i++)
        y[i] = MAX(MIN(x[i], x[i + 1]), MIN(MAX(x[i], x[i + 1]), x[i + 2]));
#pragma endscop
}
"""


@pytest.mark.parametrize("ctype", ["unsigned char", "signed char", "unsigned short", "short"])
def test_medians(ctype: str) -> None:
    dtype = {"unsigned char": "u1", "signed char": "i1", "unsigned short": "u2"}.get(ctype, "i2")
    limits = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(limits.min, limits.max + 1, 202).astype(dtype)
    y = np.zeros(200, dtype)
    lw.compile(MEDIAN.replace("TYPE", ctype))["median"](200, x, y)
    assert np.array_equal(y, np.median([x[:-2], x[1:-1], x[2:]], axis=0).astype(dtype))
