"""What LLVM may know of a plain nest beyond its instructions: metadata, and freedom of rounding.

independent loops     every access carries the loop's access group, so no dependence is looked
                      for; llvm.loop.parallel_accesses names the group
scratch memory        buffers of one arena lie apart: each has an alias scope of its own
loops of vectors      what is written out to the last vector is neither widened nor unrolled
updates x = x + e     their operators may be reassociated where the nest says so
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from loopwright.ir.expr import Binary, Expr, Load
from loopwright.ir.loops import Alloc, For, Mark, Space, Store
from loopwright.ir.visit import expressions, loads, statements

__all__ = ["Metadata", "is_independent", "update_path"]

# Operators that reassociate with each other along the way to the updated element.
_SHORT, _LONG = 5, 14  # different elements that a body loads
_SAME_KIND = {"add": ("add", "sub"), "sub": ("add", "sub"), "mul": ("mul",)}


@dataclass(slots=True)
class Metadata:
    """The metadata of a module under construction."""

    lines: list[str] = field(default_factory=list)

    def node(self, *operands: str, distinct: bool = False, itself: bool = False) -> str:
        """A new node; with `itself` its first operand is the node, which keeps it unique."""
        name = f"!{len(self.lines)}"
        inner = ", ".join((name, *operands) if itself else operands)
        self.lines.append(f"{name} = {'distinct ' if distinct else ''}!{{{inner}}}")
        return name

    def group(self) -> str:
        """A new access group."""
        return self.node(distinct=True)

    def loop(self, loop: For, group: str | None) -> str:
        """What follows the branch back to the head of a loop with the given access group."""
        facts = [self.node('!"llvm.loop.mustprogress"')]
        if group is not None and _is_long(loop):
            facts.append(self.node('!"llvm.loop.interleave.count"', "i32 2"))
        if group is not None:
            facts.append(self.node('!"llvm.loop.parallel_accesses"', group))
        if _is_explicit(loop):
            facts.append(self.node('!"llvm.loop.vectorize.enable"', "i1 false"))
            facts.append(self.node('!"llvm.loop.unroll.disable"'))
        return f", !llvm.loop {self.node(*facts, distinct=True, itself=True)}"

    def apart(self, count: int) -> list[str]:
        """What follows the accesses of each of `count` buffers that do not overlap each other."""
        domain = self.node(distinct=True, itself=True)
        scopes = [self.node(domain, distinct=True, itself=True) for _ in range(count)]
        return [
            f", !alias.scope {self.node(own)}, !noalias {self.node(*_without(scopes, own))}"
            for own in scopes
        ]


def _without(scopes: Sequence[str], own: str) -> list[str]:
    return [scope for scope in scopes if scope != own]


def _is_long(loop: For) -> bool:
    """Whether two vectors of iterations should go side by side, though the body is not short.

    LLVM interleaves short bodies by itself. Others gain a little (heat-3d 2%, gemver 10%), as long
    as all values fit into registers.
    """
    values = (value for stmt in statements(loop.body) for value in expressions(stmt))
    found = {load for value in values for load in loads(value)}
    return _SHORT < len(found) <= _LONG


def _is_explicit(loop: For) -> bool:
    """Whether a loop holds vectors or registers that were written out."""
    return any(
        (isinstance(stmt, For) and stmt.mark is Mark.VECTOR)
        or (isinstance(stmt, Alloc) and stmt.buffer.space is Space.REGISTER)
        for stmt in statements(loop.body)
    )


def is_independent(loop: For) -> bool:
    """Whether LLVM may be told that the iterations of a loop are independent.

    Memory allocated inside is the same place in every iteration; only scalars, which become SSA
    values before anybody asks, are an exception.
    """
    if loop.mark is not Mark.SIMD:
        return False
    inside = (stmt for stmt in statements(loop.body) if isinstance(stmt, Alloc))
    return all(stmt.buffer.space is Space.STACK and not stmt.shape for stmt in inside)


def update_path(stmt: Store) -> tuple[Expr, ...]:
    """The operators between the value of `x = ... x op e ...` and x, all of one kind.

    Empty where the statement is no such update.
    """
    own = Load(stmt.buffer, stmt.index, stmt.value.dtype)

    def path(expr: Expr, kinds: tuple[str, ...]) -> tuple[Expr, ...] | None:
        if expr == own:
            return ()
        if not isinstance(expr, Binary) or expr.op not in kinds:
            return None
        sides = (expr.x,) if expr.op == "sub" else (expr.x, expr.y)
        found = (path(side, kinds) for side in sides)
        inner = next((nodes for nodes in found if nodes is not None), None)
        return None if inner is None else (expr, *inner)

    value = stmt.value
    if not isinstance(value, Binary) or value.op not in _SAME_KIND:
        return ()
    return path(value, _SAME_KIND[value.op]) or ()
