"""Selections in loops of vectors: which are written by bits, and that they choose the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from backends.c_compiled import EXACT, compile_c, needs_cc
from backends.c_nests import ONE, ZERO, i, n
from loopwright.backends.c_text.c_choices import choices_by_bits, no_choices
from loopwright.backends.c_text.c_dialect import OPENMP
from loopwright.backends.c_text.c_module import emit_c
from loopwright.backends.c_text.c_subscripts import reads_ahead
from loopwright.ir.dtypes import BOOL, DTYPES, FLOAT32, FLOAT64, INT32, INT64, DType
from loopwright.ir.expr import Binary, Cast, Const, Expr, Load, Select, Var
from loopwright.ir.interpret import interpret_nest
from loopwright.ir.loops import Block, Buffer, For, LoopNest, Mark, Store

UINT8, UINT32 = DTYPES["uint8"], DTYPES["uint32"]


def at(array: str, dtype: DType) -> Load:
    return Load(array, (i,), dtype)


def less(dtype: DType) -> Expr:
    return Binary("lt", at("a", dtype), at("b", dtype))


def loop_of(value: Expr, mark: Mark = Mark.SIMD, *more: Store) -> For:
    return For("i", ZERO, n, Block((Store("c", (i,), value), *more)), ONE, mark)


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


@pytest.mark.parametrize(
    ("value", "mark", "is_chosen"),
    [
        (Select(less(FLOAT64), at("a", FLOAT64), at("b", FLOAT64)), Mark.SIMD, True),
        (Select(less(FLOAT64), at("a", FLOAT64), at("b", FLOAT64)), Mark.SERIAL, False),
        (Select(less(FLOAT64), at("a", FLOAT64), at("x", FLOAT64)), Mark.SIMD, False),
        (Select(less(FLOAT64), Const(1, INT32), Const(2, INT32)), Mark.SIMD, True),
        (Select(less(FLOAT64), Const(1, UINT8), Const(2, UINT8)), Mark.SIMD, False),
        (Select(less(INT32), at("a", INT32), at("b", INT32)), Mark.SIMD, False),
        (Select(less(UINT8), Const(1.0, FLOAT32), Const(2.0, FLOAT32)), Mark.SIMD, False),
        (
            Select(
                less(INT32), Const(1, INT32), Select(less(INT32), at("a", INT32), Const(2, INT32))
            ),
            Mark.SIMD,
            True,
        ),
        (Select(less(INT32), less(INT32), Const(False, BOOL)), Mark.SIMD, True),
    ],
    ids=[
        "float",
        "serial",
        "loaded or not",
        "by floats",
        "narrow",
        "integers",
        "by bytes",
        "nested",
        "condition",
    ],
)
def test_what_is_chosen_by_bits(value: Select, mark: Mark, is_chosen: bool) -> None:
    assert choices_by_bits(loop_of(value, mark))(value) is is_chosen


@pytest.mark.parametrize("is_select", [True, False])
@pytest.mark.parametrize(
    ("trips", "is_by_bits"), [(n, False), (Const(32), False), (Const(4), True)]
)
def test_a_condition_that_is_asked_for_before_a_long_loop(
    trips: Expr, is_by_bits: bool, is_select: bool
) -> None:
    fixed = Binary("eq", Var("x_k", INT32), Const(3, INT32))
    moving = Binary("eq", Var("y_k", INT32), Cast(i, INT32))
    value = Select(fixed, moving, Const(False, BOOL)) if is_select else Binary("and", fixed, moving)
    loop = replace(loop_of(Cast(value, INT32)), stop=trips)
    assert choices_by_bits(loop)(value) is is_by_bits
    both = replace(value, cond=moving) if isinstance(value, Select) else replace(value, x=moving)
    assert choices_by_bits(loop)(both)


def test_what_a_minimum_is_taken_of_is_chosen_by_bits() -> None:
    chosen = Select(less(INT32), at("a", INT32), Const(7, INT32))
    own = Load("c", (), INT32)
    store = Store("c", (), Binary("min", own, chosen))
    loop = For("i", ZERO, n, store, ONE, Mark.SERIAL)
    assert choices_by_bits(loop)(chosen)
    assert not choices_by_bits(replace(loop, body=replace(store, value=chosen)))(chosen)


def test_text() -> None:
    value = Select(less(FLOAT32), at("x", FLOAT32), at("y", FLOAT32))
    text = emit_c(nest_of(value, FLOAT32, FLOAT32), OPENMP).text
    assert "c[i] = lw_choose_float32(a[i] < b[i], x[i], y[i]);" in text
    assert "#ifdef __aarch64__" in text
    assert "return ((lw_a) ? (lw_b) : (lw_c));" in text


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


@pytest.mark.parametrize(
    ("near", "is_ahead"),
    [(i + 1, True), (i, True), (i - 1, False), (i * 2, False), (Const(3), False)],
    ids=["ahead", "own", "behind", "another stride", "one element"],
)
def test_what_reads_ahead_is_chosen_by_bits(near: Expr, is_ahead: bool) -> None:
    own = Load("c", (near,), FLOAT64)
    value = Select(Binary("lt", own, at("a", FLOAT64)), own, at("a", FLOAT64))
    loop = loop_of(value, Mark.SERIAL)
    assert reads_ahead(loop) is is_ahead
    assert choices_by_bits(loop)(value) is is_ahead
    turned = Select(Binary("lt", own, at("a", FLOAT64)), own, at("a", FLOAT64))
    late = loop_of(at("a", FLOAT64), Mark.SERIAL, Store("d", (i,), turned))
    assert reads_ahead(late) is (near == i)
    far = replace(loop, body=Store("c", (n - i,), value))
    assert not reads_ahead(far)


def test_sums_beside_what_reads_ahead() -> None:
    """for i: s = s + (1 if a[i] < b[i] else 0); c[i] = c[i] + (0 if a[i] < b[i] else 1)"""
    ways = [Select(less(FLOAT64), Const(k, INT32), Const(1 - k, INT32)) for k in (1, 0)]
    total = Store("s", (), Binary("add", Load("s", (), INT32), ways[0]))
    other = Store("c", (i,), Binary("add", at("c", INT32), ways[1]))
    loop = For("i", ZERO, n, Block((total, other)), ONE)
    assert all(map(choices_by_bits(loop), ways))
    carried = Store("s", (), Select(less(FLOAT64), Const(1, INT32), Load("s", (), INT32)))
    assert choices_by_bits(replace(loop, body=Block((carried, other)))) is no_choices
