"""Contraction: a statement seen as a generalised matrix product, whatever way it was written.

    out[b, i, j] = final( initial[b, i, j]  plus  SUM_p  left[b, i, p] times right[b, p, j] )

b, i, j, p stand for bundles: tuples of loops. SUM is the iterated `plus`, taken in lexicographic
order of the bundle p unless the program allows reassociation. Theory: definitions 1.2 and 2.10 of
the AOTO dissertation, extended by batch loops, prologues, epilogues and arbitrary operator pairs.
"""

from __future__ import annotations

from collections.abc import Mapping

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Binary, Cast, Const, Expr, Load, Var, cast
from loopwright.ir.kernel_variant import Algebra, Initial
from loopwright.ir.program import Access
from loopwright.ir.visit import names
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "ACCUMULATOR",
    "ELEMENT",
    "LOOPS",
    "LOOP_I",
    "LOOP_J",
    "LOOP_P",
    "AffineSubscripts",
    "Contraction",
    "ElementIndex",
    "Factor",
    "Guard",
    "InnerContraction",
    "InnerProduct",
    "LoopRange",
    "Operand",
    "is_same_number",
]

# The variable that stands for the reduced value inside `Contraction.final`.
ACCUMULATOR = "accumulator"
# The loops i, j, p of an inner contraction; no identifier has a dot.
LOOP_I, LOOP_J, LOOP_P = LOOPS = ("core.i", "core.j", "core.p")
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

    def is_element(self, accumulator: DType) -> bool:
        """Whether it is the element itself, perhaps converted to the accumulator's type."""
        load = self.access.load()
        return self.value in (load, Cast(load, accumulator))


@dataclass(frozen=True, slots=True)
class Contraction:
    """A tensor-contraction-like kernel found in a Program."""

    statement: str  # name of the updating statement
    plus: str | Expr  # combines products: an operator of ir/expr, or one over Var("x"), Var("y")
    times: str | Expr  # combines the factors, likewise
    zero: bool | int | float | complex  # identity of plus
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
    scale: Expr | None = None  # a scalar that every product is multiplied by
    is_declared: bool = False  # a front end said so: its kernels take scalars as arguments

    @property
    def is_filter(self) -> bool:
        """Whether the taps of one factor meet windows of the other, which sums have in common.

        One bundle i or j is empty, and a subscript holds a reduction loop beside a free one:
        y[i] = SUM_p h[p] * x[i + p].
        """
        if self.right is None or (self.i and self.j):
            return False
        free = {loop.name for loop in (*self.i, *self.j)}
        summed = {loop.name for loop in self.p}
        places = (names(index) for side in (self.left, self.right) for index in side.access.index)
        return any(place & free and place & summed for place in map(set, places))

    @property
    def algebra(self) -> Algebra | None:
        """What a kernel computes that is all of this contraction.

        None where a prologue or an epilogue, or the initial value, takes loops of its own.
        """
        sides = (self.left, self.right or self.left)
        initial = self._initial()
        accumulator: Expr = Var(ACCUMULATOR, self.dtype)
        is_plain = all(side.is_element(self.dtype) for side in sides)
        is_stored = self.final == cast(accumulator, self.out.dtype)
        is_scaled = isinstance(self.scale, Load)
        if initial is None or not is_plain or not is_stored or (self.scale and not is_scaled):
            return None
        left, right = (x.access.dtype for x in sides)
        times = "first" if self.right is None else self.times
        return Algebra(
            self.plus, times, self.zero, left, right, self.out.dtype, self.dtype, initial, is_scaled
        )

    def _initial(self) -> Initial | None:
        """What the accumulators start from, as far as kernels know of it."""
        old = cast(self.out.load(), self.dtype)
        match self.initial:
            case Const(value=value, dtype=dtype) if dtype == self.dtype:
                return Initial.ZERO if is_same_number(value, self.zero) else None
            case Binary(op="mul", x=Load(index=()), y=y) if y == old:
                return Initial.SCALED
        return Initial.OUT if self.initial == old else None


def is_same_number(one: complex, other: complex) -> bool:
    """Whether two numbers have the same bits in every type: -0.0 is not 0.0, and NaN is NaN."""
    return repr(complex(one)) == repr(complex(other))


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

    def is_run(self, loop: str) -> bool:
        """Whether neighbours along a loop are neighbours along the array's last dimension."""
        steps = self.steps[loop]
        return bool(steps) and steps[-1] == 1 and not any(steps[:-1])


@dataclass(frozen=True, slots=True)
class Factor:
    """One factor of a product: an array element, and the function applied to it when packed."""

    load: Load  # as the first statement of the nest has it
    value: Expr | None  # over Var(ELEMENT), scalars and the loops outside; None: the element itself
    element: ElementIndex
    subscripts: AffineSubscripts

    @property
    def dtype(self) -> DType:
        """The type of the factor as packing finds it."""
        return self.load.dtype if self.value is None else self.value.dtype


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
    plus: str | Expr
    zero: bool | int | float | complex  # identity of plus
    products: tuple[InnerProduct, ...]
    out: Access  # as the first statement of the nest has it
    subscripts: AffineSubscripts  # of out
    is_in_place: bool  # right and out share elements: no other block may write in between

    def algebra(self, product: InnerProduct) -> Algebra:
        """What the kernel of one of the products computes."""
        dtype = self.out.dtype
        return Algebra(
            self.plus,
            product.times,
            self.zero,
            product.first.dtype,
            product.second.dtype,
            dtype,
            dtype,
            Initial.OUT,
            scaled=False,
        )
