"""Program: what a tensor program means, before any decision on how to run it.

A Program is a set of statements, each executed once for every integer point of its domain, in the
order of its schedule tree. Analyses of it (dependences, reductions, contractions) are computed by
`analysis` and owned by its schedules, never stored here.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from loopwright.diagnostics import Span
from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Binary, Expr, Load
from loopwright.ir.visit import loads, substitute
from loopwright.lazy_dataclass import dataclass
from loopwright.memo import computed_once

# Arrays and accesses serve calls of cached kernels too, which must not load isl.
if TYPE_CHECKING:
    from loopwright.ir.islkit import IslSchedule, IslSet

__all__ = [
    "Access",
    "Array",
    "DeclaredReduction",
    "Program",
    "Role",
    "Statement",
    "apply_operator",
]


class Role(Enum):
    """How the world outside the program sees an array."""

    IN = "in"  # read only
    OUT = "out"  # contents on entry are irrelevant
    INOUT = "inout"  # read and written
    LOCAL = "local"  # invisible outside


@dataclass(frozen=True, slots=True)
class Array:
    """A named array of affine extents; a scalar is an array of rank 0."""

    name: str
    dtype: DType
    shape: tuple[Expr, ...]  # extents, int64 expressions affine in the parameters
    role: Role

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass(frozen=True, slots=True)
class Access:
    """One element of an array, subscripts affine in the iterators and parameters."""

    array: str
    index: tuple[Expr, ...]
    dtype: DType

    def load(self) -> Load:
        return Load(self.array, self.index, self.dtype)


@dataclass(frozen=True, slots=True)
class DeclaredReduction:
    """How a front end says that a statement updates its element x:

        x = x  plus  scale * (first times second)

    plus is associative and commutative by declaration: a user's semiring says so, and no analysis
    could find it in an expression. Whoever uses this compares `value` with the statement's.
    """

    plus: str | Expr  # operator of ir/expr, or an expression over Var("x"), Var("y")
    times: str | Expr
    zero: bool | int | float | complex  # identity of plus
    factors: tuple[Expr, ...]  # one or two
    scale: Expr | None = None

    @property
    def term(self) -> Expr:
        """What is added to the element."""
        first, *rest = self.factors
        term = apply_operator(self.times, first, rest[0]) if rest else first
        return term if self.scale is None else Binary("mul", self.scale, term)

    def value(self, element: Load) -> Expr:
        """The new value of the element."""
        return apply_operator(self.plus, element, self.term)


def apply_operator(op: str | Expr, x: Expr, y: Expr) -> Expr:
    """`x op y` for an operator name, `op` with x and y filled in for an expression."""
    return Binary(op, x, y) if isinstance(op, str) else substitute(op, {"x": x, "y": y})


@dataclass(frozen=True)
class Statement:
    """`write = value`, executed for every point of `domain`."""

    name: str
    iterators: tuple[str, ...]  # names of the domain's dimensions, outermost first
    domain: IslSet  # [params] -> { name[iterators] : ... }
    write: Access
    value: Expr  # may contain Load of any array, also of the one written
    span: Span | None = None  # where the user wrote it
    declared: DeclaredReduction | None = None  # what the front end knows of its value

    @property
    def reduction(self) -> DeclaredReduction | None:
        """What was declared, as long as the value is the one it was declared of."""
        declared = self.declared
        if declared is None or declared.value(self.write.load()) != self.value:
            return None
        return declared

    @computed_once
    def reads(self) -> tuple[Access, ...]:
        """Every access of the right-hand side, each once, in order of appearance."""
        return tuple(Access(x.array, x.index, x.dtype) for x in loads(self.value))


@dataclass(frozen=True)
class Program:
    """Statements over arrays, with the order the user gave them."""

    name: str
    params: tuple[str, ...]  # symbolic sizes, int64
    arrays: tuple[Array, ...]
    statements: tuple[Statement, ...]
    schedule: IslSchedule  # source order; each band has one member and is named after its loop
    context: IslSet  # [params] -> { : what is known of the parameters }
    reassoc: bool = False  # floating sums and products may be reassociated

    @computed_once
    def _arrays_by_name(self) -> dict[str, Array]:
        return {array.name: array for array in self.arrays}

    @computed_once
    def _statements_by_name(self) -> dict[str, Statement]:
        return {statement.name: statement for statement in self.statements}

    def array(self, name: str) -> Array:
        return self._arrays_by_name[name]

    def statement(self, name: str) -> Statement:
        return self._statements_by_name[name]
