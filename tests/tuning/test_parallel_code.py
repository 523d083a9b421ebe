"""Quick code of trees with parallel loops: chunks, results, and that nothing else is needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loopwright.ir.dtypes import DTYPES
from loopwright.ir.expr import Binary, Load, Var
from loopwright.ir.loops import Mark
from loopwright.ir.program import Access
from loopwright.machines.host import host
from loopwright.tuning import quick_kernel
from loopwright.tuning.actions import act
from loopwright.tuning.loop_tree import LoopTree, TreeNest, TreeStatement
from loopwright.tuning.parallel_code import chunks_of, parallel_code
from loopwright.tuning.quick_kernel import compile_tree
from loopwright.tuning.tensor_nests import contraction_tree_of, matmul_tree
from loopwright.tuning.tree_evaluator import example_arrays


@pytest.fixture
def no_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any) -> Any:
        raise AssertionError("the pipeline was asked")

    monkeypatch.setattr(quick_kernel, "compile_tree_by_pipeline", refuse)


def acted(tree: LoopTree, words: str) -> LoopTree:
    for word in words.split():
        tree = act(tree, word)
    return tree


@pytest.mark.drawn(3)
@pytest.mark.parametrize("threads", [1, 2, 3, 5])
@pytest.mark.parametrize(
    "words",
    [
        "parallel",
        "split_4 parallel",  # 37 rows: nine iterations and a tail
        "split_16 parallel down down split_8",
        "split_4 parallel down down pack_b",
        "down down down parallel",  # the nest that writes back
        "split_8 parallel down down down down split_4 parallel",
    ],
)
@pytest.mark.usefixtures("no_pipeline")
def test_products_are_right(words: str, threads: int) -> None:
    tree = acted(matmul_tree(37, 24, 20), words)
    assert any(loop.mark is Mark.PARALLEL for nest in tree.nests for loop in nest.loops)
    arrays = example_arrays(tree)
    arrays["out"][...] = -1
    call = compile_tree(tree, threads=threads).call_on(arrays)
    for _ in range(2):
        call()
        np.testing.assert_allclose(arrays["out"], arrays["A"] @ arrays["B"], rtol=1e-5)


def test_chunks_cover_the_loop_and_equal_ones_share_code() -> None:
    tree = acted(matmul_tree(37, 24, 20), "split_4 parallel")
    nest = tree.nests[0]
    chunks = chunks_of(tree, nest, 4)
    assert [part.loops[0].size for part, _ in chunks] == [2, 2, 2, 3]
    assert [part.loops[0].tail for part, _ in chunks] == [0, 0, 0, 1]
    assert sum(dict(part.statement.dims)["m"] for part, _ in chunks) == 37
    rows = {a.name: n for a, n in zip(tree.arrays, chunks[1][1] or (), strict=True)}
    assert rows == {"A": 8 * 20 * 4, "B": 0, "sums": 8 * 24 * 4, "out": 0}
    code = parallel_code(tree, host(), 4)
    assert code is not None
    assert [c.entry for c in code.nests[0]] == ["chunk0"] * 3 + ["chunk1"]
    assert len(chunks_of(tree, nest, 64)) == 9  # no more than iterations


def test_an_array_that_moves_in_two_ways_takes_the_pipeline() -> None:
    """`out[m, n] += A[m, k] * A[n, k]`: one iteration of m moves only the first."""
    f32 = DTYPES["float32"]
    start = contraction_tree_of("mk,nk->mn", {"m": 6, "n": 6, "k": 4}, f32)
    statement = start.nests[0].statement
    m, n, k = map(Var, "mnk")
    value = Binary("mul", Load("A", (m, k), f32), Load("A", (n, k), f32))
    changed = TreeStatement(statement.dims, Access("out", (m, n), f32), value, "add")
    arrays = tuple(a for a in start.arrays if a.name != "B")
    tree = LoopTree("square", arrays, (TreeNest(changed, start.nests[0].loops),), reassoc=True)
    tree = act(tree, "parallel")
    assert parallel_code(tree, host(), 2) is None
    given = example_arrays(tree)
    compile_tree(tree, threads=2)(given)
    np.testing.assert_allclose(given["out"], given["A"] @ given["A"].T, rtol=1e-5)
