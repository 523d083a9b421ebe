"""What a helper returns, read where it is called: a value, or memory that several returns fill."""

from __future__ import annotations

from loopwright.frontends.python.procedures.abstract_values import (
    AnyValue,
    ArrayValue,
    StaticValue,
    TupleValue,
)
from loopwright.frontends.python.procedures.building import Building
from loopwright.frontends.python.procedures.joins import joined_type, same_value, stored
from loopwright.frontends.python.python_values import PyType, PyValue
from loopwright.frontends.refusal import Refusal
from loopwright.ir.expr import Load
from loopwright.ir.procedure import ComputeArray, LeavableBlock, LeaveBlock, ProcedureStmt
from loopwright.ir.visit import names

__all__ = ["HelperReturns", "WiderReturn"]

_HINT = "return numbers, or new arrays of one type and shape"


class WiderReturn(Exception):  # noqa: N818, the helper has to be read again
    """Returns of a helper give numbers of several types; `types` has them by place."""

    def __init__(self, types: dict[int, PyType]) -> None:
        super().__init__(types)
        self.types = types


class HelperReturns:
    """The returns of one call. A helper with one return at its end needs no memory for it."""

    def __init__(self, build: Building, types: dict[int, PyType]) -> None:
        self._build = build
        self._types = types  # that numbers of the result have, by place, as far as known
        self._depth, self._start = len(build.blocks), len(build.blocks[-1])
        self._before = build.names.taken()
        self._label = build.names.fresh("call")
        self._memory: list[ProcedureStmt] = []  # what the result lies in, where returns share it
        self._value: AnyValue | None = None  # what the call gives
        self._bases: set[str] = set()  # of arrays in the result that is being stored
        self._place = 0

    def add(self, value: AnyValue) -> None:
        """A return: what follows is not reached."""
        build = self._build
        is_last = len(build.blocks) == self._depth
        if self._value is None and is_last:
            self._value = value
            return
        self._place = 0
        if self._value is None:
            with build.block() as memory:
                self._value = self._room(value)
            self._memory = memory
        self._place = 0
        self._bases.clear()
        self._store(self._value, value)
        if not is_last:
            build.emit(LeaveBlock(self._label))

    def result(self) -> AnyValue:
        """The value of the call, when all of the helper has been read."""
        if self._value is None:
            return StaticValue(None)
        if self._place:  # several returns
            block = self._build.blocks[-1]
            inner = tuple(block[self._start :])
            block[self._start :] = [*self._memory, LeavableBlock(self._label, inner)]
        return self._loaded(self._value)

    def _next(self) -> int:
        self._place += 1
        return self._place

    def _room(self, value: AnyValue) -> AnyValue:
        """Memory for values like one."""
        build, place = self._build, self._next()
        match value:
            case PyValue():
                dtype, weak = self._types.setdefault(place, value.type)
                return PyValue(build.load(build.cell("returned", dtype)), weak)
            case ArrayValue():
                if not all(names(extent) <= self._before for extent in value.shape):
                    text = "a helper returns an array of a size it finds"
                    raise Refusal("LW128", text, hint=_HINT)
                if self._is_outer(value):
                    return value
                order = build.order_of(value)
                return build.allocate("returned", value.dtype, value.shape, order)
            case TupleValue(items=items):
                return TupleValue(tuple(map(self._room, items)), value.is_list)
        return value

    def _is_outer(self, value: ArrayValue) -> bool:
        return value.view is not None and value.view.name in self._before

    def _store(self, room: AnyValue, value: AnyValue) -> None:
        build, place = self._build, self._next()
        match room, value:
            case PyValue(expr=Load(array=cell)), PyValue():
                found = joined_type("the result", [self._types[place], value.type])
                if found != self._types[place]:
                    raise WiderReturn({**self._types, place: found})
                stored(build, cell, value)
                return
            case ArrayValue(), ArrayValue() if self._is_outer(room):
                if same_value(room, value):
                    return
            case ArrayValue(), ArrayValue() if room.dtype == value.dtype:
                assert room.view is not None
                if self._is_new(value) and self._fits(room, value):
                    build.emit(ComputeArray(room.view.name, value.expr))
                    return
            case TupleValue(), TupleValue() if len(room.items) == len(value.items):
                for x, y in zip(room.items, value.items, strict=True):
                    self._store(x, y)
                return
            case _ if same_value(room, value):
                return
        text = "a helper returns different things"
        raise Refusal("LW128", text, found=f"{room} and {value}", hint=_HINT)

    def _is_new(self, value: ArrayValue) -> bool:
        """Whether nobody else has an array: it was made in the helper and is returned once."""
        if value.view is None:
            return True
        base = value.view.base
        is_new = base not in self._before and base not in self._bases
        self._bases.add(base)
        return is_new

    def _fits(self, room: ArrayValue, value: ArrayValue) -> bool:
        pairs = zip(room.shape, value.shape, strict=False)
        return room.rank == value.rank and all(self._build.equal(x, y) for x, y in pairs)

    def _loaded(self, value: AnyValue) -> AnyValue:
        match value:
            case PyValue():
                return self._build.number("returned", value)
            case TupleValue(items=items):
                return TupleValue(tuple(map(self._loaded, items)), value.is_list)
        return value
