"""Where buffers live: registers, stack, private and shared scratch memory, tables."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from backends.compiled import assert_compiled
from loopwright.backends.llvm.llvm_emitter import emit_module
from loopwright.diagnostics import InternalError
from loopwright.ir.dtypes import FLOAT64, INT64, DType
from loopwright.ir.expr import Const, Expr, Load, Var
from loopwright.ir.loops import Alloc, Buffer, For, LoopNest, Mark, Space, Stmt, Store

ONE = Const(1)
i, j, k, v, n = (Var(name) for name in "ijkvn")


def loop(var: Var, stop: Expr | int, body: Stmt, mark: Mark = Mark.SERIAL) -> For:
    return For(var.name, Const(0), Const(stop) if isinstance(stop, int) else stop, body, ONE, mark)


def nest_of(body: Stmt, dtype: DType = FLOAT64) -> LoopNest:
    x, y = Buffer("x", dtype, (ONE,)), Buffer("y", dtype, (ONE,), writable=True)
    return LoopNest("f", (x, y), ("n",), body)


def element(name: str, *index: Expr | int, dtype: DType = FLOAT64) -> Load:
    return Load(name, tuple(Const(x) if isinstance(x, int) else x for x in index), dtype)


@pytest.mark.parametrize("index", [(Const(2), v), (Const(0), v + 1), (Const(0), Const(9))])
def test_registers_have_an_end(index: tuple[Expr, ...]) -> None:
    t = Buffer("t", FLOAT64, (Const(4), ONE), Space.REGISTER)
    store = Store("y", (v,), Load("t", index, FLOAT64))
    with pytest.raises(InternalError) as caught:
        emit_module(nest_of(Alloc(t, (Const(2), Const(4)), loop(v, 4, store, Mark.VECTOR))))
    assert caught.value.message.endswith("is outside a register buffer")


def test_size_that_only_the_loop_knows() -> None:
    t = Buffer("t", FLOAT64, (ONE,), Space.PRIVATE)
    with pytest.raises(InternalError) as caught:
        emit_module(nest_of(loop(i, n, Alloc(t, (i,), Store("y", (i,), element("x", i))))))
    assert caught.value.message == "the size of 't' is not known at the launch"


def test_gpu_memory_is_refused() -> None:
    t = Buffer("t", FLOAT64, (ONE,), Space.SHARED)
    with pytest.raises(InternalError) as caught:
        emit_module(nest_of(Alloc(t, (ONE,), Store("y", (n,), element("x", n)))))
    assert caught.value.message == "no shared memory on a processor: 't'"


def test_tables_follow_the_scalars() -> None:
    table = Buffer("table", INT64, (ONE,), Space.TABLE)
    buffers = (Buffer("x", FLOAT64, (ONE,)), table, Buffer("y", FLOAT64, (ONE,), writable=True))
    at = Load("table", (n + i,), INT64)
    body = loop(i, n, Store("y", (i,), element("x", at)))
    nest = LoopNest("f", buffers, ("m", "n"), body)
    arrays = {"x": np.arange(9.0), "table": np.array([8, 7, 6, 5, 0, 3]), "y": np.zeros(3)}
    assert assert_compiled(nest, arrays, {"m": 1, "n": 3})["y"].tolist() == [5, 0, 3]


@pytest.mark.drawn(2)
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_arguments_of_any_layout(order: tuple[int, ...]) -> None:
    """Rank 3, every order of the strides, every direction, zero among them."""
    at = (i, j, k)
    for signs in itertools.product((1, -1), repeat=3):
        memory = np.arange(4.0 * 5 * 6).reshape(4, 5, 6)
        flips = tuple(slice(None, None, sign) for sign in signs)
        x = memory.transpose(order)[flips]
        steps = tuple(s // 8 for s in x.strides)
        y = np.zeros(x.shape)
        names = [("a", "b", "c"), ("d", "e", "f")]
        buffers = (
            Buffer("x", FLOAT64, tuple(map(Var, names[0]))),
            Buffer("y", FLOAT64, tuple(map(Var, names[1])), writable=True),
        )
        sizes = dict(zip("lmn", x.shape, strict=True))
        body: Stmt = Store("y", at, Load("x", at, FLOAT64))
        for var, extent in zip((k, j, i), "nml", strict=True):
            body = loop(var, Var(extent), body)
        strides = dict(
            zip((*names[0], *names[1]), (*steps, *(s // 8 for s in y.strides)), strict=True)
        )
        nest = LoopNest("f", buffers, (*strides, *sizes), body)
        result = assert_compiled(nest, {"x": x, "y": y}, {**strides, **sizes})
        assert np.array_equal(result["y"], x)
