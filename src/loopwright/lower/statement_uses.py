"""What the statements inside of a statement use: computed once for each, from its parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from loopwright.ir.dtypes import BOOL
from loopwright.ir.expr import Expr, Load, Var
from loopwright.ir.loops import Copy, If, MeshBroadcast, Prefetch, Stmt, Store, WarpMma
from loopwright.ir.visit import expressions, operands, statements_inside, walk
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.linear_forms import LinearForm, nonnegative_form
from loopwright.memo import IdentityMap

__all__ = ["StatementUses", "conjuncts", "form_key"]

_Terms: TypeAlias = frozenset[tuple[Expr, int]]


@dataclass(frozen=True, slots=True)
class _Uses:
    names: frozenset[str]  # variables
    buffers: frozenset[str]
    guards: tuple[tuple[_Terms, int], ...]  # integer comparisons of branches, as forms >= 0


class StatementUses:
    """Variables, buffers and guards in statements, by the identity of the statements.

    A pass that asks for every loop, binding or allocation what stands inside would else go through
    the innermost statements once for each level around them.
    """

    def __init__(self) -> None:
        self._known: IdentityMap[Stmt, _Uses] = IdentityMap()

    def names(self, stmt: Stmt) -> frozenset[str]:
        """The variables in the expressions of a statement and of those inside of it."""
        return self._of(stmt).names

    def buffers(self, stmt: Stmt) -> frozenset[str]:
        """The buffers that a statement or one inside of it reads or writes."""
        return self._of(stmt).buffers

    def guards(self, stmt: Stmt) -> tuple[tuple[_Terms, int], ...]:
        """Terms and constants of the forms that branches compare with zero; see `form_key`."""
        return self._of(stmt).guards

    def _of(self, stmt: Stmt) -> _Uses:
        found = self._known.get(stmt)
        if found is None:
            found = self._known[stmt] = self._computed(stmt)
        return found

    def _computed(self, stmt: Stmt) -> _Uses:
        inside = [self._of(part) for part in statements_inside(stmt)]
        names: set[str] = set()
        buffers = set(_own_buffers(stmt))
        for expr in expressions(stmt):
            for node in walk(expr):
                kind = type(node)
                if kind is Var:
                    names.add(node.name)  # type: ignore[union-attr]
                elif kind is Load:
                    buffers.add(node.array)  # type: ignore[union-attr]
        guards = tuple(_own_guards(stmt))
        if len(inside) == 1 and not guards:
            (only,) = inside
            if names <= only.names and buffers <= only.buffers:
                return only
        return _Uses(
            frozenset(names.union(*(part.names for part in inside))),
            frozenset(buffers.union(*(part.buffers for part in inside))),
            sum((part.guards for part in inside), guards),
        )


def conjuncts(cond: Expr) -> list[Expr]:
    """The conditions that `cond` joins with `and`."""
    return operands("and", cond) if cond.dtype == BOOL else [cond]


def form_key(form: LinearForm) -> tuple[_Terms, int]:
    """Terms and constant: forms of equal terms differ by their constants."""
    return frozenset(form.terms), form.constant


def _own_guards(stmt: Stmt) -> Iterator[tuple[_Terms, int]]:
    if isinstance(stmt, If):
        for cond in conjuncts(stmt.cond):
            form = nonnegative_form(cond)
            if form is not None:
                yield form_key(form)


def _own_buffers(stmt: Stmt) -> tuple[str, ...]:
    """Buffers that a statement names itself; its expressions may load from others."""
    match stmt:
        case Store(buffer=name) | Prefetch(buffer=name):
            return (name,)
        case Copy(target=target, source=source) | MeshBroadcast(target=target, source=source):
            return target, source
        case WarpMma(sums=sums, left=left, right=right):
            return sums, left, right
    return ()
