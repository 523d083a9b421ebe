"""Loop nests on checked memory: values, bounds, definedness, marks and threads."""

import numpy as np
import pytest

from ir.examples import ONE, load, loop, nest_of, store
from loopwright.diagnostics import InternalError, UsageError
from loopwright.ir.dtypes import DTYPES, FLOAT64
from loopwright.ir.expr import Const, Var
from loopwright.ir.interpret import Memory, element_strides, interpret_nest
from loopwright.ir.loops import (
    Alloc,
    Barrier,
    BarrierScope,
    Block,
    Buffer,
    Commit,
    Copy,
    If,
    Let,
    LoopNest,
    Mark,
    Space,
    Stmt,
    Store,
    Wait,
)
from loopwright.ir.memory import poisoned

i, j, n = Var("i"), Var("j"), Var("n")


def run(body: Stmt, x: np.ndarray, y: np.ndarray, **options: int) -> None:
    interpret_nest(nest_of(body), {"x": x, "y": y}, {"n": len(y)}, **options)


def number(value: float) -> Const:
    return Const(value, FLOAT64)


def fault(body: Stmt, size: int = 4, **options: int) -> str:
    with pytest.raises(InternalError) as caught:
        run(body, np.arange(size, dtype=float), np.zeros(size), **options)
    return caught.value.message


def test_strided_memory_of_any_direction() -> None:
    whole = np.zeros((5, 8))
    view = whole[::-1, 6:0:-2]
    strides = element_strides(view)
    nest = LoopNest(
        "f",
        (Buffer("a", FLOAT64, (Var("s0"), Var("s1")), writable=True),),
        ("s0", "s1"),
        loop("i", 0, 5, loop("j", 0, 3, Store("a", (i, j), number(1.0)))),
    )
    interpret_nest(nest, {"a": view}, {"s0": strides[0], "s1": strides[1]})
    assert np.all(view == 1)
    assert whole.sum() == 15
    memory = Memory(whole.reshape(-1), base=whole.size - 2)
    interpret_nest(nest, {"a": memory}, {"s0": strides[0], "s1": strides[1]})


def test_memory_of_broadcast_and_empty_arrays() -> None:
    assert Memory.of(np.broadcast_to(np.ones(3), (4, 3))).data.size == 3
    assert Memory.of(np.zeros((0, 3))).data.size == 0
    assert Memory.of(np.array(2.0)).data.tolist() == [2]
    with pytest.raises(UsageError, match="no multiples"):
        element_strides(np.zeros(3, [("a", "u1"), ("b", "f8")])["b"])


def test_poison_shows_when_memory_is_taken_for_defined() -> None:
    assert np.isnan(poisoned((2,), DTYPES["float16"])).all()
    assert np.isnan(poisoned((2,), DTYPES["complex64"])).all()
    assert poisoned((2,), DTYPES["int16"]).tolist() == [0x5A5A] * 2
    assert poisoned((2,), DTYPES["bool"]).tolist() == [True] * 2
    assert poisoned((0,), DTYPES["uint64"]).shape == (0,)


MEET = Barrier(BarrierScope.BLOCK)


b, t = Var("b"), Var("t")


def grid(*body: Stmt, blocks: int = 2, threads: int = 2) -> Stmt:
    """A grid of blocks of threads."""
    return loop("b", 0, blocks, loop("t", 0, threads, Block(body), Mark.THREAD), Mark.BLOCK)


def test_many_readers_before_a_barrier_and_one_writer_after_it() -> None:
    last = If(Const(1) < t, store("y", 0, number(7.0)))
    y = np.zeros(4)
    ordered = Block((Let("v", load("y", 0), Block(())), MEET, last))
    run(grid(ordered, blocks=1, threads=3), y, y)
    assert y[0] == 7
    told = "race: y[0] is read by one iteration or thread, written by another without a barrier"
    unordered = Block((Let("v", load("y", 0), Block(())), last))
    found = fault(grid(unordered, blocks=1, threads=3))
    assert found.startswith((told, "race: y[0] is written by one"))


def test_wrong_calls_are_told() -> None:
    nest = nest_of(Block(()))
    with pytest.raises(UsageError) as caught:
        interpret_nest(nest, {"x": np.zeros(1)}, {})
    assert str(caught.value) == (
        "nest f takes buffers x, y and scalars n\nnote: found buffers x and scalars "
    )
    with pytest.raises(UsageError) as caught:
        interpret_nest(nest, {"x": np.zeros(1, "f4"), "y": np.zeros(1)}, {"n": 1})
    assert str(caught.value) == "buffer x is float64\nnote: found float32"


def _tile(is_async: bool, *after: Stmt) -> Stmt:
    """Threads of a block bring four elements each into shared memory and use a neighbour's."""
    at = t * 4
    bring = Copy("s", (at,), "x", (at,), (Const(4),), is_async=is_async, width=4)
    use = store("y", t, load("s", (t + 4) % 8))
    kernel = loop("t", 0, 2, Block((bring, *after, use)), Mark.THREAD)
    shared = Alloc(Buffer("s", FLOAT64, (ONE,), Space.SHARED), (Const(8),), kernel)
    return loop("b", 0, 1, shared, Mark.BLOCK)


@pytest.mark.parametrize(
    ("after", "told"),
    [
        ((MEET,), r"read before it is written|nobody waits"),
        ((Commit(), MEET, Wait()), "read before it is written|race"),
        ((Commit(), Wait(1), MEET), "read before it is written"),
        ((Commit(), Wait()), "read before it is written|race"),
    ],
)
def test_a_copy_that_is_not_waited_for_is_told(after: tuple[Stmt, ...], told: str) -> None:
    with pytest.raises(InternalError, match=told):
        run(_tile(True, *after), np.arange(8.0), np.zeros(8))


def test_copies_of_several_elements_begin_at_multiples() -> None:
    shifted = Copy("s", (ONE,), "x", (ONE,), (Const(4),), width=4)
    kernel = loop("t", 0, 1, shifted, Mark.THREAD)
    shared = Alloc(Buffer("s", FLOAT64, (ONE,), Space.SHARED), (Const(8),), kernel)
    with pytest.raises(InternalError, match="a copy by 4 begins at 1 of s"):
        run(loop("b", 0, 1, shared, Mark.BLOCK), np.arange(8.0), np.zeros(8))
