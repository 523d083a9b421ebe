"""The meaning of a Procedure: its statements as calls of NumPy, one after another."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, assert_never

import numpy as np
from numpy.lib.stride_tricks import as_strided

from loopwright.diagnostics import InternalError
from loopwright.ir.dtypes import BOOL, DType
from loopwright.ir.evaluate import NUMBERS, quiet
from loopwright.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var
from loopwright.ir.memory import poisoned
from loopwright.ir.procedure import (
    AllocateArray,
    ArrayRole,
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
    position_of,
)

__all__ = ["breaks_guard", "interpret_procedure"]

Array = np.ndarray[Any, np.dtype[Any]]


class _After(Enum):
    """Where control goes after a statement."""

    ON = "to the next one"
    NEXT = "to the next iteration"
    LEAVE = "behind the loop"
    RETURN = "to the end"


# Where evaluating an array takes another function than evaluating a number.
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "min": np.minimum,
    "max": np.maximum,
    "pow": np.power,
    "shl": lambda x, y: np.left_shift(x, y & (8 * x.dtype.itemsize - 1)),
    "shr": lambda x, y: np.right_shift(x, y & (8 * x.dtype.itemsize - 1)),
}
_REDUCTIONS = {
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.logical_and,
    "or": np.logical_or,
}


def breaks_guard(procedure: Procedure, integers: Mapping[str, int]) -> bool:
    """Whether a call with these sizes and integer arguments is for Python."""
    run = _Run(integers, {})
    with quiet():
        return not all(bool(run.value(guard)) for guard in procedure.guards)


def interpret_procedure(
    procedure: Procedure, arguments: Mapping[str, Any], integers: Mapping[str, int]
) -> Any:
    """Execute `procedure` in place on its arguments and return what it returns.

    `arguments` has the arrays and the numbers by name, `integers` the sizes and integer arguments.
    """
    run = _Run(integers, {})
    with quiet():
        for array in procedure.arrays:
            if array.role is ArrayRole.ARGUMENT:
                run.arrays[array.name] = np.asarray(arguments[array.name])
            else:
                run.allocate(array)
        run.block(procedure.body)
        for name, cell in procedure.late:
            run.variables[name] = run.arrays[cell][()]
        run.views = {view.name: view for view in procedure.views}
        return run.returned(procedure.returned, arguments)


class _Run:
    """A running procedure."""

    def __init__(self, integers: Mapping[str, int], arrays: dict[str, Array]) -> None:
        self.variables: dict[str, Any] = {name: np.int64(x) for name, x in integers.items()}
        self.arrays = arrays  # and views
        self.views: dict[str, ArrayView] = {}  # that may be returned

    def returned(self, what: Returned, arguments: Mapping[str, Any]) -> Any:
        match what:
            case ReturnedArray(name=name, trims=trims):
                if name in self.views:
                    self.bind(self.views[name])
                found = arguments.get(name, self.arrays.get(name))
                return found.copy("K") if trims else found
            case ReturnedNumber(name=name, weak=weak):
                return self.arrays[name].item() if weak else self.arrays[name][()]
            case ReturnedTuple(items=items, is_none=is_none):
                if is_none:
                    return None
                return tuple(self.returned(item, arguments) for item in items)
            case ReturnedPart(item=item, part=part):
                return getattr(self.returned(item, arguments), part)
            case ReturnedOneOf(which=which, items=items):
                return self.returned(items[int(self.arrays[which][()])], arguments)
            case _:
                assert_never(what)

    # -- statements -------------------------------------------------------------------------------

    def block(self, body: Sequence[ProcedureStmt]) -> _After | str:
        """Statements in order; a string is the name of a block that is left."""
        for stmt in body:
            after = self.statement(stmt)
            if after is not _After.ON:
                return after
        return _After.ON

    def statement(self, stmt: ProcedureStmt) -> _After | str:
        match stmt:
            case DefineName(name=name, value=value):
                self.variables[name] = self.value(value)
            case BindView(view=view):
                self.bind(view)
            case AllocateArray(array=array, most=most):
                self.allocate(array)
                if any(x > self.integer(y) for x, y in zip(self.shape(array), most, strict=True)):
                    raise InternalError(f"array {array.name} is larger than its bound")
            case SetElement(array=name, index=index, value=value):
                self.set_element(name, tuple(map(self.integer, index)), self.value(value))
            case ComputeArray(target=name, value=value):
                target = self.arrays[name]
                found = self.value(value, target.shape)
                if np.ndim(found) > target.ndim:
                    raise InternalError(f"the value of {name} has too many axes")
                target[...] = np.array(found)  # a copy: the whole value comes first
            case ReduceArray():
                self.reduce(stmt)
            case MultiplyMatrices(target=name, left=left, right=right):
                self.arrays[name][...] = np.matmul(self.arrays[left], self.arrays[right])
            case RangeLoop() | EndlessLoop():
                return self.loop(stmt)
            case Choose(cond=cond, body=body, orelse=orelse):
                return self.block(body if self.value(cond) else orelse)
            case LeavableBlock(name=name, body=body):
                after = self.block(body)
                return _After.ON if after == name else after
            case LeaveBlock(name=name):
                return name
            case LeaveLoop():
                return _After.LEAVE
            case NextIteration():
                return _After.NEXT
            case ReturnNow():
                return _After.RETURN
            case CheckThat(cond=cond, exception=exception, text=text, values=values):
                if not self.value(cond):
                    found = getattr(builtins, exception)
                    raise found(text.format(*map(self.integer, values)))
            case _:
                assert_never(stmt)
        return _After.ON

    def loop(self, stmt: RangeLoop | EndlessLoop) -> _After | str:
        iterations = None
        if isinstance(stmt, RangeLoop):
            iterations = iter(range(*map(self.integer, (stmt.start, stmt.stop, stmt.step))))
        while True:
            if isinstance(stmt, RangeLoop):
                assert iterations is not None
                number = next(iterations, None)
                if number is None:
                    return _After.ON
                self.variables[stmt.var] = np.int64(number)
            match self.block(stmt.body):
                case _After.LEAVE:
                    return _After.ON
                case _After.RETURN | str() as after:
                    return after

    def allocate(self, array: ProcedureArray) -> None:
        order = array.order or tuple(range(array.rank))
        shape = self.shape(array)
        memory = poisoned(tuple(max(0, shape[axis]) for axis in order), array.dtype)
        self.arrays[array.name] = memory.transpose(np.argsort(order)) if order else memory

    def bind(self, view: ArrayView) -> None:
        base = self.arrays[view.base]
        start = tuple(map(self.integer, view.start))
        shape = tuple(self.integer(axis.extent) for axis in view.axes)
        if min(shape, default=1) < 0:
            raise InternalError(f"view {view.name} has a negative extent")
        if 0 in shape:
            self.arrays[view.name] = np.empty(shape, base.dtype)
            return
        ends = list(zip(start, start, strict=True))
        strides = []
        for axis, extent in zip(view.axes, shape, strict=True):
            stride = 0
            for dimension, step in axis.steps:
                far = self.integer(step) * (extent - 1)
                low, high = ends[dimension]
                ends[dimension] = (low + min(far, 0), high + max(far, 0))
                stride += self.integer(step) * base.strides[dimension]
            strides.append(stride)
        if any(low < 0 or high >= n for (low, high), n in zip(ends, base.shape, strict=True)):
            low, high = ends[-1]
            is_flat = all(x == (0, 0) for x in ends[:-1]) and base.flags.c_contiguous
            if is_flat and base.ndim > 1 and low >= 0 and high < base.size:
                # Memory without gaps, counted along its last dimension.
                flat = base.reshape(-1)[start[-1] :]
                self.arrays[view.name] = as_strided(flat, shape, strides)
                return
            raise InternalError(f"view {view.name} leaves {view.base}")
        first = base[tuple(slice(at, None) for at in start)]
        self.arrays[view.name] = as_strided(first, shape, strides)

    def set_element(self, name: str, index: tuple[int, ...], value: Any) -> None:
        array = self.arrays[name]
        if any(not 0 <= at < n for at, n in zip(index, array.shape, strict=True)):
            raise InternalError(f"element {list(index)} is outside of {name}")
        array[index] = value

    def reduce(self, stmt: ReduceArray) -> None:
        shape = tuple(map(self.integer, stmt.shape))
        value = np.broadcast_to(self.value(stmt.value, shape), shape)
        if not isinstance(stmt.value, Load):  # NumPy reduces memory of its own
            order = [axis for run in stmt.runs for axis in run]
            value = np.ascontiguousarray(value.transpose(order)).transpose(np.argsort(order))
        found = _REDUCTIONS[stmt.op].reduce(value, axis=stmt.axes, dtype=value.dtype)
        self.arrays[stmt.target][...] = found

    # -- values -----------------------------------------------------------------------------------

    def shape(self, array: ProcedureArray) -> tuple[int, ...]:
        return tuple(map(self.integer, array.shape))

    def integer(self, expr: Expr) -> int:
        return int(self.value(expr))

    def value(self, expr: Expr, box: tuple[int, ...] = ()) -> Any:
        """The value of an expression: a number, or an array that broadcasts to `box`."""
        match expr:
            case Const(value=number, dtype=dtype):
                return NUMBERS.constant(number, dtype)
            case Var(name=name):
                return self.variable(name, box)
            case Load(array=name, index=()):
                array = self.arrays[name]
                return array if array.ndim else array[()]
            case Load(array=name, index=index):
                return self.element(name, tuple(self.value(x, box) for x in index))
            case Binary(op=op, x=x, y=y):
                left, right = self.value(x, box), self.value(y, box)
                if left.dtype != right.dtype:
                    raise InternalError(f"operands of '{op}' are {left.dtype} and {right.dtype}")
                return _BINARY.get(op, NUMBERS.binary(op))(left, right)
            case Unary(op=op, x=x):
                return NUMBERS.unary(op)(self.value(x, box))
            case Select(cond=cond, x=x, y=y):
                chosen = self.value(cond, box)
                found = np.where(chosen, self.value(x, box), self.value(y, box))
                return found if found.ndim else found[()]
            case Cast(x=x, dtype=dtype):
                return _converted(self.value(x, box), dtype)
            case Call(function="min_number", args=(x, y)):
                return np.fmin(self.value(x, box), self.value(y, box))
            case Call(function="max_number", args=(x, y)):
                return np.fmax(self.value(x, box), self.value(y, box))
            case Call(function="pow", args=(x, y)):
                return np.power(self.value(x, box), self.value(y, box))
            case Call(function=function, args=args):
                return NUMBERS.call(function)(*(self.value(x, box) for x in args))
            case _:
                assert_never(expr)

    def variable(self, name: str, box: tuple[int, ...]) -> Any:
        last = position_of(name)
        if last is None:
            return self.variables[name]
        index = np.arange(box[len(box) - last], dtype=np.int64)
        return index.reshape(-1, *(1,) * (last - 1))

    def element(self, name: str, index: tuple[Any, ...]) -> Any:
        array = self.arrays[name]
        for at, extent in zip(index, array.shape, strict=True):
            if not np.all((at >= 0) & (at < extent)):
                raise InternalError(f"a subscript of {name} is outside of it")
        return array[index]


def _converted(value: Any, dtype: DType) -> Any:
    """An array or a number as another dtype, by the rules of `evaluate`."""
    if value.dtype.kind == "c" and not dtype.is_complex and dtype != BOOL:
        value = value.real
    if value.dtype.kind != "f" or not dtype.is_integer:
        return value.astype(dtype.numpy)
    clipped = np.where(np.isnan(value), 0, value)
    inside = (clipped > float(dtype.least)) & (clipped < float(dtype.greatest))
    found = np.where(inside, clipped, 0).astype(dtype.numpy)
    ends = np.where(clipped >= float(dtype.greatest), dtype.numpy.type(dtype.greatest), found)
    found = np.where(clipped <= float(dtype.least), dtype.numpy.type(dtype.least), ends)
    return found if found.ndim else found[()]
