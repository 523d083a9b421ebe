"""Statements of a NumPy function."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

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
from loopwright.frontends.python.procedures.else_clauses import without_else
from loopwright.frontends.python.procedures.extents import nonnegative_parts
from loopwright.frontends.python.procedures.iterations import Iterations
from loopwright.frontends.python.procedures.joins import Env, Wider, join_branches
from loopwright.frontends.python.procedures.loop_names import (
    LoopNames,
    bound_names,
    exported,
    rebound,
)
from loopwright.frontends.python.procedures.value_reader import OPERATORS, ValueReader
from loopwright.frontends.python.python_grammar import STATEMENTS
from loopwright.frontends.python.python_values import PyType, PyValue
from loopwright.frontends.refusal import Refusal, Reported
from loopwright.ir.dtypes import BOOL
from loopwright.ir.expr import Const, Load
from loopwright.ir.procedure import (
    Choose,
    EndlessLoop,
    LeaveLoop,
    NextIteration,
    ProcedureStmt,
    ReturnNow,
)

__all__ = ["RETURNED", "BodyReader"]

RETURNED = "return"  # the name under which a function's environment has its result
_MOST_PASSES = 8
_MOST_COPIED = 400


class BodyReader:
    """Reads the statements of one function, top to bottom."""

    def __init__(
        self,
        build: Building,
        values: ValueReader,
        faults: Collector,
        return_early: Callable[[AnyValue], None] | None,
    ) -> None:
        self._build = build
        self._values = values
        self._faults = faults
        # Stores the result of a return inside a loop; None: a function that is inlined.
        self._return_early = return_early
        self._loops: list[LoopNames] = []
        self._body: Sequence[ast.stmt] = ()  # of the function
        self._without_else: dict[ast.stmt, tuple[ast.stmt, ...]] = {}
        self._copied = 0  # statements that are read once more, behind branches that may return
        self._types: dict[int, tuple[dict[str, PyType], frozenset[str]]] = {}

    @property
    def env(self) -> Env:
        """What each name is where reading is."""
        return self._values.env

    def function(self, body: Sequence[ast.stmt]) -> AnyValue:
        """Read a whole body; its result."""
        self._body = body
        if any(map(_returns, body)) and not isinstance(body[-1], ast.Return):
            body = [*body, ast.copy_location(ast.Return(None), body[-1])]
        if self.block(body):
            self.env[RETURNED] = StaticValue(None)
        return self.env.get(RETURNED, StaticValue(None))

    def block(self, body: Sequence[ast.stmt]) -> bool:
        """Read statements; whether control goes on behind them."""
        for place, stmt in enumerate(body):
            rest = body[place + 1 :]
            if isinstance(stmt, ast.If) and not self._loops and _returns(stmt) and rest:
                longer = self._with_rest(stmt, rest)
                return longer is not None and self._statement(longer)
            if not self._statement(stmt):
                return False
        return True

    def _with_rest(self, stmt: ast.If, rest: Sequence[ast.stmt]) -> ast.stmt | None:
        """A condition that holds what stands behind it, in each branch that goes there.

        None where that was reported as too much: a copy is read for every such branch.
        """
        sides = [list(side) if _ends(side) else [*side, *rest] for side in (stmt.body, stmt.orelse)]
        if not any(map(_ends, (stmt.body, stmt.orelse))):
            before, self._copied = self._copied, self._copied + len(rest)
            if self._copied > _MOST_COPIED:
                if before <= _MOST_COPIED:
                    text = "too many branches return in some cases and go on in others"
                    hint = "assign the result in the branches, and return it at the end"
                    self._values.report(Refusal("LW128", text, hint=hint), stmt)
                return None
        return ast.copy_location(ast.If(stmt.test, *sides), stmt)

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
            case ast.For(orelse=[_, *_]) | ast.While(orelse=[_, *_]):
                if stmt not in self._without_else:  # read once more where a loop around is
                    flag = f"else.{len(self._without_else)}"
                    self._without_else[stmt] = without_else(stmt, flag)
                return self.block(self._without_else[stmt])
            case ast.For() | ast.While():
                self._loop(stmt)
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
            case ast.Delete(targets=targets):
                for target in targets:
                    if not isinstance(target, ast.Name):
                        raise Refusal("LW121", "a del of elements cannot be compiled")
                    self.env[target.id] = Unknown("was deleted")
            case _:
                word, hint = STATEMENTS.get(type(stmt), (type(stmt).__name__, ""))
                raise Refusal("LW121", f"{word} cannot be compiled", hint=hint)
        return True

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
                value = self._values.frozen(value) if isinstance(value, PyValue) else value
                self._values.writes.item(array, self._values.subscripts.items(at), value)
            case _:
                text = "this target of an assignment cannot be compiled"
                raise Refusal("LW121", text, found=ast.unparse(target))

    def _named(self, name: str, value: AnyValue) -> AnyValue:
        match value:
            case PyValue():
                return self._build.number(name, value)
            case ArrayValue():
                return self._build.store(value, name)
            case MaskedValue():
                return self._values.solid(value)
            case TupleValue(items=items):
                return TupleValue(tuple(self._named(name, x) for x in items), value.is_list)
        return value

    def _unpacked(self, value: AnyValue, count: int) -> list[AnyValue]:
        if isinstance(value, ArrayValue) and value.rank and isinstance(value.shape[0], Const):
            held = self._build.store(value)
            items = [PyValue(Const(k), weak=True) for k in range(int(value.shape[0].value.real))]
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
        values, op = self._values, stmt.op
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
            own = PyValue(Load(base, index, array.dtype))
            other = values.value(stmt.value)
            values.writes.element(base, index, plain(values.operate(op, own, other)), array.dtype)
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
        before = dict(self.env)
        sides: list[tuple[list[ProcedureStmt], Env, bool]] = []
        for holds, inner in ((cond, stmt.body), (negated(cond), stmt.orelse)):
            values.env = dict(before)
            with build.block() as body:
                build.ranges.facts += nonnegative_parts(holds)
                goes_on = self.block(inner)
            sides.append((body, values.env, goes_on))
        ends = [(body, env) for body, env, goes_on in sides if goes_on]
        if not ends and not self._loops:  # both return
            ends = [(body, _result_only(env)) for body, env, _ in sides if RETURNED in env]
        build.span = values.span(stmt)
        found, cells = join_branches(build, ends, before)
        build.emit(Choose(cond, *(tuple(body) for body, _, _ in sides)))
        values.env = found
        for name, (cell, weak) in cells.items():
            found[name] = PyValue(build.define(name, build.load(cell)), weak)
        return any(goes_on for _, _, goes_on in sides)

    def _return(self, node: ast.expr | None) -> bool:
        value: AnyValue = StaticValue(None)
        if node is not None:
            value = self._named("result", self._values.value(node))
        if not self._loops:
            self.env[RETURNED] = value
            return False
        if self._return_early is None:
            raise Refusal("LW128", "a helper returns inside of a loop", hint="return after it")
        self._return_early(value)
        self._build.emit(ReturnNow())
        return False

    def _raise(self, node: ast.expr) -> None:
        call = node if isinstance(node, ast.Call) else None
        name = self._values.static(node.func if call is not None else node)  # type: ignore[attr-defined]
        if not isinstance(name, type) or not issubclass(name, Exception):
            raise Refusal("LW121", "only exceptions of Python are raised")
        text = "".join(_constant_text(arg) for arg in call.args) if call is not None else ""
        self._build.check(Const(False, BOOL), name.__name__, text)

    # -- loops ------------------------------------------------------------------------------------

    def _loop(self, stmt: ast.For | ast.While) -> None:
        build = self._build
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
            else:
                return
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
        if iterations is not None and not _is_left(stmt):
            unbound = [x for x in bound_names(changing) if x in end and names.keeps(x, end[x])]
            wanted = [x for x in unbound if self._is_read_outside(stmt, x)]
            if wanted and iterations.run():
                exports = exported(build, body, {name: end[name] for name in wanted})
        loop = EndlessLoop(tuple(body)) if iterations is None else iterations.loop(tuple(body))
        build.emit(loop)
        names.finish(self.env, before, lambda: iterations is not None and iterations.run())
        for name, value in exports.items():
            self.env[name] = rebound(build, value)

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
    return any(isinstance(node, ast.Break | ast.Continue) for node in ast.walk(loop))


def _ends(body: Sequence[ast.stmt]) -> bool:
    """Whether nothing behind these statements is reached."""
    match list(body):
        case [*_, ast.Return() | ast.Raise()]:
            return True
        case [*_, ast.If(body=inner, orelse=orelse)]:
            return _ends(inner) and _ends(orelse)
    return False


def _returns(stmt: ast.stmt) -> bool:
    """Whether a statement holds a return."""
    return any(isinstance(node, ast.Return) for node in ast.walk(stmt))


def _result_only(env: Env) -> Env:
    return {RETURNED: env[RETURNED]}


def _constant_text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.replace("{", "{{").replace("}", "}}")
    raise Refusal("LW121", "the text of an exception is not a constant")
