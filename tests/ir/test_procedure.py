"""The noun Procedure: its text, its check, and what it means."""

from dataclasses import replace

import numpy as np
import pytest

from loopwright.diagnostics import InternalError
from loopwright.ir.check_procedure import check_procedure
from loopwright.ir.dtypes import FLOAT64, INT64
from loopwright.ir.expr import Binary, Const, Expr, Load, Var
from loopwright.ir.interpret_procedure import breaks_guard, interpret_procedure
from loopwright.ir.procedure import (
    AllocateArray,
    ArrayRole,
    ArrayView,
    BindView,
    ComputeArray,
    LeaveLoop,
    MultiplyMatrices,
    Parameter,
    Procedure,
    ProcedureArray,
    ProcedureStmt,
    ReduceArray,
    ReturnedNumber,
    SetElement,
    ViewAxis,
    position,
)
from loopwright.ir.procedure_text import procedure_text

N = Var("a.n")
A = ProcedureArray("a", FLOAT64, (N,), ArrayRole.ARGUMENT)
TOTAL = ProcedureArray("total", FLOAT64, (), ArrayRole.RESULT)


def part(name: str, start: int, step: int = 1) -> ArrayView:
    """A view of a[start:], or of a from its end on, without one element."""
    at: Expr = Const(start) if step > 0 else N - 1 - start
    return ArrayView(name, "a", FLOAT64, (at,), (ViewAxis(N - 1, ((0, Const(step)),)),))


def whole(name: str) -> Load:
    return Load(name, (), FLOAT64)


def procedure(*body: ProcedureStmt) -> Procedure:
    return Procedure(
        "f",
        (Parameter("a", "array"),),
        ("a.n",),
        (A, TOTAL),
        (N >= 1,),
        body,
        ReturnedNumber("total", weak=False),
    )


def shifted() -> Procedure:
    """a[1:] += a[:-1]; return a.sum()"""
    return procedure(
        BindView(part("v", 1)),
        BindView(part("w", 0)),
        ComputeArray("v", Binary("add", whole("v"), whole("w"))),
        ReduceArray("total", "add", whole("a"), (N,), (0,), ((0,),)),
    )


def test_text() -> None:
    assert procedure_text(shifted()) == "\n".join(
        (
            "procedure f(a)",
            "argument a: float64[a.n]",
            "result total: float64[]",
            "guard a.n >= 1",
            "view v[a.n - 1] = a[1 + p0*1]",
            "view w[a.n - 1] = a[0 + p0*1]",
            "v[...] = v[] + w[]",
            "total[...] = add of a[] over axes (0,) of [a.n], runs ((0,),)",
            "return number total",
        )
    )


def test_values_come_before_writes() -> None:
    a = np.arange(5.0)
    check_procedure(shifted())
    total = interpret_procedure(shifted(), {"a": a}, {"a.n": 5})
    assert a.tolist() == [0, 1, 3, 5, 7]
    assert total == 16
    assert type(total) is np.float64


def test_guards() -> None:
    assert breaks_guard(shifted(), {"a.n": 0})
    assert not breaks_guard(shifted(), {"a.n": 1})


def test_positions_count_from_the_last_axis() -> None:
    square = ProcedureArray("s", INT64, (N, N))
    value = Binary("sub", position(2) * 10, Const(0)) + position(1)
    found = procedure(
        AllocateArray(square, (N, N)),
        ComputeArray("s", value),
        MultiplyMatrices("s", "s", "s"),
        SetElement("total", (), Const(0.0, FLOAT64)),
    )
    check_procedure(found)
    with pytest.raises(InternalError, match="a position stands outside of 1 axes"):
        check_procedure(procedure(ComputeArray("a", Load("a", (position(2),), FLOAT64))))


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ((ComputeArray("b", Const(1.0, FLOAT64)),), "array b is not known here"),
        ((LeaveLoop(),), "a loop is left where there is none"),
        ((SetElement("a", (), Const(1.0, FLOAT64)),), "0 subscripts for a of rank 1"),
        ((ComputeArray("a", Const(1)),), "int64 stands where float64 belongs"),
        ((BindView(part("a", 1)),), "name a is bound twice"),
        ((SetElement("total", (), whole("a")),), "a has more axes than 0"),
    ],
)
def test_what_is_not_valid(body: tuple[ProcedureStmt, ...], rule: str) -> None:
    with pytest.raises(InternalError, match=rule):
        check_procedure(procedure(*body))


def test_views_stay_inside() -> None:
    view = replace(part("v", 2))
    with pytest.raises(InternalError, match="view v leaves a"):
        interpret_procedure(procedure(BindView(view)), {"a": np.zeros(3)}, {"a.n": 3})
