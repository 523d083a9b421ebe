"""Functions that view an array: axes in another order, reversed, added, joined or split."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from loopwright.frontends.python.procedures.abstract_values import (
    AnyValue,
    ArrayValue,
    one_step,
)
from loopwright.frontends.python.procedures.array_operations import fitted
from loopwright.frontends.python.procedures.building import Building
from loopwright.frontends.python.procedures.call_arguments import (
    CallArguments,
    array_argument,
    axes_of,
    is_none,
    shape_argument,
    static_integer,
)
from loopwright.frontends.python.procedures.extents import difference, normal
from loopwright.frontends.python.python_values import PyValue
from loopwright.frontends.refusal import Refusal
from loopwright.ir.expr import Binary, Const, Expr, Var
from loopwright.ir.procedure import ArrayView, ComputeArray, ViewAxis
from loopwright.memo import IdentityMap

__all__ = ["FUNCTIONS_OF_VIEWS", "ArrayViews"]


_ONE = Const(1)


class ArrayViews:
    """Reads functions that move no data."""

    def __init__(self, build: Building) -> None:
        self._build = build

    def call(self, function: object, given: CallArguments) -> AnyValue:
        """A function of the table."""
        return FUNCTIONS_OF_VIEWS[function](self, given)

    def _with_axes(self, array: ArrayValue, axes: Sequence[ViewAxis], wish: str) -> ArrayValue:
        assert array.view is not None
        view = array.view
        return self._build.bind(view.base, view.start, tuple(axes), wish, view)

    # -- axes in another order --------------------------------------------------------------------

    def transposed(self, array: ArrayValue, axes: Sequence[int] | None = None) -> ArrayValue:
        """The array with its axes in another order; reversed where none is given."""
        held = self._build.store(array)
        assert held.view is not None
        order = tuple(reversed(range(held.rank))) if axes is None else tuple(axes)
        if sorted(order) != list(range(held.rank)):
            raise Refusal("LW111", f"axes {order} of an array of rank {held.rank}")
        return self._with_axes(held, [held.view.axes[k] for k in order], "turned")

    def transpose(self, given: CallArguments) -> AnyValue:
        array, axes = given.bound("a", "axes", needed=1)
        held = array_argument(array, given.name)
        return self.transposed(held, None if is_none(axes) else axes_of(axes, held.rank))

    def swapaxes(self, given: CallArguments) -> AnyValue:
        array, one, other = given.bound("a", "axis1", "axis2", needed=3)
        held = array_argument(array, given.name)
        order = list(range(held.rank))
        (x,), (y,) = axes_of(one, held.rank), axes_of(other, held.rank)
        order[x], order[y] = order[y], order[x]
        return self.transposed(held, order)

    def moveaxis(self, given: CallArguments) -> AnyValue:
        array, source, target = given.bound("a", "source", "destination", needed=3)
        held = array_argument(array, given.name)
        taken, places = axes_of(source, held.rank), axes_of(target, held.rank)
        if len(taken) != len(places):
            raise Refusal("LW124", "np.moveaxis is given axes of different numbers")
        order = [axis for axis in range(held.rank) if axis not in taken]
        for place, axis in sorted(zip(places, taken, strict=True)):
            order.insert(place, axis)
        return self.transposed(held, order)

    def flip(self, given: CallArguments) -> AnyValue:
        array, axis = given.bound("m", "axis", needed=1)
        held = self._build.store(array_argument(array, given.name))
        return self._flipped(held, axes_of(axis, held.rank))

    def _flipped(self, held: ArrayValue, turned: Sequence[int]) -> ArrayValue:
        assert held.view is not None
        start, axes = list(held.view.start), list(held.view.axes)
        for k in turned:
            for dimension, step in axes[k].steps:
                start[dimension] = normal(start[dimension] + step * (axes[k].extent - 1))
            steps = tuple((d, normal(Const(0) - s)) for d, s in axes[k].steps)
            axes[k] = ViewAxis(axes[k].extent, steps)
        return self._build.bind(held.view.base, tuple(start), tuple(axes), "flipped", held.view)

    def turned(self, array: ArrayValue) -> ArrayValue:
        """The array with its first axis reversed."""
        return self._flipped(self._build.store(array), [0])

    def flip_of(self, axis: int, given: CallArguments) -> AnyValue:
        """np.flipud and np.fliplr."""
        (array,) = given.bound("m", needed=1)
        return self._flipped(self._build.store(array_argument(array, given.name)), [axis])

    # -- axes that come and go --------------------------------------------------------------------

    def expand_dims(self, given: CallArguments) -> AnyValue:
        array, axis = given.bound("a", "axis", needed=2)
        held = self._build.store(array_argument(array, given.name))
        assert held.view is not None
        axes = list(held.view.axes)
        items = 1 if isinstance(axis, PyValue) else len(getattr(axis, "items", ()))
        for at in sorted(axes_of(axis, held.rank + items)):
            axes.insert(at, ViewAxis(Const(1), ()))
        return self._with_axes(held, axes, "wider")

    def with_new_axes(self, value: AnyValue, count: int) -> AnyValue:
        """An array with axes of extent 1 behind its own; a number as it is."""
        if not isinstance(value, ArrayValue) or not count:
            return value
        held = self._build.store(value)
        assert held.view is not None
        return self._with_axes(held, (*held.view.axes, *[ViewAxis(Const(1), ())] * count), "column")

    def with_rank(self, rank: int, given: CallArguments) -> AnyValue:
        """np.atleast_1d and np.atleast_2d of arrays."""
        (array,) = given.bound("a", needed=1)
        held = array_argument(array, given.name)
        if held.rank >= rank:
            return held
        held = self._build.store(held)
        assert held.view is not None
        new = [ViewAxis(Const(1), ())] * (rank - held.rank)
        return self._with_axes(held, [*new, *held.view.axes], "wider")

    def squeeze(self, given: CallArguments) -> AnyValue:
        array, axis = given.bound("a", "axis", needed=1)
        held = self._build.store(array_argument(array, given.name))
        assert held.view is not None
        one = Const(1)
        left_out = [k for k, extent in enumerate(held.shape) if extent == one]
        if not is_none(axis):
            left_out = list(axes_of(axis, held.rank))
            for k in left_out:
                text = "cannot select an axis to squeeze out which has size not equal to one"
                if not self._build.equal(held.shape[k], one):
                    self._build.check(Binary("eq", held.shape[k], one), "ValueError", text)
        elif any(not self._is_never_one(x) for x in held.shape if x != one):
            raise Refusal("LW181", "which axes have one element is known too late", hint="axis=")
        kept = [x for k, x in enumerate(held.view.axes) if k not in left_out]
        if not kept:
            raise Refusal("LW110", "an array of rank 0 is left", hint="x[0, 0] is a number")
        return self._with_axes(held, kept, "squeezed")

    def _is_never_one(self, extent: Expr) -> bool:
        """Whether an extent is another constant or the size of an argument."""
        if isinstance(extent, Const):
            return extent.value != 1
        return isinstance(extent, Var) and extent.name in self._build.ranges.sizes

    def broadcast_to(self, given: CallArguments) -> AnyValue:
        array, shape = given.bound("array", "shape", needed=2)
        assert shape is not None
        held = self._build.store(array_argument(array, given.name))
        assert held.view is not None
        wanted = shape_argument(self._build, shape)
        if len(wanted) < held.rank:
            raise Refusal("LW182", "the array has more dimensions than its shape")
        held = fitted(self._build, wanted, held)
        assert held.view is not None
        axes = [ViewAxis(extent, ()) for extent in wanted[: len(wanted) - held.rank]]
        for axis, extent in zip(held.view.axes, wanted[len(wanted) - held.rank :], strict=True):
            axes.append(ViewAxis(extent, () if axis.extent == Const(1) else axis.steps))
        found = self._with_axes(held, axes, "broadcast")
        assert found.view is not None
        self._build.read_only.add(found.view.name)
        return found

    def diagonal(self, given: CallArguments) -> AnyValue:
        array, offset, one, other = given.bound("a", "offset", "axis1", "axis2", needed=1)
        held = self._build.store(array_argument(array, given.name))
        assert held.view is not None
        build, shift = self._build, 0 if offset is None else static_integer(offset, "offset")
        (x,) = (0,) if one is None else axes_of(one, held.rank)
        (y,) = (1,) if other is None else axes_of(other, held.rank)
        if held.rank < 2 or x == y:
            raise Refusal("LW111", "a diagonal is of two axes", found=str(held))
        rows, columns = held.view.axes[x], held.view.axes[y]
        sides = (difference(rows.extent, Const(max(0, -shift))),
                 difference(columns.extent, Const(max(0, shift))))  # fmt: skip
        length = sides[0] if difference(*sides) == Const(0) else sides[0].min(sides[1])
        if not build.holds(length):
            length = length.max(Const(0))
        start = list(held.view.start)
        for axis, by in ((rows, max(0, -shift)), (columns, max(0, shift))):
            for dimension, step in axis.steps:
                start[dimension] = normal(start[dimension] + step * by)
        axes = [a for k, a in enumerate(held.view.axes) if k not in (x, y)]
        axes.append(ViewAxis(build.fixed("length", normal(length)), (*rows.steps, *columns.steps)))
        found = build.bind(held.view.base, tuple(start), tuple(axes), "diagonal")
        assert found.view is not None
        build.read_only.add(found.view.name)
        return found

    # -- axes that are joined and split -----------------------------------------------------------

    def reshape(self, given: CallArguments) -> AnyValue:
        array, shape = given.bound("a", "shape", needed=2)
        assert shape is not None
        held = array_argument(array, given.name)
        return self.reshaped(held, self._full_shape(held, shape))

    def ravel(self, given: CallArguments) -> AnyValue:
        (array,) = given.bound("a", needed=1)
        return self.raveled(array_argument(array, given.name))

    def raveled(self, array: ArrayValue) -> ArrayValue:
        """The elements of an array in one row."""
        return array if array.rank == 1 else self.reshaped(array, (_product(array.shape),))

    def _full_shape(self, array: ArrayValue, shape: AnyValue) -> tuple[Expr, ...]:
        """A shape with the extent that -1 stands for."""
        items = getattr(shape, "items", (shape,))
        open_ones = [
            k for k, x in enumerate(items) if isinstance(x, PyValue) and x.expr == Const(-1)
        ]
        size, build = _product(array.shape), self._build
        if not open_ones:
            found = shape_argument(build, shape)
        else:
            (place,) = open_ones[:1]
            rest = [x for k, x in enumerate(items) if k != place]
            known = [shape_argument(build, x)[0] for x in rest]
            product = _product(known)
            extent = _quotient(array.shape, known)
            if extent is None:
                text = "cannot reshape an array of size {0} into this shape"
                whole = Binary("max", product, Const(1))
                fits = Binary("eq", size % whole, Const(0))
                build.check(Binary("and", fits, product > 0), "ValueError", text, (size,))
                extent = build.fixed("extent", normal(size // whole))
            found = (*known[:place], extent, *known[place:])
        if not build.equal(size, _product(found)):
            text = "cannot reshape an array of size {0} into this shape"
            build.check(Binary("eq", size, _product(found)), "ValueError", text, (size,))
        return found

    def reshaped(self, array: ArrayValue, shape: tuple[Expr, ...]) -> ArrayValue:
        """The elements in the order of C, with another shape that has as many of them."""
        build = self._build
        if array.view is not None:
            axes = self._split(array.view.axes, shape)
            if axes is None and build.variant.trusting:
                axes = self._renamed(array.view.axes, shape)
            if axes is not None:
                return self._with_axes(array, axes, "reshaped")
        size = normal(_product(array.shape))
        flat = build.allocate("flat", array.dtype, (size,))
        assert flat.view is not None
        source = self._with_axes(flat, _strided(array.shape, 0), "source")
        assert source.view is not None
        build.emit(ComputeArray(source.view.name, array.expr))
        found = self._with_axes(flat, _strided(shape, 0), "reshaped")
        if array.view is not None and not self._is_copied(array):
            # NumPy's is a view, or may be one: that nobody sees while neither is written.
            build.frozen |= {array.view.base, flat.view.base}
            base = build.arrays[array.view.base]
            is_whole = array.view.name == base.name and not base.order
            if is_whole and base.name not in build.gapped:
                assert found.view is not None
                start, along = (Const(0),) * base.rank, tuple(_strided(shape, base.rank - 1))
                name = build.names.fresh("view")
                build.views_of_copies[found.view.name] = ArrayView(
                    name, base.name, base.dtype, start, along
                )
        return found

    def _split(self, axes: Sequence[ViewAxis], shape: Sequence[Expr]) -> list[ViewAxis] | None:
        """The axes of a view with another shape; None where axes along two dimensions are joined.

        The shapes have as many elements, so that what matches nothing before matches all the rest.
        """
        old = [axis for axis in axes if axis.extent != Const(1)]
        new = [extent for extent in shape if extent != Const(1)]
        moving: list[ViewAxis] = []
        while old and new:
            i, j = _first_match(old, new) or (len(old), len(new))
            run, group = _joined(old[:i]), new[:j]
            old, new = old[i:], new[j:]
            step = None if run is None else one_step(run)
            if run is None or (len(group) > 1 and step is None):
                return None
            if len(group) == 1:
                moving.append(ViewAxis(group[0], run.steps))
                continue
            assert step is not None
            moving += _strided(group, step[0], step[1])
        if old or new:
            return None
        left = iter(moving)
        return [ViewAxis(x, ()) if x == Const(1) else next(left) for x in shape]

    def _renamed(self, axes: Sequence[ViewAxis], shape: Sequence[Expr]) -> list[ViewAxis] | None:
        """The axes where extents of 1 come and go, and the others are equal: demanded at entry."""
        build, left = self._build, [axis for axis in axes if axis.extent != Const(1)]
        new = [extent for extent in shape if extent != Const(1)]
        gaps = [difference(axis.extent, extent) for axis, extent in zip(left, new, strict=False)]
        if len(left) != len(new) or not all(map(build.is_entry, gaps)):
            return None
        if any(isinstance(gap, Const) and gap.value for gap in gaps):
            return None
        for gap in gaps:
            if not isinstance(gap, Const):
                build.demand(gap.equals(0))
        moving = iter(left)
        return [ViewAxis(x, ()) if x == Const(1) else next(moving) for x in shape]

    def _is_copied(self, array: ArrayValue) -> bool:
        """Whether NumPy surely copies what it reshapes: axes that it joins are out of order."""
        moving = [k for k, extent in enumerate(array.shape) if extent != Const(1)]
        if not all(self._is_never_one(array.shape[k]) for k in moving):
            return False
        order = [axis for axis in self._build.order_of(array) if axis in moving]
        return bool(order) and order != sorted(order)


def _product(extents: Sequence[Expr]) -> Expr:
    product: Expr = Const(1)
    for extent in extents:
        product = product * extent
    return product


def _quotient(extents: Sequence[Expr], known: Sequence[Expr]) -> Expr | None:
    """The product of extents over others, where these are among them."""
    left = list(extents)
    for extent in known:
        if extent == Const(1):
            continue
        if extent not in left:
            return None
        left.remove(extent)
    return normal(_product(left))


def _strided(shape: Sequence[Expr], dimension: int, step: Expr = _ONE) -> list[ViewAxis]:
    """The axes of a box that lies in the order of C along one dimension."""
    return [
        ViewAxis(extent, ((dimension, normal(_product(shape[k + 1 :]) * step)),))
        for k, extent in enumerate(shape)
    ]


def _first_match(old: Sequence[ViewAxis], new: Sequence[Expr]) -> tuple[int, int] | None:
    """How many axes have the elements of how many extents, as few of them as there may be."""
    for i in range(1, len(old) + 1):
        run = _joined(old[:i])
        if run is None:
            return None
        for j in range(1, len(new) + 1):
            if difference(run.extent, _product(new[:j])) == Const(0):
                return i, j
    return None


def _joined(axes: Sequence[ViewAxis]) -> ViewAxis | None:
    """Axes along one dimension as one; None where they are none."""
    found = axes[-1]
    for axis in reversed(axes[:-1]):
        slow, fast = one_step(axis), one_step(found)
        if slow is None or fast is None or slow[0] != fast[0]:
            return None
        if difference(slow[1], normal(fast[1] * found.extent)) != Const(0):
            return None
        found = ViewAxis(normal(axis.extent * found.extent), found.steps)
    return found


Reader = Callable[[ArrayViews, CallArguments], AnyValue]
FUNCTIONS_OF_VIEWS: IdentityMap[object, Reader] = IdentityMap(
    [
        (np.transpose, ArrayViews.transpose),
        (np.permute_dims, ArrayViews.transpose),
        (np.swapaxes, ArrayViews.swapaxes),
        (np.moveaxis, ArrayViews.moveaxis),
        (np.flip, ArrayViews.flip),
        (np.flipud, lambda self, given: self.flip_of(0, given)),
        (np.fliplr, lambda self, given: self.flip_of(1, given)),
        (np.expand_dims, ArrayViews.expand_dims),
        (np.atleast_1d, lambda self, given: self.with_rank(1, given)),
        (np.atleast_2d, lambda self, given: self.with_rank(2, given)),
        (np.squeeze, ArrayViews.squeeze),
        (np.broadcast_to, ArrayViews.broadcast_to),
        (np.diagonal, ArrayViews.diagonal),
        (np.reshape, ArrayViews.reshape),
        (np.ravel, ArrayViews.ravel),
    ]
)
