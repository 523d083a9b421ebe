"""The least and the largest value of a term over dense coordinates, as terms over sizes."""

from __future__ import annotations

from collections.abc import Mapping

from loopwright.lazy_dataclass import dataclass
from loopwright.sparse.format import Index
from loopwright.sparse.uf import Floor, Sym, Term, TupleVar, UFCall

__all__ = ["Interval", "interval_of", "range_maximum", "range_minimum"]


@dataclass(frozen=True)
class Interval:
    """low <= term <= high"""

    low: Term
    high: Term

    @property
    def count(self) -> Term:
        """How many values there are at most."""
        return self.high - self.low + 1


def interval_of(term: Term, known: Mapping[str, Interval]) -> Interval | None:
    """The span of a term; `known` has those of variables and index arrays.

    None where the term is no sum of coordinates and quotients by constants: along a curve, say.
    """
    remainder = _remainder(term)
    if remainder is not None:
        return Interval(Term.of(0), Term.of(remainder - 1))
    low = high = Term.of(term.constant)
    for atom, factor in term.terms:
        match atom:
            case TupleVar(name=name) if name in known:
                found: Interval | None = known[name]
            case UFCall(name=name) if name in known:
                found = known[name]
            case Sym():
                found = Interval(Term.of(atom), Term.of(atom))
            case Floor(x=x, by=by) if by.is_constant:
                inner = interval_of(x, known)
                found = inner and Interval(inner.low.floor(by), inner.high.floor(by))
            case _:
                found = None
        if found is None:
            return None
        first, last = (found.low, found.high) if factor > 0 else (found.high, found.low)
        low, high = low + first * factor, high + last * factor
    return Interval(low, high)


def _remainder(term: Term) -> int | None:
    """c where the term is x mod c, that is x - c*floor(x/c)."""
    floors = [(atom, factor) for atom, factor in term.terms if isinstance(atom, Floor)]
    if len(floors) != 1:
        return None
    (atom, factor) = floors[0]
    if not atom.by.is_constant or factor != -atom.by.constant or term.without(atom) != atom.x:
        return None
    return atom.by.constant


def range_minimum(index: Index) -> Term | None:
    """The least value that the range of an index array allows, where it says one."""
    bound = _bound(index, 1)
    return None if bound is None else -bound


def range_maximum(index: Index) -> Term | None:
    """The largest value that the range of an index array allows, where it says one."""
    return _bound(index, -1)


def _bound(index: Index, sign: int) -> Term | None:
    """b where the range says sign*value + b >= 0."""
    (name,) = index.range.variables
    for conj in index.range.conjs:
        for constraint in conj.constraints:
            if not constraint.is_equality and constraint.term.coefficient(TupleVar(name)) == sign:
                return constraint.term.without(TupleVar(name))
    return None
