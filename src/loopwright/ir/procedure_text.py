"""Readable text of a Procedure, one statement a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from loopwright.ir.expr import Expr
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
    ProcedureArray,
    ProcedureStmt,
    RangeLoop,
    ReduceArray,
    Returned,
    ReturnedArray,
    ReturnedNumber,
    ReturnedOneOf,
    ReturnedPart,
    ReturnedTuple,
    ReturnNow,
    SetElement,
)
from loopwright.ir.text import INDENT, expr_text

__all__ = ["procedure_text"]


def procedure_text(procedure: Procedure) -> str:
    """The procedure as text: parameters, arrays, guards, statements, what is returned."""
    names = ", ".join(p.name for p in procedure.parameters)
    lines = [f"procedure {procedure.name}({names})"]
    lines += [f"{array.role.value} {_array(array)}" for array in procedure.arrays]
    lines += [f"guard {expr_text(guard)}" for guard in procedure.guards]
    lines += _block(procedure.body)
    lines += [f"late {name} = {cell}" for name, cell in procedure.late]
    lines += [f"view {_view(view)}" for view in procedure.views]
    lines.append(f"return {_returned(procedure.returned)}")
    return "\n".join(lines)


def _array(array: ProcedureArray) -> str:
    order = f" order {array.order}" if array.order else ""
    return f"{array.name}: {array.dtype}[{_list(array.shape)}]{order}"


def _view(view: ArrayView) -> str:
    subscripts = [[expr_text(start)] for start in view.start]
    for number, axis in enumerate(view.axes):
        for dimension, step in axis.steps:
            subscripts[dimension].append(f"p{number}*{expr_text(step)}")
    at = ", ".join(" + ".join(parts) for parts in subscripts)
    return f"{view.name}[{_list(view.shape)}] = {view.base}[{at}]"


def _list(exprs: Sequence[Expr]) -> str:
    return ", ".join(map(expr_text, exprs))


def _block(body: Sequence[ProcedureStmt]) -> Iterator[str]:
    for stmt in body:
        yield from _lines(stmt)


def _inside(body: Sequence[ProcedureStmt]) -> Iterator[str]:
    for line in _block(body):
        yield INDENT + line


def _lines(stmt: ProcedureStmt) -> Iterator[str]:
    match stmt:
        case DefineName(name=name, value=value):
            yield f"{name} := {expr_text(value)}"
        case BindView(view=view):
            yield f"view {_view(view)}"
        case AllocateArray(array=array, most=most):
            bound = "" if most == array.shape else f" within [{_list(most)}]"
            yield f"local {_array(array)}{bound}"
        case SetElement(array=array, index=index, value=value):
            yield f"{array}[{_list(index)}] = {expr_text(value)}"
        case ComputeArray(target=target, value=value):
            yield f"{target}[...] = {expr_text(value)}"
        case ReduceArray(target=target, op=op, value=value):
            over = f"axes {stmt.axes} of [{_list(stmt.shape)}], runs {stmt.runs}"
            yield f"{target}[...] = {op} of {expr_text(value)} over {over}"
        case MultiplyMatrices(target=target, left=left, right=right):
            yield f"{target}[...] = {left} @ {right}"
        case RangeLoop(var=var, start=start, stop=stop, step=step, body=body):
            yield f"for {var} in range({_list((start, stop, step))}):"
            yield from _inside(body)
        case EndlessLoop(body=body):
            yield "loop:"
            yield from _inside(body)
        case Choose(cond=cond, body=body, orelse=orelse):
            yield f"if {expr_text(cond)}:"
            yield from _inside(body)
            if orelse:
                yield "else:"
                yield from _inside(orelse)
        case LeavableBlock(name=name, body=body):
            yield f"block {name}:"
            yield from _inside(body)
        case LeaveBlock(name=name):
            yield f"leave {name}"
        case LeaveLoop():
            yield "leave"
        case NextIteration():
            yield "next"
        case ReturnNow():
            yield "return"
        case CheckThat(cond=cond, exception=exception, text=text):
            yield f"check {expr_text(cond)} else {exception}({text!r})"
        case _:
            assert_never(stmt)


def _returned(returned: Returned) -> str:
    match returned:
        case ReturnedArray(name=name):
            return name
        case ReturnedNumber(name=name, weak=weak):
            return f"{'python' if weak else 'number'} {name}"
        case ReturnedTuple(items=items, is_none=is_none):
            return "None" if is_none else f"({', '.join(map(_returned, items))})"
        case ReturnedPart(item=item, part=part):
            return f"{_returned(item)}.{part}"
        case ReturnedOneOf(which=which, items=items):
            return f"by {which}: {' | '.join(map(_returned, items))}"
        case _:
            assert_never(returned)
