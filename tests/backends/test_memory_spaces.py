"""Where buffers live: registers, stack, private and shared scratch memory, tables."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from backends.compiled import assert_compiled
from loopwright.backends.llvm.llvm_emitter import emit_module
from loopwright.diagnostics import InternalError
from loopwright.ir.dtypes import DTYPES, FLOAT32, FLOAT64, INT64, DType
from loopwright.ir.expr import Const, Expr, Load, Var
from loopwright.ir.loops import Alloc, Block, Buffer, Copy, For, LoopNest, Mark, Space, Stmt, Store
from loopwright.ir.text import expr_text

ONE = Const(1)
i, j, k, v, n = (Var(name) for name in "ijkvn")


def loop(var: Var, stop: Expr | int, body: Stmt, mark: Mark = Mark.SERIAL) -> For:
    return For(var.name, Const(0), Const(stop) if isinstance(stop, int) else stop, body, ONE, mark)


def nest_of(body: Stmt, dtype: DType = FLOAT64) -> LoopNest:
    x, y = Buffer("x", dtype, (ONE,)), Buffer("y", dtype, (ONE,), writable=True)
    return LoopNest("f", (x, y), ("n",), body)


def check(body: Stmt, dtype: DType = FLOAT64, n: int = 5, size: int = 64) -> None:
    x = (np.arange(size) * (1 + 2j if dtype.is_complex else 1)).astype(dtype.name)
    assert_compiled(nest_of(body, dtype), {"x": x, "y": np.zeros(size, dtype.name)}, {"n": n})


def element(name: str, *index: Expr | int, dtype: DType = FLOAT64) -> Load:
    return Load(name, tuple(Const(x) if isinstance(x, int) else x for x in index), dtype)


TYPES = [
    FLOAT32,
    FLOAT64,
    DTYPES["complex64"],
    DTYPES["complex128"],
    DTYPES["int8"],
    DTYPES["bool"],
]


@pytest.mark.drawn(4)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize(
    ("rows", "lanes"), [(4, 4), (2, 2), (8, 8), (4, 2), (3, 4), (2, 8), (5, 3)]
)
def test_registers_turn_a_block_round(rows: int, lanes: int, dtype: DType) -> None:
    """Written along rows, read along columns: squares and everything else."""
    t = Buffer("t", dtype, (Const(lanes), ONE), Space.REGISTER)
    read = loop(v, lanes, Store("t", (i, v), element("x", i * lanes + v, dtype=dtype)), Mark.VECTOR)
    turned = Store("y", (j * rows + v,), element("t", v, j, dtype=dtype))
    body = Block(
        (
            loop(i, rows, read, Mark.UNROLL),
            loop(j, lanes, loop(v, rows, turned, Mark.VECTOR), Mark.UNROLL),
        )
    )
    check(Alloc(t, (Const(rows), Const(lanes)), body), dtype)


def test_a_turned_block_is_read_again_after_a_store() -> None:
    t = Buffer("t", FLOAT64, (Const(4), ONE), Space.REGISTER)

    def columns(at: int) -> Stmt:
        turned = Store("y", (j * 4 + v + at,), element("t", v, j))
        return loop(j, 4, loop(v, 4, turned, Mark.VECTOR), Mark.UNROLL)

    fill = loop(v, 4, Store("t", (i, v), element("x", i * 4 + v)), Mark.VECTOR)
    body = Block(
        (
            loop(i, 4, fill, Mark.UNROLL),
            columns(0),
            Store("t", (Const(2), Const(1)), Const(-1.0, FLOAT64)),
            columns(16),
            loop(k, n, Block((Store("t", (Const(0), Const(3)), element("x", k)), columns(32)))),
        )
    )
    check(Alloc(t, (Const(4), Const(4)), body))


@pytest.mark.drawn(4)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize(
    ("at", "lanes"),
    [(v, 4), (3 - v, 4), (v + 1, 3), (v * 2, 2), (v, 3), ((v + 1) % 4, 4)],
    ids=lambda x: x if isinstance(x, int) else expr_text(x),
)
def test_registers_by_any_lane(at: Expr, lanes: int, dtype: DType) -> None:
    t = Buffer("t", dtype, (Const(4), ONE), Space.REGISTER)
    clear = loop(
        i,
        2,
        loop(v, 4, Store("t", (i, v), element("x", v + 40, dtype=dtype)), Mark.VECTOR),
        Mark.UNROLL,
    )
    write = loop(v, lanes, Store("t", (ONE, at), element("x", v, dtype=dtype)), Mark.VECTOR)
    read = loop(v, lanes, Store("y", (v,), element("t", 1, at, dtype=dtype)), Mark.VECTOR)
    whole = loop(v, 4, Store("y", (v + 8,), element("t", 1, v, dtype=dtype)), Mark.VECTOR)
    spread = loop(v, 8, Store("y", (v + 16,), element("t", 1, 2, dtype=dtype)), Mark.VECTOR)
    single = Store("y", (Const(30),), element("t", 0, 3, dtype=dtype))
    body = Block((clear, write, read, whole, spread, single))
    check(Alloc(t, (Const(2), Const(4)), body), dtype)


def test_registers_of_one_lane_and_of_no_dimension() -> None:
    t = Buffer("t", FLOAT64, (ONE, ONE), Space.REGISTER)
    u = Buffer("u", FLOAT64, (), Space.REGISTER)
    body = Block(
        (
            Store("u", (), Const(0.0, FLOAT64)),
            Store("t", (Const(0), Const(0)), element("x", 3)),
            loop(i, n, Store("u", (), Load("u", (), FLOAT64) + element("x", i))),
            loop(v, 4, Store("y", (v,), element("t", 0, 0) + Load("u", (), FLOAT64)), Mark.VECTOR),
        )
    )
    check(Alloc(u, (), Alloc(t, (ONE, ONE), body)))


@pytest.mark.parametrize("index", [(Const(2), v), (Const(0), v + 1), (Const(0), Const(9))])
def test_registers_have_an_end(index: tuple[Expr, ...]) -> None:
    t = Buffer("t", FLOAT64, (Const(4), ONE), Space.REGISTER)
    store = Store("y", (v,), Load("t", index, FLOAT64))
    with pytest.raises(InternalError) as caught:
        emit_module(nest_of(Alloc(t, (Const(2), Const(4)), loop(v, 4, store, Mark.VECTOR))))
    assert caught.value.message.endswith("is outside a register buffer")


SPACES = [Space.STACK, Space.PRIVATE, Space.SCRATCH]


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("strides", [(4, 1), (1, 3), (7, 2), (20, 5)])
def test_strides_of_allocations(space: Space, strides: tuple[int, int]) -> None:
    """Gaps between elements are memory too: the neighbour starts after the last element."""
    first = Buffer("t", FLOAT64, tuple(map(Const, strides)), space)
    second = Buffer("u", FLOAT64, tuple(map(Const, strides)), space)
    here = (i, j)
    fill = Block(
        (
            Store("t", here, element("x", i * 4 + j)),
            Store("u", here, element("x", i * 4 + j) + element("x", 9)),
        )
    )
    use = Store("y", (i * 4 + j,), Load("t", here, FLOAT64) - Load("u", (i, 3 - j), FLOAT64))
    body = Block((loop(i, 3, loop(j, 4, fill)), loop(i, 3, loop(j, 4, use))))
    shape = (Const(3), Const(4))
    check(Alloc(first, shape, Alloc(second, shape, body)))


@pytest.mark.parametrize("space", [Space.PRIVATE, Space.SCRATCH])
def test_allocations_of_one_name(space: Space) -> None:
    """Siblings may share a name: each has its own type, size and strides."""

    def part(dtype: DType, extent: Expr, offset: int) -> Stmt:
        t = Buffer("t", dtype, (ONE,), space)
        start = Store("t", (i,), Const(0, dtype) if dtype == INT64 else element("x", i))
        value = element("x", i) if dtype == INT64 else Load("t", (i,), dtype)
        body = Block((loop(i, extent, start), loop(i, extent, Store("y", (i + offset,), value))))
        keep = Buffer("keep", FLOAT64, (ONE,), space)
        guard = loop(i, 3, Store("keep", (i,), element("x", i + 20)))
        after = loop(i, 3, Store("y", (i + offset + 10,), Load("keep", (i,), FLOAT64)))
        return Alloc(keep, (Const(3),), Block((guard, Alloc(t, (extent,), body), after)))

    check(Block((part(FLOAT64, n * 2, 0), part(INT64, n, 20), part(FLOAT64, n, 40))))


def test_empty_allocations() -> None:
    t = Buffer("t", FLOAT64, (n, ONE), Space.PRIVATE)
    u = Buffer("u", FLOAT64, (ONE,), Space.PRIVATE)
    body = Block((Store("u", (Const(0),), element("x", 1)), Store("y", (ONE,), element("u", 0))))
    check(Alloc(t, (n, n), Alloc(u, (ONE,), body)), n=0)


def test_allocation_inside_a_loop() -> None:
    t = Buffer("t", FLOAT64, (ONE,), Space.PRIVATE)
    fill = loop(j, 3, Store("t", (j,), element("x", i + j)))
    use = loop(j, 3, Store("y", (i * 3 + j,), element("t", 2 - j)))
    check(loop(i, n, Alloc(t, (Const(3),), Block((fill, use)))))


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


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_block_copies(dtype: DType) -> None:
    t = Buffer("t", dtype, (Const(5), ONE), Space.STACK)
    into = Copy("t", (Const(0), ONE), "x2", (n, Const(0)), (Const(3), Const(4)))
    back = Copy("y2", (ONE, Const(2)), "t", (Const(0), ONE), (Const(2), n - 2))
    buffers = (
        Buffer("x2", dtype, (Const(4), ONE)),
        Buffer("y2", dtype, (ONE, Const(8)), writable=True),
    )
    body = Alloc(t, (Const(3), Const(5)), Block((into, back)))
    nest = LoopNest("f", buffers, ("n",), body)
    x = np.arange(64).astype(dtype.name)
    assert_compiled(nest, {"x2": x, "y2": np.zeros(64, dtype.name)}, {"n": 5})


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
