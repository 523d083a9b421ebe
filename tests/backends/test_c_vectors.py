"""Register tiles as vectors of the C compiler, and sums that may use lanes."""

from __future__ import annotations

import numpy as np
import pytest

from backends.c_compiled import compile_c, needs_cc
from backends.c_nests import ONE, ZERO, element, example, i, loop, n
from loopwright.backends.c_text.c_dialect import C
from loopwright.backends.c_text.c_module import emit_c
from loopwright.ir.dtypes import FLOAT64
from loopwright.ir.expr import Binary, Const, Load, Select, Var
from loopwright.ir.interpret import interpret_nest
from loopwright.ir.loops import Alloc, Block, Buffer, For, Let, LoopNest, Mark, Space, Store


@needs_cc
@pytest.mark.parametrize("size", [0, 1, 5])
def test_a_register_tile_runs(size: int) -> None:
    nest = example("rows of a register tile are vectors")
    random = np.random.default_rng(0)
    shapes = {"a": (2, size), "b": (size + 1, 4), "c": (2, 4)}
    arrays = {name: random.integers(-4, 5, shape) / 2 for name, shape in shapes.items()}
    expected = {name: array.copy() for name, array in arrays.items()}
    interpret_nest(nest, expected, {"n": size})
    (run,) = compile_c([nest])
    run(arrays, {"n": size})
    for name, array in expected.items():
        np.testing.assert_array_equal(arrays[name], array)
    assert np.all(np.signbit(arrays["b"][size]))


def minimum(*, stores: int = 1) -> LoopNest:
    """The least of elements in a register tile, with names for what is compared."""
    lane = Var("lane")
    tile = Buffer("t", FLOAT64, (ONE,), Space.REGISTER, writable=True)
    x, y = Var("x", FLOAT64), Var("y", FLOAT64)
    least = Store("t", (lane,), Select(Binary("lt", x, y), x, y))
    body = Block((least, *(Store("b", (lane,), y) for _ in range(stores - 1))))
    seen = Let("y", Load("t", (lane,), FLOAT64), body)
    named = Let("x", element("a", i * 4 + lane), seen)
    first, last = (
        For(
            "lane", ZERO, Const(4), Store(to, (lane,), Load(of, (lane,), FLOAT64)), ONE, Mark.VECTOR
        )
        for to, of in (("t", "b"), ("b", "t"))
    )
    all_ = loop(i, ZERO, n, For("lane", ZERO, Const(4), named, ONE, Mark.VECTOR))
    inner = Alloc(tile, (Const(4),), Block((first, all_, last)))
    buffers = Buffer("a", FLOAT64, (ONE,)), Buffer("b", FLOAT64, (ONE,), writable=True)
    return LoopNest("f", buffers, ("n",), inner)


def test_what_is_bound_in_lanes_is_written_in_its_place() -> None:
    text = emit_c(minimum(), C).text
    assert "lw_float64x4 t;" in text
    assert "*(const lw_float64x4 *)&a[i * 4] < t" in text


def test_a_binding_that_a_later_store_uses_leaves_a_loop() -> None:
    text = emit_c(minimum(stores=2), C).text
    assert "double t[4];" in text
