"""Which names statements need, assign, and hand on: definite assignment and liveness."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence

__all__ = ["Compute", "NameFlow", "bound_names", "loaded_names", "record_live"]


class Compute(ast.stmt):
    """Statements that are compiled together, among those that Python runs."""

    _fields = ("body",)

    def __init__(self, body: list[ast.stmt], *, is_last: bool = False) -> None:
        super().__init__()
        self.body = body
        self.is_last = is_last  # the function ends with it: it returns what the function returns
        self.live: set[str] = set()  # names that are read behind it
        ast.copy_location(self, body[0])


def loaded_names(node: ast.AST) -> frozenset[str]:
    """Names that are read somewhere in a node."""
    return frozenset(
        n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
    )


def bound_names(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """Names that nodes may bind or delete."""
    return frozenset(
        n.id
        for node in nodes
        for n in ast.walk(node)
        if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)
    )


class NameFlow:
    """A walk through statements in the order they run."""

    def __init__(self, own: frozenset[str], assigned: Iterable[str] = ()) -> None:
        self._own = own  # names of the function
        self.needed: dict[str, None] = {}  # read where they may not have been assigned inside
        # Names that surely have a value; None: the end is not reached.
        self.assigned: frozenset[str] | None = frozenset(assigned)

    def run(
        self,
        body: Sequence[ast.stmt],
        seen: Callable[[Compute, frozenset[str]], None] | None = None,
    ) -> NameFlow:
        """Walk through statements; `seen` is told what is assigned before each Compute."""
        for stmt in body:
            if isinstance(stmt, Compute):
                if seen is not None and self.assigned is not None:
                    seen(stmt, self.assigned)
                self.run(stmt.body)
            else:
                self._statement(stmt, seen)
        return self

    def _load(self, node: ast.AST | None) -> None:
        if node is None or self.assigned is None:
            return
        for name in sorted(loaded_names(node)):
            if name in self._own and name not in self.assigned:
                self.needed[name] = None

    def _store(self, *nodes: ast.AST) -> None:
        if self.assigned is not None:
            self.assigned |= bound_names(nodes)

    def _statement(
        self, stmt: ast.stmt, seen: Callable[[Compute, frozenset[str]], None] | None
    ) -> None:
        match stmt:
            case ast.If(test=test, body=body, orelse=orelse):
                self._load(test)
                self._branches([body, orelse], seen)
            case ast.For(target=target, iter=iterable, body=body, orelse=orelse):
                self._load(iterable)
                before = self.assigned
                self._store(target)
                self.run(body, seen)
                self.assigned = before
                self.run(orelse, seen)
                self.assigned = before
            case ast.While(test=test, body=body, orelse=orelse):
                self._load(test)
                before = self.assigned
                self.run(body, seen)
                self.assigned = before
                self.run(orelse, seen)
                self.assigned = before
            case ast.Delete(targets=targets):
                if self.assigned is not None:
                    self.assigned -= bound_names(targets)
            case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
                self._load(stmt)
                self.assigned = None
            case ast.AugAssign(target=ast.Name(id=name)):
                if name in self._own and self.assigned is not None and name not in self.assigned:
                    self.needed[name] = None
                self._load(stmt)
            case _:
                self._load(stmt)
                self._store(stmt)

    def _branches(
        self,
        sides: list[list[ast.stmt]],
        seen: Callable[[Compute, frozenset[str]], None] | None,
    ) -> None:
        before = self.assigned
        ends: list[frozenset[str]] = []
        for side in sides:
            self.assigned = before
            self.run(side, seen)
            if self.assigned is not None:
                ends.append(self.assigned)
        self.assigned = frozenset.intersection(*ends) if ends else None


_Live = frozenset[str]


def record_live(body: Sequence[ast.stmt], own: frozenset[str]) -> None:
    """Note for each Compute which names are read behind it."""
    _Liveness(own).block(body, frozenset())


class _Liveness:
    """A walk through statements against the order they run."""

    def __init__(self, own: frozenset[str]) -> None:
        self._own = own

    def block(
        self,
        body: Sequence[ast.stmt],
        after: _Live,
        ends: tuple[_Live, _Live] = (frozenset(), frozenset()),
    ) -> _Live:
        """The names read from here on; `ends`: behind a break, and behind a continue."""
        for stmt in reversed(body):
            after = self._statement(stmt, after, ends)
        return after

    def _statement(self, stmt: ast.stmt, after: _Live, ends: tuple[_Live, _Live]) -> _Live:
        match stmt:
            case Compute(body=body):
                stmt.live |= after
                flow = NameFlow(self._own).run(body)
                kept = frozenset() if flow.assigned is None else after - flow.assigned
                return kept | flow.needed.keys()
            case ast.If(test=test, body=body, orelse=orelse):
                sides = self.block(body, after, ends) | self.block(orelse, after, ends)
                return sides | loaded_names(test)
            case ast.For(target=target, iter=iterable, body=body, orelse=orelse):
                done = self.block(orelse, after, ends)
                bound = bound_names([target])
                return self._loop(body, done, after, bound) | loaded_names(iterable)
            case ast.While(test=test, body=body, orelse=orelse):
                done = self.block(orelse, after, ends) | loaded_names(test)
                return self._loop(body, done, after, frozenset())
            case ast.Break():
                return ends[0]
            case ast.Continue():
                return ends[1]
            case ast.Return() | ast.Raise():
                return loaded_names(stmt)
            case ast.AugAssign(target=ast.Name(id=name)):
                return after | loaded_names(stmt) | {name}
        flow = NameFlow(self._own).run([stmt])
        assert flow.assigned is not None
        return (after - flow.assigned) | loaded_names(stmt)

    def _loop(self, body: Sequence[ast.stmt], done: _Live, after: _Live, bound: _Live) -> _Live:
        head = done
        while True:
            # What the target binds is new in each iteration.
            inside = self.block(body, head, (after, head)) - bound
            if inside <= head:
                return head
            head |= inside
