"""What a call of a whole function returns: fresh arrays, numbers, views, arguments themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from operator import mul
from typing import Any, TypeAlias, assert_never

import numpy as np
from numpy.lib.stride_tricks import as_strided

from loopwright.calls.entry_values import EntryValues
from loopwright.ir.expr import Expr
from loopwright.ir.procedure import (
    ArrayRole,
    ArrayView,
    Procedure,
    ProcedureArray,
    Returned,
    ReturnedArray,
    ReturnedNumber,
    ReturnedOneOf,
    ReturnedPart,
    ReturnedTuple,
)
from loopwright.ir.visit import names
from loopwright.runtime.array_arguments import Array
from loopwright.runtime.call_table import CallProgram

__all__ = ["ResultLayout"]

Memory: TypeAlias = list[Any]  # the arguments, then the fresh arrays
Finish: TypeAlias = Callable[[Memory], Any]


class ResultLayout:
    """What calls with the same shapes and integers return."""

    def __init__(self, procedure: Procedure, values: EntryValues) -> None:
        self._procedure, self._values, self._integer = procedure, values, values.integer
        results = [a for a in procedure.arrays if a.role is ArrayRole.RESULT]
        self.makers = {array.name: self._maker(array) for array in results}  # of fresh arrays
        names = [p.name for p in procedure.parameters] + [array.name for array in results]
        self._places = {name: k for k, name in enumerate(names)}
        self._late = {name: self._places[cell] for name, cell in procedure.late}
        self._views = {view.name: view for view in procedure.views}
        self.finish = self._finish(procedure.returned)  # gives the result, from the memory

    def _maker(self, array: ProcedureArray) -> Callable[[], Array]:
        shape = tuple(max(0, self._integer(extent)) for extent in array.shape)
        order, dtype = array.order or tuple(range(array.rank)), array.dtype.numpy
        if order == tuple(range(array.rank)):
            return partial(np.empty, shape, dtype)
        laid = tuple(shape[axis] for axis in order)
        back = tuple(int(axis) for axis in np.argsort(order))
        return lambda: np.empty(laid, dtype).transpose(back)

    def _finish(self, returned: Returned) -> Finish:
        match returned:
            case ReturnedArray(name=name, trims=trims) if name in self._views:
                view = self._views[name]
                if _names(view) & self._late.keys():
                    return self._late_view(view, trims)
                return self._view(view, self._integer)
            case ReturnedArray(name=name):
                place = self._places[name]
                return lambda memory: memory[place]
            case ReturnedNumber(name=name, weak=weak):
                place = self._places[name]
                if weak:
                    return lambda memory: memory[place].item()
                return lambda memory: memory[place][()]
            case ReturnedTuple(is_none=True):
                return lambda memory: None
            case ReturnedTuple(items=items):
                parts = [self._finish(item) for item in items]
                return lambda memory: tuple([part(memory) for part in parts])
            case ReturnedPart(item=item, part=part):
                whole = self._finish(item)
                return lambda memory: getattr(whole(memory), part)
            case ReturnedOneOf(which=which, items=items):
                place, ways = self._places[which], [self._finish(item) for item in items]
                return lambda memory: ways[int(memory[place])](memory)
            case _:
                assert_never(returned)

    def _late_view(self, view: ArrayView, trims: bool) -> Finish:
        """A view of sizes that the call has found out."""
        base = self._places[view.base]

        def finish(memory: Memory) -> Any:
            late = {name: int(memory[place]) for name, place in self._late.items()}
            found = self._view(view, EntryValues({**self._values.integers, **late}).integer)(memory)
            return _trimmed(memory[base], found) if trims else found

        return finish

    def is_plain(self) -> bool:
        """Whether the dispatcher can give the result: its parts are known before the call."""
        return not self._late and self._is_plain(self._procedure.returned)

    def _is_plain(self, returned: Returned) -> bool:
        match returned:
            case ReturnedPart() | ReturnedOneOf():
                return False
            case ReturnedArray(name=name) if name not in self._views:
                return self._procedure.array(name).rank > 0  # of rank 0 it gives numbers
            case ReturnedTuple(items=items):
                return all(map(self._is_plain, items))
        return True

    def record(
        self, program: CallProgram, numbers: Mapping[str, int], arrays: Mapping[str, Any]
    ) -> None:
        """Write down what is returned; `arrays` are as calls have them, `numbers` their objects."""
        self._record(self._procedure.returned, program, numbers, arrays)

    def _record(
        self,
        returned: Returned,
        program: CallProgram,
        numbers: Mapping[str, int],
        arrays: Mapping[str, Any],
    ) -> None:
        match returned:
            case ReturnedArray(name=name) if name in self._views:
                view = self._views[name]
                start, shape, steps = self._layout(view, self._integer)
                base = arrays[view.base].strides
                offset = sum(map(mul, start, base))
                strides = tuple(sum(step * base[d] for d, step in axis) for axis in steps)
                program.give_view(numbers[view.base], 0 if 0 in shape else offset, shape, strides)
            case ReturnedArray(name=name):
                program.give(numbers[name])
            case ReturnedNumber(name=name, weak=True):
                program.give_number(numbers[name], arrays[name].dtype.name)
            case ReturnedNumber(name=name):
                program.give(numbers[name])
            case ReturnedTuple(is_none=True):
                program.give_none()
            case ReturnedTuple(items=items):
                for item in items:
                    self._record(item, program, numbers, arrays)
                program.give_tuple(len(items))
            case ReturnedPart() | ReturnedOneOf():
                raise AssertionError("such results are not written down")
            case _:
                assert_never(returned)

    def _layout(
        self, view: ArrayView, integer: Callable[[Expr], int]
    ) -> tuple[tuple[int, ...], tuple[int, ...], list[list[tuple[int, int]]]]:
        """Where a view starts in its base, its shape, and the steps of its axes."""
        start = tuple(map(integer, view.start))
        shape = tuple(max(0, integer(axis.extent)) for axis in view.axes)
        steps = [[(d, integer(step)) for d, step in axis.steps] for axis in view.axes]
        return start, shape, steps

    def _view(self, view: ArrayView, integer: Callable[[Expr], int]) -> Finish:
        place = self._places[view.base]
        start, shape, steps = self._layout(view, integer)
        base_shape = tuple(map(integer, self._procedure.array(view.base).shape))
        plain = _plain_slices(start, shape, steps)
        if plain is not None and _stays_inside(base_shape, start, shape, steps):
            index, back, new = plain
            return lambda memory: memory[place][index].transpose(back)[new]
        first = tuple(slice(at, None) for at in start)

        def finish(memory: Memory) -> Any:
            base = memory[place]
            strides = tuple(sum(step * base.strides[d] for d, step in axis) for axis in steps)
            return as_strided(base if 0 in shape else base[first], shape, strides)

        return finish


def _stays_inside(
    base: tuple[int, ...],
    start: tuple[int, ...],
    shape: tuple[int, ...],
    steps: list[list[tuple[int, int]]],
) -> bool:
    """Whether each axis runs inside of its dimension; a reshaped array runs on in the next one."""
    pairs = [(d, step * (n - 1)) for axis, n in zip(steps, shape, strict=True) for d, step in axis]
    return all(0 <= start[d] + far < base[d] for d, far in pairs)


def _plain_slices(
    start: tuple[int, ...], shape: tuple[int, ...], steps: list[list[tuple[int, int]]]
) -> tuple[tuple[Any, ...], tuple[int, ...], tuple[Any, ...]] | None:
    """A view by an index, a transposition and new axes; None where several axes share a dimension.

    Slices take a fraction of the time of `as_strided`.
    """
    used = [d for axis in steps for d, _ in axis]
    if any(len(axis) > 1 for axis in steps) or len(used) != len(set(used)) or 0 in shape:
        return None
    index: list[Any] = list(start)
    for axis, extent in zip(steps, shape, strict=True):
        for d, step in axis:
            stop = start[d] + step * extent
            index[d] = slice(start[d], None if stop < 0 else stop, step)
    kept = sorted(used)
    new = tuple(slice(None) if axis else None for axis in steps)
    return (*index, ...), tuple(kept.index(d) for d in used), new


def _names(view: ArrayView) -> set[str]:
    """The variables of a view."""
    steps = (step for axis in view.axes for _, step in axis.steps)
    return set().union(*map(names, (*view.start, *view.shape, *steps)))


def _trimmed(room: Array, found: Array) -> Array:
    """The array that the first elements of a room are, without the memory behind them."""
    if room.flags.c_contiguous and room.shape[1:] == found.shape[1:]:
        room.resize(found.shape, refcheck=False)
        return room
    return found.copy("K")
