"""Integers of 64 bits that loops compare or choose as integers of 32.

Sizes and loop variables have 64 bits. Where a program converts them to its own type, LLVM knows
that nothing is lost, and compares or chooses before it narrows: `narrow(b) == x` in a loop of
vectors becomes a comparison of 64 bits, with half the lanes and conversions of every x. A value
that LLVM knows nothing of stays as narrow as it was made, before the loop.

Likewise the extreme number of a type where a condition chooses what a minimum takes: LLVM makes a
selection of `min(x, v if c else greatest)`, which is no reduction to it, and such a loop has no
vectors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from loopwright.backends.llvm.llvm_builder import FunctionBuilder, SSAValue, type_name
from loopwright.ir.dtypes import INT64, DType
from loopwright.ir.expr import COMPARISONS, Binary, Cast, Expr, Select, Var
from loopwright.ir.loops import For, Stmt
from loopwright.ir.visit import expressions, statements_inside, walk
from loopwright.memo import IdentityMap

__all__ = ["NarrowUses", "hidden_constant", "hidden_narrowing"]

_BITS = 32  # what a register of any processor holds as it is


class NarrowUses:
    """Which variables are compared or chosen in loops, and as what; each statement is read once."""

    def __init__(self) -> None:
        self._known: IdentityMap[Stmt, frozenset[tuple[str, DType]]] = IdentityMap()

    def in_loops(self, stmt: Stmt, names: Collection[str]) -> set[tuple[str, DType]]:
        """Uses of the variables `names` in loops of `stmt`."""
        if isinstance(stmt, For):
            return {(name, dtype) for name, dtype in self._inside(stmt.body) if name in names}
        return {use for part in statements_inside(stmt) for use in self.in_loops(part, names)}

    def _inside(self, stmt: Stmt) -> frozenset[tuple[str, DType]]:
        known = self._known.get(stmt)
        if known is None:
            own = frozenset(use for expr in expressions(stmt) for use in _converted(expr))
            known = own.union(*map(self._inside, statements_inside(stmt)))
            self._known[stmt] = known
        return known


def _converted(expr: Expr) -> Iterator[tuple[str, DType]]:
    for part in walk(expr):
        match part:
            case Select(x=x, y=y):
                operands: tuple[Expr, ...] = (x, y)
            case Binary(op=op, x=x, y=y) if op in COMPARISONS:
                operands = (x, y)
            case _:
                continue
        for operand in operands:
            match operand:
                case Cast(x=Var(name=name, dtype=wide), dtype=dtype):
                    if wide == INT64 and dtype.is_integer and dtype.bits == _BITS:
                        yield name, dtype


def hidden_narrowing(code: FunctionBuilder, value: SSAValue, dtype: DType) -> SSAValue:
    """The low bits of an integer, by an instruction of which LLVM knows nothing, and which is none.

    It must stand outside of loops that LLVM is to take in vectors.
    """
    low = code.emit(f"trunc {value} to {type_name(dtype)}")
    kind = type_name(dtype)
    return SSAValue(code.emit(f'call {kind} asm "", "=r,0"({kind} {low})'), dtype)


def hidden_constant(code: FunctionBuilder, value: SSAValue) -> SSAValue:
    """A number that LLVM does not know, made where the function begins."""
    kind, name = type_name(value.dtype), code.name("hidden.")
    code.entry.append(f'  {name} = call {kind} asm "", "=r,0"({value})')
    return SSAValue(name, value.dtype)
