"""Python expressions to typed values.

Each refusal is reported at its node and reading goes on, so that one run reports all errors.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence
from functools import reduce

from loopwright.diagnostics import Collector, Diagnostic
from loopwright.frontends.affine_check import not_affine, why_not_affine, why_not_piecewise
from loopwright.frontends.constant_folding import negated
from loopwright.frontends.near_division import by_cases_of_sizes
from loopwright.frontends.python import numpy_functions
from loopwright.frontends.python.fingerprint import MISSING, Captures
from loopwright.frontends.python.function_source import FunctionSource
from loopwright.frontends.python.merged_types import settled
from loopwright.frontends.python.name_resolution import FunctionScope, NameResolver
from loopwright.frontends.python.numpy_promotion import binary, unary, updated_extreme
from loopwright.frontends.python.python_grammar import (
    ACCEPTED,
    AFFINE,
    BINARY,
    COMPARE,
    EXPRESSIONS,
    UNARY,
    as_load,
)
from loopwright.frontends.python.python_values import (
    PyValue,
    Value,
    choose,
    constant,
    convert,
    each,
    either,
    leaves,
    logical,
    truth,
)
from loopwright.frontends.python.raise_conditions import guarded, noted
from loopwright.frontends.refusal import Refusal, Reported, wrong_rank
from loopwright.frontends.source_tree import ArrayParam, Local
from loopwright.ir.dtypes import BOOL, INT64
from loopwright.ir.expr import Const, Expr, Load
from loopwright.ir.program import Access

__all__ = ["PyExpressionReader"]


class PyExpressionReader:
    """Reads the expressions of one function."""

    def __init__(
        self, source: FunctionSource, captures: Captures, scope: FunctionScope, faults: Collector
    ) -> None:
        self._source = source
        self._faults = faults
        self._scope = scope
        self.names = NameResolver(scope, captures)

    # -- entry points -----------------------------------------------------------------------

    def try_value(self, node: ast.expr) -> Value | None:
        """The value of `node`; None when it was refused (and reported)."""
        try:
            return self._value(node)
        except Refusal as refusal:
            self.report(refusal, node)
        except Reported:
            pass
        return None

    def need(self, *nodes: ast.expr) -> list[Value]:
        """The values of all nodes. Raises Reported if any was refused, after reading them all."""
        found = [self.try_value(node) for node in nodes]
        values = [value for value in found if value is not None]
        if len(values) < len(found):
            raise Reported
        return values

    def single(self, node: ast.expr) -> PyValue:
        """The value of `node`, of a single type."""
        (value,) = self.need(node)
        return settled(value, f"'{ast.unparse(node)}'")

    def report(self, refusal: Refusal, node: ast.stmt | ast.expr | ast.arg | ast.keyword) -> None:
        """Report a refusal at `node`."""
        span = self._source.span(node)
        found = Diagnostic(span, refusal.message, refusal.code, refusal.found, refusal.hint)
        self._faults.add(found)

    def affine(self, node: ast.expr, code: str, what: str) -> Expr:
        """The value of `node` as an affine integer expression; `what` names its use."""
        try:
            value = self.single(node)
            whole = convert(value, INT64) if value.dtype == BOOL else value.expr
            found = self.names.as_integer(whole)
            value = value if found == whole else PyValue(found, value.weak)
            if not value.dtype.is_integer:
                raise Refusal(
                    "LW114",
                    f"{what} is not an integer",
                    found=f"{ast.unparse(node)}, a value of type {value}",
                    hint="// divides integers, int() converts constants",
                )
            is_subscript = code == "LW110"
            if is_subscript:
                value = self.by_cases(value)
            why = (why_not_piecewise if is_subscript else why_not_affine)(value.expr)
            if why is not None and not isinstance(value.expr, Const):
                raise not_affine(code, what, ast.unparse(node), why, AFFINE)
        except Refusal as refusal:
            self.report(refusal, node)
            raise Reported from None
        is_constant = isinstance(value.expr, Const)
        return convert(value, INT64) if is_constant else value.expr

    def by_cases(self, value: PyValue) -> PyValue:
        """An index with remainders by sizes, `(i + 1) % n`, as case distinctions."""
        if value.dtype != INT64 or why_not_piecewise(value.expr) is None:
            return value
        found = by_cases_of_sizes(value.expr, self._scope.prove)
        return value if why_not_piecewise(found) else PyValue(found, value.weak)

    def condition(self, node: ast.expr) -> Expr:
        """`node` as a boolean expression."""
        match node:
            case ast.BoolOp(op=op, values=values):
                name = "and" if isinstance(op, ast.And) else "or"
                parts = [self._try_condition(value) for value in values[:1]]
                for value in values[1:]:
                    since, before = noted(), parts[-1]
                    parts.append(self._try_condition(value))
                    if before is not None:
                        guarded(before if name == "and" else negated(before), since)
                found = [part for part in parts if part is not None]
                if len(found) < len(parts):
                    raise Reported
                return reduce(lambda x, y: logical(name, x, y), found)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return negated(self.condition(operand))
            case _:
                return truth(*self.need(node))

    def access(self, node: ast.Subscript) -> Access:
        """The array element `A[i, j]` or `A[i][j]`."""
        entries: list[ast.expr] = []
        base: ast.expr = node
        while isinstance(base, ast.Subscript):
            part = base.slice
            entries[:0] = part.elts if isinstance(part, ast.Tuple) else [part]
            base = base.value
        array = self.names.array(base)
        self._refuse_slices(entries)
        if len(entries) != len(array.shape):
            raise wrong_rank(ast.unparse(base), len(array.shape), len(entries))
        index = [self._index(e, extent) for e, extent in zip(entries, array.shape, strict=True)]
        plain = [entry for entry in index if entry is not None]
        if len(plain) < len(index):
            raise Reported
        return Access(array.name, tuple(plain), array.dtype)

    # -- expressions ------------------------------------------------------------------------

    def _value(self, node: ast.expr) -> Value:
        match node:
            case ast.Constant(value=bool() | int() | float() | complex() as value):
                return constant(value)
            case ast.Name():
                return self.names.value(node)
            case ast.BinOp(left=left, op=op, right=right):
                values = self.need(left, right)
                return self.operate(op, *values)
            case ast.UnaryOp(op=ast.Not()):
                return PyValue(self.condition(node), weak=True)
            case ast.UnaryOp(op=op, operand=operand):
                return unary(UNARY[type(op)], *self.need(operand))
            case ast.BoolOp():
                return self._logic(node)
            case ast.Compare():
                return self._compare(node)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._choose(test, body, orelse)
            case ast.Subscript(value=ast.Attribute(attr="shape", value=base), slice=at):
                return self._extent(self.names.array(base), at)
            case ast.Subscript():
                return PyValue(self.access(node).load())
            case ast.Attribute():
                return self._attribute(node)
            case ast.Call():
                return self._call(node)
            case _:
                word = EXPRESSIONS.get(type(node), type(node).__name__)
                raise Refusal("LW122", f"{word} cannot be compiled", hint=ACCEPTED)

    def operate(self, op: ast.operator, x: Value, y: Value) -> Value:
        """`x op y` for an operator of Python's syntax."""
        name = BINARY.get(type(op))
        if name is None:
            raise Refusal("LW122", f"{EXPRESSIONS[type(op)]} cannot be compiled", hint=ACCEPTED)
        return binary(name, x, y)

    def _logic(self, node: ast.BoolOp) -> Value:
        """`x and y` as a value: only of booleans, where it is the same as `&`."""
        values = self.need(*node.values)
        if any(leaf.dtype != BOOL for value in values for leaf in leaves(value)):
            word = "and" if isinstance(node.op, ast.And) else "or"
            raise Refusal(
                "LW103",
                f"'{word}' of values that are not booleans",
                hint="compare the values, or write a conditional expression",
            )
        word = "and" if isinstance(node.op, ast.And) else "or"
        return _last_of(word, values, self.condition(node))

    def _compare(self, node: ast.Compare) -> Value:
        values = self.need(node.left, *node.comparators)
        parts = []
        for op, x, y in zip(node.ops, values, values[1:], strict=False):
            if type(op) not in COMPARE:
                word = EXPRESSIONS[type(op)]
                raise Refusal("LW122", f"{word} cannot be compiled", hint="< <= > >= == !=")
            parts.append(binary(COMPARE[type(op)], x, y))
        expr = reduce(lambda x, y: logical("and", x, y), [truth(part) for part in parts])
        return _last_of("and", parts, expr)

    def _choose(self, test: ast.expr, body: ast.expr, orelse: ast.expr) -> Value:
        cond = self._try_condition(test)
        since = noted()
        x = self.try_value(body)
        if cond is not None:
            guarded(cond, since)
        since = noted()
        y = self.try_value(orelse)
        if cond is not None:
            guarded(negated(cond), since)
        if cond is None or x is None or y is None:
            raise Reported
        return choose(cond, x, y)

    def _try_condition(self, node: ast.expr) -> Expr | None:
        try:
            return self.condition(node)
        except Refusal as refusal:
            self.report(refusal, node)
        except Reported:
            pass
        return None

    def _extent(self, array: ArrayParam | Local, at: ast.expr) -> PyValue:
        value = self.single(at)
        rank = len(array.shape)
        match value.expr:
            case Const(value=int() as k) if -rank <= k < rank:
                return PyValue(array.shape[k], weak=True)
            case _:
                raise Refusal(
                    "LW111",
                    f"the array has {rank} dimension{'s' if rank != 1 else ''}",
                    found=f"shape[{ast.unparse(at)}]",
                    hint="write a constant between 0 and the number of dimensions",
                )

    def _attribute(self, node: ast.Attribute) -> Value:
        dotted, outer = self.names.resolve(node)
        if outer is not MISSING:
            return self.names.captured(node, dotted)
        if node.attr in ("real", "imag"):
            (value,) = self.need(node.value)
            return each(lambda side: numpy_functions.part(node.attr, side), value)
        if node.attr == "ndim":
            return constant(len(self.names.array(node.value).shape))
        if node.attr == "size":
            size: Value = constant(1)
            for extent in self.names.array(node.value).shape:
                size = binary("mul", size, PyValue(extent, weak=True))
            return size
        raise Refusal(
            "LW125",
            f"the attribute '{node.attr}' is not known",
            found=ast.unparse(node),
            hint="accepted are A.shape[k], A.ndim, A.size, x.real, x.imag and numbers of modules",
        )

    def _call(self, node: ast.Call) -> Value:
        name, function = self.names.resolve(node.func)
        if node.keywords:
            hint = "pass them by position"
            raise Refusal("LW124", "keyword arguments are not accepted here", hint=hint)
        if function is builtins.len and len(node.args) == 1:
            array = self.names.array(node.args[0])
            return self._extent(array, ast.copy_location(ast.Constant(0), node))
        if not numpy_functions.is_known(function):
            for arg in node.args:
                if not isinstance(arg, ast.Name):  # a name may be an array: no error of its own
                    self.try_value(arg)
            raise Refusal(
                "LW123", f"the function '{name}' is not known", hint=numpy_functions.ACCEPTED
            )
        return numpy_functions.call(function, name, self.need(*node.args))

    def extreme_update(self, target: ast.expr, node: ast.expr) -> Value | None:
        """The value of `target = min(target, ...)` or max; None where `node` is something else."""
        if not isinstance(node, ast.Call) or node.keywords or len(node.args) < 2:
            return None
        op = numpy_functions.extreme_of(self.names.resolve(node.func)[1])
        if op is None or ast.dump(as_load(target)) != ast.dump(node.args[0]):
            return None
        own, *others = self.need(*node.args)
        if not isinstance(own, PyValue) or not isinstance(own.expr, Load):
            return None
        found: Value = own
        for other in others:
            found = updated_extreme(op, found, other)
        return found

    # -- subscripts -------------------------------------------------------------------------

    def _index(self, entry: ast.expr, extent: Expr) -> Expr | None:
        """One subscript; a negative constant counts from the end of the dimension."""
        try:
            found = self.affine(entry, "LW110", "the subscript")
        except Reported:
            return None
        match found:
            case Const(value=int() as value) if value < 0:
                return extent + value
            case _:
                return found

    def _refuse_slices(self, entries: Sequence[ast.expr]) -> None:
        slices = [e for e in entries if isinstance(e, ast.Slice) or _is_new_axis(e)]
        for entry in slices:
            hint = "write the loop over its elements"
            self.report(Refusal("LW113", "a slice cannot be compiled", hint=hint), entry)
        if slices:
            raise Reported


def _last_of(word: str, values: Sequence[Value], expr: Expr) -> Value:
    """`x and y` of booleans, whose value is `expr`: Python's or NumPy's, as the last one asked."""
    found = each(lambda side: PyValue(expr, side.weak), values[-1])
    for value in reversed(values[:-1]):
        cond = truth(value) if word == "and" else negated(truth(value))
        found = either(cond, found, each(lambda side: PyValue(expr, side.weak), value))
    return found


def _is_new_axis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and (node.value is None or node.value is ...)
