"""What each name of a Python function means at the place being read."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from loopwright.frontends.names import Names
from loopwright.frontends.python.arguments import ArgType
from loopwright.frontends.python.values import Type, Value
from loopwright.frontends.tree import Local, Param

__all__ = ["Scope", "assigned_names", "loop_names"]


@dataclass(slots=True)
class Scope:
    """The names of one function while its body is read from top to bottom.

    Names are Python's; the values hold the unique names of the tree. A local that was last
    assigned an affine or constant expression is `known`: reading it gives that expression, so that
    `n = A.shape[0]` or `j = n - 1 - i` can stand in bounds and subscripts.
    """

    names: Names
    params: dict[str, tuple[Param, ArgType]]
    assigned: frozenset[str]  # every name the body assigns, loop variables aside
    counters: frozenset[str]  # every name that is a loop variable somewhere
    types: dict[str, Type]  # of scalar locals, as far as inferred
    scalars: dict[str, str] = field(default_factory=dict)  # scalar local -> its unique name
    loops: dict[str, str] = field(default_factory=dict)  # loop variable -> its unique name
    known: dict[str, Value] = field(default_factory=dict)
    arrays: dict[str, Local] = field(default_factory=dict)  # local arrays made so far
    depth: int = 0  # number of loops and branches around this place

    def scalar(self, name: str) -> str:
        """The unique name of a scalar local."""
        if name not in self.scalars:
            self.scalars[name] = self.names.fresh(name)
        return self.scalars[name]

    def forget(self, names: Iterable[str]) -> None:
        """Drop what is known of locals that may have changed."""
        for name in names:
            self.known.pop(name, None)

    @contextmanager
    def inside(
        self, body: Sequence[ast.stmt], loop: tuple[str, str] | None = None
    ) -> Iterator[None]:
        """Read `body`, the body of a loop or a branch: what it assigns is not known afterwards.

        Nor is it known at the start of a loop's body, which a previous iteration may have run.
        """
        changed = assigned_names(body)
        before, loops = dict(self.known), dict(self.loops)
        if loop is not None:
            self.forget(changed)
            self.loops[loop[0]] = loop[1]
        self.depth += 1
        yield
        self.depth -= 1
        self.loops = loops
        self.known = before
        self.forget(changed)


def assigned_names(body: Sequence[ast.stmt]) -> frozenset[str]:
    """Every name that `body` assigns, loop variables aside."""
    counters = {id(t) for loop in _loops(body) for t in ast.walk(loop.target)}
    return frozenset(
        node.id
        for node in _nodes(body)
        if isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Store)
        and id(node) not in counters
    )


def loop_names(body: Sequence[ast.stmt]) -> frozenset[str]:
    """Every loop variable of `body`."""
    return frozenset(
        node.id
        for loop in _loops(body)
        for node in ast.walk(loop.target)
        if isinstance(node, ast.Name)
    )


def _loops(body: Sequence[ast.stmt]) -> Iterator[ast.For]:
    return (node for node in _nodes(body) if isinstance(node, ast.For))


def _nodes(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    for statement in body:
        yield from ast.walk(statement)
