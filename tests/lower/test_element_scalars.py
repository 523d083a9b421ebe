"""Scalars in place of elements: what an iteration reads before it sets it is loaded first."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright.ir.check import check_nest
from loopwright.ir.dtypes import FLOAT64
from loopwright.ir.expr import Const, Expr, Load, Var
from loopwright.ir.interpret import interpret_nest
from loopwright.ir.loops import Block, Buffer, For, LoopNest, Stmt, Store
from loopwright.ir.visit import names, statements
from loopwright.lower.values.element_scalars import elements_as_scalars
from loopwright.lower.vectorize_outer import vectorize_outer

ROW, TERM = Var("i"), Var("j")
A, B, D = (Load(name, (ROW,), FLOAT64) for name in "abd")
ZERO = Const(0.0, FLOAT64)
TWO = Const(2.0, FLOAT64)


def put(element: Load, value: Expr) -> Store:
    return Store(element.array, element.index, value)


ADD_ROW = put(A, A + Load("x", (ROW, TERM), FLOAT64))
ADD = For("j", Const(0), Const(3), ADD_ROW, Const(1))
STARTS: dict[str, tuple[Stmt, ...]] = {
    "set": (put(A, ZERO),),
    "itself": (put(A, A),),
    "scaled": (put(A, A * TWO),),
    "read before": (put(B, A), put(A, ZERO)),
    "read after": (put(A, ZERO), put(B, A)),
    "set twice": (put(A, A * TWO), put(A, A + TWO)),
    "read and set": (put(B, A), put(A, ZERO), put(A, A + TWO)),
    "two elements": (put(B, B * TWO), put(D, B), put(A, A + D)),
    "each of the other": (put(D, A), put(A, B), put(B, D)),
}


def nest_of(start: tuple[Stmt, ...]) -> LoopNest:
    one = (Const(1),)
    arrays = tuple(Buffer(name, FLOAT64, one, writable=True) for name in "abd")
    x = Buffer("x", FLOAT64, (Const(3), Const(1)))
    loop = For("i", Const(0), Const(6), Block((*start, ADD)), Const(1))
    return LoopNest("f", (*arrays, x), (), loop)


def results(nest: LoopNest) -> list[np.ndarray]:
    check_nest(nest)
    random = np.random.default_rng(1)
    arrays = {name: random.random(6) for name in "abd"}
    interpret_nest(nest, {**arrays, "x": random.random((6, 3))}, {})
    return list(arrays.values())


@pytest.mark.parametrize("start", STARTS)
def test_results_stay(start: str) -> None:
    nest = nest_of(STARTS[start])
    np.testing.assert_array_equal(results(vectorize_outer(nest, {"i": (4, 1)})), results(nest))


@pytest.mark.parametrize("start", STARTS)
def test_the_sum_is_in_a_scalar(start: str) -> None:
    nest = nest_of(STARTS[start])
    assert isinstance(nest.body, For)
    found = elements_as_scalars(nest.body.body, set())
    (loop,) = (stmt for stmt in statements(found) if isinstance(stmt, For))
    stores = [stmt for stmt in statements(loop) if isinstance(stmt, Store)]
    assert [store.buffer for store in stores] == ["a_k"]
    assert "a" not in names(stores[0].value)
