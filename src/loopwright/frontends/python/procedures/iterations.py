"""What a for loop of a NumPy function runs over: ranges, arrays, enumerate and zip."""

from __future__ import annotations

import ast
import builtins
from dataclasses import replace

from loopwright.frontends.python.procedures.abstract_values import (
    AnyValue,
    ArrayValue,
    TupleValue,
)
from loopwright.frontends.python.procedures.building import Building
from loopwright.frontends.python.procedures.extents import difference, normal
from loopwright.frontends.python.procedures.independence import judge_claim
from loopwright.frontends.python.procedures.value_reader import ValueReader
from loopwright.frontends.python.python_values import PyValue
from loopwright.frontends.refusal import Refusal
from loopwright.ir.expr import Binary, Const, Expr, Var
from loopwright.ir.procedure import ProcedureStmt, RangeLoop

__all__ = ["Iterations", "is_prange"]

_MOST_ITEMS = 64  # of a range that may be read number by number


class Iterations:
    """The header of one loop, read before its body."""

    def __init__(self, build: Building, values: ValueReader, stmt: ast.For) -> None:
        self._build = build
        self._values = values
        self._target = stmt.target
        wish = stmt.target.id if isinstance(stmt.target, ast.Name) else "i"
        self._var = build.names.fresh(wish)
        self._arrays: list[ArrayValue] = []
        self._first: Expr | None = None  # of what enumerate counts
        self._is_range = False
        self.is_claimed = False  # to be independent
        self.start: Expr = Const(0)
        self.stop: Expr = Const(0)
        self.step: Expr = Const(1)
        self._header(stmt.iter)

    def _header(self, node: ast.expr) -> None:
        function = self._values.static(node.func) if isinstance(node, ast.Call) else None
        if isinstance(node, ast.Call) and not node.keywords:
            self.is_claimed = is_prange(function)
            if function is builtins.range or self.is_claimed:
                self._range(node)
                return
            if function is builtins.enumerate and len(node.args) in (1, 2):
                first = self._values.value(node.args[1]) if len(node.args) > 1 else None
                at = (
                    None if first is None else self._values.build.index(_number(first), "the start")
                )
                self._first = Const(0) if at is None else at
                self._over([node.args[0]])
                return
            if function is builtins.reversed and len(node.args) == 1:
                self._over(node.args)
                (array,) = self._arrays
                self._arrays = [self._values.functions.views.turned(array)]
                return
        if isinstance(node, ast.Call) and function is builtins.zip and node.args:
            self._over(node.args, is_strict=any(map(_is_strict, node.keywords)))
            return
        self._over([node])

    def _over(self, nodes: list[ast.expr], *, is_strict: bool = False) -> None:
        """Run over the first axis of arrays, as far as the shortest has it."""
        for value in self._values.values(*nodes):
            if not isinstance(value, ArrayValue) or not value.rank:
                text = "the loop runs over what is no array and no range"
                raise Refusal("LW126", text, found=str(value), hint="for i in range(n)")
            self._arrays.append(self._build.store(value))
        stop = self._arrays[0].shape[0]
        for array in self._arrays[1:]:
            if not self._build.equal(stop, array.shape[0]):
                if is_strict:
                    text = "zip() argument is shorter or longer than another"
                    self._build.check(stop.equals(array.shape[0]), "ValueError", text)
                stop = stop.min(array.shape[0])
        self.stop = stop
        self._build.ranges.set(self._var, Const(0), normal(stop - 1))

    def _range(self, node: ast.Call) -> None:
        if not 1 <= len(node.args) <= 3:
            raise Refusal("LW124", "range takes one to three arguments")
        self._is_range = True
        build = self._build
        found = [
            build.index(_number(x), "the bound of the loop")
            for x in self._values.values(*node.args)
        ]
        bounds: list[Expr] = [Const(0), *found] if len(found) == 1 else found
        start, stop = bounds[:2]
        step = found[2] if len(found) == 3 else Const(1)
        self.start, self.stop, self.step = start, stop, step
        match step:
            case Const(value=int(value)) if value > 0:
                build.ranges.set(self._var, start, normal(stop - 1))
            case Const(value=int(value)) if value < 0:
                build.ranges.set(self._var, normal(stop + 1), start)
            case Const():
                raise Refusal("LW105", "the step of the loop is zero", hint="2 or -1")
            case _:
                text = "range() arg 3 must not be zero"
                build.check(Binary("ne", step, Const(0)), "ValueError", text)

    def items(self) -> list[tuple[ast.expr, AnyValue]]:
        """What the target of the loop is bound to in an iteration."""
        at = Var(self._var)
        if self._is_range:
            return [(self._target, PyValue(at, weak=True))]
        index = PyValue(at, weak=True)
        parts = [self._values.subscripts.read(array, [index]) for array in self._arrays]
        value: AnyValue = parts[0] if len(parts) == 1 else TupleValue(tuple(parts))
        if self._first is not None:
            value = TupleValue((PyValue(normal(at + self._first), weak=True), value))
        return [(self._target, value)]

    @property
    def variable(self) -> str:
        return self._var

    def is_short(self) -> bool:
        """Whether this is a range of a few numbers that are known now."""
        if not self._is_range or not isinstance(self.step, Const):
            return False
        gap = difference(self.stop, self.start)
        return isinstance(gap, Const) and abs(int(gap.value.real)) <= _MOST_ITEMS

    def run(self) -> bool:
        """Whether there is at least one iteration: proven, or demanded at entry."""
        match self.step:
            case Const(value=int(step)):
                ends = (self.stop, self.start) if step > 0 else (self.start, self.stop)
                trips = difference(*ends) - 1
                if self._build.holds(trips):
                    return True
                if self._build.is_entry(trips):
                    self._build.demand(trips >= 0)
                    return True
        return False

    def loop(self, body: tuple[ProcedureStmt, ...]) -> RangeLoop:
        """The loop with its body; refused where its claim is wrong."""
        loop = RangeLoop(self._var, self.start, self.stop, self.step, body)
        if not self.is_claimed:
            return loop
        build = self._build
        verdict = judge_claim(loop, build.views, build.arrays)
        if verdict.conflict:
            hint = "range, which runs them in order"
            raise Refusal("LW196", "prange is not independent", verdict.conflict, hint)
        assert build.span is not None
        known = "stays in order: " + verdict.reason
        if verdict.is_proven:
            known = "is proven to be independent"
        build.claims[build.span] = f"line {build.span.line}: prange {known}"
        return replace(loop, is_independent=verdict.is_proven)


def is_prange(function: object) -> bool:
    """Whether a function is a range that claims to be independent, numba's or `lw.prange`."""
    module = str(getattr(function, "__module__", "")).split(".")[0]
    is_known = module in ("numba", "loopwright")
    return is_known and getattr(function, "__name__", "") == "prange"


def _is_strict(keyword: ast.keyword) -> bool:
    if keyword.arg != "strict" or not isinstance(keyword.value, ast.Constant):
        raise Refusal("LW124", f"zip takes no {keyword.arg}= here", hint="strict=True")
    return bool(keyword.value.value)


def _number(value: AnyValue) -> PyValue:
    if isinstance(value, PyValue):
        return value
    raise Refusal("LW114", "the bound of the loop is not an integer", found=str(value))
