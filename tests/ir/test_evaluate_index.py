"""Subscripts and guards by Python's integers: equal to the rules of ir/evaluate, errors too."""

import numpy as np
import pytest

from loopwright.diagnostics import InternalError
from loopwright.ir.dtypes import BOOL, FLOAT64
from loopwright.ir.evaluate import Given, compile_expr, quiet
from loopwright.ir.evaluate_index import as_index
from loopwright.ir.expr import Binary, Const, Expr, Load, Unary, Var
from loopwright.ir.memory import Cells

HERE, THERE = Var("i"), Var("thread.x")
EXPRESSIONS = (
    Const(-3),
    HERE * 7 - THERE,
    Unary("neg", HERE) + 2,
    HERE.min(THERE).max(4),
    (HERE - 20) // 8,
    (HERE - 20) % 8,
    HERE // -3,
    HERE % -3,
    HERE * HERE // Const(0),
    HERE < THERE,
    Binary("and", HERE <= 3, Binary("ne", THERE, Const(5))),
    Binary("or", HERE > 3, HERE.equals(THERE)),
    Const(True, BOOL),
    Load("a", (HERE % 4,), Var("i").dtype) + 1,
)


@pytest.mark.parametrize("expr", EXPRESSIONS, ids=str)
def test_values_are_those_of_the_rules(expr: Expr) -> None:
    exact = compile_expr(expr)
    found = as_index(expr, exact)
    data = {"a": np.array([3, 1, 4, 1])}
    for i in (-17, -1, 0, 3, 4, 29):
        for j in (-5, 3, 5):
            frame = frame_of({"i": np.int64(i), "thread.x": np.int64(j)}, data)
            with quiet():
                assert found(frame) == exact(frame)
                assert type(found(frame)) is int or expr.dtype == BOOL


def frame_of(
    variables: dict[str, np.generic], arrays: dict[str, np.ndarray] | None = None
) -> Given:
    return Given(variables, {name: Cells(name, data) for name, data in (arrays or {}).items()})


def test_what_leaves_int64_wraps_as_by_the_rules() -> None:
    expr = HERE * (1 << 40)
    frame = frame_of({"i": np.int64((1 << 40) + 3)})
    with quiet():
        assert as_index(expr, compile_expr(expr))(frame) == 3 << 40


def test_faults_are_told_by_the_rules() -> None:
    expr = HERE + 1
    code = as_index(expr, compile_expr(expr))
    with pytest.raises(InternalError, match="variable i has no value here"):
        code(frame_of({}))
    with pytest.raises(InternalError, match=r"operands of 'add' are float64 and int64"):
        code(frame_of({"i": np.float64(2)}))


def test_floats_are_no_indices() -> None:
    expr = Binary("lt", Var("x", FLOAT64), Const(0.5, FLOAT64))
    frame = frame_of({"x": np.float64(0.25)})
    assert as_index(expr, compile_expr(expr))(frame)
