"""Loops of vectors run singly where their elements lie apart and vectors have few lanes."""

from __future__ import annotations

import pytest

from loopwright.ir.dtypes import DTYPES
from loopwright.ir.expr import Binary, Const, Expr, Load, Var
from loopwright.ir.loops import Block, Buffer, For, LoopNest, Mark, Stmt, Store
from loopwright.lower.values.elements_apart import run_elements_singly
from loopwright.machines import load_machine

REAL = DTYPES["float64"]
J, ROW = Var("j"), Var("i")
ZERO, ONE, TWO = Const(0), Const(1), Const(2)


def u(row: Expr, column: Expr) -> Load:
    return Load("u", (row, column), REAL)


def relaxed(at: Expr) -> Store:
    """A point of a grid from its four neighbours and a right-hand side."""
    around = u(ROW - ONE, at) + u(ROW + ONE, at) + u(ROW, at - ONE) + u(ROW, at + ONE)
    rest = Binary("sub", around, Load("f", (ROW, at), REAL))
    return Store("u", (ROW, at), Binary("mul", Const(0.25, REAL), rest))


def copies(body: Stmt, machine: str, step: Expr = ONE, mark: Mark = Mark.SIMD) -> int:
    loop = For("j", ONE, Const(99), body, step, mark)
    buffers = tuple(Buffer(x, REAL, (Const(99), ONE), writable=True) for x in "uf")
    found = run_elements_singly(LoopNest("f", buffers, (), loop), load_machine(machine).lanes).body
    assert isinstance(found, For)
    assert found.mark is mark
    return found.copies


def test_stores_with_gaps_go_singly_where_vectors_are_short() -> None:
    assert copies(relaxed(J), "neoverse-n1", step=TWO) == 1
    assert copies(relaxed(J * TWO), "neoverse-n1") == 1
    assert copies(relaxed(J), "sapphirerapids", step=TWO) == 0


@pytest.mark.parametrize(
    "body",
    [
        relaxed(J),  # neighbours
        Store("u", (J, ZERO), u(J, ONE)),  # rows of unknown length
        # Both elements of every pair: whole vectors after a shuffle.
        Block(
            tuple(Store("u", (ROW, J * TWO + k), u(ROW, J) * u(ROW + ONE, J)) for k in (ZERO, ONE))
        ),
    ],
)
def test_others_stay_vectors(body: Stmt) -> None:
    assert copies(body, "neoverse-n1") == 0


def test_serial_loops_are_left_alone() -> None:
    assert copies(relaxed(J), "neoverse-n1", step=TWO, mark=Mark.SERIAL) == 0
