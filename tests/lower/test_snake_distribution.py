"""Snake order: every block goes to one thread, and all threads get equal work."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import some
from loopwright.ir.check import check_nest
from loopwright.ir.dtypes import INT64
from loopwright.ir.expr import Const, Load, Var
from loopwright.ir.interpret import interpret_nest
from loopwright.ir.loops import Block, Buffer, LoopNest, Store
from loopwright.lower.build import loop
from loopwright.lower.work_distribution import snake_distribution


def work_of_threads(total: int, block: int, threads: int) -> tuple[np.ndarray, np.ndarray]:
    """How often each block is run, and the work of each thread where block b takes b + 1."""
    at, thread = Var("at"), Var("thread")
    number = at // block
    body = Block(
        (
            Store("often", (number,), Load("often", (number,), INT64) + 1),
            Store("work", (thread,), Load("work", (thread,), INT64) + number + 1),
        )
    )
    nest = LoopNest(
        "snake",
        tuple(Buffer(name, INT64, (Const(1),), writable=True) for name in ("often", "work")),
        ("total",),
        loop(
            thread,
            0,
            threads,
            snake_distribution(at, Var("total"), Const(block), thread, Const(threads), body),
        ),
    )
    check_nest(nest)
    arrays = {"often": np.zeros(-(-total // block), np.int64), "work": np.zeros(threads, np.int64)}
    interpret_nest(nest, arrays, {"total": total})
    return arrays["often"], arrays["work"]


@settings(max_examples=some(30), deadline=None)
@given(total=st.integers(0, 40), block=st.integers(1, 7), threads=st.integers(1, 5))
def test_every_block_goes_to_one_thread(total: int, block: int, threads: int) -> None:
    often, work = work_of_threads(total, block, threads)
    count = -(-total // block)
    np.testing.assert_array_equal(often, np.ones(count, np.int64))
    assert work.sum() == count * (count + 1) // 2


def test_triangles_are_distributed_evenly() -> None:
    for threads in (2, 3, 4):
        _, work = work_of_threads(2 * threads * 3 * 5, 5, threads)
        assert len(set(work.tolist())) == 1
