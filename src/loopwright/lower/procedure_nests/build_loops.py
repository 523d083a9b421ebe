"""Building statements of loop nests: fresh names, loops over boxes, cells, branches."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

from loopwright.ir.dtypes import INT64, DType
from loopwright.ir.expr import Const, Expr, Load, Var
from loopwright.ir.loops import (
    Alloc,
    Block,
    Buffer,
    For,
    Interrupt,
    LabelledBlock,
    Leave,
    Mark,
    Space,
    Stmt,
    Store,
)

__all__ = ["Cell", "NestBuilder", "block", "loops"]

_FOR_EVER = Const(1 << 62)


def block(*stmts: Stmt) -> Stmt:
    """Statements in order, blocks inside of each other joined."""
    flat: list[Stmt] = []
    for stmt in stmts:
        flat += stmt.body if isinstance(stmt, Block) else (stmt,)
    return flat[0] if len(flat) == 1 else Block(tuple(flat))


def loops(
    index: Sequence[Var], extents: Sequence[Expr], order: Sequence[int], body: Stmt, mark: Mark
) -> Stmt:
    """Loops over a box, its axes in `order` from the outermost in; the innermost has `mark`."""
    for axis in reversed(order):
        body = For(index[axis].name, Const(0), extents[axis], body, Const(1), mark)
        mark = Mark.SERIAL
    return body


class Cell:
    """A number in memory of the nest, or a few of them."""

    def __init__(self, name: str, dtype: DType, count: int = 0) -> None:
        self.name, self.dtype, self.count = name, dtype, count

    def load(self, *index: Expr) -> Expr:
        return Load(self.name, index, self.dtype)

    def store(self, value: Expr, *index: Expr) -> Stmt:
        return Store(self.name, index, value)

    def around(self, body: Stmt) -> Stmt:
        """`body` with the memory of the cell."""
        strides, shape = ((Const(1),), (Const(self.count),)) if self.count else ((), ())
        return Alloc(Buffer(self.name, self.dtype, strides, Space.STACK, True), shape, body)


class NestBuilder:
    """Gives names that a nest has only once."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def name(self, hint: str) -> str:
        return f"{hint}.{next(self._numbers)}"

    def index(self, rank: int) -> tuple[Var, ...]:
        """Variables of loops over a box."""
        return tuple(Var(self.name("p")) for _ in range(rank))

    def cell(self, hint: str, dtype: DType = INT64, count: int = 0) -> Cell:
        return Cell(self.name(hint), dtype, count)

    def endless(
        self,
        body: Callable[[Stmt], Stmt],
        interrupt: Callable[[Stmt], Interrupt | None] = lambda body: None,
    ) -> Stmt:
        """The statements that `body` gives, again and again, until its argument is reached."""
        scope = self.name("loop")
        made = body(Leave(scope))
        turns = For(self.name("turn"), Const(0), _FOR_EVER, made, Const(1))
        return LabelledBlock(scope, replace(turns, interrupt=interrupt(made)))
