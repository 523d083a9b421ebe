"""A function as steps: a driver that Python runs, and the segments between calls, to be compiled.

The driver has the calls that Python makes, and the loops and conditions around them. What stands
between becomes segments: functions of the names they need, which return the names they have bound
that are read later. Arrays are handed over as they are, so writing to them has Python's meaning.
"""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Collection, Sequence

from loopwright.diagnostics import Diagnostic, SourceError
from loopwright.frontends.python.function_source import FunctionSource
from loopwright.frontends.python.python_grammar import STATEMENTS
from loopwright.frontends.python.steps.called_functions import local_names
from loopwright.frontends.python.steps.lift_calls import (
    CallLifter,
    holders,
    is_cheap,
    is_scalar_work,
    loaded,
)
from loopwright.frontends.python.steps.name_flow import (
    Compute,
    NameFlow,
    bound_names,
    record_live,
)
from loopwright.frontends.python.steps.write_steps import Flow, FunctionSegment, StepWriter
from loopwright.lazy_dataclass import dataclass

__all__ = ["Steps", "split_function"]


@dataclass(frozen=True, slots=True)
class Steps:
    """A function in steps."""

    driver: ast.FunctionDef  # takes the function's parameters by position, calls segments by name
    segments: tuple[FunctionSegment, ...]
    helpers: dict[str, ast.Call]  # what the driver calls helpers with such calls, and one call


def split_function(
    source: FunctionSource,
    marked: Collection[ast.expr],
    opened: Collection[ast.stmt] = (),
    helpers: Collection[ast.Call] = (),
    named: Collection[ast.Call] = (),
) -> Steps:
    """The steps of a function in which Python evaluates `marked` expressions.

    Python runs the `opened` statements too: loops and conditions, and simple ones. Of the marked
    expressions `helpers` call plain functions that run in steps too, `named` those that the user
    leaves to Python: both may write what they are given. Raises SourceError where a call
    stands in what cannot be taken apart.
    """
    wanted = list(opened)
    while True:
        splitter = _Splitter(source, marked, wanted, helpers, named)
        steps = splitter.steps()
        if isinstance(steps, Steps):
            return steps
        wanted += steps


class _Splitter:
    def __init__(
        self,
        source: FunctionSource,
        marked: Collection[ast.expr],
        opened: Collection[ast.stmt],
        helpers: Collection[ast.Call],
        named: Collection[ast.Call],
    ) -> None:
        self._source = source
        self._unknown = {id(call) for call in (*helpers, *named)}
        self._own = local_names(source)
        self._numbers: dict[str, itertools.count[int]] = {}
        self._taken = loaded(source.definition) | self._own
        self._marked = {id(node) for node in marked}
        self._opened = {id(stmt) for stmt in opened}
        self._holding = holders(source.definition, self._marked | self._opened)
        self._helpers = tuple(helpers)
        self._temporaries: list[str] = []
        self._out: list[ast.stmt] = []  # of the block that is being split
        self._run: list[ast.stmt] = []  # statements that are compiled together

    def steps(self) -> Steps | list[ast.stmt]:
        """The steps; or statements that have to be opened first."""
        definition = self._source.definition
        arguments = _arguments(definition)
        body = self._block(definition.body, is_last=True)
        own = self._own | set(self._temporaries)
        record_live(body, own)
        missing: list[ast.stmt] = []
        flows: dict[int, Flow] = {}

        def seen(found: Compute, assigned: frozenset[str]) -> None:
            flow = NameFlow(own).run(found.body)
            bound = bound_names(found.body) & found.live
            sure = frozenset() if flow.assigned is None else flow.assigned
            unsure = sorted(bound - sure - flow.needed.keys())
            given = [*flow.needed, *unsure]
            for name in set(given) - assigned:
                if name in flow.needed and _is_bound_within(name, found, body):
                    given.remove(name)  # where it has no value, the segment raises as Python does
                else:
                    missing.extend(x for x in found.body if name in bound_names([x]))
            flows[id(found)] = tuple(given), tuple(sorted(bound))

        NameFlow(own, arguments).run(body, seen)
        if missing:
            return missing
        names = {id(call.func): self._fresh("helper_") for call in self._helpers}
        writer = StepWriter(definition, flows, self._fresh, frozenset(self._temporaries), names)
        driver = writer.driver(body, arguments, self._own)
        helpers = {names[id(call.func)]: call for call in self._helpers}
        return Steps(driver, tuple(writer.segments), helpers)

    # -- blocks -----------------------------------------------------------------------------------

    def _block(self, body: Sequence[ast.stmt], *, is_last: bool = False) -> list[ast.stmt]:
        """Statements as Python runs them, the rest in Compute nodes."""
        outer = self._out, self._run
        self._out, self._run = [], []
        last = max((k for k, stmt in enumerate(body) if self._holds(stmt)), default=-1)
        for place, stmt in enumerate(body):
            if is_last and place > last and not all(map(_is_trivial, body[place:])):
                self._flush()
                self._out.append(Compute(list(body[place:]), is_last=True))
                break
            self._statement(stmt, is_last=is_last and place == len(body) - 1)
        self._flush()
        found = self._out
        self._out, self._run = outer
        return found

    def _flush(self) -> None:
        if all(map(_is_trivial, self._run)):
            self._out += self._run
        else:
            self._out.append(Compute(self._run))
        self._run = []

    def _holds(self, node: ast.AST) -> bool:
        return id(node) in self._holding

    def _put(self, stmt: ast.stmt, by_python: bool) -> None:
        if isinstance(stmt, ast.If):
            self._holding |= holders(stmt, self._marked)
            self._statement(stmt)
        elif by_python:
            self._flush()
            self._out.append(stmt)
        else:
            self._run.append(stmt)

    def _lifter(self) -> CallLifter:
        found = CallLifter(
            self._marked, self._holding, self._own, self._fresh_temporary, self._put, self._refused
        )
        found.temporaries = self._temporaries
        return found

    # -- statements -------------------------------------------------------------------------------

    def _statement(self, stmt: ast.stmt, *, is_last: bool = False) -> None:
        if not self._holds(stmt) and not _leaves(stmt):
            self._run.append(stmt)
            return
        match stmt:
            case ast.If(test=test, body=body, orelse=orelse):
                test = self._condition(test)
                sides = [self._block(side, is_last=is_last) for side in (body, orelse)]
                self._compound(ast.If(test, sides[0] or [_no_op(stmt)], sides[1]), stmt)
            case ast.For(target=target, iter=iterable, body=body, orelse=orelse):
                iterable = self._iterable(iterable)
                inner = self._block(body), self._block(orelse)
                self._compound(ast.For(target, iterable, *inner), stmt)
            case ast.While():
                self._while(stmt)
            case ast.Break() | ast.Continue() | ast.Raise() | ast.Pass():
                self._put(stmt, True)
            case ast.Return(value=value):
                value = None if value is None else self._lifter().cheap(value)
                self._put(ast.copy_location(ast.Return(value), stmt), True)
            case _ if id(stmt) in self._opened:
                self._put(stmt, True)
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.Expr() | ast.Assert():
                self._simple(stmt)
            case _:
                word, hint = STATEMENTS.get(type(stmt), (type(stmt).__name__, ""))
                raise self._refused(stmt, f"{word} that calls what Python runs", hint)

    def _compound(self, new: ast.stmt, old: ast.stmt) -> None:
        self._flush()
        self._out.append(ast.copy_location(new, old))

    def _condition(self, test: ast.expr) -> ast.expr:
        """A condition that Python tests."""
        test = self._lifter().lift(test)
        if is_scalar_work(test):
            return test
        inner = ast.copy_location(ast.UnaryOp(ast.Not(), test), test)
        return self._lifter().value(ast.copy_location(ast.UnaryOp(ast.Not(), inner), test))

    def _iterable(self, node: ast.expr) -> ast.expr:
        """What a loop of Python runs over."""
        if not self._holds(node) and (is_cheap(node) or is_scalar_work(node)):
            return node
        if isinstance(node, ast.Call) and not node.keywords:
            new = copy.copy(node)
            new.args = [x if is_scalar_work(x) else self._lifter().value(x) for x in node.args]
            return new
        return self._lifter().value(node)

    def _while(self, stmt: ast.While) -> None:
        if not self._holds(stmt.test) and is_scalar_work(stmt.test):
            inner = self._block(stmt.body), self._block(stmt.orelse)
            self._compound(ast.While(stmt.test, *inner), stmt)
            return
        if stmt.orelse:
            text = "an else clause of a loop cannot be compiled"
            raise self._refused(stmt.orelse[0], text, "")
        end = ast.If(
            ast.copy_location(ast.UnaryOp(ast.Not(), stmt.test), stmt.test),
            [ast.copy_location(ast.Break(), stmt)],
            [],
        )
        ast.copy_location(end, stmt.test)
        self._holding |= holders(end, self._marked)
        always = ast.copy_location(ast.Constant(True), stmt)
        self._compound(ast.While(always, self._block([end, *stmt.body]), []), stmt)

    def _simple(self, stmt: ast.stmt) -> None:
        """A statement that is no control, with marked expressions."""
        lifter, new = self._lifter(), copy.copy(stmt)
        match new:
            case ast.Expr(value=value):
                if id(value) in self._marked:
                    new.value = lifter.by_python(value)
                    self._put(new, True)
                    return
                new.value = lifter.lift(value)
            case ast.Assign(targets=targets, value=value):
                is_named = all(map(_is_name, targets))
                if is_named and id(value) in self._marked and not isinstance(value, ast.IfExp):
                    new.value = lifter.by_python(value)
                    self._put(new, True)
                    return
                new.value = lifter.lift(value)
                if any(map(self._holds, targets)):
                    new.value = lifter.value(new.value)
                    new.targets = [lifter.lift(target) for target in targets]
            case ast.AnnAssign(target=target, value=value):
                assert value is not None
                new = ast.copy_location(ast.Assign([target], lifter.lift(value)), stmt)
            case ast.AugAssign(target=ast.Subscript() as target, value=value) if self._holds(
                target
            ) or any(id(x) in self._unknown for x in ast.walk(value)):
                self._update(stmt, lifter.target(target), value)
                return
            case ast.AugAssign(value=value):
                new.value = lifter.lift(value)
            case ast.Assert(test=test):
                new.test = lifter.lift(test)
        self._put(new, False)

    def _update(self, stmt: ast.stmt, target: ast.Subscript, value: ast.expr) -> None:
        """`target op= value` where the value may change what the target is: it is read first."""
        assert isinstance(stmt, ast.AugAssign)
        lifter = self._lifter()
        read = copy.copy(target)
        read.ctx = ast.Load()
        old = lifter.value(read)
        assert isinstance(old, ast.Name)
        own = ast.copy_location(ast.Name(old.id, ast.Store()), old)
        new = ast.copy_location(ast.AugAssign(own, stmt.op, lifter.lift(value)), stmt)
        self._put(new, False)
        self._put(ast.copy_location(ast.Assign([target], old), stmt), False)

    def _refused(self, node: ast.stmt | ast.expr, text: str, hint: str) -> SourceError:
        return SourceError(Diagnostic(self._source.span(node), text, "LW197", hint=hint))

    # -- names ------------------------------------------------------------------------------------

    def _fresh(self, wish: str) -> str:
        names = (f"{wish}{k}" for k in self._numbers.setdefault(wish, itertools.count(1)))
        return next(name for name in names if name not in self._taken)

    def _fresh_temporary(self) -> str:
        return self._fresh("value_")


def _arguments(definition: ast.FunctionDef) -> list[str]:
    args = definition.args
    return [arg.arg for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs)]


def _no_op(place: ast.stmt) -> ast.stmt:
    return ast.copy_location(ast.Pass(), place)


def _leaves(stmt: ast.stmt) -> bool:
    """Whether a statement may end the function, or a loop around it."""
    match stmt:
        case ast.Return() | ast.Break() | ast.Continue():
            return True
        case ast.If(body=body, orelse=orelse):
            return any(map(_leaves, (*body, *orelse)))
        case ast.For(body=body, orelse=orelse) | ast.While(body=body, orelse=orelse):
            return any(map(_returns, body)) or any(map(_leaves, orelse))
    return False


def _is_bound_within(name: str, part: Compute, body: Sequence[ast.stmt]) -> bool:
    """Whether a name gets its value in a part only, which runs once."""
    nodes = [node for stmt in body for node in ast.walk(stmt)]
    loops = (node for node in nodes if isinstance(node, ast.For | ast.While))
    if any(inner is part for loop in loops for inner in ast.walk(loop) if inner is not loop):
        return False
    inside = sum(_binds(node, name) for node in ast.walk(part))
    return 0 < inside == sum(_binds(node, name) for node in nodes)


def _binds(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load)


def _returns(stmt: ast.stmt) -> bool:
    return any(isinstance(node, ast.Return) for node in ast.walk(stmt))


def _is_trivial(stmt: ast.stmt) -> bool:
    """Whether Python has nothing to compute in a statement."""
    match stmt:
        case ast.Pass() | ast.Break() | ast.Continue() | ast.Raise() | ast.Return(value=None):
            return True
        case ast.Return(value=value) if value is not None:
            return is_cheap(value)
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Assign(
            targets=targets, value=ast.Name() | ast.Constant() | ast.UnaryOp() as value
        ):
            return is_cheap(value) and all(isinstance(x, ast.Name) for x in targets)
        case ast.AugAssign(target=ast.Name(), value=ast.Constant()):
            return True
    return False


def _is_name(node: ast.expr) -> bool:
    """Whether a target is a name, or names in a tuple."""
    if isinstance(node, ast.Tuple | ast.List):
        return all(map(_is_name, node.elts))
    return isinstance(node, ast.Name)
