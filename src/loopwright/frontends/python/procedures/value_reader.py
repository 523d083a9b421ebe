"""Expressions of a NumPy function: numbers, arrays, tuples and what is known at compile time."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np

from loopwright.diagnostics import Collector, Diagnostic, Span
from loopwright.frontends.constant_folding import negated
from loopwright.frontends.python.fingerprint import MISSING, Captures
from loopwright.frontends.python.function_source import FunctionSource
from loopwright.frontends.python.merged_types import settled
from loopwright.frontends.python.numpy_functions import part
from loopwright.frontends.python.procedures.abstract_values import (
    AnyValue,
    ArrayValue,
    MaskedValue,
    StaticValue,
    TupleValue,
    Unknown,
)
from loopwright.frontends.python.procedures.array_functions import ArrayFunctions
from loopwright.frontends.python.procedures.array_operations import (
    Elementwise,
    as_number,
    plain,
)
from loopwright.frontends.python.procedures.array_reductions import Reductions
from loopwright.frontends.python.procedures.array_writes import ArrayWrites
from loopwright.frontends.python.procedures.building import Building
from loopwright.frontends.python.procedures.call_arguments import CallArguments, static_integer
from loopwright.frontends.python.procedures.call_reader import CallReader, HelperCall, is_helper
from loopwright.frontends.python.procedures.extents import nonnegative_parts
from loopwright.frontends.python.procedures.index_arrays import choose_elements, has_index_arrays
from loopwright.frontends.python.procedures.item_lists import ItemLists
from loopwright.frontends.python.procedures.joins import Wider
from loopwright.frontends.python.procedures.local_functions import LocalFunction, default_value
from loopwright.frontends.python.procedures.masks import masked, solid
from loopwright.frontends.python.procedures.reading_context import ReadingContext
from loopwright.frontends.python.procedures.static_functions import static_attribute
from loopwright.frontends.python.procedures.subscripts import Item, Subscripts
from loopwright.frontends.python.python_grammar import BINARY, COMPARE, EXPRESSIONS, UNARY
from loopwright.frontends.python.python_values import (
    PyValue,
    choose,
    constant,
    logical,
    truth,
)
from loopwright.frontends.refusal import Refusal, Reported, did_you_mean
from loopwright.ir.dtypes import BOOL, DTYPES
from loopwright.ir.expr import Const, Expr
from loopwright.ir.procedure import Choose, ProcedureStmt
from loopwright.ir.visit import loads, names

__all__ = ["OPERATORS", "ReadByItems", "ValueReader"]

OPERATORS = {**BINARY, ast.LShift: "shl", ast.RShift: "shr"}


# The array that an outer name of a function has: (captures, name, array) -> value.
CapturedArray = Callable[[Captures, str, Any], AnyValue]


class ReadByItems(Exception):  # noqa: N818, a loop has to be read again
    """A loop over a short range has to be read number by number."""

    def __init__(self, loop: object) -> None:
        super().__init__(loop)
        self.loop = loop


class ValueReader:
    """Reads the expressions of one function."""

    def __init__(
        self,
        build: Building,
        source: FunctionSource,
        captures: Captures,
        faults: Collector,
        own: frozenset[str],
        call_helper: HelperCall,
        captured_array: CapturedArray,
        enclosing: ReadingContext | None = None,
    ) -> None:
        self.build = build
        self.env: dict[str, AnyValue] = {}
        self.elementwise = Elementwise(build)
        self.subscripts = Subscripts(build, self.value, self.array_like)
        self.writes = ArrayWrites(build, self.elementwise, self.subscripts)
        self.functions = ArrayFunctions(build, self.elementwise)
        self.reductions = Reductions(build, self.elementwise)

        self.lists = ItemLists(self)
        self.calls = CallReader(self, call_helper)
        self.source = source
        self.captures = captures
        self._captured_array = captured_array
        self._enclosing = enclosing  # of the function around this one
        self._faults = faults
        self._own = own  # names that are local to the function

    # -- entry points -----------------------------------------------------------------------------

    def value(self, node: ast.expr) -> AnyValue:
        """The value of an expression; a refusal is reported where it arises."""
        outer, self.build.span = self.build.span, self.source.span(node)
        try:
            return self._read(node)
        except Refusal as refusal:
            self.report(refusal, node)
            raise Reported from None
        finally:
            self.build.span = outer

    def values(self, *nodes: ast.expr) -> list[AnyValue]:
        """The values of all nodes, in order; those that a later call may change are kept."""
        found: list[AnyValue] = []
        for place, node in enumerate(nodes):
            value = self.value(node)
            if any(map(self._may_write, nodes[place + 1 :])):
                value = self.frozen(value)
            found.append(value)
        return found

    def span(self, node: ast.stmt | ast.expr) -> Span:
        """Where a node stands."""
        return self.source.span(node)

    def report(self, refusal: Refusal, node: ast.stmt | ast.expr | ast.arg | ast.keyword) -> None:
        """Report a refusal at `node`."""
        span = self.source.span(node)
        found = Diagnostic(span, refusal.message, refusal.code, refusal.found, refusal.hint)
        self._faults.add(found)

    def frozen(self, value: AnyValue) -> AnyValue:
        """The value as it is now, whatever is written later."""
        match value:
            case PyValue():
                return self.build.number("x", value)
            case ArrayValue(view=None):
                return self.build.store(value)
            case MaskedValue():
                return self.solid(value)
            case TupleValue(items=items):
                return TupleValue(tuple(map(self.frozen, items)), value.is_list)
            case _:
                return value

    def _may_write(self, node: ast.expr) -> bool:
        """Whether evaluating an expression may write memory: by a helper, or by out=."""
        for inner in ast.walk(node):
            if not isinstance(inner, ast.Call):
                continue
            function = self.static(inner.func)
            if is_helper(getattr(function, "py_func", function)):
                return True
            is_method = function is MISSING and isinstance(inner.func, ast.Attribute)
            if is_method and inner.func.attr in ("at", "fill"):  # type: ignore[attr-defined]
                return True
            if isinstance(function, np.ufunc) and len(inner.args) > function.nin:
                return True
            if any(keyword.arg == "out" for keyword in inner.keywords):
                return True
        return False

    def condition(self, node: ast.expr) -> Expr:
        """`bool(node)`; operands of `and` and `or` are computed only where Python does."""
        match node:
            case ast.BoolOp(op=op, values=nodes):
                is_and = isinstance(op, ast.And)
                found = self.condition(nodes[0])
                for following in nodes[1:]:
                    found = self._joined(found, following, is_and=is_and)
                return found
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return negated(self.condition(operand))
        value = self.value(node)
        if isinstance(value, ArrayValue):
            error = Refusal("LW116", "an array is used as a condition", hint="np.all or np.any")
            self.report(error, node)
            raise Reported
        if isinstance(value, StaticValue):
            return Const(bool(value.value), BOOL)
        if isinstance(value, TupleValue):
            return Const(bool(value.items), BOOL)
        return truth(plain(value))

    def _joined(self, first: Expr, node: ast.expr, *, is_and: bool) -> Expr:
        if isinstance(first, Const):
            return self.condition(node) if bool(first.value) is is_and else first
        ranges, build = self.build.ranges, self.build
        with build.block() as body:
            ranges.facts += nonnegative_parts(first if is_and else negated(first))
            second = self.condition(node)
        if not body and not loads(second):
            return logical("and" if is_and else "or", first, second)
        cell = build.cell("cond", BOOL)
        build.set(cell, first)
        with build.block() as tail:
            build.set(cell, second)
        body += tail
        chosen: tuple[tuple[ProcedureStmt, ...], ...] = (tuple(body), ())
        build.emit(Choose(first, *(chosen if is_and else chosen[::-1])))
        return build.define("cond", build.load(cell))

    # -- expressions ------------------------------------------------------------------------------

    def _read(self, node: ast.expr) -> AnyValue:
        match node:
            case ast.Constant(value=bool() | int() | float() | complex() as value):
                return constant(value)
            case ast.Constant(value=value):
                return StaticValue(value)
            case ast.Name():
                return self._name(node)
            case ast.Tuple(elts=elts) | ast.List(elts=elts):
                return TupleValue(tuple(self._displayed(elts)), isinstance(node, ast.List))
            case ast.BinOp(left=left, op=op, right=right):
                return self.operate(op, *self.values(left, right))
            case ast.UnaryOp(op=ast.Not()) | ast.BoolOp():
                return PyValue(self.condition(node), weak=True)
            case ast.UnaryOp(op=op, operand=operand):
                given, name = self.value(operand), UNARY[type(op)]
                found = masked(lambda parts: self.elementwise.unary(name, *parts), (given,))
                return self.elementwise.unary(name, given) if found is None else found
            case ast.Compare():
                return self._compare(node)
            case ast.IfExp():
                return self._choose(node)
            case ast.Subscript():
                return self._subscript(node)
            case ast.Attribute():
                return self._attribute(node)
            case ast.Lambda(args=args):
                return StaticValue(LocalFunction("a lambda", node, self, self.defaults(args)))
            case ast.ListComp() | ast.GeneratorExp():
                return TupleValue(
                    tuple(self.lists.comprehension(node, node.generators)), is_list=True
                )
            case ast.Call():
                return self.calls.read(node)
        word = EXPRESSIONS.get(type(node), type(node).__name__)
        raise Refusal("LW122", f"{word} cannot be compiled")

    def _displayed(self, elts: list[ast.expr]) -> Iterator[AnyValue]:
        """The items of a tuple or list that is written down."""
        plain = [x.value if isinstance(x, ast.Starred) else x for x in elts]
        for node, value in zip(elts, self.values(*plain), strict=True):
            if not isinstance(node, ast.Starred):
                yield value
            elif isinstance(value, TupleValue):
                yield from value.items
            else:
                raise Refusal("LW122", "this is no tuple", found=str(value))

    def defaults(self, args: ast.arguments) -> dict[str, AnyValue]:
        """The default values of parameters, as they are where a function is defined."""
        every = [*args.posonlyargs, *args.args]
        pairs = list(zip(every[len(every) - len(args.defaults) :], args.defaults, strict=True))
        pairs += [(x, y) for x, y in zip(args.kwonlyargs, args.kw_defaults, strict=True) if y]
        return {arg.arg: self.frozen(self.value(default)) for arg, default in pairs}

    def operate(self, op: ast.operator, x: AnyValue, y: AnyValue) -> AnyValue:
        """`x op y` for an operator of Python's syntax."""
        if isinstance(op, ast.MatMult):
            return self.reductions.product(self.solid(x), self.solid(y))
        name = OPERATORS.get(type(op))
        if name is None:
            raise Refusal("LW122", f"{EXPRESSIONS[type(op)]} cannot be compiled")
        if isinstance(x, StaticValue) and isinstance(y, StaticValue) and name == "or":
            return StaticValue(x.value | y.value)  # type: ignore[operator]
        if isinstance(x, TupleValue) and isinstance(y, PyValue) and name == "mul":
            times = static_integer(y, "the number of copies of a list")
            return TupleValue(x.items * times, x.is_list)
        if isinstance(x, ArrayValue) or isinstance(y, ArrayValue):
            x, y = self.array_like(x), self.array_like(y)
        if isinstance(x, TupleValue) and isinstance(y, TupleValue) and name == "add":
            if x.is_list != y.is_list:
                raise Refusal("LW122", "a list and a tuple are added", found=f"{x} and {y}")
            return TupleValue((*x.items, *y.items), x.is_list)
        found = masked(lambda parts: self.elementwise.binary(name, *parts), (x, y))
        if found is not None:
            return found
        return self.elementwise.binary(name, self.solid(x), self.solid(y))

    def solid(self, value: AnyValue) -> AnyValue:
        """The value; elements by a mask as an array of their own."""
        self._require_no_list(value)
        return solid(self.build, value)

    def _require_no_list(self, value: AnyValue) -> None:
        view = value.view if isinstance(value, ArrayValue) else None
        if view is not None and view.base in self.build.lists:
            hint = "np.array makes an array of it"
            raise Refusal("LW184", "a list that changes is used as a whole", hint=hint)

    def list_in_memory(self, value: TupleValue) -> AnyValue:
        """A list of numbers of one type whose elements are assigned, as a local array."""
        types = {x.type for x in value.items if isinstance(x, PyValue)}
        if len(types) != 1 or not all(isinstance(x, PyValue) for x in value.items):
            raise Refusal("LW184", "elements of a list of several types are assigned")
        ((dtype, weak),) = types
        given = CallArguments("list", (value,), {"dtype": StaticValue(dtype.numpy)})
        found = self.functions.array(given)
        assert isinstance(found, ArrayValue)
        assert found.view is not None
        self.build.lists[found.view.base] = weak
        return found

    def array_like(self, value: AnyValue) -> AnyValue:
        """The value, a list or tuple of numbers as the array that NumPy makes of it."""
        if not isinstance(value, TupleValue):
            return value
        return self.functions.array(CallArguments("np.array", (value,), {}))

    def _name(self, node: ast.Name) -> AnyValue:
        found = self.env.get(node.id)
        if isinstance(found, Unknown):
            if found.carried:
                raise Wider({}, frozenset({found.carried}))
            if not found.why:
                raise Reported
            raise Refusal("LW190", f"'{node.id}' {found.why}")
        if found is not None:
            return found
        if node.id in self._own:
            raise Refusal("LW190", f"'{node.id}' may have no value here")
        if self._enclosing is not None and self._enclosing.has(node.id):
            return self._enclosing.value(node)
        return self._captured(node, node.id)

    def owns(self, name: str) -> bool:
        """Whether a name is local to the function."""
        return name in self._own

    def has(self, name: str) -> bool:
        """Whether a name is local to the function or to one around it."""
        is_own = name in self._own or name in self.env
        return is_own or (self._enclosing is not None and self._enclosing.has(name))

    def _captured(self, node: ast.expr, dotted: str) -> AnyValue:
        value = self.captures.resolve(dotted)
        if value is MISSING:
            hint = did_you_mean(dotted, sorted(self.env), "pass it as an argument")
            raise Refusal("LW102", f"the name '{dotted}' is not defined", hint=hint)
        if isinstance(value, np.generic) and value.dtype.name in DTYPES:
            return constant(value)
        if isinstance(value, np.ndarray):
            return self._captured_array(self.captures, dotted, value)
        return default_value(value)

    def static(self, node: ast.expr) -> object:
        """The outer object that a dotted name stands for, or MISSING."""
        parts: list[str] = []
        base = node
        while isinstance(base, ast.Attribute):
            parts.insert(0, base.attr)
            base = base.value
        if not isinstance(base, ast.Name):
            return MISSING
        if (
            self._enclosing is not None
            and base.id not in self._own
            and self._enclosing.has(base.id)
        ):
            return self._enclosing.static(node)
        if base.id in self._own or base.id in self.env:
            known = self.env.get(base.id)
            is_function = isinstance(known, StaticValue) and not parts
            return known.value if is_function and isinstance(known, StaticValue) else MISSING
        return self.captures.resolve(".".join([base.id, *parts]))

    def _compare(self, node: ast.Compare) -> AnyValue:
        values = self.values(node.left, *node.comparators)
        found: AnyValue | None = None
        for op, x, y in zip(node.ops, values, values[1:], strict=False):
            one: AnyValue
            if isinstance(op, ast.In | ast.NotIn):
                one = self._is_in(x, y)
                if isinstance(op, ast.NotIn):
                    one = PyValue(negated(truth(as_number(one, "the test"))), weak=True)
            elif isinstance(op, ast.Is | ast.IsNot):
                holds = self._is_same(x, y) is isinstance(op, ast.Is)
                one = PyValue(Const(holds, BOOL), weak=True)
            elif isinstance(x, StaticValue) and isinstance(y, StaticValue):
                one = PyValue(Const(_compared(op, x.value, y.value), BOOL), weak=True)
            elif type(op) not in COMPARE:
                word = EXPRESSIONS.get(type(op), type(op).__name__)
                raise Refusal("LW122", f"{word} cannot be compiled", hint="< <= > >= == !=")
            else:
                one = self.elementwise.binary(COMPARE[type(op)], self.solid(x), self.solid(y))
            if found is None:
                found = one
                continue
            both = [as_number(side, "a part of a chained comparison") for side in (found, one)]
            found = PyValue(logical("and", truth(both[0]), truth(both[1])), weak=True)
        assert found is not None
        return found

    def _is_in(self, x: AnyValue, y: AnyValue) -> AnyValue:
        """`x in y` of a tuple or list."""
        if isinstance(x, StaticValue) and isinstance(y, StaticValue) and isinstance(y.value, str):
            return constant(str(x.value) in y.value)
        if not isinstance(y, TupleValue):
            raise Refusal("LW122", "an 'in' test is of tuples only", found=str(y))
        found: Expr = Const(False, BOOL)
        for item in y.items:
            if isinstance(x, StaticValue) or isinstance(item, StaticValue):
                same = _known(x) == _known(item)
                found = logical("or", found, Const(same, BOOL))
                continue
            one = as_number(self.elementwise.binary("eq", x, item), "an item of the tuple")
            found = logical("or", found, truth(one))
        return PyValue(found, weak=True)

    def _is_same(self, x: AnyValue, y: AnyValue) -> bool:
        if isinstance(x, StaticValue) and isinstance(y, StaticValue):
            return x.value is y.value
        none = [v for v in (x, y) if isinstance(v, StaticValue) and v.value is None]
        if none:
            return False
        raise Refusal("LW122", "an 'is' test cannot be compiled", hint="only with None")

    def _choose(self, node: ast.IfExp) -> AnyValue:
        cond, build = self.condition(node.test), self.build
        if isinstance(cond, Const):
            return self.value(node.body if cond.value else node.orelse)
        with build.block() as body:
            build.ranges.facts += nonnegative_parts(cond)
            x = as_number(self.value(node.body), "a side of a conditional expression")
        with build.block() as orelse:
            build.ranges.facts += nonnegative_parts(negated(cond))
            y = as_number(self.value(node.orelse), "a side of a conditional expression")
        if not body and not orelse and not loads(x.expr) and not loads(y.expr):
            return settled(choose(cond, x, y), f"'{ast.unparse(node)}'")
        if x.type != y.type:
            hint = "convert both sides to one type"
            raise Refusal("LW119", f"the sides are {x} and {y}", hint=hint)
        cell = build.cell("chosen", x.dtype)
        for side, value in ((body, x), (orelse, y)):
            with build.block() as tail:
                build.set(cell, value.expr)
            side += tail
        build.emit(Choose(cond, tuple(body), tuple(orelse)))
        return build.number("chosen", PyValue(build.load(cell), x.weak))

    def _subscript(self, node: ast.Subscript) -> AnyValue:
        if self.static(node.value) is np.mgrid:
            return self._grid(node.slice)
        base = self.value(node.value)
        held = base.view.base if isinstance(base, ArrayValue) and base.view is not None else ""
        if held in self.build.lists:
            assert isinstance(base, ArrayValue)
            found = self.element(base, self.subscripts.items(node.slice))
            if isinstance(found, PyValue):
                return found
        base = self.solid(base)
        if isinstance(base, TupleValue):
            if isinstance(node.slice, ast.Slice):
                bounds = [
                    None if x is None else static_integer(self.value(x), "the bound of a slice")
                    for x in (node.slice.lower, node.slice.upper, node.slice.step)
                ]
                return TupleValue(base.items[slice(*bounds)])
            index = self.value(node.slice)
            if isinstance(index, PyValue) and not isinstance(index.expr, Const):
                return self._of_list(base, index)
            at = static_integer(index, "the index of a tuple")
            if not -len(base.items) <= at < len(base.items):
                raise Refusal("LW111", f"index {at} of a tuple of {len(base.items)}")
            return base.items[at]
        if isinstance(base, PyValue) and not base.weak and ast.unparse(node.slice) == "()":
            return base
        if not isinstance(base, ArrayValue):
            raise Refusal("LW115", f"'{ast.unparse(node.value)}' has no elements", found=str(base))
        return self.element(base, self.subscripts.items(node.slice))

    def element(self, base: ArrayValue, items: list[Item]) -> AnyValue:
        """`base[items]`."""
        held = self.build.store(base)
        if has_index_arrays(items) and self.writes.mask(base, items) is None:
            return choose_elements(self.build, self.subscripts, held, items).value()
        return self.subscripts.read(held, items)

    def _of_list(self, base: TupleValue, index: PyValue) -> AnyValue:
        """An element, by a variable, of a list or tuple of numbers of one type."""
        types = {x.type for x in base.items if isinstance(x, PyValue)}
        if len(types) != 1 or not all(isinstance(x, PyValue) for x in base.items):
            for name in names(index.expr) & self.build.short_loops.keys():
                raise ReadByItems(self.build.short_loops[name])
            raise Refusal("LW184", "a tuple of several types is indexed by a variable")
        given = CallArguments("list", (TupleValue(base.items),), {})
        ((dtype, weak),) = types
        given.keywords["dtype"] = StaticValue(dtype.numpy)
        array = self.functions.array(given)
        assert isinstance(array, ArrayValue)
        found = self.subscripts.read(array, [index])
        assert isinstance(found, PyValue)
        return PyValue(found.expr, weak)

    def _grid(self, node: ast.expr) -> AnyValue:
        """`np.mgrid[a:b, c:d]` of integers, as the tuple that it unpacks to."""
        parts = node.elts if isinstance(node, ast.Tuple) else [node]
        ends: list[tuple[Expr, Expr]] = []
        for entry in parts:
            if not isinstance(entry, ast.Slice) or entry.upper is None or entry.step is not None:
                raise Refusal("LW181", "np.mgrid takes slices start:stop here")
            low, high = (
                constant(0) if bound is None else as_number(self.value(bound), "a bound")
                for bound in (entry.lower, entry.upper)
            )
            ends.append((self.build.index(low, "a bound"), self.build.index(high, "a bound")))
        if len(ends) < 2:
            raise Refusal("LW181", "np.mgrid of one dimension is not compiled yet")
        return TupleValue(tuple(self.functions.grid(ends)))

    def _attribute(self, node: ast.Attribute) -> AnyValue:
        outer = self.static(node)
        if outer is not MISSING:
            if isinstance(outer, ModuleType):
                return StaticValue(outer)
            parts = ast.unparse(node)
            return self._captured(node, parts)
        base = self.solid(self.value(node.value))
        if isinstance(base, StaticValue):
            known = static_attribute(base.value, node.attr)
            if known is not None:
                return known
        if isinstance(base, PyValue) and node.attr in ("real", "imag"):
            return part(node.attr, base)
        if isinstance(base, ArrayValue):
            match node.attr:
                case "shape":
                    return TupleValue(tuple(PyValue(x, weak=True) for x in base.shape))
                case "ndim":
                    return constant(base.rank)
                case "size":
                    size: Expr = Const(1)
                    for extent in base.shape:
                        size = size * extent
                    return PyValue(size, weak=True)
                case "dtype":
                    return StaticValue(base.dtype.numpy)
                case "T":
                    return self.functions.views.transposed(base)
                case "real" | "imag":
                    return self.functions.part_of(node.attr, base)
        if isinstance(base, PyValue) and node.attr in ("shape", "ndim", "size") and not base.weak:
            if node.attr == "shape":
                return TupleValue(())
            return constant(0 if node.attr == "ndim" else 1)
        if isinstance(base, PyValue) and node.attr == "dtype" and not base.weak:
            return StaticValue(base.dtype.numpy)
        text = f"the attribute '{node.attr}' is not known"
        raise Refusal("LW125", text, found=ast.unparse(node))


def _compared(op: ast.cmpop, x: object, y: object) -> bool:
    """Whether two objects that are known now are equal, or not."""
    if not isinstance(op, ast.Eq | ast.NotEq):
        raise Refusal("LW122", "objects are compared by == and != only")
    return bool(x == y) is isinstance(op, ast.Eq)


def _known(value: AnyValue) -> object:
    return value.value if isinstance(value, StaticValue) else value
