"""Subscripts of arrays: elements, and views by slices, integers, new axes and `...`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from types import EllipsisType
from typing import TypeAlias

from loopwright.frontends.python.procedures.abstract_values import (
    AnyValue,
    ArrayValue,
    MaskedValue,
    Slice,
    StaticValue,
    TupleValue,
    one_step,
)
from loopwright.frontends.python.procedures.building import Building
from loopwright.frontends.python.procedures.extents import clamped, difference, normal
from loopwright.frontends.python.python_values import PyValue, constant
from loopwright.frontends.refusal import Refusal
from loopwright.ir.dtypes import BOOL
from loopwright.ir.expr import Binary, Const, Expr, Load, Select, Var
from loopwright.ir.procedure import ArrayView, ViewAxis

__all__ = ["Item", "Subscripts", "base_index", "is_whole_step", "require_mask"]


Item: TypeAlias = PyValue | Slice | ArrayValue | EllipsisType | None
_OUTSIDE = "index {0} is out of bounds for axis {1} with size {2}"


class Subscripts:
    """Reads subscripts and applies them to arrays."""

    def __init__(
        self,
        build: Building,
        value: Callable[[ast.expr], AnyValue],
        array_of: Callable[[AnyValue], AnyValue],
    ) -> None:
        self._build = build
        self._value = value
        self._array_of = array_of  # what NumPy makes of a list

    # -- reading ----------------------------------------------------------------------------------

    def items(self, node: ast.expr) -> list[Item]:
        """The parts of a subscript."""
        if isinstance(node, ast.Tuple):
            return [self._item(part) for part in node.elts]
        if isinstance(node, ast.Slice):
            return [self._item(node)]
        return self.items_of(self._value(node))

    def items_of(self, value: AnyValue) -> list[Item]:
        """The parts of a subscript that is a value."""
        if isinstance(value, TupleValue) and not value.is_list:
            return [self._plain(item) for item in value.items]
        return [self._plain(value)]

    def _item(self, node: ast.expr) -> Item:
        if isinstance(node, ast.Slice):
            parts = [node.lower, node.upper, node.step]
            return Slice(*(None if part is None else self._bound(part) for part in parts))
        return self._plain(self._value(node))

    def _bound(self, node: ast.expr) -> PyValue | None:
        value = self._value(node)
        if isinstance(value, StaticValue) and value.value is None:
            return None
        if not isinstance(value, PyValue):
            raise Refusal("LW114", "the bound of a slice is not an integer", found=str(value))
        return value

    def _plain(self, value: AnyValue) -> Item:
        if isinstance(value, StaticValue) and value.value in (None, ...):
            return None if value.value is None else ...
        if isinstance(value, StaticValue) and isinstance(value.value, slice):
            ends = value.value.start, value.value.stop, value.value.step
            return Slice(*(None if end is None else constant(end) for end in ends))
        if isinstance(value, ArrayValue) and not value.rank:
            return PyValue(value.expr)
        if isinstance(value, PyValue | ArrayValue | Slice):
            return value
        if isinstance(value, TupleValue):
            found = self._array_of(value)
            if isinstance(found, ArrayValue):
                return found
        raise Refusal("LW110", "this is no subscript of an array", found=str(value))

    # -- applying ---------------------------------------------------------------------------------

    def read(self, array: ArrayValue, items: Sequence[Item]) -> AnyValue:
        """`array[items]`: a number, or an array."""
        match items:
            case [ArrayValue() as mask] if mask.dtype == BOOL and mask.rank == array.rank:
                require_mask(self._build, array, mask)
                return MaskedValue(array, mask)
        index = self.element(array, items)
        if index is not None:
            assert array.view is not None
            weak = self._build.lists.get(array.view.base, False)
            return PyValue(Load(array.view.base, index, array.dtype), weak)
        return self.view(self._build.store(array), items)

    def element(self, array: ArrayValue, items: Sequence[Item]) -> tuple[Expr, ...] | None:
        """The subscripts of the base for a subscript of all dimensions; None for any other."""
        is_whole = len(items) == array.rank and array.view is not None
        if not is_whole or not all(isinstance(item, PyValue) for item in items):
            return None
        found = [
            self.inside(item, extent, axis)  # type: ignore[arg-type]
            for axis, (item, extent) in enumerate(zip(items, array.shape, strict=True))
        ]
        assert array.view is not None
        return base_index(array.view, found)

    def inside(self, item: PyValue, extent: Expr, axis: int) -> Expr:
        """An integer subscript, counted from the start; outside of the array NumPy raises."""
        if item.dtype == BOOL:
            raise Refusal("LW114", "a boolean is used as a subscript", hint="0 or 1")
        build = self._build
        at = build.index(item, "the subscript")
        is_negative = self._is_negative(at)
        given = at
        if is_negative is None:
            at = build.define("at", Select(at < 0, at + extent, at))
            build.check(at >= 0, "IndexError", _OUTSIDE, (given, Const(axis), extent))
        elif is_negative:
            at = normal(extent + at)
            build.require(at, "IndexError", _OUTSIDE, (given, Const(axis), extent))
        values = (given, Const(axis), extent)
        build.require(difference(extent, at) - 1, "IndexError", _OUTSIDE, values)
        return at

    def _is_negative(self, at: Expr) -> bool | None:
        """Whether a subscript is below zero; None where that is not known."""
        ranges = self._build.ranges
        if ranges.is_positive(at):
            return False
        if ranges.is_positive(normal(Const(-1) - at)):
            return True
        return False if self._build.holds(at) else None

    def view(self, array: ArrayValue, items: Sequence[Item], wish: str = "v") -> ArrayValue:
        """A view by slices, integers and new axes."""
        view = array.view
        assert view is not None
        start, axes = list(view.start), []
        left = iter(range(array.rank))
        count = sum(1 for item in items if item is not None and item is not ...)
        if count > array.rank:
            text = f"the array has {array.rank} dimensions, and {count} are indexed"
            raise Refusal("LW111", text, hint="write at most one subscript per dimension")
        if not any(item is ... for item in items):
            items = [*items, ...]
        for item in items:
            if item is None:
                axes.append(ViewAxis(Const(1), ()))
            elif item is ...:
                axes += [view.axes[next(left)] for _ in range(array.rank - count)]
            elif isinstance(item, Slice):
                axis = view.axes[next(left)]
                first, extent, step = self.range(item, axis.extent)
                _move(start, axis, first)
                steps = tuple((d, normal(s * step)) for d, s in axis.steps)
                axes.append(ViewAxis(extent, steps))
            else:
                number = next(left)
                assert isinstance(item, PyValue)
                _move(start, view.axes[number], self.inside(item, array.shape[number], number))
        return self._build.bind(view.base, tuple(map(normal, start)), tuple(axes), wish, view)

    def range(self, item: Slice, extent: Expr) -> tuple[Expr, Expr, Expr]:
        """First index, number of indices and step of a slice."""
        build = self._build
        step = Const(1) if item.step is None else build.index(item.step, "the step of a slice")
        if step == Const(0):
            raise Refusal("LW105", "the step of the slice is zero", hint="a constant such as -1")
        is_rising = isinstance(step, Const) or build.holds(step - 1)
        if not is_rising:
            build.check(Binary("ne", step, Const(0)), "ValueError", "slice step cannot be zero")
        ends = [
            None if x is None else build.index(x, "the bound of a slice")
            for x in (item.start, item.stop)
        ]
        if step == Const(1):
            found = self._rising(ends[0], ends[1], extent)
            if found is not None:
                return *found, step
        elif ends == [None, None] and isinstance(step, Const):
            pace = abs(int(step.value.real))
            first = Const(0) if step.value.real > 0 else normal(extent - 1)
            length = extent if pace == 1 else (extent + pace - 1) // pace
            return first, normal(length), step
        return self._clamped(ends, extent, step, is_rising)

    def _rising(
        self, start: Expr | None, stop: Expr | None, extent: Expr
    ) -> tuple[Expr, Expr] | None:
        """First index and length of `start:stop` where nothing is clamped; None: unknown."""
        build = self._build
        count = len(build.guards)
        first = Const(0) if start is None else self._from_start(start, extent)
        last = extent if stop is None else self._from_start(stop, extent)
        if first is not None and last is not None:
            length = difference(last, first)
            needed = [] if start is None else [first, difference(extent, first)]
            needed += [] if stop is None else [difference(extent, last)]
            if all(map(build.holds, [*needed, length])):
                return first, length
        for guard in list(build.guards)[count:]:
            del build.guards[guard]
        return None

    def _from_start(self, bound: Expr, extent: Expr) -> Expr | None:
        is_negative = self._is_negative(bound)
        if is_negative is None:
            return None
        return normal(extent + bound) if is_negative else bound

    def _clamped(
        self, ends: Sequence[Expr | None], extent: Expr, step: Expr, is_known: bool
    ) -> tuple[Expr, Expr, Expr]:
        """A slice with NumPy's clamps written out; `is_known`: the sign of the step is."""
        build, (start, stop) = self._build, ends
        rises: Expr = Const(not isinstance(step, Const) or step.value.real > 0, BOOL)
        if not is_known:
            rises = step > 0

        def either(x: Expr, y: Expr) -> Expr:
            if isinstance(rises, Const):
                return x if rises.value else y
            return Select(rises, x, y)

        pace = either(step, normal(Const(0) - step))
        low, reach = either(Const(0), Const(-1)), either(Const(0), Const(-1))
        bounds = either(Const(0), extent - 1), either(extent, Const(-1))
        first = bounds[0] if start is None else clamped(start, extent, low, reach)
        last = bounds[1] if stop is None else clamped(stop, extent, low, reach)
        first = build.fixed("first", normal(first))
        gap = either(last - first, first - last)
        length = build.fixed("length", ((gap + (pace - 1)) // pace).max(Const(0)))
        if isinstance(length, Var):
            build.ranges.set(length.name, Const(0), extent)
        is_empty = Binary("eq", length, Const(0))
        return build.fixed("first", Select(is_empty, Const(0), first)), length, step


def base_index(view: ArrayView, index: Sequence[Expr]) -> tuple[Expr, ...]:
    """The subscripts of the base for subscripts of a view."""
    start = list(view.start)
    for axis, at in zip(view.axes, index, strict=True):
        _move(start, axis, at)
    return tuple(map(normal, start))


def _move(start: list[Expr], axis: ViewAxis, at: Expr) -> None:
    for dimension, step in axis.steps:
        start[dimension] = start[dimension] + step * at


def is_whole_step(axis: ViewAxis, extent: Expr) -> bool:
    """Whether an axis runs over a whole dimension, one after the other."""
    found = one_step(axis)
    return found is not None and found[1] == Const(1) and axis.extent == extent


def require_mask(build: Building, array: ArrayValue, mask: ArrayValue) -> None:
    """A mask has the shape of its array, or NumPy raises."""
    text = "boolean index did not match indexed array along axis {0}; size of axis is {1}"
    text += " but size of corresponding boolean axis is {2}"
    for axis, (extent, own) in enumerate(zip(array.shape, mask.shape, strict=True)):
        if not build.equal(extent, own):
            build.check(extent.equals(own), "IndexError", text, (Const(axis), extent, own))
