"""Vector loops: which element each lane reads and writes, whatever the subscripts look like."""

from __future__ import annotations

import numpy as np
import pytest

from backends.compiled import assert_compiled, compile_nest
from loopwright.backends.llvm.llvm_emitter import emit_module
from loopwright.diagnostics import InternalError
from loopwright.ir.dtypes import DTYPES, FLOAT64, INT64, DType
from loopwright.ir.expr import Const, Expr, Load, Var
from loopwright.ir.loops import (
    Buffer,
    For,
    LoopNest,
    Mark,
    Stmt,
    Store,
)

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


def test_two_lanes_may_not_store_to_one_element() -> None:
    with pytest.raises(InternalError) as caught:
        emit_module(nest_of(vector(Store("y", (n,), x_at(v)))))
    assert caught.value.message == "every lane stores to the same element of 'y'"


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
