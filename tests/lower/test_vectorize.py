"""Vector and unrolled loops: constant extents, remainders, and bodies that cannot be vectors."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent

import numpy as np
import pytest

from loopwright.ir.check import check_nest
from loopwright.ir.dtypes import FLOAT64, INT64
from loopwright.ir.expr import Cast, Const, Expr, Var
from loopwright.ir.interpret import interpret_nest
from loopwright.ir.loops import Block, Buffer, For, If, LoopNest, Mark, Stmt, Store
from loopwright.ir.text import stmt_text
from loopwright.lower.simplify import simplify
from loopwright.lower.vectorize import unroll, vectorize

BUFFER = Buffer("a", INT64, (Const(1),), writable=True)


def nest_of(*body: Stmt) -> LoopNest:
    return LoopNest("f", (BUFFER,), ("n",), Block(body))


def loop(start: Expr, stop: Expr, mark: Mark, step: int = 1) -> For:
    body = Store("a", (Var("i"),), Var("i") * 3)
    return For("i", start, stop, body, Const(step), mark)


def lines(block: str) -> str:
    return dedent(block).strip()


def test_vectorize_golden() -> None:
    nest = nest_of(loop(Const(2), Var("n"), Mark.VECTOR))
    assert stmt_text(vectorize(nest, {"i": 4}).body) == lines("""
        for i in range(2, n - 3, 4):
            vector for i_v in range(4):
                a[i + i_v] = (i + i_v) * 3
        for i in range(max(n - 2, 0) // 4 * 4 + 2, n):
            a[i] = i * 3
        """)


def test_unroll_golden() -> None:
    nest = nest_of(loop(Const(0), Var("n"), Mark.UNROLL, step=2))
    assert stmt_text(unroll(nest, {"i": 4}).body) == lines("""
        for i in range(0, n - 6, 8):
            unroll for i_u in range(4):
                a[i + i_u * 2] = (i + i_u * 2) * 3
        for i in range((max(n, 0) + 1) // 2 // 4 * 8, n, 2):
            a[i] = i * 3
        """)


PASSES: list[tuple[Mark, Callable[[LoopNest, dict[str, int]], LoopNest]]] = [
    (Mark.VECTOR, vectorize),
    (Mark.UNROLL, unroll),
]


@pytest.mark.parametrize(("mark", "cut"), PASSES)
@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("start", [0, 1, 5])
@pytest.mark.parametrize("is_constant", [False, True])
def test_every_iteration_once(
    mark: Mark, cut: Callable[..., LoopNest], step: int, start: int, is_constant: bool
) -> None:
    for stop in (0, 1, 4, 7, 8, 9, 24):
        bound = Const(stop) if is_constant else Var("n")
        source = nest_of(loop(Const(start), bound, mark, step))
        nest = simplify(cut(source, {"i": 4}))
        check_nest(nest)
        expected = np.full(40, -1)
        expected[start:stop:step] = 3 * np.arange(start, stop, step)
        found = np.full(40, -1)
        interpret_nest(nest, {"a": found}, {"n": stop})
        np.testing.assert_array_equal(found, expected)


def test_constant_extents_need_no_remainder() -> None:
    exact = simplify(vectorize(nest_of(loop(Const(0), Const(4), Mark.VECTOR)), {"i": 4}))
    # Subscripts are folded; the value is the user's arithmetic and stays.
    assert stmt_text(exact.body) == "vector for i_v in range(4):\n    a[i_v] = (0 + i_v) * 3"
    short = vectorize(nest_of(loop(Const(0), Const(3), Mark.VECTOR)), {"i": 4})
    assert stmt_text(short.body) == "for i in range(3):\n    a[i] = i * 3"


def test_loops_that_are_not_named_stay() -> None:
    nest = nest_of(loop(Const(0), Const(8), Mark.VECTOR))
    assert vectorize(nest, {}) == nest
    assert unroll(nest, {"i": 4}) == nest


def test_guards_make_a_vector_loop_serial() -> None:
    body = If(Var("i") < Var("n") - 2, Store("a", (Var("i"),), Var("i")))
    nest = nest_of(For("i", Const(0), Var("n"), body, Const(1), Mark.VECTOR))
    assert stmt_text(vectorize(nest, {"i": 4}).body) == lines("""
        for i in range(n):
            if i < n - 2:
                a[i] = i
        """)


def test_names_stay_unique() -> None:
    inner = loop(Const(0), Var("n"), Mark.VECTOR)
    outer = For("i_v", Const(0), Const(2), inner, Const(1))
    nest = vectorize(nest_of(outer), {"i": 4})
    check_nest(nest)
    assert "vector for i_v_2 in range(4)" in stmt_text(nest.body)


def test_values_of_iterators_follow() -> None:
    value = Cast(Cast(Var("i"), FLOAT64), INT64)
    body = Store("a", (Var("i"),), value)
    nest = nest_of(For("i", Const(0), Var("n"), body, Const(1), Mark.VECTOR))
    found = np.zeros(10, np.int64)
    interpret_nest(vectorize(nest, {"i": 4}), {"a": found}, {"n": 10})
    np.testing.assert_array_equal(found, np.arange(10))
