"""Elements by masks: kept in place where every operand has the mask, else stored one by one."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence

from loopwright.frontends.python.procedures.abstract_values import (
    AnyValue,
    ArrayValue,
    MaskedValue,
)
from loopwright.frontends.python.procedures.building import Building
from loopwright.frontends.python.procedures.subscripts import base_index
from loopwright.frontends.python.python_values import PyValue
from loopwright.frontends.refusal import Refusal
from loopwright.ir.dtypes import INT64
from loopwright.ir.expr import Binary, Const, Expr, Load, Select, Var
from loopwright.ir.procedure import Choose, ProcedureStmt, RangeLoop, SetElement, ViewAxis

__all__ = ["masked", "scatter", "solid"]


def _common_mask(operands: Sequence[AnyValue]) -> ArrayValue | None:
    """The mask that all operands but numbers have; None where there is none."""
    masks = [x.mask for x in operands if isinstance(x, MaskedValue)]
    others = [x for x in operands if not isinstance(x, MaskedValue | PyValue)]
    if not masks or others:
        return None
    first = masks[0]
    is_one = all(x.expr == first.expr and x.shape == first.shape for x in masks)
    return first if is_one else None


def _whole_arrays(operands: Sequence[AnyValue]) -> list[AnyValue]:
    """The whole arrays that masked operands are elements of."""
    return [x.array if isinstance(x, MaskedValue) else x for x in operands]


def solid(build: Building, value: AnyValue) -> AnyValue:
    """The value; elements by a mask as an array of their own, an array of rank 0 as its number."""
    if isinstance(value, ArrayValue) and not value.rank:
        return PyValue(value.expr)
    return _compressed(build, value) if isinstance(value, MaskedValue) else value


def _compressed(build: Building, value: MaskedValue) -> ArrayValue:
    """The chosen elements in a row, in the order of C."""
    array, mask = build.store(value.array, "whole"), build.store(value.mask, "mask")
    most = functools.reduce(operator.mul, array.shape, Const(1))
    found = build.allocate("chosen", array.dtype, (most,))
    assert found.view is not None

    def keep(at: Sequence[Expr], place: Expr) -> None:
        assert array.view is not None
        assert found.view is not None
        element = Load(array.view.base, base_index(array.view, at), array.dtype)
        build.emit(SetElement(found.view.base, (place,), element))

    count = _each_chosen(build, mask, keep)
    if isinstance(count, Var):
        build.ranges.set(count.name, Const(0), most)
    axes = (ViewAxis(count, ((0, Const(1)),)),)
    chosen = build.bind(found.view.base, (Const(0),), axes, "chosen")
    assert chosen.view is not None
    build.roomy[found.view.base] = chosen.view
    return chosen


def scatter(build: Building, array: ArrayValue, mask: ArrayValue, value: ArrayValue) -> None:
    """`array[mask] = vector`: one element of the vector for each true element of the mask."""
    if value.rank != 1:
        text = f"elements by a mask are given an array of rank {value.rank}"
        raise Refusal("LW182", text, hint="a vector, or a number")
    mask, value = build.copy(mask, "mask"), build.copy(value, "values")
    count = _each_chosen(build, mask, lambda at, place: None)
    extent = value.shape[0]
    text = (
        "NumPy boolean array indexing assignment cannot assign {0} input values to the {1} output"
    )
    text += " values where the mask is true"
    is_one = extent.equals(1)
    cond = Binary("or", is_one, extent.equals(count))
    build.check(cond, "ValueError", text, (extent, count))

    def put(at: Sequence[Expr], place: Expr) -> None:
        assert array.view is not None
        assert value.view is not None
        index = base_index(value.view, [Select(is_one, Const(0), place)])
        element = Load(value.view.base, index, value.dtype)
        build.emit(SetElement(array.view.base, base_index(array.view, at), element))

    _each_chosen(build, mask, put)


def _each_chosen(
    build: Building, mask: ArrayValue, body: Callable[[Sequence[Expr], Expr], None]
) -> Expr:
    """Emit `body(indices, place)` for each true element, in the order of C; return their count."""
    assert mask.view is not None
    cell = build.cell("count", INT64)
    build.set(cell, Const(0))
    at = [Var(build.names.fresh("k")) for _ in mask.shape]
    with build.block() as block:
        place = build.define("place", build.load(cell))
        body(at, place)
        build.set(cell, Binary("add", place, Const(1)))
    cond = Load(mask.view.base, base_index(mask.view, at), mask.dtype)
    inner: tuple[ProcedureStmt, ...] = (Choose(cond, tuple(block)),)
    for var, extent in zip(reversed(at), reversed(mask.shape), strict=True):
        inner = (RangeLoop(var.name, Const(0), extent, Const(1), inner),)
    build.emit(inner[0])
    return build.define("count", build.load(cell))


def masked(
    rule: Callable[[Sequence[AnyValue]], AnyValue], operands: Sequence[AnyValue]
) -> AnyValue | None:
    """A rule applied to whole arrays where all operands have one mask; None where not."""
    mask = _common_mask(operands)
    if mask is None:
        return None
    found = rule(_whole_arrays(operands))
    return MaskedValue(found, mask) if isinstance(found, ArrayValue) else found
