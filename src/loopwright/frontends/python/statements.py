"""Python statements to nodes of a SourceTree."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from loopwright.diagnostics import Collector
from loopwright.frontends.python.assignments import AssignmentReader
from loopwright.frontends.python.captures import Captures
from loopwright.frontends.python.expressions import ExpressionReader
from loopwright.frontends.python.ranges import read_range
from loopwright.frontends.python.scope import Scope, assigned_names
from loopwright.frontends.python.source import Source
from loopwright.frontends.python.values import Refusal, Reported
from loopwright.frontends.python.words import STATEMENTS
from loopwright.frontends.tree import (
    ArrayParam,
    Branch,
    Loop,
    Node,
    Result,
    why_no_affine_condition,
)
from loopwright.ir.expr import Const, Expr

__all__ = ["BodyReader"]


class BodyReader:
    """Reads the statements of one function, once.

    `assignments.types` holds afterwards the types that the assignments give to scalar locals; the
    caller reads the body again with them until they no longer change.
    """

    def __init__(self, source: Source, captures: Captures, scope: Scope, faults: Collector) -> None:
        self._source = source
        self._scope = scope
        self._read = ExpressionReader(source, captures, scope, faults)
        self._last = source.definition.body[-1]
        self.assignments = AssignmentReader(source, scope, self._read)
        self.result: Result | None = None

    def report_untyped(self) -> None:
        """Report locals that are read but never get a type from an assignment."""
        for node in self._read.names.untyped:
            message = f"'{node.id}' is used before it is assigned"
            self._read.report(Refusal("LW108", message, hint="assign it first"), node)

    def block(self, body: Sequence[ast.stmt]) -> tuple[Node, ...]:
        """The nodes of consecutive statements."""
        return tuple(node for statement in body for node in self._statement(statement))

    def _statement(self, node: ast.stmt) -> Sequence[Node]:
        try:
            return self._accept(node)
        except Refusal as refusal:
            self._read.report(refusal, node)
        except Reported:
            pass
        except RecursionError:
            hint = "split it into several statements"
            deep = Refusal("LW121", "this statement is nested too deeply", hint=hint)
            self._read.report(deep, node)
        return ()

    def _accept(self, node: ast.stmt) -> Sequence[Node]:
        match node:
            case ast.Pass() | ast.AnnAssign(value=None):
                return ()
            case ast.Expr(value=ast.Constant(value=str())):
                return ()  # a docstring
            case ast.For():
                return self._for(node)
            case ast.If():
                return self._if(node)
            case ast.Assign(targets=targets, value=value):
                return self.assignments.assign(targets, value, node)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                return self.assignments.assign([target], value, node)
            case ast.AugAssign():
                return self.assignments.update(node)
            case ast.Return():
                return self._return(node)
            case ast.Expr(value=value):
                self._read.need(value)
                raise Refusal("LW121", "this expression has no effect", hint="assign its value")
            case _:
                return self._refuse(node)

    def _refuse(self, node: ast.stmt) -> Sequence[Node]:
        """Report a statement that has no meaning here, and the faults inside it."""
        word, hint = STATEMENTS.get(type(node), (type(node).__name__, ""))
        self._read.report(Refusal("LW121", f"{word} cannot be compiled", hint=hint), node)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = _inner(node)
            with self._scope.inside(inner):
                self.block(inner)
        return ()

    # -- loops and branches -----------------------------------------------------------------

    def _for(self, node: ast.For) -> Sequence[Node]:
        scope = self._scope
        bounds = read_range(self._read, node.iter)
        if node.orelse:
            hint = "write it after the loop"
            refusal = Refusal("LW121", "an else clause of a loop cannot be compiled", hint=hint)
            self._read.report(refusal, node.orelse[0])
        if not isinstance(node.target, ast.Name):
            self._read.report(Refusal("LW106", "a loop variable is one name"), node.target)
            with scope.inside(node.body):
                self.block(node.body)
            return ()
        name = node.target.id
        self._check_counter(name, node.target)
        unique = scope.names.fresh(name)
        with scope.inside(node.body, loop=(name, unique)):
            body = self.block(node.body)
        if bounds is None:
            return ()
        return (Loop(unique, *bounds, body, self._source.span(node)),)

    def _check_counter(self, name: str, node: ast.Name) -> None:
        scope = self._scope
        if name in scope.params:
            refusal = Refusal("LW106", f"the argument '{name}' is used as a loop variable")
        elif name in scope.loops:
            refusal = Refusal("LW106", f"'{name}' is the variable of an outer loop already")
        else:
            return
        refusal.hint = "give the loop a variable of its own"
        self._read.report(refusal, node)

    def _if(self, node: ast.If) -> Sequence[Node]:
        scope = self._scope
        cond = self._try_condition(node.test)
        if isinstance(cond, Const):  # decided by literals or captured numbers
            return self.block(node.body if cond.value else node.orelse)
        known = dict(scope.known)
        with scope.inside(node.body):
            body = self.block(node.body)
        scope.known = known
        with scope.inside(node.orelse):
            orelse = self.block(node.orelse)
        scope.forget(assigned_names(node.body))
        return () if cond is None else (Branch(cond, body, orelse, self._source.span(node)),)

    def _try_condition(self, node: ast.expr) -> Expr | None:
        try:
            cond = self._read.condition(node)
            why = why_no_affine_condition(cond)
            if why is None:
                return cond
            raise Refusal(
                "LW101",
                "the condition is not affine in the loop variables and sizes",
                found=f"{ast.unparse(node)}, {why}",
                hint="where it depends on data, use a conditional expression:"
                " A[i] = x if condition else A[i]",
            )
        except Refusal as refusal:
            self._read.report(refusal, node)
        except Reported:
            pass
        return None

    # -- the end ----------------------------------------------------------------------------

    def _return(self, node: ast.Return) -> Sequence[Node]:
        if node is not self._last:
            hint = "end the function with its only return"
            raise Refusal("LW128", "a return before the end of the function", hint=hint)
        value = node.value
        if value is None or (isinstance(value, ast.Constant) and value.value is None):
            return ()
        nodes: list[Node] = []
        items = value.elts if isinstance(value, ast.Tuple) else [value]
        names = [self._returned(item, nodes, node) for item in items]
        self.result = Result(tuple(names), isinstance(value, ast.Tuple))
        return nodes

    def _returned(self, item: ast.expr, nodes: list[Node], node: ast.stmt) -> str:
        """The unique name of a returned array or scalar; other values are put in a new scalar."""
        scope = self._scope
        if isinstance(item, ast.Name):
            param = scope.params.get(item.id)
            if item.id in scope.arrays or (param and isinstance(param[0], ArrayParam)):
                return self._read.names.array(item).name
            if self.assignments.is_scalar(item.id):
                return scope.scalar(item.id)
        (value,) = self._read.need(item)
        local, assign = self.assignments.keep(value, "result", node)
        nodes.append(assign)
        return local.name


def _inner(node: ast.AST) -> list[ast.stmt]:
    """The statements directly inside a compound statement."""
    found: list[ast.stmt] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            found.append(child)
        elif not isinstance(child, ast.expr):
            found += _inner(child)  # an except clause, a case of a match
    return found
