"""Quick code: equal to NumPy for random trees, in the order of the loops, without spills."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from loopwright.ir.dtypes import DTYPES
from loopwright.ir.expr import Const, Var
from loopwright.ir.program import Access, Array, Role
from loopwright.machines.host import host
from loopwright.machines.load import load_machine
from loopwright.runtime import llvm_engine
from loopwright.tuning.actions import act
from loopwright.tuning.loop_tree import LoopTree, shape_of
from loopwright.tuning.quick_code import can_emit, emit_tree
from loopwright.tuning.quick_kernel import compile_tree, compile_tree_by_pipeline
from loopwright.tuning.tensor_nests import contraction_tree_of, matmul_tree, nest_of
from tuning.trees import Arrays, drawn_case, wandered


def done(tree: LoopTree, words: str) -> LoopTree:
    for word in words.split():
        tree = act(tree, word)
    return tree


def floats(tree: LoopTree, seed: int = 0) -> Arrays:
    """Operands that round."""
    random = np.random.default_rng(seed)
    return {
        a.name: random.normal(size=shape_of(a)).astype(a.dtype.numpy)
        for a in tree.arrays
        if a.role is not Role.LOCAL
    }


@given(seed=st.integers(0, 10**6))
def test_random_trees_run_as_numpy_does(seed: int) -> None:
    random = Random(seed)
    case = drawn_case(random)
    tree = wandered(case.tree, random, random.randint(0, 14))
    arrays = case.arrays(seed)
    wanted = case.result(arrays)
    for compiled in (compile_tree, compile_tree_by_pipeline):
        arrays["out"][...] = 77
        compiled(tree)(arrays)
        np.testing.assert_array_equal(arrays["out"], wanted)


@given(seed=st.integers(0, 10**6))
def test_without_reassociation_sums_keep_every_bit(seed: int) -> None:
    """Products and their sums are rounded once, and sums come in the order of the source."""
    random = Random(seed)
    start = drawn_case(random, reassoc=False, kinds="mcbvs").tree
    tree = wandered(start, random, random.randint(1, 14))
    assume(can_emit(tree))
    first = floats(start, seed)
    second = {name: array.copy() for name, array in first.items()}
    compile_tree(start)(first)
    compile_tree(tree)(second)
    np.testing.assert_array_equal(second["out"], first["out"])


@pytest.mark.parametrize("name", ["float16", "float64", "int8", "uint16", "int64"])
@pytest.mark.parametrize("plus", ["add", "max"])
def test_other_types(name: str, plus: str) -> None:
    sizes = {"i": 9, "j": 13, "k": 7}
    tree = contraction_tree_of("ik,kj->ij", sizes, DTYPES[name], plus=plus)
    tree = done(tree, "split_4 down swap_down down split_8")
    random = np.random.default_rng(1)
    given_ = {a.name: random.integers(0, 3, shape_of(a)).astype(name) for a in tree.arrays}
    compile_tree(tree)(given_)
    products = given_["A"].astype("int64")[:, :, None] * given_["B"].astype("int64")[None]
    wanted = products.sum(axis=1) if plus == "add" else products.max(axis=1)
    np.testing.assert_array_equal(given_["out"], wanted.astype(name))


@pytest.mark.parametrize("seed", range(6))
def test_random_products_do_not_spill(seed: int) -> None:
    random = Random(seed)
    tree = wandered(matmul_tree(96, 80, 64), random, 10)
    if not can_emit(tree):
        pytest.skip("parallel")
    text = llvm_engine.assembly(emit_tree(tree, load_machine("neoverse-n1")).text)
    spilled = [line for line in text.splitlines() if "q" in line and "[sp" in line]
    assert len(spilled) <= 16, "d8 to d15 are saved once, at the start and the end"


def test_writes_that_meet_are_left_to_the_pipeline() -> None:
    """`out[i + j] += A[i] * B[j]`: different points of i and j write one element."""
    f64 = DTYPES["float64"]
    sizes = {"i": 5, "j": 6}
    start = contraction_tree_of("i,j->ij", sizes, f64)
    a, b = start.arrays[:2]
    out = Array("out", f64, (Const(10),), Role.OUT)
    write = Access("out", (Var("i") + Var("j"),), f64)
    nest = nest_of(list(sizes.items()), write, start.nests[0].statement.value, "add")
    tree = LoopTree("polynomials", (a, b, out), (nest,), reassoc=True)
    assert not can_emit(tree)
    arrays = floats(tree)
    compile_tree(tree)(arrays)
    np.testing.assert_allclose(arrays["out"], np.convolve(arrays["A"], arrays["B"]))


def test_contiguous_copies_are_one_call() -> None:
    tree = matmul_tree(12, 16, 8)
    text = emit_tree(done(tree, "pack_b"), host()).text
    assert "i64 768, i1 false" in text  # sums to out
    assert "i64 512, i1 false" in text  # B to its buffer
