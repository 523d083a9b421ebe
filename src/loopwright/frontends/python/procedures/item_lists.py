"""Lists and tuples that are read item by item: comprehensions, and what short loops run over."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from loopwright.frontends.python.procedures.abstract_values import (
    AnyValue,
    ArrayValue,
    TupleValue,
)
from loopwright.frontends.python.procedures.call_arguments import static_integer
from loopwright.frontends.python.procedures.reading_context import ReadingContext
from loopwright.frontends.python.python_values import PyValue, constant
from loopwright.frontends.refusal import Refusal
from loopwright.ir.expr import Const

__all__ = ["ItemLists"]

_MOST_ITEMS = 64  # of a list


class ItemLists:
    """Reads the lists of one function."""

    def __init__(self, values: ReadingContext) -> None:
        self._values = values

    def comprehension(
        self, node: ast.ListComp | ast.GeneratorExp, generators: list[ast.comprehension]
    ) -> Iterator[AnyValue]:
        """The items of a list whose length is known, one after the other."""
        if not generators:
            yield self._values.frozen(self._values.value(node.elt))
            return
        first, *rest = generators
        items = self.static_items(first.iter)
        if items is None:
            hint = "a loop that stores to an array"
            raise Refusal("LW122", "a list of a length that varies cannot be compiled", hint=hint)
        for item in items:
            before = dict(self._values.env)
            self.bind(first.target, item)
            tests = [self._values.condition(test) for test in first.ifs]
            if not all(isinstance(test, Const) for test in tests):
                raise Refusal("LW122", "data decide the length of this list")
            if all(test.value for test in tests if isinstance(test, Const)):
                yield from self.comprehension(node, rest)
            self._values.env = before

    def bind(self, target: ast.expr, value: AnyValue) -> None:
        """Give names of a comprehension their values."""
        match target, value:
            case ast.Name(id=name), _:
                self._values.env[name] = value
            case ast.Tuple(elts=elts), TupleValue(items=items) if len(elts) == len(items):
                for element, item in zip(elts, items, strict=True):
                    self.bind(element, item)
            case _:
                raise Refusal("LW193", "this does not unpack", found=str(value))

    def static_items(self, node: ast.expr) -> list[AnyValue] | None:
        """What an expression runs over, item by item; None where that is not a short list."""
        if isinstance(node, ast.Call):
            function = self._values.static(node.func)
            is_zip = function is builtins.zip and all(x.arg == "strict" for x in node.keywords)
            known = (builtins.enumerate, builtins.reversed, builtins.range)
            if (function in known and not node.keywords) or is_zip:
                return self._items_of_call(function, node.args)
        value = self._values.value(node)
        if isinstance(value, ArrayValue) and value.rank and isinstance(value.shape[0], Const):
            held, count = self._values.build.store(value), int(value.shape[0].value.real)
            if count <= _MOST_ITEMS:
                places = (PyValue(Const(k), weak=True) for k in range(count))
                return [self._values.subscripts.read(held, [k]) for k in places]
        return list(value.items) if isinstance(value, TupleValue) else None

    def _items_of_call(self, function: object, args: list[ast.expr]) -> list[AnyValue] | None:
        if function is builtins.range:
            bounds = [self._values.value(arg) for arg in args]
            if not all(isinstance(x, PyValue) and isinstance(x.expr, Const) for x in bounds):
                return None
            numbers = range(*(static_integer(x, "a bound") for x in bounds))
            return [constant(k) for k in numbers] if len(numbers) <= _MOST_ITEMS else None
        if function is builtins.enumerate:
            items = self.static_items(args[0])
            start = static_integer(self._values.value(args[1]), "the start") if len(args) > 1 else 0
            if items is None:
                return None
            return [TupleValue((constant(k), x)) for k, x in enumerate(items, start)]
        found = [self.static_items(arg) for arg in args]
        lists = [items for items in found if items is not None]
        if len(lists) < len(found):
            return None
        if function is builtins.reversed:
            return lists[0][::-1]
        return [TupleValue(items) for items in zip(*lists, strict=False)]
