"""What makes a Procedure valid: names in scope, types of operands, control inside of loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from loopwright.diagnostics import InternalError
from loopwright.ir.check_expr import InvalidExpr, Scope, check_expr
from loopwright.ir.dtypes import BOOL, INT64, DType
from loopwright.ir.expr import Const, Expr, Load, Var
from loopwright.ir.procedure import (
    AllocateArray,
    ArrayView,
    BindView,
    CheckThat,
    Choose,
    ComputeArray,
    DefineName,
    EndlessLoop,
    LeavableBlock,
    LeaveBlock,
    LeaveLoop,
    MultiplyMatrices,
    NextIteration,
    Procedure,
    ProcedureStmt,
    RangeLoop,
    ReduceArray,
    ReturnNow,
    SetElement,
    position_of,
)
from loopwright.ir.procedure_text import procedure_text
from loopwright.ir.visit import rewrite, walk
from loopwright.lazy_dataclass import dataclass

__all__ = ["check_procedure"]


def check_procedure(procedure: Procedure) -> None:
    """Raise InternalError unless every statement is well typed and uses names it may use."""
    try:
        _check(procedure)
    except InvalidExpr as error:
        where = f"procedure {procedure.name} is not valid: {error.rule}"
        raise InternalError(where, procedure_text(procedure)) from error


@dataclass(frozen=True, slots=True)
class _Known:
    """The names that a statement may use."""

    variables: dict[str, DType]
    arrays: dict[str, tuple[DType, int]]  # and views
    in_loop: bool = False
    blocks: frozenset[str] = frozenset()  # that may be left

    def expression(self, expr: Expr, wanted: DType | None = None, rank: int = 0) -> None:
        """Check an expression that is lifted to at most `rank` axes."""

        def plain(part: Expr) -> Expr:
            match part:
                case Load(array=name, index=()) if self.arrays.get(name, (None, 0))[1]:
                    if self.arrays[name][1] > rank:
                        raise InvalidExpr(part, f"{name} has more axes than {rank}")
                    return replace(part, index=(Const(0),) * self.arrays[name][1])
            return part

        lanes = {x.name for x in walk(expr) if isinstance(x, Var) and position_of(x.name)}
        if any((position_of(name) or 0) > rank for name in lanes):
            raise InvalidExpr(expr, f"a position stands outside of {rank} axes")
        scope = Scope({**self.variables, **dict.fromkeys(lanes, INT64)}, self.arrays)
        check_expr(rewrite(expr, plain), scope)
        if wanted is not None and expr.dtype != wanted:
            raise InvalidExpr(expr, f"{expr.dtype} stands where {wanted} belongs")

    def integers(self, exprs: Sequence[Expr]) -> None:
        for expr in exprs:
            self.expression(expr, INT64)

    def array(self, name: str) -> tuple[DType, int]:
        if name not in self.arrays:
            raise InvalidExpr(None, f"array {name} is not known here")
        return self.arrays[name]

    def with_variable(self, name: str, dtype: DType) -> _Known:
        self.require_free(name)
        return replace(self, variables={**self.variables, name: dtype})

    def with_array(self, name: str, dtype: DType, rank: int) -> _Known:
        self.require_free(name)
        return replace(self, arrays={**self.arrays, name: (dtype, rank)})

    def require_free(self, name: str) -> None:
        if name in self.variables or name in self.arrays:
            raise InvalidExpr(None, f"name {name} is bound twice")


def _check(procedure: Procedure) -> None:
    known = _Known(dict.fromkeys(procedure.integers, INT64), {})
    for guard in procedure.guards:
        known.expression(guard, BOOL)
    for array in procedure.arrays:
        known.integers(array.shape)
    for array in procedure.arrays:
        known = known.with_array(array.name, array.dtype, array.rank)
    _block(procedure.body, known)
    late = dict.fromkeys((name for name, _ in procedure.late), INT64)
    for _, cell in procedure.late:
        if known.array(cell) != (INT64, 0):
            raise InvalidExpr(None, f"{cell} holds no integer")
    for view in procedure.views:
        _view(view, replace(known, variables={**known.variables, **late}))


def _block(body: Sequence[ProcedureStmt], known: _Known) -> None:
    for stmt in body:
        known = _statement(stmt, known)


def _statement(stmt: ProcedureStmt, known: _Known) -> _Known:
    """Check a statement; what is known after it."""
    match stmt:
        case DefineName(name=name, value=value):
            known.expression(value)
            return known.with_variable(name, value.dtype)
        case BindView(view=view):
            _view(view, known)
            return known.with_array(view.name, view.dtype, len(view.axes))
        case AllocateArray(array=array, most=most):
            known.integers((*array.shape, *most))
            if len(most) != array.rank:
                raise InvalidExpr(None, f"array {array.name} has bounds for {len(most)} axes")
            return known.with_array(array.name, array.dtype, array.rank)
        case SetElement(array=name, index=index, value=value):
            dtype, rank = known.array(name)
            known.integers(index)
            if len(index) != rank:
                raise InvalidExpr(None, f"{len(index)} subscripts for {name} of rank {rank}")
            known.expression(value, dtype)
        case ComputeArray(target=name, value=value):
            dtype, rank = known.array(name)
            known.expression(value, dtype, rank)
        case ReduceArray():
            _reduction(stmt, known)
        case MultiplyMatrices(target=name, left=left, right=right):
            types = {known.array(x)[0] for x in (name, left, right)}
            if len(types) > 1:
                raise InvalidExpr(None, f"factors and product of {name} have several types")
        case RangeLoop(var=var, body=body):
            known.integers((stmt.start, stmt.stop, stmt.step))
            _block(body, replace(known.with_variable(var, INT64), in_loop=True))
        case EndlessLoop(body=body):
            _block(body, replace(known, in_loop=True))
        case Choose(cond=cond, body=body, orelse=orelse):
            known.expression(cond, BOOL)
            _block(body, known)
            _block(orelse, known)
        case LeavableBlock(name=name, body=body):
            _block(body, replace(known, blocks=known.blocks | {name}))
        case LeaveBlock(name=name):
            if name not in known.blocks:
                raise InvalidExpr(None, f"block {name} is left from outside")
        case LeaveLoop() | NextIteration():
            if not known.in_loop:
                raise InvalidExpr(None, "a loop is left where there is none")
        case ReturnNow():
            pass
        case CheckThat(cond=cond, values=values):
            known.expression(cond, BOOL)
            known.integers(values)
        case _:
            assert_never(stmt)
    return known


def _view(view: ArrayView, known: _Known) -> None:
    dtype, rank = known.array(view.base)
    if dtype != view.dtype or len(view.start) != rank:
        raise InvalidExpr(None, f"view {view.name} is not of {view.base}")
    known.integers((*view.start, *view.shape))
    for axis in view.axes:
        for dimension, step in axis.steps:
            known.integers((step,))
            if not 0 <= dimension < rank:
                raise InvalidExpr(None, f"view {view.name} has no dimension {dimension}")


def _reduction(stmt: ReduceArray, known: _Known) -> None:
    dtype, rank = known.array(stmt.target)
    known.integers(stmt.shape)
    known.expression(stmt.value, dtype, len(stmt.shape))
    every = list(range(len(stmt.shape)))
    if sorted(axis for run in stmt.runs for axis in run) != every:
        raise InvalidExpr(None, f"the runs of {stmt.target} are not its axes")
    if len(every) - len(stmt.axes) != rank or not set(stmt.axes) <= set(every):
        raise InvalidExpr(None, f"the axes of {stmt.target} do not fit its rank")
