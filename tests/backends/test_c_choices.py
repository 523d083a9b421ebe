"""Selections in loops of vectors: which are written by bits, and that they choose the same."""

from __future__ import annotations

import numpy as np
import pytest

from backends.c_compiled import EXACT, compile_c, needs_cc
from backends.c_nests import ONE, ZERO, i, n
from loopwright.ir.dtypes import DTYPES, FLOAT32, FLOAT64, INT32, INT64, DType
from loopwright.ir.expr import Binary, Expr, Load, Select
from loopwright.ir.interpret import interpret_nest
from loopwright.ir.loops import Block, Buffer, For, LoopNest, Mark, Store

UINT8, UINT32 = DTYPES["uint8"], DTYPES["uint32"]


def at(array: str, dtype: DType) -> Load:
    return Load(array, (i,), dtype)


def less(dtype: DType) -> Expr:
    return Binary("lt", at("a", dtype), at("b", dtype))


def nest_of(value: Expr, dtype: DType, compared: DType) -> LoopNest:
    a, b = (Buffer(name, compared, (ONE,)) for name in "ab")
    buffers = (
        a,
        b,
        Buffer("x", dtype, (ONE,)),
        Buffer("y", dtype, (ONE,)),
        Buffer("c", dtype, (ONE,), writable=True),
    )
    seen = Store("c", (i,), Binary("add", at("x", dtype), at("y", dtype)))
    body = Block((seen, Store("c", (i,), value)))
    return LoopNest("f", buffers, ("n",), For("i", ZERO, n, body, ONE, Mark.SIMD))


@pytest.mark.drawn(3)
@needs_cc
@pytest.mark.parametrize("compared", [FLOAT32, FLOAT64], ids=str)
@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64, INT32, INT64, UINT32], ids=str)
def test_bits_are_those_of_the_chosen_number(dtype: DType, compared: DType) -> None:
    """NaN, zeros of both signs and the ends of integers among them."""
    inner = Select(less(compared), at("y", dtype), at("x", dtype))
    both = Binary("and", less(compared), Binary("ne", at("a", compared), at("a", compared)))
    value = Select(both, at("x", dtype), inner)
    nest = nest_of(value, dtype, compared)
    (run,) = compile_c([nest], flags=(*EXACT, "-O3", "-fopenmp-simd"))
    size = 41
    random = np.random.default_rng(0)
    special = np.array([np.nan, -0.0, 0.0, np.inf, -np.inf, 1.5])
    arrays: dict[str, np.ndarray] = {
        name: random.choice(special, size).astype(str(compared)) for name in "ab"
    }
    if dtype.is_float:
        arrays |= {name: random.choice(special, size).astype(str(dtype)) for name in "xy"}
    else:
        ends = np.iinfo(str(dtype))
        arrays |= {
            name: random.choice(np.array([ends.min, ends.max, 0, 7], str(dtype)), size)
            for name in "xy"
        }
    arrays["c"] = np.zeros(size, str(dtype))
    expected = {name: array.copy() for name, array in arrays.items()}
    with np.errstate(invalid="ignore", over="ignore"):
        interpret_nest(nest, expected, {"n": size})
    run(arrays, {"n": size})
    assert arrays["c"].tobytes() == expected["c"].tobytes()
