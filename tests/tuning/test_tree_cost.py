"""The closed form of a tree's cost: what it counts is what quick code does."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.backends.llvm.llvm_builder import FunctionBuilder
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.machine import Machine
from loopwright.machines.load import load_machine
from loopwright.tuning.actions import MOST_LOOPS, act
from loopwright.tuning.loop_tree import LoopTree, TreeNest
from loopwright.tuning.nest_code import NestCode
from loopwright.tuning.nest_facts import code_plan, quick_nest
from loopwright.tuning.quick_code import can_emit, emit_tree
from loopwright.tuning.quick_plan import CodePlan
from loopwright.tuning.tensor_nests import contraction_tree_of, matmul_tree
from loopwright.tuning.tree_cost import (
    TreeCostModel,
    bound_seconds,
    model_of,
    predict,
    predict_seconds,
)
from loopwright.tuning.tree_features import (
    COLUMNS,
    FEATURES,
    LOOP_COLUMNS,
    TREE_COLUMNS,
    features,
    tree_row,
)
from tuning.trees import drawn_case, wandered

N1 = load_machine("neoverse-n1")
TILES = "split_4 down swap_down down split_16 swap_up swap_up"


def done(tree: LoopTree, words: str) -> LoopTree:
    for word in words.split():
        tree = act(tree, word)
    return tree


def drawn_tree(seed: int) -> LoopTree:
    random = Random(seed)
    return wandered(drawn_case(random).tree, random, random.randint(0, 14))


def code_of(tree: LoopTree, nest: TreeNest, machine: Machine) -> NestCode:
    pointers = {array.name: f"%{array.name}" for array in tree.arrays}
    return NestCode(tree, nest, machine, FunctionBuilder(), pointers)


def without_sources(plan: CodePlan, accesses: int) -> CodePlan:
    """The plan without the sources of packed operands, which stand behind the operands."""
    levels = tuple(replace(x, coefs=x.coefs[:accesses]) for x in plan.levels)
    return replace(plan, levels=levels)


@given(seed=st.integers(0, 10**6))
def test_the_plan_is_that_of_quick_code(seed: int) -> None:
    tree = drawn_tree(seed)
    for nest in tree.nests:
        if can_emit(tree):
            facts = model_of(N1).facts(tree, nest.statement)
            wanted = without_sources(code_of(tree, nest, N1).plan, len(facts.moves))
            assert code_plan(quick_nest(nest, N1), facts, N1) == wanted


def operations_of(code: NestCode, limits: dict[str, int], depth: int = 0) -> int:
    """Vector operations of a nest, by running through its loops as the code does."""
    if depth == len(code.plan.levels):
        return 1
    level = code.plan.levels[depth]
    full, rest = divmod(limits[level.dim], level.step)
    count = len(list(code._groups(full))) if depth == code.plan.vector else full
    total = count * operations_of(code, {**limits, level.dim: level.step}, depth + 1)
    if rest:
        total += operations_of(code, {**limits, level.dim: rest}, depth + 1)
    return total


@given(seed=st.integers(0, 10**6))
def test_vector_operations_are_counted_exactly(seed: int) -> None:
    tree = drawn_tree(seed)
    for nest, cost in zip(tree.nests, predict(tree, N1).nests, strict=True):
        if can_emit(tree):
            code = code_of(tree, nest, N1)
            assert cost.operations == operations_of(code, dict(nest.statement.dims))


def test_loads_and_stores_of_straight_line_code_are_those_of_its_text() -> None:
    # m and n are one block, k is one straight-line body: all there is can be counted in the text.
    tree = parse("for k in 2\n  for m in 4\n    for n in 16")
    text = emit_tree(tree, N1).text
    cost = predict(tree, N1).nests[0]
    assert cost.operations == len(re.findall(r"call <4 x float> @llvm.fma", text)) == 32
    assert cost.loads == len(re.findall(r" load ", text)) == 2 * (4 + 4)
    assert cost.stores == len(re.findall(r"store ", text)) == 16


def parse(loops: str) -> LoopTree:
    """A product of 4 x 16 with a sum of 2, in the order of `loops`."""
    tree = contraction_tree_of("mk,kn->mn", {"m": 4, "k": 2, "n": 16})
    nest = tree.nests[0]
    order = [line.split()[1] for line in loops.splitlines()]
    by_dim = {loop.dim: loop for loop in nest.loops}
    return replace(tree, nests=(replace(nest, loops=tuple(by_dim[d] for d in order)),))


@given(seed=st.integers(0, 10**6))
def test_every_tree_has_a_cost_not_below_its_bound(seed: int) -> None:
    tree = drawn_tree(seed)
    for name in ("neoverse-n1", "zen3", "sapphirerapids"):
        machine = load_machine(name)
        cost = predict(tree, machine)
        assert 0 < cost.cycles < float("inf")
        assert cost.seconds == predict_seconds(tree, machine)
        assert all(0 <= n.waste < 1 and n.operations >= 1 for n in cost.nests)
        assert sum(n.arithmetic for n in cost.nests) / model_of(machine).hz <= cost.seconds
        assert bound_seconds(tree, machine) > 0


@given(seed=st.integers(0, 10**6))
def test_what_is_remembered_changes_nothing(seed: int) -> None:
    tree = drawn_tree(seed)
    known = predict(tree, N1)
    assert predict(tree, N1) == known == TreeCostModel(N1).cost(tree)


def test_tiles_are_predicted_faster_and_packing_in_the_inner_loop_slower() -> None:
    naive = matmul_tree(192, 192, 192)
    tiled = done(naive, TILES)
    inner = tiled.at(3)
    assert predict_seconds(tiled, N1) < 0.6 * predict_seconds(naive, N1)
    assert predict_seconds(act(inner, "pack_b"), N1) > 1.05 * predict_seconds(tiled, N1)


def test_strided_lanes_cost_more_than_contiguous_ones() -> None:
    sizes = {"m": 96, "k": 96, "n": 96}
    near = contraction_tree_of("mk,kn->mn", sizes)
    jammed = done(near, "down swap_down")  # m, n, k: k strides, lanes come from n
    far = contraction_tree_of("km,nk->mn", sizes)  # no loop has unit strides in all operands
    costs = [predict(tree, N1).nests[0] for tree in (near, jammed, far)]
    assert [cost.inserts > 0 for cost in costs] == [False, False, True]
    assert costs[0].cycles < costs[1].cycles < costs[2].cycles


def test_vectors_that_lie_in_two_lines_are_read_twice() -> None:
    # Each multiply-add loads a vector of B; elements of A, and vectors of 16 bytes, never cross.
    tree = matmul_tree(64, 64, 64)
    wide = load_machine("sapphirerapids")
    half = replace(wide, vector_bytes=32)
    for machine, share in ((N1, 0), (half, 0.5), (wide, 1)):
        cost = predict(tree, machine).nests[0]
        read = cost.loads + share * cost.operations + cost.stores
        assert cost.memory * machine.loads_per_cycle == read


def test_lines_enter_only_caches_that_do_not_hold_the_arrays() -> None:
    small, middle, large = (matmul_tree(n, n, n) for n in (40, 200, 900))
    assert predict(small, N1).nests[0].misses == (0, 0, 0)
    assert [n > 0 for n in predict(middle, N1).nests[0].misses] == [True, False, False]
    assert [n > 0 for n in predict(large, N1).nests[0].misses] == [True, True, False]


def test_rows_at_the_same_sets_lose_their_lines() -> None:
    # A column of B: 128 rows at a distance of 4 KiB begin at 4 of 256 sets, of 4 lines each.
    def misses(columns: int) -> float:
        sizes = {"m": 64, "k": 128, "n": columns}
        tree = contraction_tree_of("mk,kn->mn", sizes)
        nest = tree.nests[0]
        order = {loop.dim: loop for loop in nest.loops}
        loops = (order["n"], order["m"], order["k"])
        return predict(replace(tree, nests=(replace(nest, loops=loops),)), N1).nests[0].misses[0]

    assert misses(1024) / 1024 > 3 * misses(1040) / 1040


def test_threads_share_a_parallel_loop() -> None:
    tree = act(matmul_tree(256, 256, 256, writes=False), "parallel")
    one, two = (predict_seconds(tree, N1, threads) for threads in (1, 2))
    assert 0.5 * one < two < 0.55 * one
    assert predict_seconds(matmul_tree(256, 256, 256), N1, 2) > one


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "int32", "uint64", "complex64"])
def test_other_types_have_costs(dtype: str) -> None:
    tree = matmul_tree(33, 20, 17, DTYPES[dtype])
    assert 0 < predict_seconds(tree, N1) < 1


@given(seed=st.integers(0, 10**6))
def test_features_have_a_fixed_length_and_are_finite(seed: int) -> None:
    tree = drawn_tree(seed)
    found = features(tree, N1)
    assert (found.shape, found.dtype) == ((FEATURES,), np.float32)
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found[: len(TREE_COLUMNS)], tree_row(tree, N1))
    loops = found[len(TREE_COLUMNS) :].reshape(MOST_LOOPS, len(LOOP_COLUMNS))
    assert not loops[tree.count :].any()
    assert loops[:, 0].tolist() == [float(k == tree.cursor) for k in range(MOST_LOOPS)]
    trips = [loop.trips for nest in tree.nests for loop in nest.loops]
    np.testing.assert_allclose(2 ** loops[: tree.count, 1], trips, rtol=1e-5)


def test_columns_have_names_of_their_own() -> None:
    assert len(set(COLUMNS)) == len(COLUMNS) == FEATURES
