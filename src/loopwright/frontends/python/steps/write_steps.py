"""The text of steps: a driver that calls segments, and the segments as functions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from loopwright.frontends.python.steps.make_functions import definition_of
from loopwright.frontends.python.steps.name_flow import Compute, bound_names, loaded_names
from loopwright.lazy_dataclass import dataclass

__all__ = ["Flow", "FunctionSegment", "StepWriter"]

Node = TypeVar("Node", bound=ast.AST)
Flow: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]  # names that are taken, and handed on


@dataclass(frozen=True, slots=True)
class FunctionSegment:
    """Statements between calls, as a function of the names they take."""

    name: str
    definition: ast.FunctionDef


class StepWriter(ast.NodeTransformer):
    """Replaces Compute nodes by calls of segments."""

    def __init__(
        self,
        definition: ast.FunctionDef,
        flows: Mapping[int, Flow],
        fresh: Callable[[str], str],
        temporaries: frozenset[str],
        helpers: Mapping[int, str],
    ) -> None:
        """`helpers`: what the driver calls them, by the ids of the nodes that name them."""
        self.segments: list[FunctionSegment] = []
        self._definition, self._flows, self._fresh = definition, flows, fresh
        self._temporaries, self._helpers = temporaries, helpers

    def driver(
        self, body: Sequence[ast.stmt], arguments: Iterable[str], own: Iterable[str]
    ) -> ast.FunctionDef:
        """The function that Python runs; `own` are all names of the function."""
        found = self._block(body)
        unbound = set(own) - set(arguments) - bound_names(found)
        if unbound:  # no outer name may be taken for one of these
            targets = [_names((name,), ast.Store(), body[0]) for name in sorted(unbound)]
            never = ast.Assign(targets, ast.Constant(None))
            found.insert(0, _at(ast.If(ast.Constant(False), [_at(never, body[0])], []), body[0]))
        place = found[0] if found else self._definition
        return definition_of(self._definition.name, tuple(arguments), found, place)

    def _block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for stmt in body:
            found += self._statement(stmt)
        return found

    def _statement(self, stmt: ast.stmt) -> list[ast.stmt]:
        match stmt:
            case Compute():
                return self._segment(stmt)
            case ast.If() | ast.While():
                test = self.visit(stmt.test)
                inner = self._block(stmt.body), self._block(stmt.orelse)
                return [_at(type(stmt)(test, *inner), stmt)]
            case ast.For():
                inner = self._block(stmt.body), self._block(stmt.orelse)
                new = ast.For(stmt.target, self.visit(stmt.iter), *inner)
                return [_at(new, stmt)]
        used = loaded_names(stmt) & self._temporaries
        return [self.visit(stmt), *self._without(used, stmt)]

    def _without(self, used: Collection[str], stmt: ast.stmt) -> list[ast.stmt]:
        """Let go of temporaries, each of which is used once, as Python does."""
        if not used or isinstance(stmt, ast.Return | ast.Raise):
            return []
        return [_at(ast.Delete([_names((name,), ast.Del(), stmt) for name in sorted(used)]), stmt)]

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Rename helpers."""
        name = self._helpers.get(id(node))
        return node if name is None else _at(ast.Name(name, ast.Load()), node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Rename helpers of modules."""
        name = self._helpers.get(id(node))
        if name is None:
            return self.generic_visit(node)
        return _at(ast.Name(name, ast.Load()), node)

    def _segment(self, stmt: Compute) -> list[ast.stmt]:
        taken, given = self._flows.get(id(stmt), ((), ()))  # none: it is never reached
        name = self._fresh("segment_")
        body = list(stmt.body)
        if not stmt.is_last and given:
            body.append(_at(ast.Return(_names(given, ast.Load(), body[-1])), body[-1]))
        label = f"{self._definition.name}_{len(self.segments) + 1}"
        self.segments.append(FunctionSegment(name, definition_of(label, taken, body, body[0])))
        args: list[ast.expr] = [_at(ast.Name(x, ast.Load()), stmt) for x in taken]
        call = _at(ast.Call(_at(ast.Name(name, ast.Load()), stmt), args, []), stmt)
        if stmt.is_last:
            return [_at(ast.Return(call), stmt)]
        new: ast.stmt = ast.Expr(call)
        if given:
            new = ast.Assign([_names(given, ast.Store(), stmt)], call)
        return [_at(new, stmt), *self._without(set(taken) & self._temporaries, stmt)]


def _names(names: Sequence[str], context: ast.expr_context, place: ast.stmt) -> ast.expr:
    """One name, or a tuple of names."""
    found: list[ast.expr] = [_at(ast.Name(name, context), place) for name in names]
    return found[0] if len(found) == 1 else _at(ast.Tuple(found, context), place)


def _at(node: Node, place: ast.AST) -> Node:
    return ast.copy_location(node, place)
