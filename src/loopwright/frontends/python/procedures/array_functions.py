"""Functions that make arrays, and those that view or rearrange them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from loopwright.frontends.python.numpy_functions import part
from loopwright.frontends.python.prelude.fresh_memory import fresh
from loopwright.frontends.python.procedures.abstract_values import (
    AnyValue,
    ArrayValue,
    StaticValue,
    TupleValue,
    one_step,
)
from loopwright.frontends.python.procedures.array_operations import (
    Elementwise,
    Operand,
    converted,
    plain,
)
from loopwright.frontends.python.procedures.array_views import ArrayViews
from loopwright.frontends.python.procedures.array_writes import wrapped
from loopwright.frontends.python.procedures.building import Building
from loopwright.frontends.python.procedures.call_arguments import (
    CallArguments,
    array_argument,
    axes_of,
    dtype_argument,
    is_none,
    shape_argument,
    static_integer,
)
from loopwright.frontends.python.procedures.extents import difference, normal
from loopwright.frontends.python.python_values import PyValue, constant, convert
from loopwright.frontends.refusal import Refusal
from loopwright.ir.dtypes import FLOAT64, INT64, DType
from loopwright.ir.expr import Binary, Cast, Const, Expr, Select
from loopwright.ir.procedure import ComputeArray, ViewAxis, position
from loopwright.memo import IdentityMap

__all__ = ["FUNCTIONS_OF_ARRAYS", "ArrayFunctions", "is_contiguous"]


class ArrayFunctions:
    """Reads constructors, copies, transposes and the like."""

    def __init__(self, build: Building, elementwise: Elementwise) -> None:
        self._build = build
        self._elementwise = elementwise
        self.views = ArrayViews(build)

    def call(self, function: object, given: CallArguments) -> AnyValue:
        """A function of the table."""
        return FUNCTIONS_OF_ARRAYS[function](self, given)

    # -- constructors -----------------------------------------------------------------------------

    def filled(self, value: int | None, given: CallArguments) -> AnyValue:
        """np.empty, np.zeros and np.ones."""
        shape, dtype = given.bound("shape", "dtype", needed=1)
        assert shape is not None
        extents = shape_argument(self._build, shape)
        return self._new(extents, dtype_argument(dtype, FLOAT64), value)

    def like(self, value: int | None, given: CallArguments) -> AnyValue:
        """np.empty_like, np.zeros_like and np.ones_like."""
        array, dtype = given.bound("a", "dtype", needed=1)
        held = array_argument(array, given.name)
        order = self._build.order_of(held)
        return self._new(held.shape, dtype_argument(dtype, held.dtype), value, order)

    def full(self, given: CallArguments) -> AnyValue:
        shape, value, dtype = given.bound("shape", "fill_value", "dtype", needed=2)
        assert shape is not None
        assert value is not None
        number = plain(value)
        found = self._new(
            shape_argument(self._build, shape), dtype_argument(dtype, number.dtype), None
        )
        self._fill(found, value)
        return found

    def full_like(self, given: CallArguments) -> AnyValue:
        array, value, dtype = given.bound("a", "fill_value", "dtype", needed=2)
        held = array_argument(array, given.name)
        assert value is not None
        kind = dtype_argument(dtype, held.dtype)
        found = self._new(held.shape, kind, None, self._build.order_of(held))
        self._fill(found, value)
        return found

    def _new(
        self,
        shape: tuple[Expr, ...],
        dtype: DType,
        value: int | None,
        order: tuple[int, ...] = (),
    ) -> ArrayValue:
        found = self._build.allocate("t", dtype, shape, order)
        if value is not None:
            self._fill(found, constant(value))
        return found

    def _fill(self, target: ArrayValue, value: AnyValue) -> None:
        assert target.view is not None
        expr = convert(plain(value), target.dtype)
        self._build.emit(ComputeArray(target.view.name, expr))

    def arange(self, given: CallArguments) -> AnyValue:
        first, second, third, dtype = given.bound("start", "stop", "step", "dtype", needed=1)
        assert first is not None
        start: AnyValue = constant(0)
        stop = first
        if not is_none(second):
            assert second is not None
            start, stop = first, second
        step: AnyValue = constant(1) if third is None else third
        parts = [plain(x) for x in (start, stop, step)]
        if not all(x.dtype.is_integer for x in parts):
            raise Refusal("LW187", "arange of floats is not compiled yet", hint="np.linspace")
        by = static_integer(step, "the step of arange")
        if not by:
            raise Refusal("LW105", "the step of arange is zero")
        low, high = (self._build.index(x, "a bound of arange") for x in parts[:2])
        gap = difference(high, low) if by > 0 else difference(low, high)
        count = gap if abs(by) == 1 else (gap + (abs(by) - 1)) // abs(by)
        if not self._build.holds(count):
            count = count.max(Const(0))
        values = low + _index(1, normal(count)) * by
        kind = dtype_argument(dtype, INT64)
        value = values if kind == INT64 else Cast(values, kind)
        return ArrayValue(value, (normal(count),))

    def grid(self, ends: Sequence[tuple[Expr, Expr]]) -> list[ArrayValue]:
        """The index arrays of a box of integers, one for each axis."""
        shape = []
        for low, high in ends:
            count = difference(high, low)
            shape.append(count if self._build.holds(count) else count.max(Const(0)))
        box, rank = tuple(shape), len(shape)
        return [
            ArrayValue(low + _index(rank - axis, box[axis]), box)
            for axis, (low, _) in enumerate(ends)
        ]

    def linspace(self, given: CallArguments) -> AnyValue:
        start, stop, num, dtype = given.bound("start", "stop", "num", "dtype", needed=2)
        assert start is not None
        assert stop is not None
        first, last = (convert(plain(x), FLOAT64) for x in (start, stop))
        if dtype_argument(dtype, FLOAT64) != FLOAT64:
            raise Refusal("LW187", "linspace of this type is not compiled yet", hint="astype")
        count = shape_argument(self._build, constant(50) if num is None else num)[0]
        build = self._build
        # As NumPy: multiples of the step, and the end itself in the last place.
        pieces = build.define("pieces", Cast(count - 1, FLOAT64))
        width = build.define("width", Binary("sub", last, first))
        step = build.define("step", Binary("div", width, pieces))
        index = _index(1, count)
        at = Cast(index, FLOAT64)
        by_step = Binary("mul", at, step)
        by_part = Binary("mul", Binary("div", at, pieces), width)
        zero = Const(0.0, FLOAT64)
        chosen = Select(Binary("eq", step, zero), by_part, by_step)
        chosen = Select(Binary("eq", pieces, zero), Binary("mul", at, width), chosen)
        inner = Binary("add", chosen, first)
        is_last = Binary("eq", index, count - 1)
        is_end = Binary("and", is_last, count > 1)
        return ArrayValue(Select(is_end, last, inner), (count,))

    def eye(self, given: CallArguments) -> AnyValue:
        n, m, k, dtype = given.bound("N", "M", "k", "dtype", needed=1)
        assert n is not None
        rows = shape_argument(self._build, n)[0]
        columns = rows
        if not is_none(m):
            assert m is not None
            columns = shape_argument(self._build, m)[0]
        shift = 0 if k is None else static_integer(k, "k")
        kind = dtype_argument(dtype, FLOAT64)
        is_one = Binary("eq", _index(2, rows) + shift, _index(1, columns))
        one, zero = (convert(constant(x), kind) for x in (1, 0))
        return ArrayValue(Select(is_one, one, zero), (rows, columns))

    def triangle(self, is_lower: bool, given: CallArguments) -> AnyValue:
        """np.tril and np.triu."""
        array, k = given.bound("m", "k", needed=1)
        held = array_argument(array, given.name)
        if held.rank < 2:
            raise Refusal("LW111", f"'{given.name}' takes a matrix", found=str(held))
        shift = 0 if k is None else static_integer(k, "k")
        edge = _index(2, held.shape[-2]) + shift
        kept = Binary("le" if is_lower else "ge", _index(1, held.shape[-1]), edge)
        zero = convert(constant(0), held.dtype)
        return ArrayValue(Select(kept, held.expr, zero), held.shape)

    # -- copies -----------------------------------------------------------------------------------

    def copy(self, given: CallArguments) -> AnyValue:
        (array,) = given.bound("a", needed=1)
        return self._build.copy(array_argument(array, given.name), "copy")

    def fresh(self, given: CallArguments) -> AnyValue:
        """The elements as if they were computed here, in C order."""
        held = array_argument(given.args[0], given.name)
        return ArrayValue(held.expr, held.shape)

    def c_copy(self, array: ArrayValue) -> ArrayValue:
        """The method copy(), whose result is in C order."""
        found = self._build.allocate("copy", array.dtype, array.shape)
        assert found.view is not None
        self._build.emit(ComputeArray(found.view.name, array.expr))
        return found

    def as_contiguous(self, given: CallArguments) -> AnyValue:
        """np.ascontiguousarray: an array in C order without gaps as it is."""
        (value,) = given.bound("a", needed=1)
        held = array_argument(value, given.name)
        return held if is_contiguous(self._build, held) else self.c_copy(held)

    def part_of(self, name: str, value: AnyValue | None) -> AnyValue:
        """The real or imaginary part of an array or a number."""
        if isinstance(value, PyValue):
            return part(name, value)
        held = array_argument(value, name)
        if not held.dtype.is_complex:
            if name == "real":
                return held
            zero = convert(constant(0), held.dtype)
            return self._build.copy(ArrayValue(zero, held.shape, None, self._build.order_of(held)))
        held = self._build.store(held)
        assert held.view is not None
        found = self._elementwise.apply(lambda x: part(name, x), held)
        assert isinstance(found, ArrayValue)
        found = self._build.copy(found, name)
        assert found.view is not None
        # NumPy's is a view: that nobody sees while neither is written.
        self._build.frozen |= {held.view.base, found.view.base}
        self._build.parts[found.view.name] = held, "real" if name == "real" else "imag"
        return found

    def astype(self, array: ArrayValue, given: CallArguments) -> AnyValue:
        (dtype,) = given.bound("dtype", needed=1)
        kind = dtype_argument(dtype, array.dtype)
        order = self._build.order_of(array)
        if array.dtype.is_float and kind.is_integer:
            return ArrayValue(wrapped(array.expr, kind), array.shape, None, order)
        if array.dtype.is_complex and not kind.is_complex:
            raise Refusal("LW109", "complex numbers lose a part", hint=".real or .imag")
        value = converted(array, kind).expr
        return ArrayValue(value, array.shape, None, order)

    def array(self, given: CallArguments) -> AnyValue:
        """np.array of an array, or of lists of numbers and of arrays."""
        value, dtype = given.bound("object", "dtype", needed=1)
        if isinstance(value, ArrayValue):
            kind = dtype_argument(dtype, value.dtype)
            return self._build.copy(converted(value, kind), "copy")  # type: ignore[arg-type]
        if not isinstance(value, TupleValue | PyValue):
            raise Refusal("LW115", "this is no list of numbers", found=str(value))
        leaves = list(_leaves(value))
        if not leaves:
            default = FLOAT64
        else:
            joined = np.result_type(*(plain(x).dtype.numpy for x in leaves))
            default = dtype_argument(StaticValue(joined), FLOAT64)
        shape = self._shape_of(value)
        found = self._build.allocate("list", dtype_argument(dtype, default), shape)
        if isinstance(value, TupleValue):
            self._store_list(found, value)
        else:
            self._fill(found, value)
        return found

    def _shape_of(self, value: AnyValue) -> tuple[Expr, ...]:
        if isinstance(value, ArrayValue):
            return value.shape
        if not isinstance(value, TupleValue):
            return ()
        shapes = [self._shape_of(item) for item in value.items]
        first = shapes[0] if shapes else ()
        for shape in shapes:
            same = len(shape) == len(first)
            if not same or not all(map(self._build.equal, shape, first)):
                raise Refusal("LW182", "the items of this list have different shapes")
        return (Const(len(shapes)), *first)

    def _store_list(self, target: ArrayValue, value: TupleValue) -> None:
        view = target.view
        assert view is not None
        for k, item in enumerate(value.items):
            start = list(view.start)
            for dimension, step in view.axes[0].steps:
                start[dimension] = normal(start[dimension] + step * k)
            part = self._build.bind(view.base, tuple(start), view.axes[1:], "x")
            if isinstance(item, TupleValue):
                self._store_list(part, item)
            elif isinstance(item, ArrayValue):
                assert part.view is not None
                self._build.emit(ComputeArray(part.view.name, converted(item, target.dtype).expr))
            else:
                self._fill(part, item)

    def given_array(self, given: CallArguments) -> AnyValue:
        """np.asarray: an array of this type as it is."""
        value, dtype = given.bound("a", "dtype", needed=1)
        is_held = isinstance(value, ArrayValue) and value.view is not None
        if is_held and dtype_argument(dtype, plain(value).dtype) == plain(value).dtype:  # type: ignore[arg-type]
            assert value is not None
            return value
        return self.array(CallArguments(given.name, given.args, given.keywords))

    # -- pieces ----------------------------------------------------------------------------------

    def roll(self, given: CallArguments) -> AnyValue:
        """np.roll, in two pieces along each axis."""
        array, shift, axis = given.bound("a", "shift", "axis", needed=2)
        held = array_argument(array, given.name)
        axes = axes_of(axis, held.rank)
        if is_none(axis) and held.rank != 1:
            row = self.views.raveled(ArrayValue(held.expr, held.shape))
            assert shift is not None
            distance = self._build.index(plain(shift), "shift")
            return self.views.reshaped(self._rolled(row, 0, distance), held.shape)
        shifts = shift.items if isinstance(shift, TupleValue) else (shift,) * len(axes)
        if len(shifts) != len(axes):
            raise Refusal("LW124", "np.roll is given shifts and axes of different numbers")
        for k, by in zip(axes, shifts, strict=True):
            assert by is not None
            held = self._rolled(self._build.store(held), k, self._build.index(plain(by), "shift"))
        return held

    def _rolled(self, array: ArrayValue, axis: int, shift: Expr) -> ArrayValue:
        build, view, extent = self._build, array.view, array.shape[axis]
        assert view is not None
        found = build.allocate("rolled", array.dtype, array.shape, build.order_of(array))
        assert found.view is not None
        first = build.fixed("shift", shift % extent)
        for low, start, length in (
            (first, Const(0), extent - first),
            (Const(0), extent - first, first),
        ):
            pieces = []
            for whole, at in ((found.view, low), (view, start)):
                base, axes = list(whole.start), list(whole.axes)
                for dimension, step in axes[axis].steps:
                    base[dimension] = normal(base[dimension] + step * at)
                axes[axis] = ViewAxis(normal(length), axes[axis].steps)
                pieces.append(build.bind(whole.base, tuple(base), tuple(axes), "piece"))
            target = pieces[0].view
            assert target is not None
            build.emit(ComputeArray(target.name, pieces[1].expr))
        return found

    def outer(self, given: CallArguments) -> AnyValue:
        """np.outer, of the elements in a row."""
        first, second = given.bound("a", "b", needed=2)
        x = self.views.raveled(array_argument(first, given.name))
        y = self.views.raveled(array_argument(second, given.name))
        return self._elementwise.binary("mul", self.views.with_new_axes(x, 1), y)

    def real_part(self, name: str, given: CallArguments) -> AnyValue:
        """np.real and np.imag, which are views of complex arrays."""
        (value,) = given.bound("val", needed=1)
        return self.part_of(name, value)

    # -- joining ----------------------------------------------------------------------------------

    def concatenate(self, given: CallArguments) -> AnyValue:
        arrays, axis = given.bound("arrays", "axis", needed=1)
        return self._joined(arrays, 0 if axis is None else static_integer(axis, "the axis"), given)

    def hstack(self, given: CallArguments) -> AnyValue:
        (arrays,) = given.bound("tup", needed=1)
        first = arrays.items[0] if isinstance(arrays, TupleValue) and arrays.items else None
        axis = 0 if isinstance(first, ArrayValue) and first.rank == 1 else 1
        return self._joined(arrays, axis, given)

    def _joined(self, arrays: AnyValue | None, axis: int, given: CallArguments) -> ArrayValue:
        if not isinstance(arrays, TupleValue) or not arrays.items:
            raise Refusal("LW115", f"'{given.name}' takes a tuple of arrays", found=str(arrays))
        parts = [array_argument(x, given.name) for x in arrays.items]
        rank, build = parts[0].rank, self._build
        if any(part.rank != rank for part in parts) or not -rank <= axis < rank:
            raise Refusal("LW111", f"'{given.name}' takes arrays of one rank")
        axis %= rank
        rests = [(*p.shape[:axis], *p.shape[axis + 1 :]) for p in parts]
        for extents in zip(*rests, strict=True):
            for extent in extents[1:]:
                if not build.equal(extents[0], extent):
                    text = "arrays to join have extents {0} and {1} along another axis"
                    cond = extents[0].equals(extent)
                    build.check(cond, "ValueError", text, (extents[0], extent))
        rest = rests[0]
        dtype = dtype_argument(
            StaticValue(np.result_type(*(p.dtype.numpy for p in parts))), FLOAT64
        )
        total: Expr = Const(0)
        for one in parts:
            total = total + one.shape[axis]
        found = build.allocate("joined", dtype, (*rest[:axis], normal(total), *rest[axis:]))
        at: Expr = Const(0)
        for one in parts:
            start = tuple(at if k == axis else Const(0) for k in range(rank))
            axes = tuple(ViewAxis(extent, ((k, Const(1)),)) for k, extent in enumerate(one.shape))
            assert found.view is not None
            piece = build.bind(found.view.base, start, axes, "piece")
            assert piece.view is not None
            build.emit(ComputeArray(piece.view.name, converted(one, dtype).expr))
            at = normal(at + one.shape[axis])
        return found

    def where(self, given: CallArguments) -> Operand:
        cond, x, y = given.bound("condition", "x", "y", needed=3)
        assert cond is not None
        assert x is not None
        assert y is not None
        return self._elementwise.where(cond, x, y)


def _leaves(value: AnyValue) -> Iterator[AnyValue]:
    """The numbers and arrays that a list has."""
    if isinstance(value, TupleValue):
        for item in value.items:
            yield from _leaves(item)
    else:
        yield value


def _index(k: int, extent: Expr) -> Expr:
    """The index along the k-th axis from the end, of an axis that may be broadcast."""
    return Const(0) if extent == Const(1) else position(k)


def is_contiguous(build: Building, array: ArrayValue) -> bool:
    """Whether a view is a whole array in C order."""
    view = array.view
    if view is None or view.base in build.gapped or build.arrays[view.base].order:
        return False
    base = build.arrays[view.base]
    if len(view.axes) != base.rank:
        return False
    steps = [one_step(axis) for axis in view.axes]
    return all(step == (k, Const(1)) for k, step in enumerate(steps)) and view.shape == base.shape


Reader = Callable[[ArrayFunctions, CallArguments], AnyValue]
FUNCTIONS_OF_ARRAYS: IdentityMap[object, Reader] = IdentityMap(
    [
        (np.empty, lambda self, given: self.filled(None, given)),
        (np.ndarray, lambda self, given: self.filled(None, given)),
        (np.zeros, lambda self, given: self.filled(0, given)),
        (np.ones, lambda self, given: self.filled(1, given)),
        (np.empty_like, lambda self, given: self.like(None, given)),
        (np.zeros_like, lambda self, given: self.like(0, given)),
        (np.ones_like, lambda self, given: self.like(1, given)),
        (np.full, ArrayFunctions.full),
        (np.full_like, ArrayFunctions.full_like),
        (np.arange, ArrayFunctions.arange),
        (np.linspace, ArrayFunctions.linspace),
        (np.eye, ArrayFunctions.eye),
        (np.identity, ArrayFunctions.eye),
        (np.tril, lambda self, given: self.triangle(True, given)),
        (np.triu, lambda self, given: self.triangle(False, given)),
        (np.copy, ArrayFunctions.copy),
        (fresh, ArrayFunctions.fresh),
        (np.array, ArrayFunctions.array),
        (np.asarray, ArrayFunctions.given_array),
        (np.ascontiguousarray, ArrayFunctions.as_contiguous),
        (np.roll, ArrayFunctions.roll),
        (np.concatenate, ArrayFunctions.concatenate),
        (np.hstack, ArrayFunctions.hstack),
        (np.where, ArrayFunctions.where),
        (np.outer, ArrayFunctions.outer),
        (np.real, lambda self, given: self.real_part("real", given)),
        (np.imag, lambda self, given: self.real_part("imag", given)),
    ]
)
