"""Assignments: to array elements, scalar locals and new local arrays."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from loopwright.diagnostics import Span
from loopwright.frontends.python.expressions import ExpressionReader
from loopwright.frontends.python.local_arrays import Maker, fill, find_maker, make_local
from loopwright.frontends.python.scope import Scope
from loopwright.frontends.python.source import Source
from loopwright.frontends.python.values import Refusal, Reported, Type, Value, convert, join
from loopwright.frontends.python.words import EXPRESSIONS
from loopwright.frontends.rewrite import split_selects
from loopwright.frontends.tree import ArrayParam, Assign, Local, Node, ScalarParam, why_not_affine
from loopwright.ir.dtypes import INT64
from loopwright.ir.expr import Const, Expr, Load
from loopwright.ir.program import Access
from loopwright.ir.visit import loads

__all__ = ["AssignmentReader"]

_TWO_NAMES = "use another name"


class AssignmentReader:
    """Reads the assignments of one function and collects its locals."""

    def __init__(self, source: Source, scope: Scope, read: ExpressionReader) -> None:
        self._source = source
        self._scope = scope
        self._read = read
        self._first: dict[str, ast.stmt] = {}  # scalar local -> its first assignment
        self._made: list[Local] = []  # local arrays and temporaries
        self.types: dict[str, Type] = dict(scope.types)  # of scalar locals, widened on the way

    def locals(self) -> tuple[Local, ...]:
        """Every local assigned so far."""
        scalars = [
            Local(self._scope.scalar(name), self.types[name][0], (), self._source.span(first))
            for name, first in self._first.items()
        ]
        return (*scalars, *self._made)

    def is_scalar(self, name: str) -> bool:
        """Whether a name is a scalar local assigned so far."""
        return name in self._first

    def assign(
        self, targets: Sequence[ast.expr], value: ast.expr, node: ast.stmt
    ) -> Sequence[Node]:
        """`target = value`, `a = b = value`, `a, b = x, y` or `array = np.zeros(...)`."""
        maker = find_maker(self._read, value)
        if maker is not None and isinstance(value, ast.Call):
            return self._make(targets, maker, value, node)
        try:
            if any(isinstance(t, ast.Tuple | ast.List) for t in targets):
                targets, values = self._unpack(targets, value)
            else:
                values = self._read.need(value) * len(targets)
        except Reported:
            self._read_targets(targets)
            raise
        return self._store(targets, values, node)

    def _read_targets(self, targets: Sequence[ast.expr]) -> None:
        """Report the faults of targets whose value has faults of its own."""
        for target in targets:
            if isinstance(target, ast.Subscript):
                self._read.lower(target)

    def _make(
        self, targets: Sequence[ast.expr], maker: Maker, call: ast.Call, node: ast.stmt
    ) -> Sequence[Node]:
        """A new local array."""
        if self._scope.depth or len(targets) > 1 or not isinstance(targets[0], ast.Name):
            hint = "make it at the start of the function, under one name"
            raise Refusal("LW121", "a local array cannot be made here", hint=hint)
        name = targets[0].id
        self._check_assignable(name)
        if name in self._first:
            raise Refusal("LW106", f"'{name}' is a number and becomes an array", hint=_TWO_NAMES)
        unique = self._scope.names.fresh(name)
        local = make_local(self._read, maker, call, unique, self._source.span(node))
        self._scope.arrays[name] = local
        self._made.append(local)
        return fill(local, maker, self._scope.names)

    def _unpack(
        self, targets: Sequence[ast.expr], value: ast.expr
    ) -> tuple[Sequence[ast.expr], list[Value]]:
        """Targets and values of `a, b = x, y` or `n, m = A.shape`."""
        (target, *others) = targets
        if others or not isinstance(target, ast.Tuple | ast.List):
            raise Refusal("LW121", "a tuple in a chain of assignments cannot be compiled")
        if isinstance(value, ast.Attribute) and value.attr == "shape":
            shape = self._read.names.array(value.value).shape
            values = [Value(extent, weak=True) for extent in shape]
        elif isinstance(value, ast.Tuple | ast.List):
            values = self._read.need(*value.elts)
        else:
            self._read.need(value)
            raise Refusal("LW121", "a number cannot be assigned to several names")
        if len(values) != len(target.elts):
            raise Refusal(
                "LW121",
                "the numbers of targets and values differ",
                found=f"{len(target.elts)} targets and {len(values)} values",
            )
        return target.elts, values

    def _store(
        self, targets: Sequence[ast.expr], values: list[Value], node: ast.stmt
    ) -> Sequence[Node]:
        """Assign values, all computed before the first target changes, from left to right."""
        nodes: list[Node] = []
        saved: dict[Value, Value] = {}
        written: set[str] = set()
        for at, (target, value) in enumerate(zip(targets, values, strict=True)):
            if value not in saved and any(x.array in written for x in loads(value.expr)):
                local, assign = self.keep(value, "saved", node)
                nodes.append(assign)
                saved[value] = Value(Load(local.name, (), local.dtype), value.weak)
            values[at] = saved.get(value, value)
            written.add(self._written(target))
        nodes += [self._store_one(t, value, node) for t, value in zip(targets, values, strict=True)]
        return nodes

    def _written(self, target: ast.expr) -> str:
        """The unique name of the array or scalar that a target changes."""
        while isinstance(target, ast.Subscript):
            target = target.value
        scope = self._scope
        if not isinstance(target, ast.Name):
            return ""
        if target.id in scope.params:
            return scope.params[target.id][0].name
        if target.id in scope.arrays:
            return scope.arrays[target.id].name
        return scope.scalar(target.id)

    def keep(self, value: Value, wish: str, node: ast.stmt) -> tuple[Local, Node]:
        """A new scalar local, and the assignment of the value to it."""
        span = self._source.span(node)
        local = Local(self._scope.names.fresh(wish), value.dtype, (), span)
        self._made.append(local)
        return local, self._node(Access(local.name, (), local.dtype), value.expr, span)

    def _store_one(self, target: ast.expr, value: Value, node: ast.stmt) -> Node:
        try:
            access = self._target(target, value, node)
        except Refusal as refusal:
            self._read.report(refusal, target)
            raise Reported from None
        return self._node(access, convert(value, access.dtype), self._source.span(node))

    def _target(self, target: ast.expr, value: Value, node: ast.stmt) -> Access:
        match target:
            case ast.Name(id=name):
                return self._scalar(name, value, node)
            case ast.Subscript():
                return self._read.access(target)
            case _:
                word = EXPRESSIONS.get(type(target), "this target")
                hint = "assign to a name or an array element"
                raise Refusal("LW106", f"{word} cannot be assigned", hint=hint)

    def _node(self, target: Access, value: Expr, span: Span) -> Node:
        scalars = [p.name for p, _ in self._scope.params.values() if isinstance(p, ScalarParam)]
        return split_selects(Assign(target, value, span), given=scalars)

    def _scalar(self, name: str, value: Value, node: ast.stmt) -> Access:
        self._check_assignable(name)
        scope = self._scope
        if name in scope.arrays:
            raise Refusal("LW106", f"the array '{name}' cannot be assigned", hint=_TWO_NAMES)
        self.types[name] = join([self.types.get(name, value.type), value.type])
        self._first.setdefault(name, node)
        is_known = isinstance(value.expr, Const) or (
            value.dtype == INT64 and why_not_affine(value.expr) is None
        )
        scope.forget([name])
        if is_known:
            scope.known[name] = value
        return Access(scope.scalar(name), (), self.types[name][0])

    def _check_assignable(self, name: str) -> None:
        scope = self._scope
        if name in scope.counters:
            raise Refusal(
                "LW106",
                f"the loop variable '{name}' cannot be assigned",
                hint="loops change their variables themselves; use another name",
            )
        if name in scope.params:
            what = "array" if isinstance(scope.params[name][0], ArrayParam) else "argument"
            raise Refusal("LW106", f"the {what} '{name}' cannot be assigned", hint=_TWO_NAMES)

    def update(self, node: ast.AugAssign) -> Sequence[Node]:
        """`target op= value`."""
        if isinstance(node.target, ast.Name):
            self._check_assignable(node.target.id)
        place = ast.copy_location(_as_load(node.target), node.target)
        old, value = self._read.need(place, node.value)
        return [self._store_one(node.target, self._read.operate(node.op, old, value), node)]


def _as_load(node: ast.expr) -> ast.expr:
    """An assignment's target as an expression."""
    match node:
        case ast.Name(id=name):
            return ast.Name(name, ast.Load())
        case ast.Subscript(value=value, slice=at):
            return ast.Subscript(value, at, ast.Load())
        case _:
            return node
