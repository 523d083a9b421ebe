"""Reductions of arrays and products of matrices."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from functools import reduce

import numpy as np

from loopwright.frontends.python.merged_types import join
from loopwright.frontends.python.procedures.abstract_values import (
    AnyValue,
    ArrayValue,
    StaticValue,
    one_step,
)
from loopwright.frontends.python.procedures.array_operations import (
    Elementwise,
    Operand,
    converted,
    fitted,
    plain,
)
from loopwright.frontends.python.procedures.building import Building
from loopwright.frontends.python.procedures.call_arguments import (
    CallArguments,
    array_argument,
    axes_of,
    dtype_argument,
    is_none,
)
from loopwright.frontends.python.python_values import PyValue, constant, truth
from loopwright.frontends.refusal import Refusal
from loopwright.ir.dtypes import BOOL, DTYPES, FLOAT32, FLOAT64, INT64, DType
from loopwright.ir.expr import Binary, Cast, Const, Expr
from loopwright.ir.procedure import Choose, ComputeArray, MultiplyMatrices, ReduceArray, ViewAxis
from loopwright.lazy_dataclass import dataclass
from loopwright.memo import IdentityMap

__all__ = ["REDUCTIONS", "Reductions"]

_NEUTRAL: dict[str, bool | int] = {"add": 0, "mul": 1, "and": True, "or": False}
_CONVERTED_AT_ONCE = 8192  # elements of NumPy's buffers


@dataclass(frozen=True, slots=True)
class _Options:
    """How an array is reduced."""

    axis: AnyValue | None
    keepdims: bool
    initial: AnyValue | None = None  # what is reduced with the elements
    where: ArrayValue | None = None  # the elements that count


class Reductions:
    """Reads reductions and products."""

    def __init__(self, build: Building, elementwise: Elementwise) -> None:
        self._build = build
        self._elementwise = elementwise

    def call(self, function: object, given: CallArguments) -> AnyValue:
        """A reduction of the table."""
        return REDUCTIONS[function](self, given)

    # -- reductions -------------------------------------------------------------------------------

    def sum(self, given: CallArguments) -> AnyValue:
        return self._total("add", given)

    def prod(self, given: CallArguments) -> AnyValue:
        return self._total("mul", given)

    def _total(self, op: str, given: CallArguments) -> AnyValue:
        array, options, dtype = self._bound(given)
        kind = dtype_argument(dtype, _wide(array.dtype))
        return self._reduced(op, array, options, kind)

    def mean(self, given: CallArguments) -> AnyValue:
        array, options, dtype = self._bound(given)
        kind = dtype_argument(dtype, _mean_type(array.dtype))
        if array.dtype.name == "float16" and kind.name == "float16":
            return converted(self._mean(array, options, FLOAT32), kind)
        return self._mean(array, options, kind)

    def _mean(self, array: ArrayValue, options: _Options, dtype: DType) -> Operand:
        total = self._reduced("add", array, options, dtype)
        return self._elementwise.binary("div", total, self._count(array, options, dtype))

    def _count(
        self, array: ArrayValue, options: _Options, dtype: DType, ddof: AnyValue | None = None
    ) -> Operand:
        """The number of elements that a reduction takes, as NumPy divides by it."""
        if options.where is not None:
            tested = ArrayValue(Cast(options.where.expr, INT64), array.shape)
            plain = replace(options, where=None, initial=None)
            count: Operand = self._reduced("add", tested, plain, INT64)
        else:
            number: Expr = Const(1)
            for k in axes_of(options.axis, array.rank):
                number = number * array.shape[k]
            count = PyValue(number)
        if ddof is not None:
            count = self._elementwise.binary("sub", count, ddof)
            count = self._elementwise.binary("max", count, constant(0))
        kind = dtype.real
        if isinstance(count, PyValue) and isinstance(count.expr, Const):
            return PyValue(Const(float(count.expr.value.real), kind))
        return converted(count, kind)

    def std(self, given: CallArguments) -> AnyValue:
        return self._elementwise.call(np.sqrt, "np.sqrt", [self.var(given)]) or constant(0)

    def var(self, given: CallArguments) -> Operand:
        keywords = dict(given.keywords)
        ddof = keywords.pop("ddof", None)
        array, options, dtype = self._bound(CallArguments(given.name, given.args, keywords))
        kind = dtype_argument(dtype, _mean_type(array.dtype))
        if array.dtype.name == "float16" or array.dtype.is_complex:
            raise Refusal("LW185", f"a variance of {array.dtype} is not compiled yet")
        array = self._build.store(array)
        mean = self._mean(array, replace(options, keepdims=True), kind)
        if isinstance(mean, ArrayValue):
            mean = self._build.store(mean, "mean")
        rest = self._elementwise.binary("sub", array, mean)
        square = self._elementwise.binary("mul", rest, rest)
        assert isinstance(square, ArrayValue)
        total = self._reduced("add", square, options, kind)
        return self._elementwise.binary("div", total, self._count(array, options, kind, ddof))

    def extreme(self, op: str, given: CallArguments) -> AnyValue:
        array, options, _ = self._bound(given)
        if array.dtype.is_complex:
            raise Refusal("LW103", f"'{given.name}' is not compiled for complex numbers")
        if options.initial is None:
            if options.where is not None:
                raise Refusal("LW124", f"'{given.name}' with where= takes initial=")
            for k in axes_of(options.axis, array.rank):
                text = "zero-size array to reduction operation which has no identity"
                self._build.require(array.shape[k] - 1, "ValueError", text, ())
        word = op if array.dtype != BOOL else {"min": "and", "max": "or"}[op]
        return self._reduced(word, array, options, array.dtype)

    def logical(self, op: str, given: CallArguments) -> AnyValue:
        array, options, _ = self._bound(given)
        tested = ArrayValue(truth(PyValue(array.expr)), array.shape, None, self._order(array))
        return self._reduced(op, tested, options, BOOL)

    def count_nonzero(self, given: CallArguments) -> AnyValue:
        array, options, _ = self._bound(given)
        tested = ArrayValue(Cast(truth(PyValue(array.expr)), INT64), array.shape)
        return self._reduced("add", tested, options, INT64)

    def _order(self, array: ArrayValue) -> tuple[int, ...]:
        return self._build.order_of(array)

    def _bound(self, given: CallArguments) -> tuple[ArrayValue, _Options, AnyValue | None]:
        """The array, how it is reduced, and dtype=."""
        names = ("a", "axis", "dtype", "keepdims", "initial", "where")
        array, axis, dtype, keep, initial, where = given.bound(*names, needed=1)
        held = array_argument(array, given.name)
        mask: ArrayValue | None = None
        if where is not None:
            test = self._elementwise.apply(lambda x: PyValue(truth(x)), where)
            mask = test if isinstance(test, ArrayValue) else ArrayValue(plain(test).expr, ())
            if mask.rank > held.rank:
                raise Refusal("LW182", "where= has more elements than the array")
            mask = fitted(self._build, held.shape, mask)
        if isinstance(initial, StaticValue):
            raise Refusal("LW124", "initial=None is not compiled")
        return held, _Options(axis, _flag(keep), initial, mask), dtype

    def _reduced(self, op: str, array: ArrayValue, options: _Options, dtype: DType) -> Operand:
        """A reduction with initial= and where=."""
        if options.where is not None:
            first = options.initial if op in ("min", "max") else constant(_NEUTRAL[op])
            assert first is not None
            value = self._elementwise.where(options.where, array, converted(first, array.dtype))  # type: ignore[arg-type]
            assert isinstance(value, ArrayValue)
            array = value
        if options.initial is None:
            return self._added(op, array, options.axis, options.keepdims, dtype)
        if op in ("min", "max"):
            return self._with_first(op, array, options, dtype)
        found = self._added(op, array, options.axis, options.keepdims, dtype)
        return self._elementwise.binary(op, options.initial, found)

    def _with_first(self, op: str, array: ArrayValue, options: _Options, dtype: DType) -> Operand:
        """The extreme of elements, which may be none, and a first value."""
        assert options.initial is not None
        first = converted(options.initial, dtype)  # type: ignore[arg-type]
        axes = axes_of(options.axis, array.rank)
        size = reduce(operator.mul, (array.shape[k] for k in axes), Const(1))
        build, kept = self._build, [k for k in range(array.rank) if k not in axes]
        shape = tuple(array.shape[k] for k in kept)
        if options.keepdims:
            shape = tuple(Const(1) if k in axes else x for k, x in enumerate(array.shape))
        if not shape:
            cell = build.cell("r", dtype)
            build.set(cell, plain(first).expr)
            with build.block() as body:
                found = self._added(op, array, options.axis, False, dtype)
                build.set(cell, plain(self._elementwise.binary(op, first, found)).expr)
            build.emit(Choose(size > 0, tuple(body)))
            return build.number("r", PyValue(build.load(cell)))
        target = build.allocate("r", dtype, shape)
        assert target.view is not None
        build.emit(ComputeArray(target.view.name, plain(first).expr))
        with build.block() as body:
            found = self._added(op, array, options.axis, options.keepdims, dtype)
            value = plain(self._elementwise.binary(op, first, found)).expr
            build.emit(ComputeArray(target.view.name, value))
        build.emit(Choose(size > 0, tuple(body)))
        return target

    def _added(
        self, op: str, array: ArrayValue, axis: AnyValue | None, keepdims: bool, dtype: DType
    ) -> Operand:
        """`op.reduce(array, axis)` in a type."""
        build = self._build
        axes = axes_of(axis, array.rank)
        runs = self._runs(array)
        is_same = array.dtype == dtype
        value = converted(array, dtype).expr
        chunk = 0 if is_same or dtype.is_exact else _CONVERTED_AT_ONCE
        kept = [k for k in range(array.rank) if k not in axes]
        if not kept and not keepdims:
            cell = build.cell("r", dtype)
            build.emit(ReduceArray(cell, op, value, array.shape, axes, runs, chunk))
            return build.number("r", PyValue(build.load(cell)))
        shape = tuple(array.shape[k] for k in kept)
        order = tuple(kept.index(k) for run in runs for k in run if k in kept)
        found = build.allocate("r", dtype, shape, order)
        assert found.view is not None
        build.emit(ReduceArray(found.view.name, op, value, array.shape, axes, runs, chunk))
        if not keepdims:
            return found
        axis_views = iter(found.view.axes)
        every = tuple(
            next(axis_views) if k in kept else ViewAxis(Const(1), ()) for k in range(array.rank)
        )
        return build.bind(found.view.base, found.view.start, every, "r")

    def _runs(self, array: ArrayValue) -> tuple[tuple[int, ...], ...]:
        """The axes as memory has them, slowest first, grouped where there are no gaps."""
        build = self._build
        order = build.order_of(array) or tuple(range(array.rank))
        if array.view is None:
            return (order,) if order else ()
        base = build.arrays[array.view.base]
        if base.name in build.gapped:
            return tuple((axis,) for axis in order)
        runs: list[tuple[int, ...]] = []
        dimensions = base.order or tuple(range(base.rank))
        place = {dimension: k for k, dimension in enumerate(dimensions)}
        before: int | None = None  # place of the dimension that the last axis runs over
        for axis in order:
            step = one_step(array.view.axes[axis])
            is_whole = step is not None and step[1] == Const(1)
            is_whole = is_whole and step is not None and array.shape[axis] == base.shape[step[0]]
            here = place[step[0]] if step is not None else None
            if runs and is_whole and before is not None and here == before + 1:
                runs[-1] = (*runs[-1], axis)
            else:
                runs.append((axis,))
            before = here if step is not None and step[1] == Const(1) else None
        return tuple(runs)

    # -- products ---------------------------------------------------------------------------------

    def matmul(self, given: CallArguments) -> AnyValue:
        x, y = given.bound("a", "b", needed=2)
        assert x is not None
        assert y is not None
        return self.product(x, y)

    def dot(self, given: CallArguments) -> AnyValue:
        x, y = given.bound("a", "b", needed=2)
        assert x is not None
        assert y is not None
        if isinstance(x, PyValue) or isinstance(y, PyValue):
            return self._elementwise.binary("mul", x, y)
        second = array_argument(y, given.name)
        if second.rank > 2:
            hint = "np.tensordot(x, y, (-1, -2)), or x @ y for a product per row"
            raise Refusal("LW186", "np.dot of more than two dimensions is not compiled", hint=hint)
        return self.product(x, second)

    def product(self, x: AnyValue, y: AnyValue) -> Operand:
        """`x @ y`."""
        build = self._build
        left, right = array_argument(x, "@"), array_argument(y, "@")
        if not left.rank or not right.rank:
            raise Refusal("LW186", "'@' takes no arrays of rank 0")
        dtype, _ = join(((left.dtype, False), (right.dtype, False)))
        inner = right.shape[-2] if right.rank > 1 else right.shape[0]
        if not build.equal(left.shape[-1], inner):
            text = "matmul: Input operand 1 has a mismatch in its core dimension 0 (size {1} is"
            text += " different from {0})"
            same = Binary("eq", left.shape[-1], inner)
            build.check(same, "ValueError", text, (left.shape[-1], inner))
        outer: list[tuple[Expr, ...]] = [left.shape[:-2], right.shape[:-2]]
        from_left = left.shape[-2:-1] if left.rank > 1 else ()
        from_right = right.shape[-1:] if right.rank > 1 else ()
        if all(outer) and outer[0] != outer[1]:
            raise Refusal("LW186", "products that broadcast are not compiled yet")
        shape = (*(outer[0] or outer[1]), *from_left, *from_right)
        names = []
        for factor in (left, right):
            held = build.store(converted(factor, dtype))  # type: ignore[arg-type]
            assert held.view is not None
            names.append(held.view.name)
        if not shape:
            cell = build.cell("dot", dtype)
            build.emit(MultiplyMatrices(cell, *names))
            return build.number("dot", PyValue(build.load(cell)))
        found = build.allocate("dot", dtype, shape)
        assert found.view is not None
        build.emit(MultiplyMatrices(found.view.name, *names))
        return found


def _flag(value: AnyValue | None) -> bool:
    """A keyword that is True or False."""
    if is_none(value):
        return False
    if isinstance(value, PyValue) and isinstance(value.expr, Const) and value.dtype == BOOL:
        return bool(value.expr.value)
    raise Refusal("LW184", "keepdims is not a constant", found=str(value))


def _wide(dtype: DType) -> DType:
    """The type in which NumPy adds up integers that are narrower than its default."""
    if dtype == BOOL or (dtype.kind == "i" and dtype.bits < 64):
        return INT64
    return DTYPES["uint64"] if dtype.kind == "u" else dtype


def _mean_type(dtype: DType) -> DType:
    return FLOAT64 if dtype.is_exact else dtype


Reader = Callable[[Reductions, CallArguments], AnyValue]
REDUCTIONS: IdentityMap[object, Reader] = IdentityMap(
    [
        (np.sum, Reductions.sum),
        (np.prod, Reductions.prod),
        (np.mean, Reductions.mean),
        (np.std, Reductions.std),
        (np.var, Reductions.var),
        (np.min, lambda self, given: self.extreme("min", given)),
        (np.max, lambda self, given: self.extreme("max", given)),
        (np.amin, lambda self, given: self.extreme("min", given)),
        (np.amax, lambda self, given: self.extreme("max", given)),
        (np.all, lambda self, given: self.logical("and", given)),
        (np.any, lambda self, given: self.logical("or", given)),
        (np.count_nonzero, Reductions.count_nonzero),
        (np.matmul, Reductions.matmul),
        (np.dot, Reductions.dot),
    ]
)
