"""Loop trees: edits as LoopTool has them, their text, and what they mean."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.ir.check import check_nest
from loopwright.ir.interpret import interpret_nest
from loopwright.ir.loops import Mark
from loopwright.tuning.actions import ACTIONS, Session, act, mask, refusal
from loopwright.tuning.loop_tree import LoopTree, TreeLoop
from loopwright.tuning.loop_tree_text import parse_tree, tree_text
from loopwright.tuning.lower_tree import lower_tree
from loopwright.tuning.tensor_nests import (
    convolution_tree,
    matmul_tree,
)
from tuning.trees import arrays_of, drawn_case, wandered

TILED = """\
contraction, reassociation allowed
in A: float32[67, 48]
in B: float32[48, 70]
local sums: float32[67, 70]
out out: float32[67, 70]

  for m in 16, tail 3 (by 4)
    for k in 48
>     for n in 4, tail 6 (by 16), pack b
        for m in 4
          for n in 16, vector
            sums[m, n] add= A[m, k] * B[k, n]
  for m in 67
    for n in 70
      out[m, n] = sums[m, n]
"""
TILING = "split_4 down swap_down down split_16 pack_b swap_up down down vectorize up up"


def done(tree: LoopTree, words: str) -> LoopTree:
    for word in words.split():
        tree = act(tree, word)
    return tree


def loops(tree: LoopTree) -> list[tuple[str, int, int]]:
    return [(x.dim, x.size, x.tail) for x in tree.nests[0].loops]


def test_actions_and_text() -> None:
    """A tiled product with its tails, as people read it."""
    tree = done(matmul_tree(67, 70, 48), TILING)
    assert tree_text(tree) == TILED
    assert parse_tree(TILED) == tree


def test_split_has_the_tail_of_loop_tool() -> None:
    tree = done(matmul_tree(67, 8, 8), "split_4")
    assert loops(tree)[:2] == [("m", 16, 3), ("m", 4, 0)]
    # 67 = 5 * 12 + 7, the 12 being three fours
    assert loops(act(tree, "split_3"))[:3] == [("m", 5, 7), ("m", 3, 0), ("m", 4, 0)]


def test_merge_goes_to_the_loop_outside() -> None:
    tree = done(matmul_tree(67, 8, 8), "split_12 split_2 down down merge")
    assert loops(tree)[:2] == [("m", 2, 19), ("m", 24, 0)]
    assert tree.cursor == 1
    merged = done(matmul_tree(67, 8, 8), "split_12 down swap_down merge")
    assert loops(merged) == [("m", 67, 0), ("k", 8, 0), ("n", 8, 0)]
    assert merged.cursor == 0


def test_float_sums_keep_their_order_unless_declared() -> None:
    tree = done(convolution_tree((3, 5, 5), (2, 3), reassoc=False), "down down")
    assert tree.loop.dim == "c"
    reason = refusal(tree, "swap_down")
    assert reason is not None
    assert reason.startswith("would reverse flow S0[")
    # Loops that order no sum go anywhere.
    assert refusal(tree, "swap_up") is None
    assert refusal(tree, "accumulate_4") == "the order of the accumulation is given"
    freed = done(convolution_tree((3, 5, 5), (2, 3), reassoc=True), "down down")
    assert refusal(freed, "swap_down") is None


def test_refusals_of_marks() -> None:
    tree = matmul_tree(64, 64, 64)
    assert refusal(act(tree, "down"), "parallel") == "the loop is not outermost"
    assert refusal(tree, "unroll") == "more than 512 points would be unrolled"
    assert refusal(done(tree, "swap_down up"), "parallel") == "its iterations depend on each other"
    shared = act(tree, "parallel")
    assert refusal(shared, "swap_down") == "a parallel loop stays outermost"
    assert refusal(shared, "pack_a") == "the loop is parallel"
    inner = done(tree, "down down vectorize")
    assert refusal(inner, "swap_up") == "more than 512 points would be unrolled"
    packed = act(tree, "pack_a")
    assert refusal(act(packed, "down"), "pack_a") == "the operand is packed already"
    assert refusal(tree, "split_128") == "the loop has 64 iterations"


def test_unknown_action() -> None:
    with pytest.raises(UsageError, match="unknown action"):
        refusal(matmul_tree(2, 2, 2), "fly")


def test_session_undoes() -> None:
    start = Session(matmul_tree(8, 8, 8))
    assert not start.mask(("undo",))[0]
    after = start.act("split_4").act("down")
    assert after.act("undo").tree == start.act("split_4").tree
    assert after.act("undo").act("undo") == start
    over = after.act("stop")
    assert over.is_over
    assert not any(over.mask())
    with pytest.raises(IllegalStep, match="stopped"):
        over.act("up")


def test_trees_that_do_not_cover_their_dimensions() -> None:
    tree = matmul_tree(4, 4, 4)
    with pytest.raises(UsageError, match="do not cover"):
        tree._with_loops(0, (TreeLoop("m", 3), *tree.nests[0].loops[1:]))


@given(seed=st.integers(0, 10**6))
def test_random_trees_compute_what_numpy_does(seed: int) -> None:
    random = Random(seed)
    case = drawn_case(random)
    tree = wandered(case.tree, random, random.randint(1, 14))
    assert parse_tree(tree_text(tree)) == tree
    nest = lower_tree(tree)
    check_nest(nest)
    arrays = case.arrays(seed)
    wanted = case.result(arrays)
    is_parallel = any(x.mark is Mark.PARALLEL for part in tree.nests for x in part.loops)
    interpret_nest(nest, arrays, {}, threads=3 if is_parallel else 1, seed=seed)
    np.testing.assert_array_equal(arrays["out"], wanted)


@given(seed=st.integers(0, 10**6))
def test_without_reassociation_sums_keep_every_bit(seed: int) -> None:
    """Numbers that round: any other order of a sum would show."""
    random = Random(seed)
    start = drawn_case(random, reassoc=False, kinds="mcbvs").tree
    tree = wandered(start, random, random.randint(1, 14))
    numbers = np.random.default_rng(seed)
    first = arrays_of(start, seed)
    for name, array in first.items():
        if name != "out":
            array[...] = numbers.normal(size=array.shape)
    second = {name: array.copy() for name, array in first.items()}
    interpret_nest(lower_tree(start), first, {})
    interpret_nest(lower_tree(tree), second, {})
    np.testing.assert_array_equal(second["out"], first["out"])


def test_masks_agree_with_what_can_be_done() -> None:
    random = Random(3)
    for _ in range(20):
        tree = wandered(drawn_case(random).tree, random, random.randint(0, 8))
        for word, ok in zip(ACTIONS, mask(tree), strict=True):
            if word in ("undo", "stop"):
                continue
            if ok:
                act(tree, word)
            else:
                with pytest.raises(IllegalStep):
                    act(tree, word)
