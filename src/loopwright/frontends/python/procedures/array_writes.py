"""Writes to arrays: elements, views, `out=` and augmented assignments."""

from __future__ import annotations

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
from loopwright.frontends.python.procedures.masks import scatter, solid
from loopwright.frontends.python.procedures.subscripts import Item, Subscripts, require_mask
from loopwright.frontends.python.python_values import PyValue, convert
from loopwright.frontends.refusal import Refusal
from loopwright.ir.dtypes import FLOAT64, INT32, INT64, DType
from loopwright.ir.expr import Binary, Cast, Const, Expr, Load, Select, cast
from loopwright.ir.procedure import ArrayRole, ComputeArray, SetElement

__all__ = ["ArrayWrites", "wrapped"]


class ArrayWrites:
    """Emits writes."""

    def __init__(self, build: Building, elementwise: Elementwise, subscripts: Subscripts) -> None:
        self._build = build
        self._elementwise = elementwise
        self._subscripts = subscripts

    def item(self, array: ArrayValue, items: list[Item], value: AnyValue) -> None:
        """`array[items] = value`."""
        mask = self.mask(array, items)
        if mask is not None:
            self._masked(array, mask, value)
            return
        index = self._subscripts.element(array, items)
        if index is None:
            if any(isinstance(item, ArrayValue) for item in items):
                hint = "a loop over the index array"
                raise Refusal("LW181", "writing by an index array is not compiled yet", hint=hint)
            self.whole(self._subscripts.view(array, items), value)
            return
        assert array.view is not None
        if isinstance(value, ArrayValue) and value.rank:
            raise Refusal("LW182", "an element is given an array", found=str(value))
        self.element(array.view.base, index, plain(value), array.dtype)

    def element(self, base: str, index: tuple[Expr, ...], value: PyValue, dtype: DType) -> None:
        """`base[index] = value`."""
        number = self._number(value, dtype)
        self._note(base)
        self._build.emit(SetElement(base, index, number))

    def whole(self, target: ArrayValue, value: AnyValue) -> None:
        """`target[...] = value`."""
        assert target.view is not None
        if isinstance(value, ArrayValue):
            value = fitted(self._build, target.shape, self._without_ones(target, value))
        is_single = isinstance(value, PyValue)
        expr = self._number(plain(value), target.dtype, is_single=is_single)
        self._note(target.view.base)
        self._build.emit(ComputeArray(target.view.name, expr))

    def out(self, target: AnyValue, value: Operand) -> AnyValue:
        """`out=target` of an elementwise function."""
        if not isinstance(target, ArrayValue) or target.view is None:
            raise Refusal("LW115", "out= is no array", found=str(target))
        self.augmented(target, value)
        return target

    def augmented(self, target: ArrayValue, value: Operand) -> None:
        """The value of `target op= ...`, which NumPy casts within one kind."""
        self._require_kind(target, value)
        if isinstance(value, ArrayValue) and value.rank > target.rank:
            raise Refusal("LW182", "the result has more dimensions than its target")
        self.whole(target, value)

    def _require_kind(self, target: ArrayValue, value: AnyValue) -> None:
        """A result that is stored by an update has to be of the same kind."""
        dtype = plain(value).dtype
        if not np.can_cast(dtype.numpy, target.dtype.numpy, "same_kind"):
            text = f"a result of {dtype} cannot be cast to {target.dtype}"
            raise Refusal("LW191", text, hint="x[...] = x op y converts")

    def _note(self, base: str) -> None:
        """Remember that memory is written; numbers of the caller are none."""
        array = self._build.arrays[base]
        assert array.role is not ArrayRole.ARGUMENT or array.rank
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
        self._require_kind(array, value.array if isinstance(value, MaskedValue) else value)
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
