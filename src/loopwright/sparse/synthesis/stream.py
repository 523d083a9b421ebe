"""Streams of entries: a set of tuples with the dense coordinates and the value of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Binary, Cast, Expr
from loopwright.sparse.spf.computation import Stmt
from loopwright.sparse.synthesis.numbering import Numbering
from loopwright.sparse.synthesis.order import Order
from loopwright.sparse.synthesis.ranges import Span, span
from loopwright.sparse.synthesis.stages import Builder, Learnt, Same, element
from loopwright.sparse.synthesis.told import Told
from loopwright.sparse.uf import (
    Atom,
    Call,
    Conj,
    Constraint,
    IntegerSet,
    Linear,
    Var,
    substitute,
)

__all__ = ["Sizes", "Stream", "cast", "once", "over", "running", "running_sum"]


@dataclass(frozen=True)
class Sizes:
    """What is known of the coordinates: their spans, and the bits of their sizes."""

    spans: Mapping[str, Span]
    bits: Mapping[str, int]  # that the largest coordinate has
    wide: frozenset[str] = frozenset()  # coordinates with too many values to count each

    def key(self, term: Linear) -> Span | None:
        """The span of a key whose values can be counted."""
        names = {a.name for a, _ in term.terms if isinstance(a, Var)}
        return None if names & self.wide else span(term, self.spans)


@dataclass(frozen=True)
class Stream:
    """Tuples of a set in lexicographic order, each with an entry where `guard` holds."""

    domain: IntegerSet
    coordinates: Mapping[str, Linear]  # dense coordinate -> term over the variables of the domain
    values: str  # the array of values
    place: Linear  # of the value
    guard: Expr | None  # over the variables of the domain
    order: Order  # over the dense coordinates
    is_unique: bool
    count: Linear | None = None  # of entries, where the domain is 0 <= e < count and nothing else
    numbering: Numbering | None = None  # of the tuples, where a variable tells it
    told: Told | None = None  # by the sort

    @property
    def position(self) -> Numbering | None:
        """The number of an entry among all, where each tuple has one and some variable counts."""
        if self.guard is not None:
            return None
        if self.count is not None:
            return Numbering(Linear.of(Var(self.domain.variables[0])), self.count)
        return self.numbering

    def looked_up(self, term: Linear) -> Linear:
        """A variable of the tuples as the element that it is; another term as it is."""
        name = term.atom
        if not isinstance(name, Var):
            return term
        for constraint in self.domain.conjs[0].equalities:
            factor = constraint.term.coefficient(name)
            rest = constraint.term.without(name) * -factor
            if abs(factor) == 1 and isinstance(rest.atom, Call):
                return rest
        return term

    def term(self, of: Linear) -> Linear:
        """A term over dense coordinates as one over the variables of the domain."""
        values: dict[Atom, Linear] = {Var(c): value for c, value in self.coordinates.items()}
        return substitute(of, values)

    def each(
        self, name: str, at: int, target: Linear, value: Expr, guard: Expr | None = None
    ) -> Stmt:
        """target = value for every entry; `at` orders the statements of one entry."""
        place = target.atom
        assert isinstance(place, Call), f"{target} is no element"
        both = self.guard if guard is None else guard
        if self.guard is not None and guard is not None:
            both = Binary("and", self.guard, guard)
        loops = (Linear.of(Var(v)) for v in self.domain.variables)
        times = (Linear.of(1), *loops, Linear.of(at))
        return Stmt(name, self.domain, times, place.name, place.args, value, both)


def once(name: str, target: Linear, value: Expr, time: int = 0) -> Stmt:
    """target = value once: before the entries at time 0, after them at time 2."""
    place = target.atom
    assert isinstance(place, Call), f"{target} is no element"
    return Stmt(name, IntegerSet((), (Conj(),)), (Linear.of(time),), place.name, place.args, value)


def over(variable: str, count: Linear) -> IntegerSet:
    """{ [variable] : 0 <= variable < count }"""
    x = Linear.of(Var(variable))
    return IntegerSet((variable,), (Conj.of([Constraint.ge(x), Constraint.lt(x, count)]),))


def cast(value: Expr, dtype: DType) -> Expr:
    return value if value.dtype == dtype else Cast(value, dtype)


def running_sum(
    builder: Builder, array: str, count: Linear, *learnt: Learnt, copy: str = ""
) -> None:
    """array[x+1] += array[x] for 0 <= x < count; `copy` gets what array[x] has become."""
    running(builder, "add", array, count, *learnt, copy=copy)


def running(
    builder: Builder,
    op: str,
    array: str,
    count: Linear,
    *learnt: Learnt,
    copy: str = "",
    same: Same | None = None,
) -> None:
    """array[x+1] = array[x+1] op array[x]; see `running_sum`."""
    x, domain = Linear.of(Var("x")), over("x", count)
    here, there = element(array, x), element(array, x + 1)
    name = "sum" if op == "add" else op
    value = Binary(op, builder.load(there), builder.load(here))
    body = [Stmt(name, domain, (x, Linear.of(1)), array, (x + 1,), value)]
    if copy:
        body.append(Stmt("copy", domain, (x, Linear.of(0)), copy, (x,), builder.load(here)))
    builder.stage(name, body, learnt, same)
