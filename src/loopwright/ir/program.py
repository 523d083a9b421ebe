"""Program: what a tensor program means, before any decision on how to run it.

A Program is a set of statements, each executed once for every integer point of its domain, in the
order of its schedule tree. Analyses of it (dependences, reductions, contractions) are computed by
`analysis` and owned by its schedules, never stored here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from loopwright.diagnostics import Span
from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Expr, Load
from loopwright.ir.walk import loads

# Arrays and accesses serve calls of cached kernels too, which must not load isl.
if TYPE_CHECKING:
    from loopwright.ir.islkit import IslSchedule, IslSet

__all__ = ["Access", "Array", "Program", "Role", "Statement"]


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
class Statement:
    """`write = value`, executed for every point of `domain`."""

    name: str
    iterators: tuple[str, ...]  # names of the domain's dimensions, outermost first
    domain: IslSet  # [params] -> { name[iterators] : ... }
    write: Access
    value: Expr  # may contain Load of any array, also of the one written
    span: Span | None = None  # where the user wrote it

    @property
    def reads(self) -> tuple[Access, ...]:
        """Every access of the right-hand side, each once, in order of appearance."""
        return tuple(Access(x.array, x.index, x.dtype) for x in loads(self.value))


@dataclass(frozen=True, slots=True)
class Program:
    """Statements over arrays, with the order the user gave them."""

    name: str
    params: tuple[str, ...]  # symbolic sizes, int64
    arrays: tuple[Array, ...]
    statements: tuple[Statement, ...]
    schedule: IslSchedule  # source order; each band has one member and is named after its loop
    context: IslSet  # [params] -> { : what is known of the parameters }
    reassoc: bool = False  # floating sums and products may be reassociated

    def array(self, name: str) -> Array:
        return next(a for a in self.arrays if a.name == name)

    def statement(self, name: str) -> Statement:
        return next(s for s in self.statements if s.name == name)
