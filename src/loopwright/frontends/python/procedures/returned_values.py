"""What a procedure returns: arguments, fresh arrays, views, numbers and tuples of them."""

from __future__ import annotations

from dataclasses import replace

from loopwright.frontends.python.procedures.abstract_values import (
    AnyValue,
    ArrayValue,
    StaticValue,
    TupleValue,
    Unknown,
)
from loopwright.frontends.python.procedures.building import Building
from loopwright.frontends.python.python_values import PyValue
from loopwright.frontends.refusal import Refusal, Reported
from loopwright.ir.dtypes import INT64, DType
from loopwright.ir.expr import Const, Expr
from loopwright.ir.procedure import (
    AllocateArray,
    ArrayRole,
    ArrayView,
    Choose,
    EndlessLoop,
    LeavableBlock,
    ProcedureArray,
    ProcedureStmt,
    RangeLoop,
    Returned,
    ReturnedArray,
    ReturnedNumber,
    ReturnedOneOf,
    ReturnedTuple,
    ReturnNow,
    SetElement,
)

__all__ = ["ReturnedValues"]


class ReturnedValues:
    """The results of one procedure."""

    def __init__(self, build: Building) -> None:
        self._build = build
        self._views: dict[str, ArrayView] = {}
        self._kept: dict[str, None] = {}  # local arrays that are results
        self._ways: list[Returned] = []  # what the returns give, each once
        self._which = ""  # the number of the return that was reached
        self._cells: dict[tuple[int, DType], str] = {}  # numbers, by place in the result and type
        self._next = 0

    def add(self, value: AnyValue) -> None:
        """Store the result of a return."""
        build = self._build
        found = self._structure(value)
        if found not in self._ways:
            self._ways.append(found)
        if not self._which:
            self._which = build.names.fresh("way")
            build.arrays[self._which] = ProcedureArray(self._which, INT64, ())
        build.set(self._which, Const(self._ways.index(found)))
        if len(build.blocks) > 1:
            build.emit(ReturnNow())

    def final(self) -> Returned:
        """What the function returns."""
        if not self._ways:  # it always raises
            return ReturnedTuple((), is_none=True)
        if len(self._ways) == 1:
            return self._ways[0]
        self._kept[self._which] = None
        return ReturnedOneOf(self._which, tuple(self._ways))

    def arrays(self) -> tuple[ProcedureArray, ...]:
        """Arguments, then results."""
        every = self._build.arrays
        given = [x for x in every.values() if x.role is ArrayRole.ARGUMENT]
        results = [replace(every[name], role=ArrayRole.RESULT) for name in self._kept]
        return (*given, *results)

    def views(self) -> tuple[ArrayView, ...]:
        """The views that are returned."""
        return tuple(self._views.values())

    def without_results(self, body: tuple[ProcedureStmt, ...]) -> tuple[ProcedureStmt, ...]:
        """Statements without the allocations of results, which callers make."""
        found: list[ProcedureStmt] = []
        for stmt in body:
            match stmt:
                case AllocateArray(array=array) if array.name in self._kept:
                    continue
                case SetElement(array=name) if name == self._which and name not in self._kept:
                    continue
                case RangeLoop() | EndlessLoop() | LeavableBlock():
                    found.append(replace(stmt, body=self.without_results(stmt.body)))
                case Choose(cond=cond, body=inner, orelse=orelse):
                    both = self.without_results(inner), self.without_results(orelse)
                    found.append(Choose(cond, *both))
                case _:
                    found.append(stmt)
        return tuple(found)

    def _structure(self, value: AnyValue) -> Returned:
        self._next = 0
        return self._item(value)

    def _item(self, value: AnyValue) -> Returned:
        match value:
            case PyValue():
                return self._number(value)
            case ArrayValue():
                return self._array(value)
            case TupleValue(is_list=True):
                raise Refusal("LW128", "a list is returned", hint="a tuple, or np.array of it")
            case TupleValue(items=items):
                return ReturnedTuple(tuple(map(self._item, items)))
            case StaticValue(value=None):
                return ReturnedTuple((), is_none=True)
            case Unknown(why=why):
                if not why:
                    raise Reported
                raise Refusal("LW128", f"the result {why}")
        raise Refusal("LW128", "this cannot be returned", found=str(value))

    def _number(self, value: PyValue) -> ReturnedNumber:
        build = self._build
        place = self._next, value.dtype
        self._next += 1
        if place not in self._cells:
            name = build.names.fresh("result")
            build.arrays[name] = ProcedureArray(name, value.dtype, ())
            self._kept[name] = None
            self._cells[place] = name
        cell = self._cells[place]
        build.set(cell, value.expr)
        return ReturnedNumber(cell, value.weak)

    def _array(self, value: ArrayValue) -> ReturnedArray:
        build = self._build
        held = build.store(value, "result")
        view = held.view
        assert view is not None
        base = build.arrays[view.base]
        if base.role is not ArrayRole.ARGUMENT:
            self._require_entry(base.shape, "the size of the result is known only while it runs")
            self._kept[base.name] = None
        if view.name == view.base:
            return ReturnedArray(view.base)
        steps = [step for axis in view.axes for _, step in axis.steps]
        text = "a view is returned that is known only while the function runs"
        self._require_entry((*view.start, *view.shape, *steps), text)
        self._views[view.name] = view
        return ReturnedArray(view.name)

    def _require_entry(self, exprs: tuple[Expr, ...], text: str) -> None:
        if not all(isinstance(x, Const) or self._build.is_entry(x) for x in exprs):
            raise Refusal("LW128", text, hint="return a copy of it, of a size that is known")
