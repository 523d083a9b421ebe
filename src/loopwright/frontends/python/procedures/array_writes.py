"""Writes to arrays: elements, views, `out=` and augmented assignments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from loopwright.frontends.python.procedures.abstract_values import (
    AnyValue,
    ArrayValue,
    MaskedValue,
)
from loopwright.frontends.python.procedures.array_operations import (
    Elementwise,
    Operand,
    fitted,
    plain,
    require_fit,
)
from loopwright.frontends.python.procedures.building import Building
from loopwright.frontends.python.procedures.index_arrays import (
    ChosenElements,
    choose_elements,
    each_index,
    element_at,
    has_index_arrays,
)
from loopwright.frontends.python.procedures.masks import scatter, solid
from loopwright.frontends.python.procedures.subscripts import Item, Subscripts, require_mask
from loopwright.frontends.python.python_values import PyValue, convert
from loopwright.frontends.refusal import Refusal
from loopwright.ir.dtypes import BOOL, FLOAT64, INT32, INT64, DType
from loopwright.ir.expr import Binary, Cast, Const, Expr, Load, Select, cast
from loopwright.ir.procedure import ComputeArray, SetElement

__all__ = ["ArrayWrites", "wrapped"]

Change = Callable[[ArrayValue], AnyValue]
Function = Callable[[Sequence[AnyValue]], AnyValue]


class ArrayWrites:
    """Emits writes."""

    def __init__(self, build: Building, elementwise: Elementwise, subscripts: Subscripts) -> None:
        self._build = build
        self._elementwise = elementwise
        self._subscripts = subscripts

    def item(self, array: ArrayValue, items: list[Item], value: AnyValue) -> None:
        """`array[items] = value`."""
        self._require_writable(array)
        mask = self.mask(array, items)
        if mask is not None:
            self._masked(array, mask, value)
            return
        index = self._subscripts.element(array, items)
        if index is None:
            if has_index_arrays(items):
                self._scatter(choose_elements(self._build, self._subscripts, array, items), value)
                return
            self.whole(self._subscripts.view(array, items), value)
            return
        assert array.view is not None
        self.element(array.view.base, index, value, array.dtype)

    def element(self, base: str, index: tuple[Expr, ...], given: AnyValue, dtype: DType) -> None:
        """`base[index] = given`."""
        if isinstance(given, ArrayValue) and given.rank:
            raise Refusal("LW182", "an element is given an array", found=str(given))
        value = plain(given)
        lists = self._build.lists
        if base in lists and value.type != (dtype, lists[base]):
            raise Refusal("LW119", f"an element of a list of {dtype} becomes {value}")
        number = self._number(value, dtype)
        self._note(base)
        self._build.emit(SetElement(base, index, number))

    def whole(self, target: ArrayValue, value: AnyValue) -> None:
        """`target[...] = value`."""
        assert target.view is not None
        self._require_writable(target)
        if isinstance(value, ArrayValue):
            value = fitted(self._build, target.shape, self._without_ones(target, value))
        is_single = isinstance(value, PyValue)
        expr = self._number(plain(value), target.dtype, is_single=is_single)
        self._note(target.view.base)
        self._build.emit(ComputeArray(target.view.name, expr))

    # -- index arrays -----------------------------------------------------------------------------

    def chosen(self, array: ArrayValue, items: list[Item], change: Change) -> None:
        """`array[items] = change(array[items])`, all of it read before anything is written."""
        chosen = choose_elements(self._build, self._subscripts, array, items)
        value = change(chosen.value())
        self._require_cast(plain(value).dtype, array.dtype)
        self._scatter(chosen, value)

    def _scatter(self, chosen: ChosenElements, value: AnyValue) -> None:
        """Elements in order: where indices repeat, the last value stays."""
        array, build = chosen.array, self._build
        assert array.view is not None
        value = self._to_be_read(array, chosen.shape, value)
        single = None if isinstance(value, ArrayValue) else self._number(plain(value), array.dtype)
        self._note(array.view.base)
        with each_index(build, chosen.shape) as at:
            if isinstance(value, ArrayValue):
                number = PyValue(element_at(value, at))
                single = self._number(number, array.dtype, is_single=False)
            assert single is not None
            build.emit(SetElement(array.view.base, chosen.element(at).index, single))

    def at(
        self, array: AnyValue, items: list[Item], others: list[AnyValue], function: Function
    ) -> None:
        """`ufunc.at(array, items, *others)`: element by element, each reads what is written."""
        build = self._build
        if not isinstance(array, ArrayValue) or array.view is None:
            raise Refusal("LW115", "this is no array in memory", found=str(array))
        if not has_index_arrays(items):
            raise Refusal("LW181", "'at' is compiled for arrays of integers")
        chosen = choose_elements(build, self._subscripts, array, items)
        held = [self._to_be_read(array, chosen.shape, x) for x in others]
        self._note(array.view.base)
        with each_index(build, chosen.shape) as at:
            place = chosen.element(at)
            numbers = [PyValue(element_at(x, at)) if isinstance(x, ArrayValue) else x for x in held]
            found = plain(function([PyValue(place), *numbers]))
            self._require_cast(found.dtype, array.dtype)
            number = self._number(found, array.dtype, is_single=False)
            build.emit(SetElement(array.view.base, place.index, number))

    def _to_be_read(self, array: ArrayValue, shape: tuple[Expr, ...], value: AnyValue) -> AnyValue:
        """A value that broadcasts to a box, in memory that is not the array's."""
        if isinstance(value, PyValue):
            return self._build.number("x", value)
        if not isinstance(value, ArrayValue):
            raise Refusal("LW115", "this is neither an array nor a number", found=str(value))
        box = ArrayValue(value.expr, shape)
        value = fitted(self._build, shape, self._without_ones(box, value))
        assert array.view is not None
        if value.view is not None and value.view.base == array.view.base:
            return self._build.copy(value)
        return self._build.store(value)

    def out_where(self, target: AnyValue, value: Operand, where: AnyValue) -> AnyValue:
        """`out=target, where=where` of an elementwise function."""
        if not isinstance(target, ArrayValue) or target.view is None:
            raise Refusal("LW115", "out= is no array", found=str(target))
        self._require_cast(plain(value).dtype, target.dtype)
        number = self._number(plain(value), target.dtype, is_single=False)
        new: Operand = PyValue(number)
        if isinstance(value, ArrayValue):
            new = replace(value, expr=number, view=None)
        self.whole(target, self._elementwise.where(where, new, target))
        return target

    def out(self, target: AnyValue, value: Operand) -> AnyValue:
        """`out=target` of an elementwise function."""
        if not isinstance(target, ArrayValue) or target.view is None:
            raise Refusal("LW115", "out= is no array", found=str(target))
        self.augmented(target, value)
        return target

    def augmented(self, target: ArrayValue, value: Operand) -> None:
        """The value of `target op= ...`, which NumPy casts within one kind."""
        self._require_cast(plain(value).dtype, target.dtype)
        if isinstance(value, ArrayValue) and value.rank > target.rank:
            raise Refusal("LW182", "the result has more dimensions than its target")
        self.whole(target, value)

    def _require_cast(self, dtype: DType, target: DType) -> None:
        """A result that is cast within one kind."""
        if not np.can_cast(dtype.numpy, target.numpy, "same_kind"):
            text = f"a result of {dtype} cannot be cast to {target}"
            raise Refusal("LW191", text, hint="x[...] = x op y converts")

    def _require_writable(self, target: ArrayValue) -> None:
        assert target.view is not None
        if target.view.name in self._build.read_only:
            text = "assignment destination is read-only"
            self._build.check(Const(False, BOOL), "ValueError", text)

    def _note(self, base: str) -> None:
        """Remember that memory is written; numbers of the caller are none."""
        self._build.note_write(base)

    def _without_ones(self, target: ArrayValue, value: ArrayValue) -> ArrayValue:
        """The value without leading axes of extent 1 that the target lacks."""
        if value.rank <= target.rank:
            return value
        more = value.rank - target.rank
        if any(extent != Const(1) for extent in value.shape[:more]):
            raise Refusal("LW182", "the value has more dimensions than its target")
        held = self._build.store(value)
        assert held.view is not None
        return self._build.bind(held.view.base, held.view.start, held.view.axes[more:], "v")

    def _number(self, value: PyValue, dtype: DType, *, is_single: bool = True) -> Expr:
        """The value as an element of an array; a Python integer has to fit."""
        if value.dtype.is_complex and not dtype.is_complex:
            raise Refusal("LW109", f"a complex value is stored as {dtype}", hint="take .real of it")
        if value.weak and dtype.is_integer and dtype != INT64:
            value = require_fit(self._build, value, dtype)
        is_const = isinstance(value.expr, Const)
        if value.dtype.is_float and dtype.is_integer and not is_const and is_single:
            value = self._whole_number(value, dtype)
        if value.dtype.is_float and dtype.is_integer and not is_const:
            return wrapped(value.expr, dtype)
        return convert(value, dtype)

    def _whole_number(self, value: PyValue, dtype: DType) -> PyValue:
        """A floating number that becomes an integer, which has to be one of the type."""
        if dtype.kind == "u" and not value.weak:
            return value  # NumPy converts without a question
        build = self._build
        number = build.number("x", value)
        wide = cast(number.expr, FLOAT64)
        is_number = Binary("eq", wide, wide)
        build.check(is_number, "ValueError", "cannot convert float NaN to integer")
        low = Const(float(dtype.least) - (dtype.bits < 64), FLOAT64)
        least = Binary("ge" if dtype.bits == 64 else "gt", wide, low)
        most = Binary("lt", wide, Const(float(dtype.greatest + 1), FLOAT64))
        text = f"a number is out of bounds for {dtype}"
        build.check(Binary("and", least, most), "OverflowError", text)
        return number

    # -- masks ------------------------------------------------------------------------------------

    def mask(self, array: ArrayValue, items: list[Item]) -> ArrayValue | None:
        """The mask by which all of an array is indexed."""
        match items:
            case [ArrayValue() as mask] if mask.dtype.name == "bool" and mask.rank == array.rank:
                return mask
        return None

    def masked_update(self, array: ArrayValue, mask: ArrayValue, value: AnyValue) -> None:
        """`array[mask] op= ...`, of which `value` is the result; NumPy casts it within one kind."""
        found = value.array if isinstance(value, MaskedValue) else value
        self._require_cast(plain(found).dtype, array.dtype)
        self._masked(array, mask, value)

    def _masked(self, array: ArrayValue, mask: ArrayValue, value: AnyValue) -> None:
        """`array[mask] = value`; of a number, and of elements by the same mask, all at once."""
        require_mask(self._build, array, mask)
        if isinstance(value, MaskedValue):
            is_same = value.mask.expr == mask.expr and value.mask.shape == mask.shape
            value = value.array if is_same else solid(self._build, value)
            is_whole = is_same
        else:
            is_whole = not (isinstance(value, ArrayValue) and value.rank)
        if not is_whole:
            assert array.view is not None
            assert isinstance(value, ArrayValue)
            number = self._number(plain(value), array.dtype, is_single=False)
            self._note(array.view.base)
            vector = value if number is value.expr else ArrayValue(number, value.shape)
            scatter(self._build, array, mask, vector)
            return
        is_single = isinstance(value, PyValue)
        number = self._number(plain(value), array.dtype, is_single=is_single)
        assert isinstance(array.expr, Load)
        self.whole(array, ArrayValue(Select(mask.expr, number, array.expr), array.shape))


def wrapped(value: Expr, dtype: DType) -> Expr:
    """A floating value as an integer: what a narrow type does not hold wraps, as in NumPy."""
    if dtype.kind == "i" and dtype.bits >= INT32.bits:
        return Cast(value, dtype)
    whole = Cast(Cast(value, INT64), dtype)
    if dtype.bits < INT64.bits:
        return whole
    is_large = Binary("ge", value, Const(float(INT64.greatest + 1), value.dtype))
    return Select(is_large, Cast(value, dtype), whole)
