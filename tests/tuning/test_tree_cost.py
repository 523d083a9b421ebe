"""The closed form of a tree's cost: what it counts is what quick code does."""

from __future__ import annotations

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
from loopwright.tuning.actions import MOST_LOOPS
from loopwright.tuning.loop_tree import LoopTree, TreeNest
from loopwright.tuning.nest_code import NestCode
from loopwright.tuning.nest_facts import code_plan, quick_nest
from loopwright.tuning.quick_code import can_emit
from loopwright.tuning.quick_plan import CodePlan
from loopwright.tuning.tensor_nests import matmul_tree
from loopwright.tuning.tree_cost import (
    bound_seconds,
    model_of,
    predict,
    predict_seconds,
)
from loopwright.tuning.tree_features import (
    FEATURES,
    LOOP_COLUMNS,
    TREE_COLUMNS,
    features,
    tree_row,
)
from tuning.trees import drawn_case, wandered

N1 = load_machine("neoverse-n1")


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


def test_lines_enter_only_caches_that_do_not_hold_the_arrays() -> None:
    small, middle, large = (matmul_tree(n, n, n) for n in (40, 200, 900))
    assert predict(small, N1).nests[0].misses == (0, 0, 0)
    assert [n > 0 for n in predict(middle, N1).nests[0].misses] == [True, False, False]
    assert [n > 0 for n in predict(large, N1).nests[0].misses] == [True, True, False]


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
