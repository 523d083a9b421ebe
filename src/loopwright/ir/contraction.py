"""Contraction: a statement seen as a generalised matrix product, whatever way it was written.

    out[b, i, j] = final( initial[b, i, j]  plus  SUM_p  left[b, i, p] times right[b, p, j] )

b, i, j, p stand for bundles: tuples of loops. SUM is the iterated `plus`, taken in lexicographic
order of the bundle p unless the program allows reassociation. Theory: definitions 1.2 and 2.10 of
the AOTO dissertation, extended by batch loops, prologues, epilogues and arbitrary operator pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Expr, Load
from loopwright.ir.program import Access

__all__ = [
    "ACCUMULATOR",
    "ELEMENT",
    "LOOPS",
    "AffineSubscripts",
    "Contraction",
    "ElementIndex",
    "Factor",
    "Guard",
    "InnerContraction",
    "InnerProduct",
    "LoopRange",
    "Operand",
]

# The variable that stands for the reduced value inside `Contraction.final`.
ACCUMULATOR = "accumulator"
# The loops i, j, p of an inner contraction; no identifier has a dot.
LOOPS = ("core.i", "core.j", "core.p")
# The variable that stands for the element in `Factor.value`.
ELEMENT = "core.element"


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


@dataclass(frozen=True, slots=True)
class Guard:
    """The condition `i * x + j * y + p * z + rest >= 0` on the values of the loops.

    Either on i and j, or on i and p with p = 1 or -1.
    """

    i: int
    j: int
    p: int
    rest: Expr  # over the loops outside and the parameters


@dataclass(frozen=True, slots=True)
class ElementIndex:
    """An array element; its subscripts are expressions over the names of [o, x] and parameters."""

    array: str
    index: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class AffineSubscripts:
    """The subscripts of an access: `base + sum of steps[x] * x` over the loops x."""

    base: tuple[Expr, ...]  # over the loops outside and the parameters
    steps: Mapping[str, tuple[int, ...]]  # by the names of LOOPS


@dataclass(frozen=True, slots=True)
class Factor:
    """One factor of a product: an array element, and the function applied to it when packed."""

    load: Load  # as the first statement of the nest has it
    value: Expr | None  # over Var(ELEMENT), scalars and the loops outside; None: the element itself
    element: ElementIndex
    subscripts: AffineSubscripts


@dataclass(frozen=True, slots=True)
class InnerProduct:
    """`left times right`, or `right times left` where they are swapped."""

    times: str
    left: Factor  # varies with i and p
    right: Factor  # varies with p and j
    swapped: bool  # right is the first factor of times

    @property
    def first(self) -> Factor:
        return self.right if self.swapped else self.left

    @property
    def second(self) -> Factor:
        return self.left if self.swapped else self.right


@dataclass(frozen=True, slots=True)
class InnerContraction:
    """Three nested loops i, j, p of a larger program that are a matrix product.

        out[i, j] = out[i, j]  plus  left[i, p] times right[p, j]  (plus further products)

    for fixed values of the loops around them.
    """

    statements: tuple[str, ...]  # whose instances the loops execute, at different points
    outer: tuple[str, ...]  # names that stand for the loops around, outermost first
    ranges: tuple[LoopRange, ...]  # of LOOPS, over `outer` and the parameters; all values occur
    guards: tuple[Guard, ...]  # further conditions on the points that are executed
    plus: str
    products: tuple[InnerProduct, ...]
    out: Access  # as the first statement of the nest has it
    subscripts: AffineSubscripts  # of out
    is_in_place: bool  # right and out share elements: no other block may write in between
