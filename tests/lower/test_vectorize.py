"""Vector and unrolled loops: constant extents, remainders, and bodies that cannot be vectors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from loopwright.ir.check import check_nest
from loopwright.ir.dtypes import INT64
from loopwright.ir.expr import Const, Expr, Var
from loopwright.ir.interpret import interpret_nest
from loopwright.ir.loops import Block, Buffer, For, LoopNest, Mark, Stmt, Store
from loopwright.lower.simplify import simplify
from loopwright.lower.vectorize import unroll, vectorize

BUFFER = Buffer("a", INT64, (Const(1),), writable=True)


def nest_of(*body: Stmt) -> LoopNest:
    return LoopNest("f", (BUFFER,), ("n",), Block(body))


def loop(start: Expr, stop: Expr, mark: Mark, step: int = 1) -> For:
    body = Store("a", (Var("i"),), Var("i") * 3)
    return For("i", start, stop, body, Const(step), mark)


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
