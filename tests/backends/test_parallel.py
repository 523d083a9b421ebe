"""Parallel loops, barriers and scratch memory on teams of one, two and three threads."""

from __future__ import annotations

import numpy as np
import pytest

from backends.compiled import assert_compiled
from loopwright.ir.dtypes import DTYPES, FLOAT64, INT64
from loopwright.ir.expr import Const, Expr, Load, Var
from loopwright.ir.interpret import interpret_nest
from loopwright.ir.loops import (
    Alloc,
    Barrier,
    Block,
    Buffer,
    For,
    Let,
    LoopNest,
    Mark,
    Space,
    Stmt,
    Store,
)

ONE = Const(1)
TEAMS = (1, 2, 3)
i, j, r, n = (Var(name) for name in "ijrn")


def parallel(var: Var, start: Expr | int, stop: Expr | int, body: Stmt, step: int = 1) -> For:
    first, last = (Const(x) if isinstance(x, int) else x for x in (start, stop))
    return For(var.name, first, last, body, Const(step), Mark.PARALLEL)


def serial(var: Var, stop: Expr | int, body: Stmt) -> For:
    return For(var.name, Const(0), Const(stop) if isinstance(stop, int) else stop, body, ONE)


def nest_of(body: Stmt) -> LoopNest:
    x, y = Buffer("x", FLOAT64, (ONE,)), Buffer("y", FLOAT64, (ONE,), writable=True)
    return LoopNest("f", (x, y), ("n",), body)


def check(body: Stmt, n: int = 17) -> None:
    nest = nest_of(body)
    arrays = {"x": np.arange(64.0), "y": np.zeros(64)}
    for threads in TEAMS[1:]:
        races = {name: data.copy() for name, data in arrays.items()}
        interpret_nest(nest, races, {"n": n}, threads=threads)
    assert_compiled(nest, arrays, {"n": n}, threads=TEAMS)


def load(name: str, at: Expr) -> Load:
    return Load(name, (at,), FLOAT64)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 7, 17])
@pytest.mark.parametrize("step", [1, 2, 5])
def test_every_iteration_runs_once(n: int, step: int) -> None:
    add = Store("y", (i,), load("y", i) + load("x", i))
    check(parallel(i, 0, Var("n"), add, step), n)
    check(parallel(i, 3, Var("n") - 2, add, step), n)


def test_a_barrier_orders_two_loops() -> None:
    t = Buffer("t", FLOAT64, (ONE,), Space.SCRATCH)
    fill = parallel(i, 0, n, Store("t", (i,), load("x", i)))
    turn = parallel(i, 0, n, Store("y", (i,), load("t", n - 1 - i)))
    check(Alloc(t, (n,), Block((fill, Barrier(), turn, Barrier()))))


def test_many_rounds_of_barriers() -> None:
    """Each round reads what all threads wrote in the last one."""
    t = Buffer("t", FLOAT64, (ONE,), Space.SCRATCH)
    start = parallel(i, 0, n, Store("t", (i,), load("x", i)))
    forth = parallel(i, 0, n, Store("y", (i,), load("t", (i + 1) % n)))
    back = parallel(i, 0, n, Store("t", (i,), load("y", i)))
    rounds = serial(r, 50, Block((forth, Barrier(), back, Barrier())))
    check(Alloc(t, (n,), Block((start, Barrier(), rounds))))


@pytest.mark.parametrize("space", [Space.PRIVATE, Space.STACK])
def test_memory_of_one_thread(space: Space) -> None:
    t = Buffer("t", FLOAT64, (ONE,), space)
    fill = serial(j, 4, Store("t", (j,), load("x", i + j)))
    use = Store("y", (i,), load("t", Const(3)) - load("t", Const(0)) + load("t", ONE))
    check(parallel(i, 0, n, Alloc(t, (Const(4),), Block((fill, use)))))
    # Allocated outside the loop, each thread still has its own.
    check(Alloc(t, (Const(4),), parallel(i, 0, n, Block((fill, use)))))


def test_shared_and_private_memory_together() -> None:
    shared = Buffer("s", FLOAT64, (ONE,), Space.SCRATCH)
    private = Buffer("p", DTYPES["int8"], (ONE,), Space.PRIVATE)
    fill = parallel(i, 0, n, Store("s", (i,), load("x", i)))
    mark = serial(j, 5, Store("p", (j,), Const(1, DTYPES["int8"])))
    use = parallel(i, 0, n, Block((mark, Store("y", (i,), load("s", n - 1 - i)))))
    check(Alloc(private, (Const(5),), Alloc(shared, (n,), Block((fill, Barrier(), use)))))


def test_a_store_of_one_thread() -> None:
    """What only one thread may do stands in a parallel loop of one iteration."""
    once = parallel(i, 0, 1, Store("y", (Const(0),), load("y", Const(0)) + load("x", ONE)))
    rest = parallel(i, 1, n, Store("y", (i,), load("y", Const(0)) + load("x", i)))
    check(serial(r, 3, Block((once, Barrier(), rest, Barrier()))))


def test_blocks_of_a_parallel_loop_in_vectors() -> None:
    v = Var("v")
    copy = For("v", Const(0), Const(4), Store("y", (i + v,), load("x", i + v)), ONE, Mark.VECTOR)
    check(Let("m", n // 4 * 4, parallel(i, 0, Var("m"), copy, 4)))


def test_each_thread_counts_for_itself() -> None:
    """Serial code around a parallel loop runs in every thread, on memory of its own."""
    t = Buffer("t", INT64, (), Space.STACK)
    count = serial(r, 6, Store("t", (), Load("t", (), INT64) + r))
    use = parallel(i, 0, n, Store("y", (i,), load("x", Load("t", (), INT64) + i)))
    check(Alloc(t, (), Block((Store("t", (), Const(0)), count, use))))
