"""What an expression of a NumPy function stands for while it is read."""

from __future__ import annotations

from typing import TypeAlias

from loopwright.frontends.python.python_values import PyValue
from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Const, Expr, Load
from loopwright.ir.procedure import ArrayView, ViewAxis
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "AnyValue",
    "ArrayValue",
    "MaskedValue",
    "Slice",
    "StaticValue",
    "TupleValue",
    "Unknown",
    "memory_value",
    "one_step",
    "whole_view",
]


@dataclass(frozen=True, slots=True)
class ArrayValue:
    """An array: a lifted expression, and the memory that it is, if it is memory."""

    expr: Expr
    shape: tuple[Expr, ...]
    view: ArrayView | None = None  # None: it is computed
    order: tuple[int, ...] = ()  # axes as NumPy lays out such a result, slowest first; (): in order

    @property
    def dtype(self) -> DType:
        return self.expr.dtype

    @property
    def rank(self) -> int:
        return len(self.shape)

    def __str__(self) -> str:
        return f"an array of {self.dtype} and rank {self.rank}"


@dataclass(frozen=True, slots=True)
class MaskedValue:
    """The elements of an array where a mask of its shape is true: `array[mask]`.

    It lives for one expression, in which nothing changes the mask.
    """

    array: ArrayValue
    mask: ArrayValue

    def __str__(self) -> str:
        return f"elements of {self.array} by a mask"


@dataclass(frozen=True, slots=True)
class TupleValue:
    """A tuple or list of values."""

    items: tuple[AnyValue, ...]
    is_list: bool = False

    def __str__(self) -> str:
        return f"a {'list' if self.is_list else 'tuple'} of {len(self.items)}"


@dataclass(frozen=True, slots=True)
class Slice:
    """`start:stop:step`, None where nothing is written."""

    start: PyValue | None
    stop: PyValue | None
    step: PyValue | None


@dataclass(frozen=True, slots=True)
class StaticValue:
    """An object that is known when the function is compiled: None, a function, a dtype."""

    value: object

    def __str__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True, slots=True)
class Unknown:
    """A name whose value cannot be used, and why; "": that was reported."""

    why: str
    carried: str = ""  # an array of this name that the last iteration of a loop has bound


AnyValue: TypeAlias = (
    PyValue | ArrayValue | MaskedValue | TupleValue | Slice | StaticValue | Unknown
)


def whole_view(name: str, dtype: DType, shape: tuple[Expr, ...]) -> ArrayView:
    """An array as a view of itself, under its own name."""
    axes = tuple(ViewAxis(extent, ((k, Const(1)),)) for k, extent in enumerate(shape))
    return ArrayView(name, name, dtype, (Const(0),) * len(shape), axes)


def one_step(axis: ViewAxis) -> tuple[int, Expr] | None:
    """The dimension and step of an axis along one dimension; None for any other."""
    return axis.steps[0] if len(axis.steps) == 1 else None


def memory_value(view: ArrayView, order: tuple[int, ...] = ()) -> ArrayValue:
    """The array that a bound view is."""
    return ArrayValue(Load(view.name, (), view.dtype), view.shape, view, order)
