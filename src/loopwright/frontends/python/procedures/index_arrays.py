"""Subscripts by arrays of integers: NumPy's advanced indices, for reading and for writing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from loopwright.frontends.python.procedures.abstract_values import ArrayValue, Slice
from loopwright.frontends.python.procedures.array_operations import (
    broadcast,
    result_order,
    strides_in_box,
)
from loopwright.frontends.python.procedures.building import Building
from loopwright.frontends.python.procedures.subscripts import (
    Item,
    Subscripts,
    base_index,
)
from loopwright.frontends.python.python_values import PyValue
from loopwright.frontends.refusal import Refusal
from loopwright.ir.dtypes import BOOL, INT64
from loopwright.ir.expr import Binary, Cast, Const, Expr, Load, Select, Var
from loopwright.ir.procedure import RangeLoop, ReduceArray, position
from loopwright.lazy_dataclass import dataclass

__all__ = ["ChosenElements", "choose_elements", "each_index", "element_at", "has_index_arrays"]


def has_index_arrays(items: Sequence[Item]) -> bool:
    """Whether a subscript has an array, which is no view then."""
    return any(isinstance(item, ArrayValue) for item in items)


def element_at(array: ArrayValue, index: Sequence[Expr]) -> Expr:
    """An element of memory that broadcasts to a box, at an index of the box."""
    assert array.view is not None
    own = index[len(index) - array.rank :]
    pairs = zip(array.shape, own, strict=True)
    at = [Const(0) if extent == Const(1) else x for extent, x in pairs]
    return Load(array.view.base, base_index(array.view, at), array.dtype)


@contextmanager
def each_index(build: Building, shape: Sequence[Expr]) -> Iterator[tuple[Expr, ...]]:
    """What is emitted inside stands in loops over a box, the last axis the fastest."""
    at = tuple(Var(build.names.fresh("k")) for _ in shape)
    with build.block() as body:
        yield at
    for var, extent in zip(reversed(at), reversed(shape), strict=True):
        body = [RangeLoop(var.name, Const(0), extent, Const(1), tuple(body))]
    for stmt in body:
        build.emit(stmt)


@dataclass(frozen=True, slots=True)
class ChosenElements:
    """The elements of an array that a subscript with index arrays chooses, as a box."""

    array: ArrayValue
    # For each axis of the array: an integer, a slice as (result axis, first, step), or an index
    # array with the result axis that follows its last one.
    entries: tuple[Expr | tuple[int, Expr, Expr] | tuple[ArrayValue, int], ...]
    shape: tuple[Expr, ...]
    order: tuple[int, ...]  # of the result in memory, slowest first

    def element(self, index: Sequence[Expr]) -> Load:
        """The element at an index of the box."""
        found: list[Expr] = []
        for entry, extent in zip(self.entries, self.array.shape, strict=True):
            match entry:
                case (ArrayValue() as own, int(end)):
                    at = element_at(own, index[end - own.rank : end])
                    at = at if own.dtype == INT64 else Cast(at, INT64)
                    found.append(Select(at < 0, at + extent, at))
                case (int(axis), first, step):
                    found.append(first + index[axis] * step)
                case _:
                    assert isinstance(entry, Expr)
                    found.append(entry)
        assert self.array.view is not None
        return Load(self.array.view.base, base_index(self.array.view, found), self.array.dtype)

    def value(self) -> ArrayValue:
        """The elements as they are read."""
        rank = len(self.shape)
        box = [
            Const(0) if extent == Const(1) else position(rank - axis)
            for axis, extent in enumerate(self.shape)
        ]
        return ArrayValue(self.element(box), self.shape, None, self.order)


def choose_elements(
    build: Building, subscripts: Subscripts, array: ArrayValue, items: Sequence[Item]
) -> ChosenElements:
    """The elements that a subscript with index arrays chooses; those outside raise here."""
    items = _with_all_axes(array, items)
    indices = [x for x in items if isinstance(x, ArrayValue)]
    if any(not index.dtype.is_integer for index in indices):
        text = "this mask selects elements, which cannot be compiled yet"
        hint = "np.where(mask, x, y), or a loop with a condition"
        raise Refusal("LW181", text, found=str(indices[0]), hint=hint)
    advanced = [k for k, x in enumerate(items) if isinstance(x, ArrayValue | PyValue)]
    is_together = advanced[-1] - advanced[0] == len(advanced) - 1
    shape, together = broadcast(build, indices)
    own_arrays = iter(together)
    before = advanced[0] if is_together else 0  # result axes in front of those of the arrays
    end = before + len(shape)
    result: list[Expr] = []
    entries: list[Expr | tuple[int, Expr, Expr] | tuple[ArrayValue, int]] = []
    sliced: list[tuple[int, int]] = []  # (axis of the array, result axis)
    axis = 0
    for place, item in enumerate(items):
        at = len(result) + (len(shape) if not is_together or place > advanced[0] else 0)
        if item is None:
            result.append(Const(1))
            continue
        extent = array.shape[axis]
        if isinstance(item, Slice):
            first, length, step = subscripts.range(item, extent)
            sliced.append((axis, at))
            entries.append((at, first, step))
            result.append(length)
        elif isinstance(item, ArrayValue):
            item = next(own_arrays)
            assert isinstance(item, ArrayValue)
            held = _own_memory(build, array, item)
            _check_all(build, held, extent, axis)
            entries.append((held, end))
        else:
            assert isinstance(item, PyValue)
            entries.append(subscripts.inside(item, extent, axis))
        axis += 1
    result[before:before] = shape
    memory = build.order_of(array) or tuple(range(array.rank))
    own = tuple(range(before, end))
    if not sliced:
        strides = [strides_in_box(build, index, len(shape)) for index in indices]
        own = tuple(before + k for k in result_order(strides, len(shape)) or range(len(shape)))
    others = [place for k in memory for axis, place in sliced if axis == k]
    new = [k for k in range(len(result)) if k not in own and k not in others]
    order = (*new, *own, *others)
    plain = order == tuple(range(len(result)))
    return ChosenElements(array, tuple(entries), tuple(result), () if plain else order)


def _with_all_axes(array: ArrayValue, items: Sequence[Item]) -> list[Item]:
    """The subscript with a slice for each axis that it leaves out."""
    count = sum(1 for item in items if item is not None and item is not ...)
    if count > array.rank:
        text = f"the array has {array.rank} dimensions, and {count} are indexed"
        raise Refusal("LW111", text, hint="write at most one subscript per dimension")
    whole: list[Item] = [Slice(None, None, None)] * (array.rank - count)
    place = next((k for k, item in enumerate(items) if item is ...), len(items))
    return [*items[:place], *whole, *items[place + 1 :]]


def _own_memory(build: Building, array: ArrayValue, index: ArrayValue) -> ArrayValue:
    """An index array in memory that is not written where the array is."""
    assert array.view is not None
    if index.view is not None and index.view.base == array.view.base:
        return build.copy(index, "idx")
    return build.store(index, "idx")


def _check_all(build: Building, index: ArrayValue, extent: Expr, axis: int) -> None:
    """Raise where some entry of an index array lies outside."""
    at = index.expr if index.dtype == INT64 else Cast(index.expr, INT64)
    is_wrong = Binary("or", at < Const(0) - extent, at >= extent)
    cell = build.cell("wrong", BOOL)
    axes = tuple(range(index.rank))
    build.emit(ReduceArray(cell, "or", is_wrong, index.shape, axes, (axes,)))
    cond = Binary("eq", build.load(cell), Const(False, BOOL))
    text = "an index is out of bounds for axis {0} with size {1}"
    build.check(cond, "IndexError", text, (Const(axis), extent))
