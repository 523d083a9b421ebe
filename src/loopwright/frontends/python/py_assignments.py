"""Python assignments: to array elements, scalar locals and new local arrays."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import reduce

import numpy as np

from loopwright.diagnostics import DtypeError, Span
from loopwright.frontends.affine_check import why_not_affine
from loopwright.frontends.python.fingerprint import MISSING
from loopwright.frontends.python.function_source import FunctionSource
from loopwright.frontends.python.merged_types import (
    ValueTypes,
    merged,
    refused_merge,
    settled,
)
from loopwright.frontends.python.name_resolution import FunctionScope
from loopwright.frontends.python.py_expressions import PyExpressionReader
from loopwright.frontends.python.python_grammar import EXPRESSIONS, as_load
from loopwright.frontends.python.python_values import (
    PyType,
    PyValue,
    Value,
    constant,
    convert,
    logical,
    parts,
)
from loopwright.frontends.python.raise_conditions import taken
from loopwright.frontends.refusal import Refusal, Reported
from loopwright.frontends.source_tree import ArrayParam, Assign, Local, Node, ScalarParam
from loopwright.frontends.tree_rewrites import fill_nest, split_selects
from loopwright.ir.dtypes import BOOL, FLOAT64, INT64, DType, dtype_of
from loopwright.ir.expr import Const, Expr, Load
from loopwright.ir.program import Access
from loopwright.ir.visit import loads
from loopwright.lazy_dataclass import dataclass
from loopwright.memo import IdentityMap

__all__ = ["ArrayMaker", "PyAssignmentReader", "find_maker", "make_local"]

_TWO_NAMES = "use another name"


class PyAssignmentReader:
    """Reads the assignments of one function and collects its locals."""

    def __init__(
        self, source: FunctionSource, scope: FunctionScope, read: PyExpressionReader
    ) -> None:
        self._source = source
        self._scope = scope
        self._read = read
        self._first: dict[str, ast.stmt] = {}  # scalar local -> its first assignment
        self._made: list[Local] = []  # local arrays and temporaries
        self._values: dict[str, ValueTypes] = {}  # what scalars are assigned
        self.types: dict[str, PyType] = {}  # of scalars, as far as assigned

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
                values = [self._assigned(targets, value)] * len(targets)
        except Reported:
            self._read_targets(targets)
            raise
        return self._store(targets, values, node)

    def _assigned(self, targets: Sequence[ast.expr], node: ast.expr) -> Value:
        """The value that one assignment gives its targets."""
        if len(targets) == 1:
            found = self._read.extreme_update(targets[0], node)
            if found is not None:
                return found
        (value,) = self._read.need(node)
        return value

    def _read_targets(self, targets: Sequence[ast.expr]) -> None:
        """Report the faults of the targets after those of the value."""
        for target in targets:
            if isinstance(target, ast.Subscript):
                self._read.try_value(target)

    def _make(
        self, targets: Sequence[ast.expr], maker: ArrayMaker, call: ast.Call, node: ast.stmt
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
        if maker.fill is None:
            return ()
        value = convert(constant(maker.fill), local.dtype)
        return (fill_nest(local, value, self._scope.names),)

    def _unpack(
        self, targets: Sequence[ast.expr], value: ast.expr
    ) -> tuple[Sequence[ast.expr], list[Value]]:
        """Targets and values of `a, b = x, y` or `n, m = A.shape`."""
        (target, *others) = targets
        if others or not isinstance(target, ast.Tuple | ast.List):
            raise Refusal("LW121", "a tuple in a chain of assignments cannot be compiled")
        if isinstance(value, ast.Attribute) and value.attr == "shape":
            shape = self._read.names.array(value.value).shape
            values: list[Value] = [PyValue(extent, weak=True) for extent in shape]
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
        """Assign from left to right; all values are computed before the first target changes."""
        nodes: list[Node] = []
        saved: dict[Value, Value] = {}
        written: set[str] = set()
        for at, (target, value) in enumerate(zip(targets, values, strict=True)):
            read = (load.array for part in parts(value) for load in loads(part))
            if value not in saved and not written.isdisjoint(read):
                one = settled(value)
                local, assign = self.keep(one, "saved", node)
                nodes.append(assign)
                saved[value] = PyValue(Load(local.name, (), local.dtype), one.weak)
            values[at] = saved.get(value, value)
            written.add(self._written(target))
        stores = [self._store_one(t, value, node) for t, value in zip(targets, values, strict=True)]
        return [*nodes, *self.noted(node), *stores]

    def noted(self, node: ast.stmt) -> Sequence[Node]:
        """The assignment that sets the flag where Python may raise, by what is noted so far."""
        found, flag = taken(), self._scope.flag
        if not found or flag is None:
            return ()
        raises = reduce(lambda x, y: logical("or", x, y), found)
        either = logical("or", Load(flag, (), BOOL), raises)
        return [self._node(Access(flag, (), BOOL), either, self._source.span(node))]

    def _written(self, target: ast.expr) -> str:
        """The unique name of the array or scalar that is assigned."""
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

    def keep(self, value: PyValue, wish: str, node: ast.stmt) -> tuple[Local, Node]:
        """A new scalar local that holds the value, and the assignment to it."""
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
        dtype = self._merge(name, value)
        self._first.setdefault(name, node)
        scope.forget([name])
        one = settled(value) if isinstance(value, PyValue) or dtype == INT64 else None
        if one is not None:
            is_affine = one.dtype == INT64 and why_not_affine(one.expr) is None
            near = one if is_affine else self._read.by_cases(one)
            if isinstance(one.expr, Const) or is_affine or near is not one:
                scope.known[name] = near
        return Access(scope.scalar(name), (), dtype)

    def _merge(self, name: str, value: Value) -> DType:
        """The type of a scalar, of which `value` is one value; refused where it cannot hold it.

        Statements below may assign others: the pass before has seen them all.
        """
        before = self._values.get(name, ValueTypes())
        self._values[name] = found = before.with_value(value)
        self.types[name], lost = merged(found)
        if lost and not merged(before)[1]:
            raise refused_merge(f"'{name}'", found, lost)
        return self._scope.types.get(name, self.types[name])[0]

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
        place = ast.copy_location(as_load(node.target), node.target)
        old, value = self._read.need(place, node.value)
        store = self._store_one(node.target, self._read.operate(node.op, old, value), node)
        return [*self.noted(node), store]


# -- local arrays: `T = np.zeros((n, m))` is a declaration and a nest that fills it ---------


@dataclass(frozen=True, slots=True)
class ArrayMaker:
    """A NumPy function that creates an array."""

    is_like: bool  # shape and dtype are those of the first argument
    fill: int | None  # value of the elements; None leaves them undefined


_MAKER_ROWS: dict[object, ArrayMaker] = {
    np.empty: ArrayMaker(False, None),
    np.zeros: ArrayMaker(False, 0),
    np.ones: ArrayMaker(False, 1),
    np.empty_like: ArrayMaker(True, None),
    np.zeros_like: ArrayMaker(True, 0),
    np.ones_like: ArrayMaker(True, 1),
}
# As in `numpy_functions`.
_MAKERS: IdentityMap[object, ArrayMaker] = IdentityMap(_MAKER_ROWS.items())


def find_maker(read: PyExpressionReader, node: ast.expr) -> ArrayMaker | None:
    """The array-creating function that `node` calls, if it does."""
    if not isinstance(node, ast.Call):
        return None
    function = read.names.resolve(node.func)[1]
    return None if function is MISSING else _MAKERS.get(function)


def make_local(
    read: PyExpressionReader, maker: ArrayMaker, call: ast.Call, name: str, span: Span
) -> Local:
    """The local array `name` that a call creates."""
    dtypes = [keyword.value for keyword in call.keywords if keyword.arg == "dtype"]
    if len(dtypes) < len(call.keywords) or not 1 <= len(call.args) + len(dtypes) <= 2:
        raise Refusal(
            "LW124",
            f"'{ast.unparse(call.func)}' takes a shape and a dtype here",
            found=ast.unparse(call),
            hint="np.zeros((n, m), dtype=np.float32)",
        )
    first, *others = (*call.args, *dtypes)
    if maker.is_like:
        like = read.names.array(first)
        dtype = _dtype(read, others[0]) if others else like.dtype
        return Local(name, dtype, like.shape, span)
    dtype = _dtype(read, others[0]) if others else FLOAT64
    return Local(name, dtype, _shape(read, first), span)


def _shape(read: PyExpressionReader, node: ast.expr) -> tuple[Expr, ...]:
    if isinstance(node, ast.Attribute) and node.attr == "shape":
        return read.names.array(node.value).shape
    entries = node.elts if isinstance(node, ast.Tuple | ast.List) else [node]
    extents: list[Expr] = []
    failed = False
    for entry in entries:
        try:
            extents.append(read.affine(entry, "LW118", "the extent"))
        except Reported:
            failed = True
    if failed:
        raise Reported
    return tuple(extents)


def _dtype(read: PyExpressionReader, node: ast.expr) -> DType:
    if isinstance(node, ast.Attribute) and node.attr == "dtype":
        return read.names.array(node.value).dtype
    value = node.value if isinstance(node, ast.Constant) else read.names.resolve(node)[1]
    if isinstance(value, str | type | np.dtype):
        try:
            return dtype_of(value)
        except (DtypeError, TypeError):
            pass
    raise Refusal(
        "LW109",
        "this is not an element type",
        found=ast.unparse(node),
        hint="np.float64, np.int32, A.dtype",
    )
