"""Expressions of a NumPy function: numbers, arrays, tuples and what is known at compile time."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from types import FunctionType, ModuleType

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
from loopwright.frontends.python.procedures.array_functions import (
    FUNCTIONS_OF_ARRAYS,
    OUTER_OPERATORS,
    ArrayFunctions,
)
from loopwright.frontends.python.procedures.array_operations import (
    Elementwise,
    as_number,
    plain,
)
from loopwright.frontends.python.procedures.array_reductions import REDUCTIONS, Reductions
from loopwright.frontends.python.procedures.array_writes import ArrayWrites
from loopwright.frontends.python.procedures.building import Building
from loopwright.frontends.python.procedures.call_arguments import CallArguments, static_integer
from loopwright.frontends.python.procedures.extents import nonnegative_parts
from loopwright.frontends.python.procedures.joins import Wider
from loopwright.frontends.python.procedures.masks import masked, solid
from loopwright.frontends.python.procedures.prelude import PRELUDE
from loopwright.frontends.python.procedures.subscripts import Subscripts
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
from loopwright.ir.visit import loads

__all__ = ["OPERATORS", "ValueReader"]

OPERATORS = {**BINARY, ast.LShift: "shl", ast.RShift: "shr"}
_METHODS = {
    "sum": np.sum, "prod": np.prod, "mean": np.mean, "std": np.std, "var": np.var,
    "min": np.min, "max": np.max, "all": np.all, "any": np.any, "dot": np.dot,
    "round": np.round, "transpose": np.transpose, "reshape": np.reshape, "swapaxes": np.swapaxes,
    "argmin": np.argmin, "argmax": np.argmax, "cumsum": np.cumsum, "trace": np.trace,
    "cumprod": np.cumprod, "conj": np.conjugate, "conjugate": np.conjugate,
}  # fmt: skip
# Calls a plain function of Python with values: (function, name, arguments) -> result.
CallHelper = Callable[[FunctionType, ast.Call, CallArguments], AnyValue]


class ValueReader:
    """Reads the expressions of one function."""

    def __init__(
        self,
        build: Building,
        source: FunctionSource,
        captures: Captures,
        faults: Collector,
        own: frozenset[str],
        call_helper: CallHelper,
    ) -> None:
        self.build = build
        self.env: dict[str, AnyValue] = {}
        self.elementwise = Elementwise(build)
        self.subscripts = Subscripts(build, self.value)
        self.writes = ArrayWrites(build, self.elementwise, self.subscripts)
        self.functions = ArrayFunctions(build, self.elementwise)
        self.reductions = Reductions(build, self.elementwise)
        self._source = source
        self._captures = captures
        self._faults = faults
        self._own = own  # names that are local to the function
        self._call_helper = call_helper

    # -- entry points -----------------------------------------------------------------------------

    def value(self, node: ast.expr) -> AnyValue:
        """The value of an expression; a refusal is reported where it arises."""
        outer, self.build.span = self.build.span, self._source.span(node)
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
        return self._source.span(node)

    def report(self, refusal: Refusal, node: ast.stmt | ast.expr | ast.arg | ast.keyword) -> None:
        """Report a refusal at `node`."""
        span = self._source.span(node)
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
            if isinstance(function, FunctionType) and not _is_numpy(function):
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
                return TupleValue(tuple(self.values(*elts)), isinstance(node, ast.List))
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
            case ast.Call():
                return self._call(node)
        word = EXPRESSIONS.get(type(node), type(node).__name__)
        raise Refusal("LW122", f"{word} cannot be compiled")

    def operate(self, op: ast.operator, x: AnyValue, y: AnyValue) -> AnyValue:
        """`x op y` for an operator of Python's syntax."""
        if isinstance(op, ast.MatMult):
            return self.reductions.product(self.solid(x), self.solid(y))
        name = OPERATORS.get(type(op))
        if name is None:
            raise Refusal("LW122", f"{EXPRESSIONS[type(op)]} cannot be compiled")
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
        return solid(self.build, value)

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
        return self._captured(node, node.id)

    def _captured(self, node: ast.expr, dotted: str) -> AnyValue:
        value = self._captures.resolve(dotted)
        if value is MISSING:
            hint = did_you_mean(dotted, sorted(self.env), "pass it as an argument")
            raise Refusal("LW102", f"the name '{dotted}' is not defined", hint=hint)
        if isinstance(value, np.generic) and value.dtype.name in DTYPES:
            return constant(value)
        if isinstance(value, bool | int | float | complex):
            return constant(value)
        if isinstance(value, np.ndarray):
            text = f"'{ast.unparse(node)}' is an array from outside the function"
            raise Refusal("LW129", text, hint="pass it as an argument")
        return StaticValue(value)

    def static(self, node: ast.expr) -> object:
        """The outer object that a dotted name stands for, or MISSING."""
        parts: list[str] = []
        base = node
        while isinstance(base, ast.Attribute):
            parts.insert(0, base.attr)
            base = base.value
        if not isinstance(base, ast.Name):
            return MISSING
        if base.id in self._own or base.id in self.env:
            known = self.env.get(base.id)
            is_function = isinstance(known, StaticValue) and not parts
            return known.value if is_function and isinstance(known, StaticValue) else MISSING
        return self._captures.resolve(".".join([base.id, *parts]))

    def _compare(self, node: ast.Compare) -> AnyValue:
        values = self.values(node.left, *node.comparators)
        found: AnyValue | None = None
        for op, x, y in zip(node.ops, values, values[1:], strict=False):
            if isinstance(op, ast.Is | ast.IsNot):
                holds = self._is_same(x, y) is isinstance(op, ast.Is)
                one: AnyValue = PyValue(Const(holds, BOOL), weak=True)
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
        base = self.solid(self.value(node.value))
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
        if not isinstance(base, ArrayValue):
            raise Refusal("LW115", f"'{ast.unparse(node.value)}' has no elements", found=str(base))
        return self.subscripts.read(self.build.store(base), self.subscripts.items(node.slice))

    def _of_list(self, base: TupleValue, index: PyValue) -> AnyValue:
        """An element, by a variable, of a list or tuple of numbers of one type."""
        types = {x.type for x in base.items if isinstance(x, PyValue)}
        if len(types) != 1 or not all(isinstance(x, PyValue) for x in base.items):
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
                    return self.functions.transposed(base)
                case "real" | "imag" if not base.dtype.is_complex and node.attr == "real":
                    return base
                case "real" | "imag" if base.dtype.is_complex:
                    text = f"'.{node.attr}' of an array is not compiled yet"
                    raise Refusal("LW125", text, hint=f"np.{node.attr}(...), which is a copy here")
        if isinstance(base, PyValue) and node.attr in ("shape", "ndim", "size") and not base.weak:
            if node.attr == "shape":
                return TupleValue(())
            return constant(0 if node.attr == "ndim" else 1)
        if isinstance(base, PyValue) and node.attr == "dtype" and not base.weak:
            return StaticValue(base.dtype.numpy)
        text = f"the attribute '{node.attr}' is not known"
        raise Refusal("LW125", text, found=ast.unparse(node))

    # -- calls ------------------------------------------------------------------------------------

    def _call(self, node: ast.Call) -> AnyValue:
        function = self.static(node.func)
        name = ast.unparse(node.func)
        if any(isinstance(arg, ast.Starred) for arg in node.args):
            raise Refusal("LW124", "starred arguments are not compiled yet")
        if isinstance(node.func, ast.Attribute) and function is MISSING:
            owner = self.static(node.func.value)
            op = OUTER_OPERATORS.get(owner)
            if op is not None and node.func.attr == "outer":
                return self.functions.outer(op, self._arguments(node, name))
            return self._method(node, node.func)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "outer":
            op = OUTER_OPERATORS.get(self.static(node.func.value))
            if op is not None:
                return self.functions.outer(op, self._arguments(node, name))
        return self.call(function, node, self._arguments(node, name))

    def _arguments(self, node: ast.Call, name: str, *first: AnyValue) -> CallArguments:
        nodes = [*node.args, *(keyword.value for keyword in node.keywords)]
        values = self.values(*nodes)
        count = len(node.args)
        keywords: dict[str, AnyValue] = {}
        for keyword, value in zip(node.keywords, values[count:], strict=True):
            if keyword.arg is None:
                raise Refusal("LW124", "starred arguments are not compiled yet")
            keywords[keyword.arg] = value
        return CallArguments(name, (*first, *values[:count]), keywords)

    def call(self, function: object, node: ast.Call, given: CallArguments) -> AnyValue:
        """The value of a call of an outer function."""
        function = getattr(function, "py_func", function)
        if function is builtins.len and len(given.args) == 1:
            return self._length(given.args[0])
        is_elementwise = self.elementwise.has(function)
        if not is_elementwise:
            keywords = {name: self.solid(value) for name, value in given.keywords.items()}
            given = CallArguments(given.name, tuple(map(self.solid, given.args)), keywords)
        if function in FUNCTIONS_OF_ARRAYS:
            return self.functions.call(function, given)
        known = PRELUDE.get(function)
        if known is not None:
            own, rank = known
            if len(given.args) != 1 or given.keywords or array_rank(given.args[0]) != rank:
                kind = "a vector" if rank == 1 else "a matrix"
                raise Refusal("LW124", f"'{given.name}' takes {kind} and nothing else here")
            return self._call_helper(own, node, given)
        if function in REDUCTIONS:
            return self.reductions.call(function, given)
        if function is builtins.range:
            raise Refusal("LW126", "range stands outside of a loop")
        keywords = dict(given.keywords)
        out = keywords.pop("out", None)
        if not keywords:
            args = given.args
            if out is None and isinstance(function, np.ufunc) and len(args) == function.nin + 1:
                *rest, out = args
                args = tuple(rest)
            found = masked(
                lambda parts: self.elementwise.call(function, given.name, parts) or parts[0], args
            )
            if found is not None:
                return found
            args = tuple(map(self.solid, args))
            found = self.elementwise.call(function, given.name, args)
            if found is not None:
                return found if out is None else self.writes.out(out, found)
        if isinstance(function, FunctionType) and not _is_numpy(function):
            if given.name.split(".")[0] in self._own:
                text = f"the helper '{given.name}' is called by a local name"
                raise Refusal("LW195", text, hint="call it by the name of its definition")
            return self._call_helper(function, node, given)
        if isinstance(function, type) and issubclass(function, np.generic) and given.args:
            raise Refusal("LW123", f"'{given.name}' takes one number")
        hint = "functions of arrays: docs/python.md lists them"
        raise Refusal("LW123", f"the function '{given.name}' is not known", hint=hint)

    def _length(self, value: AnyValue) -> AnyValue:
        if isinstance(value, TupleValue):
            return constant(len(value.items))
        if isinstance(value, ArrayValue) and value.rank:
            return PyValue(value.shape[0], weak=True)
        raise Refusal("LW115", "len of what has no length", found=str(value))

    def _method(self, node: ast.Call, func: ast.Attribute) -> AnyValue:
        base = self.solid(self.value(func.value))
        if not isinstance(base, ArrayValue):
            text = f"the method '{func.attr}' is not known"
            raise Refusal("LW125", text, found=ast.unparse(node))
        given = self._arguments(node, func.attr, base)
        match func.attr:
            case "copy" if not node.args and not node.keywords:
                return self.functions.c_copy(base)
            case "astype":
                return self.functions.astype(
                    base, CallArguments("astype", given.args[1:], given.keywords)
                )
            case "fill":
                if len(given.args) != 2 or node.keywords:
                    raise Refusal("LW124", "'fill' takes one value")
                self.writes.whole(base, given.args[1])
                return StaticValue(None)
            case "reshape" | "transpose" if len(node.args) > 1:
                joined = TupleValue(tuple(given.args[1:]))
                given = CallArguments(func.attr, (base, joined), given.keywords)
        if func.attr in _METHODS:
            return self.call(_METHODS[func.attr], node, given)
        text = f"the method '{func.attr}' of arrays is not compiled yet"
        raise Refusal("LW125", text, found=ast.unparse(node))


def array_rank(value: AnyValue) -> int:
    """The rank of an array; -1 of anything else."""
    return value.rank if isinstance(value, ArrayValue) else -1


def _compared(op: ast.cmpop, x: object, y: object) -> bool:
    """Whether two objects that are known now are equal, or not."""
    if not isinstance(op, ast.Eq | ast.NotEq):
        raise Refusal("LW122", "objects are compared by == and != only")
    return bool(x == y) is isinstance(op, ast.Eq)


def _is_numpy(function: FunctionType) -> bool:
    """Whether a function of Python is NumPy's own."""
    return str(function.__module__).split(".")[0] == "numpy"
