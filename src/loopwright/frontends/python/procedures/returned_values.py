"""What a procedure returns: arguments, fresh arrays, views, numbers and tuples of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import replace

from loopwright.frontends.python.procedures.abstract_values import (
    AnyValue,
    ArrayValue,
    StaticValue,
    TupleValue,
    Unknown,
    whole_view,
)
from loopwright.frontends.python.procedures.building import Building
from loopwright.frontends.python.python_values import PyValue
from loopwright.frontends.refusal import Refusal, Reported
from loopwright.ir.dtypes import INT64, DType
from loopwright.ir.expr import Const, Expr, Var
from loopwright.ir.procedure import (
    AllocateArray,
    ArrayRole,
    ArrayView,
    BindView,
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
    ReturnedPart,
    ReturnedTuple,
    ReturnNow,
    SetElement,
)
from loopwright.ir.visit import loads, names

__all__ = ["ReturnedValues"]


class ReturnedValues:
    """The results of one procedure."""

    def __init__(self, build: Building) -> None:
        self._build = build
        self._views: dict[str, ArrayView] = {}
        self._kept: dict[str, None] = {}  # local arrays that are results
        self._rooms: dict[str, ProcedureArray] = {}  # results for arrays whose sizes data decide
        self._late: dict[str, str] = {}  # integers of views, and the results that have them
        self._ways: list[Returned] = []  # what the returns give, each once
        self._which = ""  # the number of the return that was reached
        self._cells: dict[tuple[int, DType], str] = {}  # numbers, by place in the result and type
        self._next = 0

    def _once(self, found: Returned) -> Returned:
        """What is returned; arrays that share memory with others there keep theirs."""
        bases = Counter(self._views[x.name].base for x in _arrays(found) if x.name in self._views)
        bases.update(x.name for x in _arrays(found))
        shared = {x.name for x in _arrays(found) if x.trims and bases[self._views[x.name].base] > 1}
        return _without_trims(found, shared) if shared else found

    def add(self, value: AnyValue) -> None:
        """Store the result of a return."""
        build = self._build
        found = self._once(self._structure(value))
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
        return (*given, *results, *self._rooms.values())

    def views(self) -> tuple[ArrayView, ...]:
        """The views that are returned."""
        return tuple(self._views.values())

    @property
    def late(self) -> tuple[tuple[str, str], ...]:
        """The integers of views that are known when the function returns."""
        return tuple(self._late.items())

    def without_results(self, body: tuple[ProcedureStmt, ...]) -> tuple[ProcedureStmt, ...]:
        """Statements without the allocations of results, which callers make."""
        found: list[ProcedureStmt] = []
        for stmt in body:
            match stmt:
                case AllocateArray(array=array) if array.name in self._kept:
                    continue
                case AllocateArray(array=array) if array.name in self._rooms:
                    view = whole_view(array.name, array.dtype, array.shape)
                    found.append(BindView(self._moved(view)))
                case BindView(view=view):
                    found.append(BindView(self._moved(view)))
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

    def _array(self, value: ArrayValue, *, is_part: bool = False) -> ReturnedArray | ReturnedPart:
        build = self._build
        held = build.store(value, "result")
        view = held.view
        assert view is not None
        if view.name in build.parts:
            whole, part = build.parts[view.name]
            found = self._array(whole, is_part=True)
            assert isinstance(found, ReturnedArray)
            return ReturnedPart(found, part)
        if view.name in build.views_of_copies:
            view = build.views_of_copies[view.name]
        elif self._may_be_a_view(view) and not is_part:
            text = "an array is returned that NumPy may have as a view, and is a copy here"
            raise Refusal("LW128", text, hint="return a copy of it")
        base = build.arrays[view.base]
        if base.role is not ArrayRole.ARGUMENT:
            if all(map(build.is_entry, base.shape)):
                self._kept[base.name] = None
            elif base.name not in self._rooms:
                name, most = build.names.fresh(base.name), build.most[base.name]
                room = replace(base, name=name, shape=most, role=ArrayRole.RESULT)
                self._rooms[base.name] = room
        is_whole, is_fixed = view.name == view.base, view.name in build.read_only
        if is_whole and base.name not in self._rooms:
            return ReturnedArray(view.base, is_read_only=is_fixed)
        trims = is_whole or build.roomy.get(view.base) == view
        steps = [step for axis in view.axes for _, step in axis.steps]
        for expr in (*view.start, *view.shape, *steps):
            self._keep_late(expr)
        own = next((x for x in self._views.values() if replace(x, name=view.name) == view), None)
        if own is None:
            is_new = not is_whole and view.name not in self._views
            own = replace(view, name=view.name if is_new else build.names.fresh(view.name))
            self._views[own.name] = self._moved(own)
        return ReturnedArray(own.name, trims, is_fixed)

    def _may_be_a_view(self, view: ArrayView) -> bool:
        """Whether NumPy may have a view of an array that is a copy here."""
        is_local = self._build.arrays[view.base].role is ArrayRole.LOCAL
        return is_local and view.base in self._build.frozen

    def _moved(self, view: ArrayView) -> ArrayView:
        """A view of an array whose size data decide, as one of the result that has room for it."""
        room = self._rooms.get(view.base)
        return view if room is None else replace(view, base=room.name)

    def _keep_late(self, expr: Expr) -> None:
        """Hand over the integers of a view that are not known at entry."""
        build = self._build
        if loads(expr):
            text = "a view is returned that is known only while the function runs"
            raise Refusal("LW128", text, hint="return a copy of it, of a size that is known")
        for name in sorted(names(expr) - build.entry):
            if name not in self._late:
                cell = self._late[name] = build.names.fresh(f"{name}_late")
                build.arrays[cell] = ProcedureArray(cell, INT64, ())
                self._kept[cell] = None
            build.set(self._late[name], Var(name))


def _arrays(found: Returned) -> Iterator[ReturnedArray]:
    if isinstance(found, ReturnedArray):
        yield found
    elif isinstance(found, ReturnedTuple):
        for item in found.items:
            yield from _arrays(item)


def _without_trims(found: Returned, names: Container[str]) -> Returned:
    if isinstance(found, ReturnedArray) and found.name in names:
        return ReturnedArray(found.name)
    if isinstance(found, ReturnedTuple):
        return replace(found, items=tuple(_without_trims(x, names) for x in found.items))
    return found
