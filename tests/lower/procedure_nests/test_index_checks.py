"""Checks of subscripts outside of loops: the same elements and exceptions whatever the bounds."""

from itertools import product

import numpy as np
import pytest
from tests.run_procedures import check_ways

from loopwright.diagnostics import Span
from loopwright.ir.dtypes import FLOAT64, INT64
from loopwright.ir.expr import Binary, Const, Expr, Load, Select, Var
from loopwright.ir.loops import For, If, Leave
from loopwright.ir.procedure import (
    ArrayRole,
    CheckThat,
    DefineName,
    Parameter,
    Procedure,
    ProcedureArray,
    ProcedureStmt,
    RangeLoop,
    ReturnedArray,
    SetElement,
)
from loopwright.ir.visit import statements
from loopwright.lower.procedure_nests.lower_procedure import lower_procedure

N, ZERO = Var("n"), Const(0)
HERE = Span("f.py", 1, 1, 1, 2)


def subscript(name: str, given: Expr) -> tuple[ProcedureStmt, ...]:
    """`name` is the subscript of an array of n elements, as front ends write it."""
    at, values = Var(name), (given, N)
    wrapped = Select(Binary("lt", given, ZERO), given + N, given)
    return (
        DefineName(name, wrapped),
        CheckThat(Binary("ge", at, ZERO), "IndexError", "{0} of {1}", values, HERE),
        CheckThat(Binary("ge", N - at - 1, ZERO), "IndexError", "{0} of {1}", values, HERE),
    )


def summing(step: Expr) -> Procedure:
    """The sum of a[k - 1] * a[idx[k]] for k in range(lo, hi, step)."""
    arrays = (
        ProcedureArray("a", FLOAT64, (N,), ArrayRole.ARGUMENT),
        ProcedureArray("idx", INT64, (N,), ArrayRole.ARGUMENT),
        ProcedureArray("r", FLOAT64, (), ArrayRole.RESULT),
    )
    k, total = Var("k"), Load("r", (), FLOAT64)
    term = Load("a", (Var("before"),), FLOAT64) * Load("a", (Var("there"),), FLOAT64)
    loop = RangeLoop(
        "k",
        Var("lo"),
        Var("hi"),
        step,
        (
            *subscript("before", k - 1),
            *subscript("at", k),
            DefineName("data", Load("idx", (Var("at"),), INT64)),
            *subscript("there", Var("data")),
            SetElement("r", (), total + term),
        ),
    )
    body = (SetElement("r", (), Const(0.0, FLOAT64)), loop)
    parameters = tuple(Parameter(x, "array") for x in ("a", "idx"))
    integers = tuple(Parameter(x, "int") for x in ("lo", "hi", "step"))
    return Procedure("f", (*parameters, *integers), ("n",), arrays, (), body, ReturnedArray("r"))


@pytest.mark.parametrize("step", [Const(1), Const(-2), Var("step")], ids=str)
def test_bounds_that_are_data(step: Expr) -> None:
    f = summing(step)
    a, n = np.arange(1.0, 5.0), 4
    for lo, hi in product((-5, -3, 1, 3), (-5, 2, 4, 6)):
        for idx in ([0, 3, -4, 2], [0, 1, 4, 0]):
            for by in (2, -1) if isinstance(step, Var) else (1,):
                integers = {"n": n, "lo": lo, "hi": hi, "step": by}
                check_ways(f, {"a": a, "idx": np.array(idx)}, integers)


def test_a_loop_inside_of_its_arrays_has_no_checks_of_its_variable() -> None:
    loops = [x for x in statements(lower_procedure(summing(Const(1))).body) if isinstance(x, For)]
    checks = [
        sum(isinstance(x, If) and any(isinstance(y, Leave) for y in statements(x)) for x in inner)
        for inner in (list(statements(loop.body)) for loop in loops)
    ]
    assert checks == [1, 3]
