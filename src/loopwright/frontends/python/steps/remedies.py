"""What Python can do about refusals: which calls it makes, which loops and conditions it runs.

Types and sizes that the reader of whole functions cannot follow follow from what a name stands for
once Python has made the call, or runs the loop.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from types import BuiltinFunctionType

from loopwright.diagnostics import Diagnostic, SourceError
from loopwright.frontends.python.fingerprint import MISSING
from loopwright.frontends.python.function_source import FunctionSource
from loopwright.frontends.python.steps.called_functions import CalledFunctions, is_foreign
from loopwright.frontends.python.steps.lift_calls import is_scalar_work
from loopwright.frontends.python.steps.name_flow import bound_names

__all__ = ["Remedies"]

_LOOPS = (ast.For, ast.While)
# Views that are copies in compiled code, where nobody would see that.
_VIEWS = frozenset({"reshape", "ravel", "real", "imag"})
_SEVERAL = ("LW190", "LW192", "LW119", "LW128")  # names that stand for several things
# Uses of arrays that are not compiled yet, or whose sizes data decide.
_ARRAYS = frozenset({"LW110", "LW125", "LW180", "LW181", "LW184"})


class Remedies:
    """What Python does in place of what was refused."""

    def __init__(self, source: FunctionSource, calls: CalledFunctions) -> None:
        self._source, self._calls = source, calls
        self.marked: list[ast.expr] = []  # expressions that Python evaluates
        self.opened: list[ast.stmt] = []  # statements that Python runs
        self._parents: dict[int, ast.AST] = {}
        self._at: defaultdict[tuple[int, int, int, int], list[ast.AST]] = defaultdict(list)
        for node in ast.walk(source.definition):
            for child in ast.iter_child_nodes(node):
                self._parents[id(child)] = node
            if isinstance(node, ast.expr | ast.stmt):
                span = source.span(node)
                key = span.line, span.column, span.end_line, span.end_column
                self._at[key].append(node)

    def find(self, error: SourceError) -> bool:
        """Whether something can be done about every refusal."""
        return all(map(self._remedied, error.diagnostics))

    def nodes(self) -> tuple[ast.expr | ast.stmt, ...]:
        """Everything that Python does."""
        every: list[ast.expr | ast.stmt] = [*self.marked, *self.opened]
        return tuple({id(node): node for node in every}.values())

    def widen(self) -> None:
        """Let Python take parts of what its calls give too: `np.histogram(x)[0]`."""
        for node in list(self.marked):
            outer = self._parents[id(node)]
            while _is_part(outer, node) and not self._is_method(outer):
                assert isinstance(outer, ast.expr)
                self.marked.append(outer)
                node, outer = outer, self._parents[id(outer)]

    def _is_method(self, node: ast.AST) -> bool:
        outer = self._parents[id(node)]
        return isinstance(outer, ast.Call) and outer.func is node

    def _remedied(self, found: Diagnostic) -> bool:
        span = found.span
        nodes = self._at.get((span.line, span.column, span.end_line, span.end_column), [])
        if span.file != self._source.file or not nodes:
            helpers = list(self._calls.helpers())
            self.marked += helpers
            return bool(helpers)
        if any(self._node(node, found.code) for node in nodes):
            return True
        return found.code == "LW189" and (self._views() or any(map(self._open_names, nodes)))

    def _node(self, node: ast.AST, code: str) -> bool:
        match node:
            case ast.Call() if self._may_call(node):
                self.marked.append(node)
            case ast.Subscript(ctx=ast.Load()) | ast.Attribute() if code in _ARRAYS:
                self.marked.append(node)
            case ast.IfExp() if code in ("LW116", "LW119"):
                self.marked.append(node)
            case ast.Name(id=name) if code == "LW190":
                return self._open(self._binding(node, name))
            case ast.Assign() | ast.AugAssign() if code in _ARRAYS or self._sets_attribute(node):
                self.opened.append(node)
            case ast.stmt() if code in _SEVERAL:
                loop = None if isinstance(node, ast.Return) else self._enclosing(node)
                return self._open(loop) or self._open_names(node)
            case _:
                return False
        return True

    def _sets_attribute(self, node: ast.Assign | ast.AugAssign) -> bool:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return any(isinstance(target, ast.Attribute) for target in targets)

    def _may_call(self, node: ast.Call) -> bool:
        function = self._calls.static(node.func)
        if function is MISSING:
            return isinstance(node.func, ast.Attribute)
        return is_foreign(function) or isinstance(function, BuiltinFunctionType)

    def _open(self, stmt: ast.stmt | None) -> bool:
        if stmt is not None:
            self.opened.append(stmt)
        return stmt is not None

    def _views(self) -> bool:
        """Let Python make all views that compiled code may copy."""
        count = len(self.marked)
        for node in ast.walk(self._source.definition):
            if isinstance(node, ast.Attribute) and node.attr in _VIEWS:
                outer = self._parents[id(node)]
                is_call = isinstance(outer, ast.Call) and outer.func is node
                self.marked.append(outer if is_call else node)  # type: ignore[arg-type]
        return len(self.marked) > count

    def _open_names(self, stmt: ast.AST) -> bool:
        names = [n for n in ast.walk(stmt) if isinstance(n, ast.Name)]
        found = [self._open(self._binding(n, n.id)) for n in names]
        return any(found)

    def _enclosing(self, node: ast.AST) -> ast.stmt | None:
        """The innermost loop that a node is or stands in."""
        return next((x for x in self._outwards(node) if isinstance(x, _LOOPS)), None)

    def _outwards(self, node: ast.AST) -> Iterator[ast.AST]:
        while node is not self._source.definition:
            yield node
            node = self._parents[id(node)]

    def _binding(self, node: ast.AST, name: str) -> ast.stmt | None:
        """The last loop or condition before a node that binds a name; else one around it."""
        line = getattr(node, "lineno", 0)
        before = [
            x
            for x in ast.walk(self._source.definition)
            if isinstance(x, ast.If | ast.For | ast.While)
            and (x.end_lineno or 0) < line
            and name in bound_names([x])
        ]
        inner = max(before, key=lambda x: (x.end_lineno or 0, -x.lineno), default=None)
        return inner or self._enclosing(node)


def _is_part(outer: ast.AST, node: ast.expr) -> bool:
    match outer:
        case ast.Attribute(ctx=ast.Load(), value=value):
            return value is node
        case ast.Subscript(ctx=ast.Load(), value=value, slice=index):
            return value is node and is_scalar_work(index)
    return False
