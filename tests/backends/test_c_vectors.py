"""Register tiles as vectors of the C compiler, and sums that may use lanes."""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent

import numpy as np
import pytest

from backends.c_compiled import EXACT, compile_c, needs_cc
from backends.c_nests import ONE, ZERO, element, i, loop, n, register_tile, sums_of_rows
from loopwright.backends.c_text.c_dialect import OPENMP, C, Dialect
from loopwright.backends.c_text.c_module import emit_c
from loopwright.ir.dtypes import FLOAT64, INT32
from loopwright.ir.expr import Binary, Const, Load, Select, Var
from loopwright.ir.interpret import interpret_nest
from loopwright.ir.loops import Alloc, Block, Buffer, For, Let, LoopNest, Mark, Space, Store

SHAPES = {"a": (Const(2), n), "b": (n + 1, Const(4)), "c": (Const(2), Const(4))}


@pytest.mark.parametrize("dialect", [C, OPENMP], ids=lambda dialect: dialect.name)
def test_copies_with_registers_of_their_own_stay_apart(dialect: Dialect) -> None:
    """No compiler loads the registers of a second copy while those of the first are in use."""
    tile = register_tile()
    twice = For("copy", ZERO, Const(2), tile.body, ONE, Mark.UNROLL)
    text = emit_c(replace(tile, body=twice), dialect, shapes=SHAPES).text
    barrier = '__asm__ volatile("" ::: "memory");'
    assert text.count(barrier) == 1
    assert text.split(barrier)[1].split() == ["}", "}"]
    assert barrier not in emit_c(tile, dialect, shapes=SHAPES).text


def test_rows_of_a_register_tile_are_vectors() -> None:
    assert emit_c(register_tile(), C, shapes=SHAPES).text == dedent(
        """\
        typedef double lw_float64x4 __attribute__((vector_size(32), aligned(8), may_alias));

        void tile(long n, const double a[restrict 2][n], double b[restrict n + 1][4],
            double c[restrict 2][4])
        {
            lw_float64x4 sums[2];
            #pragma GCC unroll 2
            for (long row = 0; row < 2; row++) {
                sums[row] = *(const lw_float64x4 *)&c[row][0];
            }
            for (long k = 0; k < n; k++) {
                #pragma GCC unroll 2
                for (long row = 0; row < 2; row++) {
                    sums[row] += a[row][k] * (*(const lw_float64x4 *)&b[k][0]);
                }
            }
            #pragma GCC unroll 2
            for (long row = 0; row < 2; row++) {
                *(lw_float64x4 *)&c[row][0] = sums[row];
            }
            *(lw_float64x4 *)&b[n][0] = -0.0 - (lw_float64x4){0};
        }
        """
    )


@needs_cc
@pytest.mark.parametrize("size", [0, 1, 5])
def test_a_register_tile_runs(size: int) -> None:
    nest = register_tile()
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


def test_a_tile_that_lanes_cannot_keep_stays_an_array() -> None:
    """A transposition takes elements across: vectors would have to go through memory."""
    lane, turn = Var("lane"), Var("turn")
    square = Buffer("t", FLOAT64, (Const(2), ONE), Space.REGISTER, writable=True)
    fill = For(
        "lane", ZERO, Const(2), Store("t", (ZERO, lane), element("a", lane)), ONE, Mark.VECTOR
    )
    out = Store("a", (turn * 2 + lane,), Load("t", (lane, turn), FLOAT64))
    across = For("lane", ZERO, Const(2), out, ONE, Mark.VECTOR)
    turned = For("turn", ZERO, Const(2), across, ONE, Mark.UNROLL)
    body = Alloc(square, (Const(2), Const(2)), Block((fill, turned)))
    nest = LoopNest("f", (Buffer("a", FLOAT64, (ONE,), writable=True),), (), body)
    text = emit_c(nest, OPENMP).text
    assert "double t[2][2];" in text
    assert "lw_float64" not in text


def test_integers_stay_loops() -> None:
    """Vectors of signed integers must not overflow, ours wrap around."""
    lane = Var("lane")
    tile = Buffer("t", INT32, (ONE,), Space.REGISTER, writable=True)
    value = Binary("add", Load("t", (lane,), INT32), Load("a", (lane,), INT32))
    add = For("lane", ZERO, Const(4), Store("t", (lane,), value), ONE, Mark.VECTOR)
    nest = LoopNest("f", (Buffer("a", INT32, (ONE,)),), (), Alloc(tile, (Const(4),), add))
    assert "vector_size" not in emit_c(nest, OPENMP).text


def test_sums_get_lanes_where_they_may() -> None:
    text = emit_c(sums_of_rows(reassoc=True), OPENMP, shapes={"a": (n, n)}).text
    assert text[text.index("{") :] == dedent(
        """\
        {
            for (long i = 0; i < n; i++) {
                if (i < n) {
                    double y_sum = y[i];
                    double z_sum = z[i];
                    #pragma omp simd reduction(+:y_sum) reduction(+:z_sum)
                    for (long j = i; j < n; j++) {
                        y_sum += a[i][j] * x[j];
                        z_sum -= a[i][j];
                    }
                    y[i] = y_sum;
                    z[i] = z_sum;
                }
            }
        }
        """
    )


@pytest.mark.parametrize("dialect", [OPENMP, C], ids=lambda d: d.name)
def test_sums_keep_their_order_where_they_must(dialect: Dialect) -> None:
    assert "reduction" not in emit_c(sums_of_rows(reassoc=False), dialect).text


def test_what_reads_its_own_sums_is_no_sum() -> None:
    body = Store("y", (ZERO,), Binary("add", element("y", ZERO), element("y", i)))
    nest = LoopNest(
        "f", (Buffer("y", FLOAT64, (ONE,), writable=True),), ("n",), loop(i, ONE, n, body)
    )
    assert "reduction" not in emit_c(replace(nest, reassoc=True), OPENMP).text


@needs_cc
def test_sums_in_lanes_are_sums() -> None:
    nest = sums_of_rows(reassoc=True)
    (run,) = compile_c([nest], flags=(*EXACT, "-O3", "-fopenmp-simd"))
    for size in (0, 1, 2, 9, 64):
        a = np.arange(size * size, dtype=float).reshape(size, size) % 7
        arrays = {"a": a, "x": np.arange(size) % 3 + 0.5, "y": np.ones(size), "z": np.ones(size)}
        expected = {name: array.copy() for name, array in arrays.items()}
        interpret_nest(nest, expected, {"n": size})
        run(arrays, {"n": size})
        for name, array in expected.items():
            np.testing.assert_array_equal(arrays[name], array)  # of small integers: exact


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


@needs_cc
@pytest.mark.parametrize("stores", [1, 2])
def test_minima_in_lanes(stores: int) -> None:
    nest = minimum(stores=stores)
    (run,) = compile_c([nest])
    random = np.random.default_rng(0)
    arrays = {"a": random.choice([np.nan, -0.0, 0.0, 1.0], 20), "b": random.choice([0.0, 2.0], 4)}
    expected = {name: array.copy() for name, array in arrays.items()}
    interpret_nest(nest, expected, {"n": 5})
    run(arrays, {"n": 5})
    assert arrays["b"].tobytes() == expected["b"].tobytes()
