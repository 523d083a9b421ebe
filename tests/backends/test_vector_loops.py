"""Vector loops: which element each lane reads and writes, whatever the subscripts look like."""

from __future__ import annotations

import numpy as np
import pytest

from backends.compiled import assert_compiled, compile_nest
from loopwright.backends.llvm.llvm_emitter import emit_module
from loopwright.diagnostics import InternalError
from loopwright.ir.dtypes import DTYPES, FLOAT32, FLOAT64, INT64, DType
from loopwright.ir.expr import Binary, Cast, Const, Expr, Load, Select, Unary, Var
from loopwright.ir.loops import (
    Alloc,
    Block,
    Buffer,
    Copy,
    For,
    If,
    Let,
    LoopNest,
    Mark,
    Prefetch,
    Space,
    Stmt,
    Store,
)
from loopwright.ir.text import expr_text

ONE = Const(1)
v, i, n, s = (Var(name) for name in "vins")
COMPLEX = DTYPES["complex64"]


def vector(body: Stmt, start: Expr | int = 0, stop: Expr | int = 4, step: int = 1) -> For:
    first, last = (Const(x) if isinstance(x, int) else x for x in (start, stop))
    return For("v", first, last, body, Const(step), Mark.VECTOR)


def nest_of(body: Stmt, dtype: DType = FLOAT64, stride: Expr = ONE) -> LoopNest:
    buffers = (
        Buffer("x", dtype, (stride,)),
        Buffer("k", INT64, (ONE,)),
        Buffer("y", dtype, (ONE,), writable=True),
        Buffer("z", INT64, (ONE,), writable=True),
    )
    return LoopNest("f", buffers, ("n", "s"), body)


def check(
    body: Stmt, dtype: DType = FLOAT64, stride: Expr = ONE, s: int = 1
) -> dict[str, np.ndarray]:
    x = (np.arange(40) * (2 - 1j if dtype.is_complex else 2)).astype(dtype.name)
    arrays = {
        "x": x if s >= 0 else x[::-1][:20:-s],  # a negative stride starts at the far end
        "k": np.array([3, 0, 2, 1, 7, 5, 4, 6] * 2),
        "y": np.zeros(24, dtype.name),
        "z": np.zeros(24, np.int64),
    }
    return assert_compiled(nest_of(body, dtype, stride), arrays, {"n": 3, "s": s})


def x_at(at: Expr, dtype: DType = FLOAT64) -> Load:
    return Load("x", (at,), dtype)


@pytest.mark.drawn(4)
@pytest.mark.parametrize("dtype", [FLOAT64, FLOAT32, COMPLEX, DTYPES["int8"]], ids=str)
@pytest.mark.parametrize(
    "at",
    [
        v,
        v + 3,
        v * 2,
        7 - v,
        Unary("neg", v) + 7,
        Const(9) - v * 2,
        Const(5),
        v + n,
        v * n,
        v * v,
        v // 2,
        v % 3,
        Select(v < 2, v, v + 5),
        Load("k", (v,), INT64),
        Load("k", (v * 2 + 1,), INT64) + v,
        v.min(2),
    ],
    ids=expr_text,
)
def test_lanes_read_and_write_their_elements(at: Expr, dtype: DType) -> None:
    check(vector(Store("y", (v,), x_at(at, dtype))), dtype)
    if at not in (Const(5), v // 2, v % 3, v.min(2)):
        check(vector(Store("y", (at,), x_at(v, dtype))), dtype)


@pytest.mark.parametrize("s", [2, 1, 0, -1, -3])
def test_strides_of_the_launch(s: int) -> None:
    check(vector(Store("y", (v,), x_at(v))), stride=Var("s"), s=s)


@pytest.mark.parametrize("dtype", [FLOAT64, COMPLEX], ids=str)
@pytest.mark.parametrize("stride", [-1, -2, 0, 3])
def test_constant_strides(stride: int, dtype: DType) -> None:
    x = np.arange(40).astype(dtype.name)
    view = x[::stride][:4] if stride else np.lib.stride_tricks.as_strided(x[5:], (4,), (0,))
    arrays = {"x": view, "k": np.zeros(1, np.int64), "y": x.copy(), "z": np.zeros(1, np.int64)}
    body = vector(Store("y", (v,), x_at(v, dtype)))
    assert_compiled(nest_of(body, dtype, Const(stride)), arrays, {"n": 3, "s": 1})


@pytest.mark.parametrize(("start", "stop", "step"), [(2, 6, 1), (1, 9, 2), (3, 4, 1), (5, 5, 1)])
def test_vector_loop_from_anywhere(start: int, stop: int, step: int) -> None:
    body = Block((Store("y", (v,), x_at(v + 1)), Store("z", (v,), v * 10)))
    check(vector(body, start, stop, step))


def test_vector_loop_that_starts_at_a_variable() -> None:
    body = vector(Block((Store("y", (v,), x_at(v)), Store("z", (v,), v))), i, i + 4)
    check(For("i", Const(0), n * 4, body, Const(4)))


def test_unrolled_loop_that_starts_at_a_variable() -> None:
    copies = For("v", i * 2, i * 2 + 4, Store("y", (v,), x_at(v)), Const(2), Mark.UNROLL)
    check(For("i", Const(0), n, copies, ONE))


def test_let_of_a_subscript() -> None:
    inner = Block((Store("y", (Var("at"),), x_at(Var("at") * 2)), Store("z", (v,), Var("at"))))
    check(vector(Let("at", v * 2 + n, inner)))


def test_let_keeps_what_was_loaded() -> None:
    """The value is that of the moment it was bound, not of its use."""
    old = Load("z", (v,), INT64)
    swap = Let("old", old, Block((Store("z", (v,), v + 5), Store("z", (v + 4,), Var("old") + 1))))
    check(Block((vector(Store("z", (v,), v * 3)), vector(swap))))


def test_let_of_a_loaded_subscript() -> None:
    at = Var("at")
    body = Block((Store("y", (at + 4,), x_at(at)), Store("z", (v,), at)))
    check(vector(Let("at", Load("k", (v,), INT64), body)))


def test_let_of_a_value() -> None:
    half = Binary("mul", x_at(v), Const(0.5, FLOAT64))
    check(vector(Let("h", half, Store("y", (v,), Var("h", FLOAT64) + Var("h", FLOAT64)))))


def test_uniform_control_inside_a_vector_loop() -> None:
    add = Store("y", (v,), Load("y", (v,), FLOAT64) + x_at(v + i))
    check(vector(For("i", Const(0), n, If(i < 2, add, Store("z", (v,), i)), ONE)))


@pytest.mark.parametrize(
    "body",
    [
        If(v < 2, Store("y", (v,), x_at(v)), Store("z", (v,), v)),
        For("i", v, Const(4), Store("z", (v,), Load("z", (v,), INT64) + i), ONE),
        For("w", Const(0), Const(2), Store("z", (v * 2 + Var("w"),), v), ONE, Mark.VECTOR),
        Copy("y", (v * 4,), "x", (v,), (Const(3),)),
        Let("far", Load("k", (v,), INT64) > 1, If(Var("far", DTYPES["bool"]), Store("z", (v,), v))),
    ],
    ids=["if", "for", "nested", "copy", "let"],
)
def test_lanes_that_part_company(body: Stmt) -> None:
    """Lanes that need control or memory of their own run one after another."""
    check(vector(body))


@pytest.mark.parametrize("space", [Space.STACK, Space.REGISTER, Space.PRIVATE])
def test_memory_of_one_lane(space: Space) -> None:
    t = Buffer("t", FLOAT64, (ONE,), space)
    fill = Block((Store("t", (Const(0),), x_at(v)), Store("t", (Const(1),), x_at(v + 1))))
    use = Store("y", (v,), Load("t", (Const(1),), FLOAT64) - Load("t", (Const(0),), FLOAT64))
    check(vector(Alloc(t, (Const(2),), Block((fill, use)))))


def test_lane_numbers_as_values() -> None:
    scaled = Cast(v * v - 3, FLOAT64)
    check(vector(Store("y", (v,), Binary("add", scaled, x_at(Const(0))))))


def test_prefetch_is_no_access() -> None:
    far = Prefetch("x", (v * 100000,), level=2)
    check(vector(Block((far, Prefetch("y", (v,), write=True), Store("y", (v,), x_at(v))))))
    check(Block((Prefetch("x", (Const(-5),), level=3), Prefetch("k", (n,), level=4))))


def test_two_lanes_may_not_store_to_one_element() -> None:
    with pytest.raises(InternalError) as caught:
        emit_module(nest_of(vector(Store("y", (n,), x_at(v)))))
    assert caught.value.message == "every lane stores to the same element of 'y'"


def test_data_of_64_bits_wraps() -> None:
    """A bound integer is data, not an address: its arithmetic may overflow."""
    big = Load("k", (Const(0),), INT64) * (1 << 62) * Var("n")
    more = Let("b", big, Let("c", Var("b") + Var("b"), Store("z", (Const(0),), Var("c"))))
    compare = Store("z", (Const(1),), Select(Var("b") + 1 > Var("b"), Const(1), Const(0)))
    edge = Let("b", Load("k", (Const(1),), INT64) + ((1 << 63) - 1), compare)
    check(Block((more, edge)))
    fold = Let("c", Const((1 << 63) - 1), Store("z", (Const(0),), Var("c") + 1))
    check(Let("d", Const(1 << 62), Block((fold, Store("z", (Const(1),), Var("d") * 2)))))


def test_names_of_any_alphabet() -> None:
    α = Var("α")
    nest = LoopNest(
        "f",
        (Buffer("größe", FLOAT64, (ONE,), writable=True), Buffer("gr__e", FLOAT64, (ONE,))),
        ("λ",),
        For("α", Const(0), Var("λ"), Store("größe", (α,), Load("gr__e", (α,), FLOAT64)), ONE),
    )
    assert_compiled(nest, {"größe": np.zeros(3), "gr__e": np.arange(3.0)}, {"λ": 3})
    assert compile_nest(nest).buffers == ("größe", "gr__e")
