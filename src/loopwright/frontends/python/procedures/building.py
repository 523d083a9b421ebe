"""A Procedure under construction: blocks of statements, fresh names, guards and checks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from loopwright.diagnostics import Span
from loopwright.frontends.fresh_names import FreshNames
from loopwright.frontends.python.procedures.abstract_values import (
    ArrayValue,
    memory_value,
    whole_view,
)
from loopwright.frontends.python.procedures.extents import Ranges, difference, normal
from loopwright.frontends.python.procedures.variant import Variant
from loopwright.frontends.python.python_values import PyValue
from loopwright.frontends.refusal import Refusal
from loopwright.ir.dtypes import BOOL, INT64, DType
from loopwright.ir.expr import Const, Expr, Load, Var, cast
from loopwright.ir.procedure import (
    AllocateArray,
    ArrayView,
    BindView,
    CheckThat,
    ComputeArray,
    DefineName,
    LeaveBlock,
    ProcedureArray,
    ProcedureStmt,
    ReturnNow,
    SetElement,
    ViewAxis,
)
from loopwright.ir.visit import loads, names

__all__ = ["Building"]


class Building:
    """The statements read so far, and what is known where reading is."""

    def __init__(self, names: FreshNames, variant: Variant) -> None:
        self.names = names
        self.variant = variant
        self.entry: set[str] = set()  # integers known at entry
        self.ranges = Ranges()
        self.guards: dict[Expr, None] = {}
        self.blocks: list[list[ProcedureStmt]] = [[]]
        self.arrays: dict[str, ProcedureArray] = {}  # all memory, by name
        # Arrays with room for more than an array has, and the views of them that are that array.
        self.roomy: dict[str, ArrayView] = {}
        self.most: dict[str, tuple[Expr, ...]] = {}  # bounds of its extents that entry knows
        self.gapped: set[str] = set()  # arguments with gaps between elements
        self.written: set[str] = set()  # arrays written in place so far
        self.views: dict[str, ArrayView] = {}  # all that were bound, by name
        self.claims: dict[Span, str] = {}  # loops that prange says are independent: what is known
        self.lists: dict[str, bool] = {}  # local arrays that are lists of numbers, weak or not
        self.read_only: set[str] = set()  # views that NumPy lets nobody write
        # Arrays, and copies of them where NumPy has views: written, each would show.
        self.frozen: set[str] = set()
        # What such copies are in NumPy, by name: views of memory that others have, or their parts.
        self.views_of_copies: dict[str, ArrayView] = {}
        self.parts: dict[str, tuple[ArrayValue, Literal["real", "imag"]]] = {}
        self.short_loops: dict[str, object] = {}  # those over a few numbers, by their variables
        self.is_certain = True  # whether no statement so far may have left the function or a helper
        self.span: Span | None = None  # of the statement being read

    # -- statements -------------------------------------------------------------------------------

    def emit(self, stmt: ProcedureStmt) -> None:
        self.blocks[-1].append(stmt)
        self.is_certain = self.is_certain and not isinstance(stmt, ReturnNow | LeaveBlock)

    @contextmanager
    def block(self) -> Iterator[list[ProcedureStmt]]:
        """Statements emitted inside form a block of their own; facts inside end with it."""
        body: list[ProcedureStmt] = []
        self.blocks.append(body)
        count = len(self.ranges.facts)
        depth = len(self.blocks)
        try:
            yield body
        finally:
            del self.ranges.facts[count:]
            del self.blocks[depth - 1 :]

    def define(self, wish: str, value: Expr) -> Expr:
        """A name for a value that memory does not change any more."""
        if isinstance(value, Const | Var):
            return value
        name = self.names.fresh(wish)
        self.emit(DefineName(name, value))
        return Var(name, value.dtype)

    def fixed(self, wish: str, value: Expr) -> Expr:
        """An integer for extents and subscripts: as it is where it is known at entry."""
        return value if self.is_entry(value) else self.define(wish, value)

    def number(self, wish: str, value: PyValue) -> PyValue:
        """The number as it is now."""
        if not loads(value.expr) and names(value.expr) <= self.entry:
            return value
        if value.dtype == INT64 and not loads(value.expr):
            return PyValue(normal(value.expr), value.weak)
        return PyValue(self.define(wish, value.expr), value.weak)

    def index(self, value: PyValue, what: str) -> Expr:
        """A number as a subscript or bound that never changes."""
        if not value.dtype.is_integer:
            hint = "// divides integers, int() converts"
            raise Refusal("LW114", f"{what} is not an integer", found=str(value), hint=hint)
        whole = cast(value.expr, INT64)
        if isinstance(value.expr, Const):
            whole = Const(int(value.expr.value.real))
        return self.define("at", whole) if loads(whole) else normal(whole)

    def freeze(self, *arrays: str) -> None:
        """Let nothing write arrays, or return them where their memory would be seen."""
        if self.written & set(arrays):
            text = "the loop makes one array of two that share memory"
            raise Refusal("LW192", text, hint="copy one of them")
        self.frozen.update(arrays)

    def note_write(self, array: str) -> None:
        """Remember that memory is written."""
        if array in self.frozen:
            text = "an array is written that shares its memory with another one that is a copy here"
            raise Refusal("LW189", text, hint="write a copy: x = np.reshape(a, ...).copy()")
        self.written.add(array)

    # -- memory -----------------------------------------------------------------------------------

    def cell(self, wish: str, dtype: DType) -> str:
        """A local number."""
        array = ProcedureArray(self.names.fresh(wish), dtype, ())
        self.arrays[array.name] = array
        self.emit(AllocateArray(array, ()))
        return array.name

    def set(self, cell: str, value: Expr) -> None:
        self.emit(SetElement(cell, (), value))

    def load(self, cell: str) -> Load:
        return Load(cell, (), self.arrays[cell].dtype)

    def allocate(
        self, wish: str, dtype: DType, shape: tuple[Expr, ...], order: tuple[int, ...] = ()
    ) -> ArrayValue:
        """Fresh local memory."""
        order = () if order == tuple(range(len(shape))) else order
        shape = tuple(map(normal, shape))
        most = tuple(map(self._bound, shape))
        array = ProcedureArray(self.names.fresh(wish), dtype, shape, order=order)
        self.arrays[array.name] = array
        self.most[array.name] = most
        self.emit(AllocateArray(array, most))
        return memory_value(whole_view(array.name, dtype, shape), order)

    def _bound(self, extent: Expr) -> Expr:
        most = self.ranges.most(extent)
        if not names(most) <= self.entry or loads(most):
            hint = "sizes of arguments, integer arguments and loop variables give extents"
            raise Refusal("LW180", "the size of an array is known only while it runs", hint=hint)
        return most

    def store(self, value: ArrayValue, wish: str = "t") -> ArrayValue:
        """The array as memory: itself, or a fresh array that holds it."""
        if value.view is not None:
            return value
        return self.copy(value, wish)

    def copy(self, value: ArrayValue, wish: str = "t") -> ArrayValue:
        """A fresh array with the same elements."""
        found = self.allocate(wish, value.dtype, value.shape, self.order_of(value))
        self.emit(ComputeArray(_name(found), value.expr))
        return found

    def order_of(self, value: ArrayValue) -> tuple[int, ...]:
        """The axes of an array as its memory has them, slowest first."""
        if value.view is None or value.rank < 2:
            return value.order
        array = self.arrays[value.view.base]
        order = array.order or tuple(range(array.rank))
        place = {dimension: k for k, dimension in enumerate(order)}
        keys = [min((place[d] for d, _ in axis.steps), default=-1) for axis in value.view.axes]
        if -1 in keys:
            return value.order
        return tuple(sorted(range(value.rank), key=lambda axis: keys[axis]))

    def bind(
        self,
        base: str,
        start: tuple[Expr, ...],
        axes: tuple[ViewAxis, ...],
        wish: str,
        source: ArrayView | None = None,
    ) -> ArrayValue:
        """A view of an array; where it is a view of `source` it may be written as that may."""
        array = self.arrays[base]
        view = ArrayView(self.names.fresh(wish), base, array.dtype, start, axes)
        if source is not None and source.name in self.read_only:
            self.read_only.add(view.name)
        self.emit(BindView(view))
        self.views[view.name] = view
        return memory_value(view)

    # -- conditions -------------------------------------------------------------------------------

    def demand(self, cond: Expr) -> None:
        """Leave calls to Python in which a condition over names known at entry is false."""
        if cond != Const(True, BOOL):
            self.guards[cond] = None

    def is_entry(self, expr: Expr) -> bool:
        return not loads(expr) and names(expr) <= self.entry

    def holds(self, expr: Expr) -> bool:
        """Whether an integer is at least zero here: proven, or demanded at entry."""
        if self.ranges.is_positive(expr):
            return True
        if not self.variant.trusting or loads(expr):
            return False
        least = self.ranges.least(normal(expr))
        if isinstance(least, Const) or not self.is_entry(least):
            return False
        self.demand(least >= 0)
        return True

    def require(self, expr: Expr, exception: str, text: str, values: tuple[Expr, ...]) -> None:
        """See to it that an integer is at least zero: else NumPy raises here."""
        if not self.holds(expr):
            self.check(expr >= 0, exception, text, values)

    def check(self, cond: Expr, exception: str, text: str, values: tuple[Expr, ...] = ()) -> None:
        """Where a condition is false, end with an exception."""
        assert self.span is not None
        is_outer = len(self.blocks) == 1 and self.is_certain
        may_demand = is_outer or (self.variant.trusting and not isinstance(cond, Const))
        if self.is_entry(cond) and may_demand:
            self.demand(cond)  # Python runs such calls, and raises
            return
        self.emit(CheckThat(cond, exception, text, values, self.span))

    def equal(self, x: Expr, y: Expr) -> bool:
        """Whether two extents are equal: proven, or demanded at entry, or checked by the caller."""
        gap = difference(x, y)
        if isinstance(gap, Const):
            return gap.value == 0
        if self.is_entry(gap):
            self.demand(gap.equals(0))
            return True
        return self.ranges.is_positive(gap) and self.ranges.is_positive(Const(0) - gap)


def _name(value: ArrayValue) -> str:
    assert value.view is not None
    return value.view.name
