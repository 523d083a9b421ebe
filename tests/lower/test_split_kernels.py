"""Kernels are the outermost mapped loops; the host keeps what stands around them."""

from __future__ import annotations

import pytest

from loopwright.diagnostics import InternalError
from loopwright.ir.device import DeviceProgram, LaunchKernel, Repeat
from loopwright.ir.dtypes import FLOAT64, INT64
from loopwright.ir.expr import Cast, Const, Expr, Load, Var
from loopwright.ir.loops import (
    Alloc,
    Axis,
    Block,
    Buffer,
    For,
    If,
    Let,
    LoopNest,
    Mark,
    Space,
    Stmt,
    Store,
)
from loopwright.lower.grid_nests.split_kernels import split_kernels

n, t = Var("n"), Var("t")
bx, tx = Var("block.x"), Var("thread.x")
A = Buffer("a", FLOAT64, (Const(1),), writable=True)
ONE = Const(1)


def store(at: Expr, name: str = "a") -> Store:
    return Store(name, (at,), Const(1.0, FLOAT64))


def grid(body: Stmt, blocks: Expr = n, threads: int = 4, shared: Alloc | None = None) -> Stmt:
    body = For("thread.x", Const(0), Const(threads), body, ONE, Mark.THREAD, axis=Axis.X)
    if shared is not None:
        body = Alloc(shared.buffer, shared.shape, body)
    return For("block.x", Const(0), blocks, body, ONE, Mark.BLOCK, axis=Axis.X)


def split(*body: Stmt) -> DeviceProgram:
    whole = body[0] if len(body) == 1 else Block(body)
    return split_kernels(LoopNest("f", (A,), ("n", "m"), whole))


def test_loops_around_belong_to_the_host() -> None:
    found = split(For("t", Const(0), n, grid(store(bx * 4 + tx + t)), ONE))
    (kernel,) = found.kernels
    assert kernel.name == "f_0"
    assert (kernel.grid, kernel.block) == ((n, ONE, ONE), (4, 1, 1))
    assert kernel.scalars == ("t",)  # m is not used, n only by the grid
    assert [buffer.name for buffer in kernel.buffers] == ["a"]
    assert found.host == (Repeat("t", Const(0), n, ONE, (LaunchKernel("f_0"),)),)


def test_equal_kernels_are_one() -> None:
    found = split(grid(store(tx)), grid(store(bx)), grid(store(tx)))
    assert [kernel.name for kernel in found.kernels] == ["f_0", "f_1"]
    assert found.host == tuple(map(LaunchKernel, ("f_0", "f_1", "f_0")))


def test_conditions_bindings_and_memory_of_the_host() -> None:
    scratch = Buffer("s", FLOAT64, (ONE,), Space.SCRATCH, writable=True)
    inner = If(n > 3, grid(store(tx + Var("x"), "s")), grid(store(tx)))
    found = split(Alloc(scratch, (n,), Let("x", n * 2, inner)))
    (memory,) = found.host
    assert memory.buffer == scratch  # type: ignore[union-attr]
    (bind,) = memory.body  # type: ignore[union-attr]
    assert (bind.name, bind.value) == ("x", n * 2)
    (when,) = bind.body
    assert (when.body, when.orelse) == ((LaunchKernel("f_0"),), (LaunchKernel("f_1"),))
    assert [b.name for b in found.kernel("f_0").buffers] == ["s"]
    assert found.kernel("f_0").scalars == ("x",)


def test_shared_memory_is_counted() -> None:
    """Each part is a multiple of 16 bytes; pitches count, not extents."""
    tile = Buffer("tile", FLOAT64, (Const(5), ONE), Space.SHARED)
    shared = Alloc(tile, (Const(3), Const(4)), store(tx))
    (kernel,) = split(grid(store(tx), shared=shared)).kernels
    assert kernel.shared_bytes == 128  # 3 * 5 * 8 = 120
    assert isinstance(kernel.body, Alloc)


def test_a_host_that_would_need_data() -> None:
    bound = Cast(Load("a", (Const(0),), FLOAT64), INT64)
    with pytest.raises(InternalError, match="the host's part of f depends on data"):
        split(For("t", Const(0), bound, grid(store(tx)), ONE))
