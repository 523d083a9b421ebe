"""Blocks dealt out to hands: each once, and as much work for every hand."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from loopwright.ir.check import check_nest
from loopwright.ir.dtypes import INT64
from loopwright.ir.expr import Const, Load, Var
from loopwright.ir.interpret import interpret_nest
from loopwright.ir.loops import Block, Buffer, LoopNest, Store
from loopwright.lower.build import loop
from loopwright.lower.work_distribution import snake_distribution


def work_of_hands(total: int, block: int, deal: int) -> tuple[np.ndarray, np.ndarray]:
    """How often each block is met, and what each hand does where block b takes b + 1."""
    at, hand = Var("at"), Var("hand")
    number = at // block
    body = Block(
        (
            Store("often", (number,), Load("often", (number,), INT64) + 1),
            Store("work", (hand,), Load("work", (hand,), INT64) + number + 1),
        )
    )
    nest = LoopNest(
        "deal",
        tuple(Buffer(name, INT64, (Const(1),), writable=True) for name in ("often", "work")),
        ("total",),
        loop(
            hand,
            0,
            deal,
            snake_distribution(at, Var("total"), Const(block), hand, Const(deal), body),
        ),
    )
    check_nest(nest)
    arrays = {"often": np.zeros(-(-total // block), np.int64), "work": np.zeros(deal, np.int64)}
    interpret_nest(nest, arrays, {"total": total})
    return arrays["often"], arrays["work"]


@settings(max_examples=30, deadline=None)
@given(total=st.integers(0, 40), block=st.integers(1, 7), deal=st.integers(1, 5))
def test_every_block_falls_to_one_hand(total: int, block: int, deal: int) -> None:
    often, work = work_of_hands(total, block, deal)
    count = -(-total // block)
    np.testing.assert_array_equal(often, np.ones(count, np.int64))
    assert work.sum() == count * (count + 1) // 2


def test_triangles_are_shared_evenly() -> None:
    for deal in (2, 3, 4):
        _, work = work_of_hands(2 * deal * 3 * 5, 5, deal)
        assert len(set(work.tolist())) == 1
