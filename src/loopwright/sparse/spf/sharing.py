"""Nouns of computations in shares: what is cut, what is counted by shares, what is known around."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Expr
from loopwright.sparse.spf.computation import Computation, DataSpace
from loopwright.sparse.uf import IntegerSet, Linear

__all__ = ["Around", "Sharing", "Split", "Tally"]


@dataclass(frozen=True)
class Split:
    """The range that is cut, and the arrays that tell the work in it: g(f(v)) before v."""

    low: Linear
    high: Linear
    pointers: tuple[str, ...] = ()
    together: tuple[str, ...] = ()  # where all these are equal at v-1 and v, nothing is cut


@dataclass(frozen=True)
class Tally:
    """A count by shares: row[t, index] entries of a domain lie in the shares before t."""

    array: str
    row: str
    dtype: DType
    extent: Linear
    domain: IntegerSet
    guard: Expr | None
    index: Linear


@dataclass(frozen=True)
class Around:
    """What is known of the arrays outside of a computation."""

    dead: frozenset[str] = frozenset()  # nobody reads them afterwards
    apart: frozenset[str] = frozenset()  # iterations touch different elements of these
    together: tuple[str, ...] = ()  # except those that agree in the elements of these
    inner: frozenset[str] = frozenset()  # what an iteration has put into these, no other reads
    tallies: tuple[Tally, ...] = ()  # counts by shares that are there
    ranked: Mapping[str, Tally] = field(default_factory=dict)  # running sums of counts
    counted: frozenset[str] = frozenset()  # zeros before; their count by shares is asked for


@dataclass(frozen=True)
class Sharing:
    """A computation in shares."""

    computation: Computation
    split: Split  # what is cut
    entries: Split  # the loop, which tells the work
    shares: str  # the symbol that says how many there are
    cut: str  # the array that says where they begin
    rows: tuple[DataSpace, ...]  # to be made anew, undefined
    used: tuple[Tally, ...]  # counts of before, used up
    made: tuple[Tally, ...]
    longest: Linear  # elements in the rows of one share
    is_light: bool  # nothing is moved: running sums, and numbers that are counted or compared
    notes: tuple[str, ...]  # how shares meet

    def __str__(self) -> str:
        return "; ".join(self.notes) or "iterations touch different elements"
