"""Statements of a NumPy function."""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Iterator, Sequence
from typing import Protocol

from loopwright.diagnostics import Collector
from loopwright.frontends.constant_folding import negated
from loopwright.frontends.python.procedures.abstract_values import (
    AnyValue,
    ArrayValue,
    MaskedValue,
    StaticValue,
    TupleValue,
    Unknown,
)
from loopwright.frontends.python.procedures.array_operations import plain
from loopwright.frontends.python.procedures.building import Building
from loopwright.frontends.python.procedures.call_arguments import CallArguments
from loopwright.frontends.python.procedures.extents import nonnegative_parts
from loopwright.frontends.python.procedures.index_arrays import has_index_arrays
from loopwright.frontends.python.procedures.iterations import Iterations, is_prange
from loopwright.frontends.python.procedures.joins import Env, Wider, join_branches
from loopwright.frontends.python.procedures.local_functions import LocalFunction
from loopwright.frontends.python.procedures.loop_names import (
    LoopNames,
    bound_names,
    changed_names,
    exported,
    rebound,
)
from loopwright.frontends.python.procedures.value_reader import OPERATORS, ReadByItems, ValueReader
from loopwright.frontends.python.python_grammar import STATEMENTS, nodes_of_scope
from loopwright.frontends.python.python_values import PyType, PyValue
from loopwright.frontends.refusal import Refusal, Reported
from loopwright.ir.dtypes import BOOL
from loopwright.ir.expr import Binary, Const, Load
from loopwright.ir.procedure import (
    ArrayRole,
    Choose,
    EndlessLoop,
    LeaveLoop,
    NextIteration,
    ProcedureStmt,
    SetElement,
)

__all__ = ["BodyReader"]

_MOST_PASSES = 8


class Returns(Protocol):
    """What takes the values that a function returns."""

    def add(self, value: AnyValue) -> None:
        """Store a value, and leave the function."""


class BodyReader:
    """Reads the statements of one function, top to bottom."""

    def __init__(
        self,
        build: Building,
        values: ValueReader,
        faults: Collector,
        returns: Returns,
    ) -> None:
        self._build = build
        self._values = values
        self._faults = faults
        self._returns = returns
        self._outside = build.names.taken()  # names given before the function begins
        self._loops: list[LoopNames] = []
        self._body: Sequence[ast.stmt] = ()  # of the function
        self._stored: frozenset[str] = frozenset()  # names of which elements are assigned
        self._unroll: set[int] = set()  # loops over short ranges that are read item by item
        self._types: dict[int, tuple[dict[str, PyType], frozenset[str]]] = {}

    @property
    def env(self) -> Env:
        """What each name is where reading is."""
        return self._values.env

    def function(self, body: Sequence[ast.stmt]) -> None:
        """Read a whole body."""
        self._body = body
        self._stored = _stored_names(body)
        if self.block(body):
            self._returns.add(StaticValue(None))

    def block(self, body: Sequence[ast.stmt]) -> bool:
        """Read statements; whether control goes on behind them."""
        return all(map(self._statement, body))

    def _statement(self, stmt: ast.stmt) -> bool:
        values, build = self._values, self._build
        build.span = values.span(stmt)
        try:
            return self._read(stmt)
        except Refusal as refusal:
            values.report(refusal, stmt)
        except Reported:
            pass
        for name in bound_names([stmt]):
            self.env[name] = Unknown("")
        return not isinstance(stmt, ast.Return)

    def _read(self, stmt: ast.stmt) -> bool:
        match stmt:
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                return True
            case ast.Expr(value=value):
                self._values.value(value)
            case ast.Assign(targets=targets, value=value):
                found = self._values.value(value)
                for target in targets:
                    self._assign(target, found)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                self._assign(target, self._values.value(value))
            case ast.AugAssign():
                self._augment(stmt)
            case ast.If():
                return self._if(stmt)
            case ast.For() | ast.While():
                return self._loop(stmt)
            case ast.Break() | ast.Continue() if self._loops:
                self._loops[-1].hand_on(self.env)
                self._build.emit(LeaveLoop() if isinstance(stmt, ast.Break) else NextIteration())
                return False
            case ast.Return(value=value):
                return self._return(value)
            case ast.Assert(test=test, msg=msg):
                text = "" if msg is None else _constant_text(msg)
                self._build.check(self._values.condition(test), "AssertionError", text)
            case ast.Raise(exc=exc, cause=None) if exc is not None:
                self._raise(exc)
                return False
            case ast.FunctionDef(name=name, args=args, decorator_list=decorators):
                if not all(map(self._is_compiler, decorators)):
                    raise Refusal("LW121", "a decorated nested function cannot be compiled")
                values = self._values
                local = LocalFunction(name, stmt, values, values.defaults(args))
                self.env[name] = StaticValue(local)
            case ast.Global(names=names):
                if set(names) & changed_names(self._body):
                    word, hint = STATEMENTS[ast.Global]
                    raise Refusal("LW121", "a global name is assigned", hint=hint)
            case ast.Delete(targets=targets):
                for target in targets:
                    if not isinstance(target, ast.Name):
                        raise Refusal("LW121", "a del of elements cannot be compiled")
                    self.env[target.id] = Unknown("was deleted")
            case _:
                word, hint = STATEMENTS.get(type(stmt), (type(stmt).__name__, ""))
                raise Refusal("LW121", f"{word} cannot be compiled", hint=hint)
        return True

    def _is_compiler(self, node: ast.expr) -> bool:
        """Whether a decorator is `jit` of loopwright or of numba."""
        function = self._values.static(node.func if isinstance(node, ast.Call) else node)
        module = str(getattr(function, "__module__", "")).split(".")[0]
        return module in ("loopwright", "numba")

    # -- assignments ------------------------------------------------------------------------------

    def _assign(self, target: ast.expr, value: AnyValue) -> None:
        match target:
            case ast.Name(id=name):
                self.env[name] = self._named(name, value)
            case ast.Tuple(elts=elts) | ast.List(elts=elts):
                for element, item in zip(elts, self._unpacked(value, len(elts)), strict=True):
                    self._assign(element, item)
            case ast.Subscript(value=base, slice=at):
                array = self._array(base)
                if isinstance(value, TupleValue):
                    value = self._values.array_like(value)
                value = self._values.frozen(value) if isinstance(value, PyValue) else value
                self._values.writes.item(array, self._values.subscripts.items(at), value)
            case ast.Attribute(value=ast.Name() as base, attr="shape"):
                self._set_shape(base, value)
            case _:
                text = "this target of an assignment cannot be compiled"
                raise Refusal("LW121", text, found=ast.unparse(target))

    def _set_shape(self, node: ast.Name, shape: AnyValue) -> None:
        """`x.shape = shape` of an array that one name has."""
        array = self._array(node)
        assert array.view is not None
        others = [
            name
            for name, value in self.env.items()
            if isinstance(value, ArrayValue) and value.view is not None
            if name != node.id and value.view.name == array.view.name
        ]
        is_argument = self._build.arrays[array.view.base].role is ArrayRole.ARGUMENT
        if others or is_argument or not self._values.owns(node.id):
            text = "an array whose shape is set has several names"
            raise Refusal("LW189", text, hint=f"{node.id} = {node.id}.reshape(...)")
        given = CallArguments("x.shape", (array, shape), {})
        found = self._values.functions.views.reshape(given)
        assert isinstance(found, ArrayValue)
        self.env[node.id] = found

    def _named(self, name: str, value: AnyValue) -> AnyValue:
        match value:
            case PyValue():
                return self._build.number(name, value)
            case ArrayValue():
                return self._build.store(value, name)
            case MaskedValue():
                return self._values.solid(value)
            case TupleValue(items=items):
                if value.is_list and name in self._stored and items:
                    return self._values.list_in_memory(value)
                return TupleValue(tuple(self._named(name, x) for x in items), value.is_list)
        return value

    def _unpacked(self, value: AnyValue, count: int) -> list[AnyValue]:
        if isinstance(value, ArrayValue) and value.rank:
            held, build = self._build.store(value), self._build
            if not build.equal(value.shape[0], Const(count)):
                text = f"an array of {{0}} elements is unpacked to {count} names"
                same = Binary("eq", value.shape[0], Const(count))
                build.check(same, "ValueError", text, (value.shape[0],))
            items = [PyValue(Const(k), weak=True) for k in range(count)]
            value = TupleValue(tuple(self._values.subscripts.read(held, [k]) for k in items))
        if not isinstance(value, TupleValue) or len(value.items) != count:
            raise Refusal("LW193", f"this does not unpack to {count} names", found=str(value))
        # Numbers are read before the first of the targets is written; arrays are views.
        return [self._values.frozen(x) if isinstance(x, PyValue) else x for x in value.items]

    def _array(self, node: ast.expr) -> ArrayValue:
        """The array whose elements are written."""
        found = self._values.value(node)
        if not isinstance(found, ArrayValue) or found.view is None:
            text = f"'{ast.unparse(node)}' is no array in memory"
            raise Refusal("LW115", text, found=str(found))
        return found

    def _augment(self, stmt: ast.AugAssign) -> None:
        values, op, build = self._values, stmt.op, self._build
        if not isinstance(op, ast.MatMult) and type(op) not in OPERATORS:
            raise Refusal("LW121", "this operator cannot be compiled")
        if isinstance(stmt.target, ast.Name):
            node = ast.copy_location(ast.Name(stmt.target.id, ast.Load()), stmt.target)
            own, other = values.values(node, stmt.value)
            if isinstance(own, TupleValue) and own.is_list:
                hint = "a tuple, or a list made at once"
                raise Refusal("LW121", "a list that grows cannot be compiled", hint=hint)
            found = values.operate(op, own, other)
            if not isinstance(own, ArrayValue):
                self.env[stmt.target.id] = self._named(stmt.target.id, found)
                return
            self._augment_array(own, found)
            return
        if not isinstance(stmt.target, ast.Subscript):
            raise Refusal("LW121", "this target cannot be compiled")
        array = self._array(stmt.target.value)
        items = values.subscripts.items(stmt.target.slice)
        index = values.subscripts.element(array, items)
        if index is not None:
            assert array.view is not None
            base = array.view.base
            own = PyValue(Load(base, index, array.dtype), build.lists.get(base, False))
            other = values.value(stmt.value)
            values.writes.element(base, index, plain(values.operate(op, own, other)), array.dtype)
            return
        if has_index_arrays(items) and values.writes.mask(array, items) is None:
            values.writes.chosen(
                array, items, lambda old: values.operate(op, old, values.value(stmt.value))
            )
            return
        view = values.subscripts.read(array, items)
        if isinstance(view, MaskedValue):
            found = values.operate(op, view, values.value(stmt.value))
            values.writes.masked_update(array, view.mask, found)
            return
        if not isinstance(view, ArrayValue) or view.view is None:
            raise Refusal("LW181", "this augmented assignment is not compiled yet")
        self._augment_array(view, values.operate(op, view, values.value(stmt.value)))

    def _augment_array(self, target: ArrayValue, value: AnyValue) -> None:
        if not isinstance(value, PyValue | ArrayValue):
            raise Refusal("LW115", "this is neither an array nor a number", found=str(value))
        self._values.writes.augmented(target, value)

    # -- branches ---------------------------------------------------------------------------------

    def _if(self, stmt: ast.If) -> bool:
        build, values = self._build, self._values
        cond = values.condition(stmt.test)
        if isinstance(cond, Const):
            return self.block(stmt.body if cond.value else stmt.orelse)
        before, visible = dict(self.env), build.names.taken()
        sides: list[tuple[list[ProcedureStmt], Env, bool]] = []
        for holds, inner in ((cond, stmt.body), (negated(cond), stmt.orelse)):
            values.env = dict(before)
            with build.block() as body:
                build.ranges.facts += nonnegative_parts(holds)
                goes_on = self.block(inner)
            sides.append((body, values.env, goes_on))
        ends = [(body, env) for body, env, goes_on in sides if goes_on]
        build.span = values.span(stmt)
        found, cells = join_branches(build, ends, before, visible, self._outside)
        build.emit(Choose(cond, *(tuple(body) for body, _, _ in sides)))
        for holds, (_, _, goes_on) in zip((negated(cond), cond), sides, strict=True):
            if not goes_on:
                build.ranges.facts += nonnegative_parts(holds)
        values.env = found
        for name, (cell, weak) in cells.items():
            found[name] = PyValue(build.define(name, build.load(cell)), weak)
        return any(goes_on for _, _, goes_on in sides)

    def _return(self, node: ast.expr | None) -> bool:
        value: AnyValue = StaticValue(None)
        if node is not None:
            value = self._named("result", self._values.value(node))
        self._returns.add(value)
        return False

    def _raise(self, node: ast.expr) -> None:
        call = node if isinstance(node, ast.Call) else None
        name = self._values.static(node.func if call is not None else node)  # type: ignore[attr-defined]
        if not isinstance(name, type) or not issubclass(name, Exception):
            raise Refusal("LW121", "only exceptions of Python are raised")
        text = "".join(_constant_text(arg) for arg in call.args) if call is not None else ""
        self._build.check(Const(False, BOOL), name.__name__, text)

    # -- loops ------------------------------------------------------------------------------------

    def _with_names(self, stmt: ast.For) -> ast.For:
        """A loop over what calls give as one over names of that."""
        known = (builtins.range, builtins.enumerate, builtins.zip, builtins.reversed)

        def named(node: ast.expr) -> ast.expr:
            if not isinstance(node, ast.Call):
                return node
            function = self._values.static(node.func)
            if function is builtins.range or is_prange(function):
                return node
            if function in known:
                call = ast.Call(node.func, [named(arg) for arg in node.args], node.keywords)
                return ast.copy_location(call, node)
            name = f"iterated.{node.lineno}.{node.col_offset}"
            self.env[name] = self._named(name, self._values.value(node))
            return ast.copy_location(ast.Name(name, ast.Load()), node)

        over = named(stmt.iter)
        if over is stmt.iter:
            return stmt
        found = copy.copy(stmt)
        found.iter = over
        return found

    def _static_items(self, stmt: ast.For) -> list[AnyValue] | None:
        """What a loop runs over that is read item by item: a tuple, or a range where it has to be.

        Ranges are loops; arrays of constant length likewise.
        """
        node = stmt.iter
        function = self._values.static(node.func) if isinstance(node, ast.Call) else None
        if function is builtins.range and id(stmt) not in self._unroll:
            return None
        if isinstance(node, ast.Call) and function not in (
            builtins.range, builtins.enumerate, builtins.zip, builtins.reversed,
        ):  # fmt: skip
            return None
        parts = node.args if isinstance(node, ast.Call) else [node]
        if function is not builtins.range and not any(map(self._is_tuple, parts)):
            return None
        return self._values.lists.static_items(node)

    def _is_tuple(self, node: ast.expr) -> bool:
        match node:
            case ast.Tuple() | ast.List() | ast.ListComp() | ast.GeneratorExp():
                return True
            case ast.Call(func=func, args=args):
                known = (builtins.enumerate, builtins.zip, builtins.reversed)
                return self._values.static(func) in known and any(map(self._is_tuple, args))
            case ast.Name() | ast.Subscript() | ast.Attribute():
                return isinstance(self._values.value(node), TupleValue)
        return False

    def _unrolled(self, stmt: ast.For, items: list[AnyValue]) -> bool:
        """A loop over what is known item by item."""
        if _is_left(stmt):
            text = "a loop over a tuple is left early"
            raise Refusal("LW126", text, hint="an array of the numbers, or a condition")
        for item in items:
            self._assign(stmt.target, self._values.frozen(item))
            if not self.block(stmt.body):
                return False
        return True

    def _loop(self, stmt: ast.For | ast.While) -> bool:
        if stmt.orelse:
            return self.block(_without_else(stmt))
        build = self._build
        if isinstance(stmt, ast.For):
            stmt = self._with_names(stmt)
            items = self._static_items(stmt)
            if items is not None:
                return self._unrolled(stmt, items)
        before, count = dict(self.env), len(build.blocks[-1])
        written = set(build.written)
        types, arrays = self._types.get(id(stmt), ({}, frozenset()))
        for _ in range(_MOST_PASSES):
            try:
                self._one_loop(stmt, types, arrays)
            except Wider as wider:
                del build.blocks[-1][count:]
                self._values.env = dict(before)
                build.written = set(written)
                own = {name for name, value in before.items() if isinstance(value, ArrayValue)}
                if not wider.arrays <= own:
                    raise  # an enclosing loop hands that on
                types, arrays = {**types, **wider.types}, arrays | wider.arrays
                self._types[id(stmt)] = types, arrays
            except ReadByItems as unroll:
                del build.blocks[-1][count:]
                self._values.env = dict(before)
                build.written = set(written)
                if unroll.loop is not stmt:
                    raise
                self._unroll.add(id(stmt))
                return self._loop(stmt)
            else:
                return True
        raise Refusal("LW119", "types of names in this loop depend on each other")

    def _one_loop(
        self, stmt: ast.For | ast.While, types: dict[str, PyType], arrays: frozenset[str]
    ) -> None:
        build, values = self._build, self._values
        before, depth = dict(self.env), len(build.blocks)
        facts, loops = len(build.ranges.facts), len(self._loops)
        target = [stmt.target] if isinstance(stmt, ast.For) else []
        iterations = Iterations(build, values, stmt) if isinstance(stmt, ast.For) else None
        changing = [*stmt.body, *(ast.copy_location(ast.Assign([t], t), t) for t in target)]
        names = LoopNames(build, self.env, changing, types, arrays)
        self._loops.append(names)
        if iterations is not None and iterations.is_short():
            build.short_loops[iterations.variable] = stmt
        try:
            with build.block() as body:
                names.start(self.env)
                if iterations is not None:
                    for name_node, item in iterations.items():
                        self._assign(name_node, item)
                else:
                    assert isinstance(stmt, ast.While)
                    cond = values.condition(stmt.test)
                    if not isinstance(cond, Const) or not cond.value:
                        build.emit(Choose(cond, (), (LeaveLoop(),)))
                        build.ranges.facts += nonnegative_parts(cond)
                targets = dict(self.env), len(body)
                goes_on = self.block(stmt.body)
                if goes_on:
                    names.hand_on(self.env)
                end = dict(self.env) if goes_on else {}
        finally:
            del self._loops[loops:]
            del build.blocks[depth:]
            del build.ranges.facts[facts:]
        build.span = values.span(stmt)
        if names.is_widened and iterations is not None:
            iterations.run()  # a guard: calls that may not run the loop are left to Python
        exports: Env = {}
        if iterations is not None and _is_left(stmt):
            exports = self._last_targets(stmt, iterations, body, *targets)
        elif iterations is not None:
            unbound = [x for x in bound_names(changing) if x in end and names.keeps(x, end[x])]
            wanted = [x for x in unbound if self._is_read_outside(stmt, x)]
            if wanted and iterations.run():
                exports = exported(build, body, {name: end[name] for name in wanted})
        loop = EndlessLoop(tuple(body)) if iterations is None else iterations.loop(tuple(body))
        build.emit(loop)
        names.finish(self.env, before, lambda: iterations is not None and iterations.run())
        for name, value in exports.items():
            self.env[name] = rebound(build, value)

    def _last_targets(
        self,
        stmt: ast.For | ast.While,
        iterations: Iterations,
        body: list[ProcedureStmt],
        start: Env,
        place: int,
    ) -> Env:
        """The numbers of the target behind a loop that is left early: stored when they are bound.

        `start` is what names were then, and `place` how many statements came before.
        """
        assert isinstance(stmt, ast.For)
        found: Env = {}
        for name in bound_names([ast.copy_location(ast.Assign([stmt.target], stmt.target), stmt)]):
            value = start.get(name)
            is_new = isinstance(value, PyValue) and name not in bound_names(stmt.body)
            if not is_new or not self._is_read_outside(stmt, name) or not iterations.run():
                continue
            assert isinstance(value, PyValue)
            cell = self._build.cell(name, value.dtype)
            body.insert(place, SetElement(cell, (), value.expr))
            found[name] = PyValue(self._build.load(cell), value.weak)
        return found

    def _is_read_outside(self, stmt: ast.For | ast.While, name: str) -> bool:
        """Whether a name is read in the function, but outside of a loop."""
        inside = {id(node) for node in ast.walk(stmt)}
        return any(
            isinstance(node, ast.Name)
            and node.id == name
            and isinstance(node.ctx, ast.Load)
            and id(node) not in inside
            for other in self._body
            for node in ast.walk(other)
        )


def _is_left(loop: ast.For | ast.While) -> bool:
    """Whether iterations of a loop may end early."""
    return any(isinstance(node, ast.Break | ast.Continue) for node in _own_nodes(loop.body))


def _stored_names(body: Sequence[ast.stmt]) -> frozenset[str]:
    """The names of which statements assign elements."""
    return frozenset(
        node.value.id
        for node in nodes_of_scope(body)
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
        if isinstance(node.value, ast.Name)
    )


def _own_nodes(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """The nodes of a loop's body that are in no inner loop, and the else clauses of these."""
    for stmt in body:
        if isinstance(stmt, ast.For | ast.While):
            yield from _own_nodes(stmt.orelse)
        else:
            yield stmt
            for part in (getattr(stmt, name, []) for name in ("body", "orelse")):
                yield from _own_nodes(part)


class _MarkBreaks(ast.NodeTransformer):
    """Clears a flag in front of each break of one loop."""

    def __init__(self, flag: str) -> None:
        self._flag = flag

    def visit_Break(self, node: ast.Break) -> list[ast.stmt]:
        return [_flagged(self._flag, False, node), node]

    def visit_For(self, node: ast.For) -> ast.For:
        return node

    def visit_While(self, node: ast.While) -> ast.While:
        return node


def _flagged(flag: str, value: bool, at: ast.stmt) -> ast.stmt:
    found = ast.Assign([ast.Name(flag, ast.Store())], ast.Constant(value))
    return ast.fix_missing_locations(ast.copy_location(found, at))


def _without_else(stmt: ast.For | ast.While) -> list[ast.stmt]:
    """A loop with an else clause, by a flag that a break clears."""
    flag = f"else.{stmt.lineno}"
    marks = _MarkBreaks(flag)
    body = [marks.visit(inner) for inner in copy.deepcopy(stmt.body)]
    flat = [x for found in body for x in (found if isinstance(found, list) else [found])]
    loop = copy.copy(stmt)
    loop.body, loop.orelse = flat, []
    test = ast.copy_location(ast.Name(flag, ast.Load()), stmt)
    rest = ast.copy_location(ast.If(test, stmt.orelse, []), stmt)
    return [_flagged(flag, True, stmt), loop, ast.fix_missing_locations(rest)]


def _constant_text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.replace("{", "{{").replace("}", "}}")
    raise Refusal("LW121", "the text of an exception is not a constant")
