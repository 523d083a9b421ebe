"""Loop nests on checked memory: values, bounds, definedness, marks and threads."""

import re

import numpy as np
import pytest

from ir.examples import ONE, load, loop, nest_of, store
from loopwright.diagnostics import InternalError, UsageError
from loopwright.ir.dtypes import DTYPES, FLOAT64
from loopwright.ir.expr import Binary, Const, Select, Var
from loopwright.ir.interpret import Memory, element_strides, interpret_nest
from loopwright.ir.loops import (
    Alloc,
    Barrier,
    BarrierScope,
    Block,
    Buffer,
    Commit,
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
    Wait,
)
from loopwright.ir.memory import poisoned

i, j, n = Var("i"), Var("j"), Var("n")


def run(body: Stmt, x: np.ndarray, y: np.ndarray, **options: int) -> None:
    interpret_nest(nest_of(body), {"x": x, "y": y}, {"n": len(y)}, **options)


def number(value: float) -> Const:
    return Const(value, FLOAT64)


def alloc(space: Space, size: int, body: Stmt, name: str = "t") -> Alloc:
    return Alloc(Buffer(name, FLOAT64, (ONE,), space), (Const(size),), body)


def fault(body: Stmt, size: int = 4, **options: int) -> str:
    with pytest.raises(InternalError) as caught:
        run(body, np.arange(size, dtype=float), np.zeros(size), **options)
    return caught.value.message


@pytest.mark.parametrize(
    ("mark", "threads"), [(mark, 1) for mark in Mark] + [(Mark.PARALLEL, 3), (Mark.PARALLEL, 9)]
)
def test_marks_do_not_change_an_independent_loop(mark: Mark, threads: int) -> None:
    y = np.zeros(7)
    run(
        loop("i", 0, n, store("y", i, load("x", i) + load("x", i)), mark),
        np.arange(7.0),
        y,
        threads=threads,
    )
    assert y.tolist() == [0, 2, 4, 6, 8, 10, 12]


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


def test_let_if_and_steps() -> None:
    body = For(
        "i",
        Const(0),
        n,
        Let(
            "v",
            load("x", i),
            If(i < 3, store("y", i, Var("v", FLOAT64)), store("y", i, number(-1.0))),
        ),
        Const(2),
    )
    y = np.zeros(6)
    run(body, np.arange(6.0), y)
    assert y.tolist() == [0, 0, 2, 0, -1, 0]


def test_registers_copies_and_prefetches() -> None:
    body = alloc(
        Space.STACK,
        4,
        Block(
            (
                Prefetch("x", (Const(10**6),)),
                Copy("t", (ONE,), "x", (Const(0),), (Const(3),)),
                Copy("y", (Const(0),), "t", (ONE,), (Const(3),)),
            )
        ),
    )
    y = np.zeros(4)
    run(body, np.arange(1.0, 5.0), y)
    assert y.tolist() == [1, 2, 3, 0]


def test_copies_carry_padding_but_not_to_arguments() -> None:
    inner = Alloc(
        Buffer("u", FLOAT64, (ONE,), Space.PRIVATE),
        (Const(2),),
        Block(
            (
                store("t", 0, number(5.0)),
                Copy("u", (Const(0),), "t", (Const(0),), (Const(2),)),
                store("y", 0, load("u", 0)),
            )
        ),
    )
    y = np.zeros(2)
    run(alloc(Space.PRIVATE, 2, inner), np.zeros(2), y)
    assert y[0] == 5
    leak = Copy("y", (Const(0),), "t", (Const(0),), (ONE,))
    assert fault(alloc(Space.PRIVATE, 2, leak)) == "t[0] is read before it is written"


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (store("y", 4, number(0.0)), "y[4] is outside its memory: place 4 of 4 elements"),
        (store("y", -1, number(0.0)), "y[-1] is outside its memory: place -1 of 4 elements"),
        (store("y", 0, load("x", 9)), "x[9] is outside its memory: place 9 of 4 elements"),
        (Store("y", (), number(0.0)), "y[]: y has 1 dimensions"),
        (store("z", 0, number(0.0)), "buffer z does not exist here"),
        (store("y", 0, Const(1)), "y[0] of float64 gets a int64"),
        (store("y", Var("q"), number(0.0)), "variable q has no value here"),
        (For("i", Const(0), n, Block(()), Const(0)), "loop i has step 0"),
        (alloc(Space.STACK, 2, store("y", 0, load("t", 1))), "t[1] is read before it is written"),
        (alloc(Space.STACK, 2, store("t", 2, number(0.0))), "t[2] is outside, shape [2]"),
        (
            Block((loop("i", 0, n, Block(())), store("y", i, number(0.0)))),
            "variable i has no value here",
        ),
        (
            Block((alloc(Space.STACK, 2, Block(())), store("t", 0, number(0.0)))),
            "buffer t does not exist here",
        ),
    ],
)
def test_faults_are_told(body: Stmt, told: str) -> None:
    assert fault(body) == told


def test_unchosen_branch_may_be_undefined() -> None:
    value = Select(i < 1, number(3.0), load("t", 0))
    body = alloc(Space.REGISTER, 1, loop("i", 0, 1, store("y", 0, value)))
    y = np.zeros(1)
    run(body, np.zeros(1), y)
    assert y[0] == 3


def test_poison_shows_when_memory_is_taken_for_defined() -> None:
    assert np.isnan(poisoned((2,), DTYPES["float16"])).all()
    assert np.isnan(poisoned((2,), DTYPES["complex64"])).all()
    assert poisoned((2,), DTYPES["int16"]).tolist() == [0x5A5A] * 2
    assert poisoned((2,), DTYPES["bool"]).tolist() == [True] * 2
    assert poisoned((0,), DTYPES["uint64"]).shape == (0,)


CARRIED = loop("i", 1, n, store("y", i, load("y", i - 1) + number(1.0)), Mark.PARALLEL)
SAME_PLACE = loop("i", 0, n, store("y", 0, load("x", i)), Mark.PARALLEL)


@pytest.mark.parametrize("threads", [1, 2])
def test_races_are_told(threads: int) -> None:
    assert fault(CARRIED, threads=threads).startswith("race: y[")
    assert fault(SAME_PLACE, threads=threads) == (
        "race: y[0] is written by two iterations or threads without a barrier between"
    )


UPDATE = Store("y", (Const(0),), load("y", 0) + load("x", i), is_atomic=True)


def test_atomic_updates_are_no_race_among_themselves() -> None:
    y = np.zeros(4)
    run(loop("i", 0, n, UPDATE, Mark.BLOCK), np.arange(4, dtype=float), y)
    assert y.tolist() == [6, 0, 0, 0]


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ((UPDATE, store("y", i, load("y", 0))), "updated by one iteration or thread, read by"),
        ((UPDATE, store("y", 0, load("x", i))), "updated by one iteration or thread, written by"),
        ((store("y", 0, load("x", i)), UPDATE), "written by one iteration or thread, updated by"),
        ((store("y", i + 1, load("y", 0)), UPDATE), "read by one iteration or thread, updated by"),
    ],
    ids=["read", "written", "after a write", "after a read"],
)
def test_atomic_updates_race_with_others(parts: tuple[Stmt, Stmt], told: str) -> None:
    """One iteration does both; the other one comes between."""
    one, other = parts
    body = If(Binary("eq", i, Const(0)), one, other)
    assert told in fault(For("i", Const(0), Const(2), body, Const(1), Mark.BLOCK))


def test_dependent_lanes_give_another_result() -> None:
    y = np.zeros(16)
    run(loop("i", 1, n, store("y", i, load("y", i - 1) + number(1.0)), Mark.VECTOR), y, y)
    assert y.tolist() != list(range(16))


def test_stores_outside_parallel_loops_are_made_by_every_thread() -> None:
    body = store("y", 0, number(1.0))
    assert "two iterations or threads" in fault(body, threads=2)
    y = np.zeros(1)
    run(loop("i", 0, 1, body, Mark.PARALLEL), y, y, threads=3)
    assert y[0] == 1


def neighbours(*between: Stmt) -> Stmt:
    """t[i] = x[i], then y[i] = t[n - 1 - i], in two parallel loops."""
    fill = loop("i", 0, n, store("t", i, load("x", i)), Mark.PARALLEL)
    use = loop("i", 0, n, store("y", i, load("t", n - 1 - i)), Mark.PARALLEL)
    return Alloc(Buffer("t", FLOAT64, (ONE,), Space.SCRATCH), (n,), Block((fill, *between, use)))


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_barriers_order_threads(threads: int) -> None:
    y = np.zeros(5)
    run(neighbours(Barrier()), np.arange(5.0), y, threads=threads)
    assert y.tolist() == [4, 3, 2, 1, 0]


def test_missing_barrier_is_told() -> None:
    assert re.fullmatch(r"t\[\d\] is read before it is written", fault(neighbours(), threads=2))


def test_scratch_is_reused_by_the_next_round() -> None:
    rounds = loop("k", 0, 3, Block((neighbours(Barrier()), Barrier())))
    y = np.zeros(4)
    run(rounds, np.arange(4.0), y, threads=2)
    assert y.tolist() == [3, 2, 1, 0]
    careless = loop("k", 0, 3, neighbours(Barrier()))
    assert re.search("without a barrier|read before", fault(careless, threads=2))


def test_private_memory_is_one_per_thread() -> None:
    body = alloc(
        Space.PRIVATE,
        1,
        loop(
            "i",
            0,
            n,
            Block((store("t", 0, load("x", i)), store("y", i, load("t", 0)))),
            Mark.PARALLEL,
        ),
    )
    y = np.zeros(6)
    run(body, np.arange(6.0), y, threads=3)
    assert y.tolist() == [0, 1, 2, 3, 4, 5]


def test_threads_that_miss_a_barrier_are_told() -> None:
    uneven = loop("i", 0, 1, Barrier(), Mark.PARALLEL)
    told = "a barrier is reached by some threads, others have ended"
    assert fault(uneven, threads=2) == told


MEET = Barrier(BarrierScope.BLOCK)


def test_blocks_and_threads_of_a_gpu() -> None:
    tile, thread, block = Const(4), Var("thread"), Var("block")
    at = block * tile + thread
    fill = store("s", thread, load("x", at))
    use = store("y", at, load("s", tile - 1 - thread))
    kernel = loop("thread", 0, 4, Block((fill, MEET, use)), Mark.THREAD)
    shared = Alloc(Buffer("s", FLOAT64, (ONE,), Space.SHARED), (tile,), kernel)
    y = np.zeros(8)
    run(loop("block", 0, 2, shared, Mark.BLOCK), np.arange(8.0), y)
    assert y.tolist() == [3, 2, 1, 0, 7, 6, 5, 4]
    unordered = loop("thread", 0, 4, Block((fill, use)), Mark.THREAD)
    racy = Alloc(Buffer("s", FLOAT64, (ONE,), Space.SHARED), (tile,), unordered)
    with pytest.raises(InternalError, match=r"race|read before"):
        run(loop("block", 0, 2, racy, Mark.BLOCK), np.arange(8.0), y)


b, t = Var("b"), Var("t")


def grid(*body: Stmt, blocks: int = 2, threads: int = 2) -> Stmt:
    """A grid of blocks of threads."""
    return loop("b", 0, blocks, loop("t", 0, threads, Block(body), Mark.THREAD), Mark.BLOCK)


def test_a_barrier_does_not_order_blocks() -> None:
    """Both blocks write y[t], each before and after a barrier of its own."""
    told = "race: y[{}] is written by two iterations or threads without a barrier between"
    both = (told.format(0), told.format(1))
    assert fault(grid(store("y", t, number(1.0)), MEET)) in both
    assert fault(grid(MEET, store("y", t, number(1.0)))) in both
    first = If(b < 1, store("y", t, number(1.0)))
    second = If(Const(0) < b, store("y", t, number(1.0)))
    assert fault(grid(first, MEET, second)) in both
    read = If(Const(0) < b, store("y", t + 2, load("y", t)))
    assert re.search("one iteration or thread, (read|written) by", fault(grid(first, MEET, read)))


def test_blocks_are_ordered_by_the_end_of_their_loop() -> None:
    fill = grid(store("y", b * 2 + t, load("x", b * 2 + t)))
    turn = grid(store("y", 3 - b * 2 - t, load("y", 3 - b * 2 - t) + number(1.0)))
    y = np.zeros(4)
    run(Block((fill, turn)), np.arange(4.0), y)
    assert y.tolist() == [1, 2, 3, 4]


def test_the_end_of_a_thread_loop_is_no_barrier() -> None:
    """Thread t of both loops is one thread; the other one may be late, or early."""
    fill = loop("t", 0, 2, store("y", b * 2 + t, load("x", t)), Mark.THREAD)
    own = loop("t", 0, 2, store("y", b * 2 + t, load("y", b * 2 + t) + number(1.0)), Mark.THREAD)
    other = loop("t", 0, 2, store("x", b * 2 + t, load("y", b * 2 + 1 - t)), Mark.THREAD)
    y = np.zeros(4)
    run(loop("b", 0, 2, Block((fill, own)), Mark.BLOCK), np.arange(4.0), y)
    assert y.tolist() == [1, 2, 1, 2]
    told = "written by one iteration or thread, read by another"
    assert told in fault(loop("b", 0, 2, Block((fill, other)), Mark.BLOCK))
    alone = store("y", b * 2, number(1.0))
    assert "race: y[" in fault(loop("b", 0, 2, Block((alone, fill)), Mark.BLOCK))


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


def test_barriers_of_a_team_order_what_other_threads_read() -> None:
    fill = loop("i", 0, n, store("y", i, load("x", i)), Mark.PARALLEL)
    use = loop("i", 0, n, Let("v", load("y", n - 1 - i), Block(())), Mark.PARALLEL)
    run(Block((fill, MEET, use, MEET, fill)), np.arange(4.0), np.zeros(4), threads=2)
    assert "race: y[" in fault(Block((fill, MEET, use, fill)), threads=2)


def test_threads_of_one_block_meet_once_per_barrier() -> None:
    inner = loop("j", 0, 2, Block((store("s", i * 2 + j, number(1.0)), MEET)), Mark.THREAD)
    read = loop("j", 0, 2, store("y", i * 2 + j, load("s", 3 - i * 2 - j)), Mark.THREAD)
    body = loop("i", 0, 2, Block((inner, read)), Mark.THREAD)
    y = np.zeros(4)
    run(Alloc(Buffer("s", FLOAT64, (ONE,), Space.SHARED), (Const(4),), body), y, y)
    assert y.tolist() == [1, 1, 1, 1]


def test_parallel_loop_inside_another_is_run_by_the_thread_alone() -> None:
    inner = loop("j", 0, 2, store("y", i * 2 + j, number(1.0)), Mark.PARALLEL)
    y = np.zeros(6)
    run(loop("i", 0, 3, inner, Mark.PARALLEL), y, y, threads=2)
    assert y.tolist() == [1] * 6


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


def test_asynchronous_copies_arrive_when_waited_for() -> None:
    y = np.zeros(8)
    run(_tile(False, MEET), np.arange(8.0), y)
    assert y[:2].tolist() == [4, 5]
    y[:] = 0
    run(_tile(True, Commit(), Wait(), MEET), np.arange(8.0), y)
    assert y[:2].tolist() == [4, 5]


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


def test_groups_of_copies_arrive_in_order() -> None:
    """With one group pending the first has arrived; the second may not be read yet."""

    def bring(at: int) -> Stmt:
        return Copy("s", (Const(at),), "x", (Const(at),), (ONE,), is_async=True)

    def kernel(place: int) -> Stmt:
        parts = (bring(0), Commit(), bring(1), Commit(), Wait(1))
        use = store("y", 0, load("s", place))
        one = loop("t", 0, 1, Block((*parts, use, Wait())), Mark.THREAD)
        shared = Alloc(Buffer("s", FLOAT64, (ONE,), Space.SHARED), (Const(2),), one)
        return loop("b", 0, 1, shared, Mark.BLOCK)

    y = np.zeros(8)
    run(kernel(0), np.arange(8.0) + 1, y)
    assert y[0] == 1
    with pytest.raises(InternalError, match="read before"):
        run(kernel(1), np.arange(8.0) + 1, y)


def test_copies_of_several_elements_begin_at_multiples() -> None:
    shifted = Copy("s", (ONE,), "x", (ONE,), (Const(4),), width=4)
    kernel = loop("t", 0, 1, shifted, Mark.THREAD)
    shared = Alloc(Buffer("s", FLOAT64, (ONE,), Space.SHARED), (Const(8),), kernel)
    with pytest.raises(InternalError, match="a copy by 4 begins at 1 of s"):
        run(loop("b", 0, 1, shared, Mark.BLOCK), np.arange(8.0), np.zeros(8))
