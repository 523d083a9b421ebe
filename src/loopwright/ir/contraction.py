"""Contraction: a statement seen as a generalised matrix product, whatever way it was written.

    out[b, i, j] = final( initial[b, i, j]  plus  SUM_p  left[b, i, p] times right[b, p, j] )

b, i, j, p stand for bundles: tuples of loops. SUM is the iterated `plus`, taken in lexicographic
order of the bundle p unless the program allows reassociation. Theory: definitions 1.2 and 2.10 of
the AOTO dissertation, extended by batch loops, prologues, epilogues and arbitrary operator pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Expr
from loopwright.ir.program import Access

__all__ = ["ACCUMULATOR", "Contraction", "LoopRange", "Operand"]

# The variable that stands for the reduced value inside `Contraction.final`.
ACCUMULATOR = "accumulator"


@dataclass(frozen=True, slots=True)
class LoopRange:
    """A loop of a bundle: its variable runs over range(start, stop)."""

    name: str
    start: Expr  # affine in the parameters
    stop: Expr  # affine in the parameters


@dataclass(frozen=True, slots=True)
class Operand:
    """A factor of the product: an access, and what is done to the element on its way in."""

    access: Access  # subscripts affine in the loops of the bundles and the parameters
    value: Expr  # over Load(access) and scalars; the load itself when there is no prologue


@dataclass(frozen=True, slots=True)
class Contraction:
    """A tensor-contraction-like kernel found in a Program."""

    statement: str  # name of the updating statement
    plus: str  # operator of ir/expr that combines products
    times: str  # operator of ir/expr that combines the factors
    dtype: DType  # type of the accumulator
    batch: tuple[LoopRange, ...]  # loops of left, right and out
    i: tuple[LoopRange, ...]  # loops of left and out
    j: tuple[LoopRange, ...]  # loops of right and out
    p: tuple[LoopRange, ...]  # reduction loops, in source order
    out: Access
    left: Operand
    right: Operand | None  # None for a pure reduction of `left`
    initial: Expr  # value of the element before the reduction; over loads and scalars
    final: Expr  # value stored; over Var(ACCUMULATOR), loads and scalars
    reassoc: bool  # the order of the reduction may change
    covers: tuple[str, ...]  # names of all statements this contraction replaces
