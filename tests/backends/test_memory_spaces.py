"""Where buffers live: registers, stack, private and shared scratch memory, tables."""

from __future__ import annotations

import pytest

from loopwright.backends.llvm.llvm_emitter import emit_module
from loopwright.diagnostics import InternalError
from loopwright.ir.dtypes import FLOAT64, DType
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
