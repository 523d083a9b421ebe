"""Issue slots of statements: loops that depend on each other, chains of sums, vectors."""

from __future__ import annotations

import pytest

from loopwright.ir.dtypes import FLOAT64
from loopwright.ir.expr import Binary, Const, Expr, Load, Var
from loopwright.ir.loops import Buffer, For, If, Mark, Space, Stmt, Store
from loopwright.machines.load_mesh import load_mesh
from loopwright.planner.mesh_plans.mesh_work import Costs, DataDependent, Slots, index_function

SW = load_mesh("sw26010")
ROW, J, K, N = (Var(name) for name in "ijkn")
BOX = {
    name: Buffer(name, FLOAT64, strides, Space.SCRATCHPAD, writable=True)
    for name, strides in (("A", (Const(64), Const(1))), ("x", (Const(1),)), ("y", (Const(1),)))
}


def _loop(var: Var, stop: Expr | int, body: Stmt, mark: Mark = Mark.SERIAL) -> For:
    end = Const(stop) if isinstance(stop, int) else stop
    return For(var.name, Const(0), end, body, Const(1), mark)


def _sum(target: str, *index: Expr) -> Store:
    """target[index] += A[i, k] * x[k]"""
    element = Load(target, index, FLOAT64)
    term = Binary("mul", Load("A", (ROW, K), FLOAT64), Load("x", (K,), FLOAT64))
    return Store(target, index, Binary("add", element, term))


def _cost(stmt: Stmt, **sizes: int) -> Slots:
    return Costs(SW, BOX).of(stmt).cost(dict(sizes))


def test_a_sum_in_one_element_takes_the_latency_of_a_sum() -> None:
    found = _cost(_loop(K, 100, _sum("y", ROW)), i=0)
    assert (found.vector, found.flops) == (100, 200)  # products and sums are fused
    assert found.memory == 2 + 100 * 5  # three loads, a store, the branch
    assert found.cycles == 2 + 100 * 7


def test_sums_in_different_elements_take_the_slots_of_a_pipeline() -> None:
    found = _cost(_loop(ROW, 100, _sum("y", ROW)), k=0)
    assert found.cycles == found.memory == 2 + 100 * 5


@pytest.mark.parametrize("size", [0, 1, 7, 40])
def test_triangles_are_counted(size: int) -> None:
    guarded = If(Binary("lt", J + K, N), _sum("y", K))
    nest = _loop(ROW, N, _loop(J, ROW, _loop(K, ROW - J, guarded)))
    found = _cost(nest, n=size)
    runs = sum(j + k < size for i in range(size) for j in range(i) for k in range(i - j))
    assert found.flops == 2 * runs


def test_an_index_that_reads_data_has_no_value() -> None:
    with pytest.raises(DataDependent):
        index_function(Load("x", (ROW,), FLOAT64))
