"""Procedure: a whole function, typed: structured control over array and scalar statements.

The right side of a statement is an expression of `ir/expr`, lifted: `Load(name, ())` of an array or
view of rank r stands for all its elements, and operands broadcast against each other by trailing
axes, as NumPy's do. An axis whose extent is not the constant 1 has the extent of the others there:
front ends prove that, demand it as a guard, or check it first. `Load(name, index)` with a subscript
for each dimension is an element; a lifted subscript makes it a gather. `position(k)` is the index
along the k-th axis from the end.

A value is computed whole before anything of the target is written. Integers that bounds, subscripts
and extents use are variables that never change: parameters, loop variables, and names that
DefineName gives. Everything else that changes is memory: an array, of rank 0 for a local number.

Names are unique in the whole procedure. A name that a block introduces (by DefineName, BindView or
AllocateArray) is known to the end of the block.
"""

from __future__ import annotations

from enum import Enum
from typing import Literal, TypeAlias

from loopwright.diagnostics import Span
from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Expr, Var
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "STATUS",
    "AllocateArray",
    "ArrayRole",
    "ArrayView",
    "BindView",
    "CheckThat",
    "Choose",
    "ComputeArray",
    "DefineName",
    "EndlessLoop",
    "LeavableBlock",
    "LeaveBlock",
    "LeaveLoop",
    "MultiplyMatrices",
    "NextIteration",
    "Parameter",
    "Procedure",
    "ProcedureArray",
    "ProcedureStmt",
    "RangeLoop",
    "ReduceArray",
    "ReturnNow",
    "Returned",
    "ReturnedArray",
    "ReturnedNumber",
    "ReturnedOneOf",
    "ReturnedPart",
    "ReturnedTuple",
    "SetElement",
    "ViewAxis",
    "position",
    "position_of",
]


class ArrayRole(Enum):
    """Whose memory an array is."""

    ARGUMENT = "argument"  # of the caller; rank 0: a number, which the procedure does not change
    RESULT = "result"  # fresh memory that the caller keeps; its extents are known at entry
    LOCAL = "local"  # memory that only the procedure sees


@dataclass(frozen=True, slots=True)
class ProcedureArray:
    """Memory of a procedure."""

    name: str
    dtype: DType
    shape: tuple[Expr, ...]
    role: ArrayRole = ArrayRole.LOCAL
    # Of fresh memory: its axes from the slowest to the fastest; (): in order, as C has them.
    order: tuple[int, ...] = ()

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass(frozen=True, slots=True)
class ViewAxis:
    """An axis of a view: index p adds p * step to the subscript of each dimension of `steps`."""

    extent: Expr
    steps: tuple[tuple[int, Expr], ...]  # (dimension of the base, step); (): a new axis


@dataclass(frozen=True, slots=True)
class ArrayView:
    """Elements of an array: view[p] = base[start + sum over axes of p[axis] * steps]."""

    name: str
    base: str  # an array, never a view
    dtype: DType
    start: tuple[Expr, ...]  # one per dimension of the base
    axes: tuple[ViewAxis, ...]

    @property
    def shape(self) -> tuple[Expr, ...]:
        return tuple(axis.extent for axis in self.axes)


# -- statements -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DefineName:
    """From here to the end of the block, `name` is this value, computed once."""

    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class BindView:
    """From here to the end of the block, the view is known by its name. No data moves."""

    view: ArrayView


@dataclass(frozen=True, slots=True)
class AllocateArray:
    """Local memory to the end of the block; its contents are undefined at first.

    `most` are upper bounds of the extents that are known at entry.
    """

    array: ProcedureArray
    most: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class SetElement:
    """`array[index] = value`, one element; () of rank 0."""

    array: str
    index: tuple[Expr, ...]
    value: Expr


@dataclass(frozen=True, slots=True)
class ComputeArray:
    """`target[...] = value`, elementwise; the value may have fewer axes than the target."""

    target: str  # an array or a view
    value: Expr


@dataclass(frozen=True, slots=True)
class ReduceArray:
    """`target[...] = op.reduce(value, axis=axes)`.

    `op` is add, mul, min, max, and, or. The value is broadcast to `shape` first, and the target has
    the other axes, in order. `runs` are the axes of the value as NumPy's memory of it has them,
    from the slowest to the fastest: those in one run lie without gaps. They decide the order of
    sums; see docs/python.md. `chunk`: elements that NumPy converts at once; 0: it converts none.
    """

    target: str
    op: str
    value: Expr
    shape: tuple[Expr, ...]
    axes: tuple[int, ...]
    runs: tuple[tuple[int, ...], ...]
    chunk: int = 0


@dataclass(frozen=True, slots=True)
class MultiplyMatrices:
    """`target[...] = left @ right` of arrays or views of one type, by the rules of np.matmul.

    Their inner extents are equal. The target is none of their memory.
    """

    target: str
    left: str
    right: str


@dataclass(frozen=True, slots=True)
class RangeLoop:
    """`for var in range(start, stop, step)`; the step is not zero. The variable never changes."""

    var: str
    start: Expr
    stop: Expr
    step: Expr
    body: tuple[ProcedureStmt, ...]
    is_independent: bool = False  # proven: no iteration touches what another one writes


@dataclass(frozen=True, slots=True)
class EndlessLoop:
    """The body again and again, until something in it leaves."""

    body: tuple[ProcedureStmt, ...]


@dataclass(frozen=True, slots=True)
class Choose:
    """`body` where the condition holds, else `orelse`."""

    cond: Expr
    body: tuple[ProcedureStmt, ...]
    orelse: tuple[ProcedureStmt, ...] = ()


@dataclass(frozen=True, slots=True)
class LeavableBlock:
    """The body, which may be left early: a helper that returns where it does not end."""

    name: str
    body: tuple[ProcedureStmt, ...]


@dataclass(frozen=True, slots=True)
class LeaveBlock:
    """Continue behind the enclosing block of this name."""

    name: str


@dataclass(frozen=True, slots=True)
class LeaveLoop:
    """End the innermost loop."""


@dataclass(frozen=True, slots=True)
class NextIteration:
    """End this iteration of the innermost loop."""


@dataclass(frozen=True, slots=True)
class ReturnNow:
    """End the procedure: what it returns has been stored."""


@dataclass(frozen=True, slots=True)
class CheckThat:
    """Where `cond` is false the procedure ends with an exception, and nothing after is done.

    `text` is the exception's, with {0}, {1}, ... for the values.
    """

    cond: Expr
    exception: str  # of builtins
    text: str
    values: tuple[Expr, ...]
    span: Span


ProcedureStmt: TypeAlias = (
    DefineName
    | BindView
    | AllocateArray
    | SetElement
    | ComputeArray
    | ReduceArray
    | MultiplyMatrices
    | RangeLoop
    | EndlessLoop
    | Choose
    | LeavableBlock
    | LeaveBlock
    | LeaveLoop
    | NextIteration
    | ReturnNow
    | CheckThat
)


# -- what is taken and returned -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument: an array, an integer that is a variable, or a number in an array of rank 0."""

    name: str
    kind: Literal["array", "int", "number"]


@dataclass(frozen=True, slots=True)
class ReturnedArray:
    """An argument itself, a result, or a view: of sizes that are known at entry, or late."""

    name: str
    trims: bool = False  # what the view leaves out of its result is given back
    is_read_only: bool = False


@dataclass(frozen=True, slots=True)
class ReturnedNumber:
    """The number in a result of rank 0: a Python number where it is weak, else NumPy's scalar."""

    name: str
    weak: bool


@dataclass(frozen=True, slots=True)
class ReturnedTuple:
    """A tuple of what is returned; of nothing: None, where `is_none`."""

    items: tuple[Returned, ...]
    is_none: bool = False


@dataclass(frozen=True, slots=True)
class ReturnedPart:
    """The real or imaginary part of a complex array, as a view of it."""

    item: ReturnedArray
    part: Literal["real", "imag"]


@dataclass(frozen=True, slots=True)
class ReturnedOneOf:
    """What one of several returns gives: its number is in a result of rank 0."""

    which: str
    items: tuple[Returned, ...]


Returned: TypeAlias = ReturnedArray | ReturnedNumber | ReturnedTuple | ReturnedPart | ReturnedOneOf


@dataclass(frozen=True, slots=True)
class Procedure:
    """A whole function for given types of arguments."""

    name: str
    parameters: tuple[Parameter, ...]  # in call order
    sizes: tuple[str, ...]  # the extents of the arguments that shapes name, int64
    arrays: tuple[ProcedureArray, ...]  # arguments, then results
    guards: tuple[Expr, ...]  # over sizes and integers; a call that breaks one is for Python
    body: tuple[ProcedureStmt, ...]
    returned: Returned
    views: tuple[ArrayView, ...] = ()  # that are returned, over names known at entry or late
    late: tuple[tuple[str, str], ...] = ()  # integers of views, results of rank 0 that have them
    claims: tuple[str, ...] = ()  # what is known of the loops that prange says are independent
    captured: tuple[tuple[str, object], ...] = ()  # outer names that count, the values they had

    def array(self, name: str) -> ProcedureArray:
        return next(array for array in self.arrays if array.name == name)

    @property
    def integers(self) -> tuple[str, ...]:
        """The variables known at entry: sizes, then integer arguments."""
        return (*self.sizes, *(p.name for p in self.parameters if p.kind == "int"))


# The buffer in which the kernel of a procedure says why it ended: 0, or the number of a check.
STATUS = "status."
_POSITION = "position."


def position(k: int) -> Var:
    """The index along the k-th axis from the end, counted from 1, of the box of a statement."""
    return Var(f"{_POSITION}{k}")


def position_of(name: str) -> int | None:
    """The k of a variable that `position` gives; None for any other."""
    return int(name[len(_POSITION) :]) if name.startswith(_POSITION) else None
