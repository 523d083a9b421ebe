"""How to compute each index array and count of a format from the entries it will hold.

A descriptor states what is true of its arrays; here each gets a definition that can be computed:

    StoredArray       f(place) = value          for every entry; `col(k) = j`
    PointerArray      f(x) .. f(x+1)            the positions of a level under parent x; `rowptr`
    CountArray        f(x)                      how many positions a level has under x; `rlen`
    PermutationArray  f                         the places sorted by some keys; `perm` of SELL
    RunningSumArray   f(x+1) = f(x) + step(x)   a prefix sum; `cptr` of SELL
    MaxArray          f(place) >= value         the least array that does; `clen` of SELL

A count is the size of a position level (CountSymbol), the maximum of an array (MaxSymbol) or one of
its elements (LastSymbol). Definitions come in an order in which each uses only those before it,
besides coordinates and positions.
"""

from __future__ import annotations

from dataclasses import field
from typing import TypeAlias

from loopwright.diagnostics import UsageError
from loopwright.lazy_dataclass import dataclass
from loopwright.sparse.format import Format, Invariant
from loopwright.sparse.synthesis.inverse import InverseMap, StoredElement
from loopwright.sparse.synthesis.value_intervals import range_maximum, range_minimum
from loopwright.sparse.uf import (
    Atom,
    Conj,
    Sym,
    Term,
    TupleVar,
    UFCall,
    calls,
    substitute,
    symbols,
    variables,
)

__all__ = [
    "CountArray",
    "CountSymbol",
    "Definition",
    "LastSymbol",
    "MaxArray",
    "MaxSymbol",
    "PermutationArray",
    "PointerArray",
    "RunningSumArray",
    "SortKey",
    "StoredArray",
    "define_arrays",
]


@dataclass(frozen=True)
class StoredArray:
    """array(place) = value, for every entry."""

    array: str
    entries: tuple[StoredElement, ...]


@dataclass(frozen=True)
class PointerArray:
    """array(x) .. array(x+1) are the positions of a level under parent x."""

    array: str
    level: str


@dataclass(frozen=True)
class CountArray:
    """array(x) is how many positions a level has under x."""

    array: str
    level: str


@dataclass(frozen=True)
class SortKey:
    """A term of one place `x` by which places are sorted."""

    term: Term
    falls: bool = False


@dataclass(frozen=True)
class PermutationArray:
    """The places 0 .. count-1 in the order of the keys, ties in their own; `inverse` undoes it."""

    array: str
    inverse: str
    count: Term
    variable: str
    keys: tuple[SortKey, ...]


@dataclass(frozen=True)
class RunningSumArray:
    """array(0) = first, array(x+1) = array(x) + step for 0 <= x < count."""

    array: str
    first: Term
    variable: str
    step: Term
    count: Term


@dataclass(frozen=True)
class MaxArray:
    """The least array >= floor with array(place) >= value for all points of a domain."""

    array: str
    floor: Term
    variables: tuple[str, ...]
    domain: Conj
    place: Term
    value: Term


@dataclass(frozen=True)
class CountSymbol:
    """A count: how many positions a level has altogether."""

    symbol: str
    level: str


@dataclass(frozen=True)
class MaxSymbol:
    """A count: the largest element of an array, 0 at least."""

    symbol: str
    array: str


@dataclass(frozen=True)
class LastSymbol:
    """A count: an element of an array."""

    symbol: str
    element: UFCall


Definition: TypeAlias = (
    StoredArray
    | PointerArray
    | CountArray
    | PermutationArray
    | RunningSumArray
    | MaxArray
    | CountSymbol
    | MaxSymbol
    | LastSymbol
)


def define_arrays(inverse: InverseMap) -> tuple[Definition, ...]:
    """Definitions of all index arrays and counts of a format, each after what it uses.

    Raises UsageError that names an array without a definition and all that is said of it.
    """
    return _Definer(inverse).run()


@dataclass
class _Definer:
    inverse: InverseMap
    found: list[Definition] = field(default_factory=list)
    known: set[str] = field(default_factory=set)  # arrays and symbols

    @property
    def format(self) -> Format:
        return self.inverse.format

    def run(self) -> tuple[Definition, ...]:
        format = self.format
        self.known = {*format.sizes, *(name for name, _ in format.defined)}
        waiting = [index.name for index in format.indices] + list(format.counts)
        while waiting:
            left = [name for name in waiting if not self._define(name)]
            if left == waiting:
                self._refuse(waiting)
            waiting = left
        return tuple(self.found)

    def _define(self, name: str) -> bool:
        ways = (
            (self._count_symbol, self._last_symbol, self._max_symbol)
            if name in self.format.counts
            else (self._bounds, self._stored, self._sorted, self._running, self._max_array)
        )
        for way in ways:
            definition = way(name)
            if definition is not None:
                self.found.append(definition)
                self.known.add(name)
                if isinstance(definition, PermutationArray):
                    self.known.add(definition.inverse)
                return True
        return False

    # -- index arrays -----------------------------------------------------------------------------

    def _bounds(self, name: str) -> Definition | None:
        for level in self.inverse.levels:
            if level.bound.pointer == name:
                return PointerArray(name, level.name)
            if level.bound.length is not None and level.bound.length.name == name:
                return CountArray(name, level.name)
        return None

    def _stored(self, name: str) -> Definition | None:
        entries = tuple(s for s in self.inverse.stored if s.element.name == name)
        if not entries:
            return None
        used = {c.name for s in entries for a in s.element.args for c in calls(a)}
        return StoredArray(name, entries) if used <= self.known else None

    def _sorted(self, name: str) -> Definition | None:
        """From invariants of adjacent elements: key(f(x)) <= key(f(x+1)), and h(f(x)) = h(x)."""
        index = self.format.index(name)
        if not index.inverse or index.rank != 1:
            return None
        outer: list[SortKey] = []
        inner: list[SortKey] = []
        for rule in self.format.invariants:
            key = self._class_key(rule, name)
            if key is not None:
                outer.append(key)
            key = self._sort_key(rule, name)
            if key is not None:
                inner.append(key)
        keys = (*outer, *inner)
        used = {c.name for key in keys for c in calls(key.term)}
        if not keys or not used <= self.known:
            return None
        return PermutationArray(name, index.inverse, index.extents[0], _PLACE, keys)

    def _class_key(self, rule: Invariant, name: str) -> SortKey | None:
        """h(f(x)) = h(x): places stay within the classes of h."""
        found = _single(rule)
        if found is None or not found[1]:
            return None
        x, _, term = found
        inside: dict[Atom, Term] = {
            UFCall(name, (Term.of(TupleVar(x)),)): Term.of(TupleVar(_PLACE))
        }
        moved = substitute(term, inside)
        plain = substitute(moved, {TupleVar(x): Term.of(TupleVar(_PLACE))})
        if moved == term or variables(moved) != {x, _PLACE} or plain.terms:
            return None
        return SortKey(Term.sum((a, f) for a, f in moved.terms if x not in variables(Term.of(a))))

    def _sort_key(self, rule: Invariant, name: str) -> SortKey | None:
        """key(f(x)) >= key(f(x+1)) or <=: an invariant of adjacent elements."""
        found = _single(rule)
        if found is None or found[1]:
            return None
        x, _, term = found
        here = UFCall(name, (Term.of(TupleVar(x)),))
        there = UFCall(name, (Term.of(TupleVar(x)) + 1,))
        one, two = Term.of(TupleVar("_here")), Term.of(TupleVar("_there"))
        moved = substitute(term, {here: one, there: two})
        if variables(moved) != {"_here", "_there"}:
            return None
        first = Term.sum((a, f) for a, f in moved.terms if "_here" in variables(Term.of(a)))
        last = Term.sum((a, f) for a, f in moved.terms if "_there" in variables(Term.of(a)))
        place = Term.of(TupleVar(_PLACE))
        forms = [
            substitute(t, {TupleVar("_here"): place, TupleVar("_there"): place})
            for t in (first, last)
        ]
        if forms[0] != -forms[1]:
            return None
        falls = forms[0].terms[0][1] > 0  # key(here) - key(there) >= 0
        return SortKey(forms[0] if falls else forms[1], falls)

    def _running(self, name: str) -> Definition | None:
        """f(x+1) = f(x) + step(x)."""
        index = self.format.index(name)
        for rule in self.format.invariants:
            found = _single(rule)
            if found is None or not found[1]:
                continue
            x, _, term = found
            here = UFCall(name, (Term.of(TupleVar(x)),))
            there = UFCall(name, (Term.of(TupleVar(x)) + 1,))
            sign = term.coefficient(there)
            if abs(sign) != 1 or term.coefficient(here) != -sign:
                continue
            step = term.without(here).without(there) * -sign
            used = {c.name for c in calls(step)}
            if name not in used and used <= self.known:
                return RunningSumArray(name, self._first(name), x, step, index.extents[0] - 1)
        return None

    def _first(self, name: str) -> Term:
        """The value that an invariant gives to f(0); 0 by default."""
        first = UFCall(name, (Term.of(0),))
        for rule in self.format.invariants:
            if rule.variables or len(rule.conclusion) != 1:
                continue
            for constraint in rule.conclusion[0].constraints:
                factor = constraint.term.coefficient(first)
                if constraint.is_equality and abs(factor) == 1:
                    return constraint.term.without(first) * -factor
        return Term.of(0)

    def _max_array(self, name: str) -> Definition | None:
        """value(x) <= f(place(x)) for all x of a domain, and nothing else bounds f from below."""
        for rule in self.format.invariants:
            if len(rule.conclusion) != 1 or len(rule.premise) > 1:
                continue
            for constraint in rule.conclusion[0].constraints:
                elements = [c for c in calls(constraint.term) if c.name == name]
                if constraint.is_equality or len(elements) != 1 or len(elements[0].args) != 1:
                    continue
                if constraint.term.coefficient(elements[0]) != 1:
                    continue
                value = -constraint.term.without(elements[0])
                used = {c.name for t in (value, *elements[0].args) for c in calls(t)}
                if not used <= self.known:
                    continue
                domain = rule.premise[0] if rule.premise else Conj()
                floor = range_minimum(self.format.index(name)) or Term.of(0)
                place = elements[0].args[0]
                return MaxArray(name, floor, rule.variables, domain, place, value)
        return None

    # -- counts -----------------------------------------------------------------------------------

    def _count_symbol(self, name: str) -> Definition | None:
        for level in self.inverse.levels:
            if level.bound.count == name:
                return CountSymbol(name, level.name)
            if level.bound.pointer:
                index = self.format.index(level.bound.pointer)
                last = UFCall(index.name, (index.extents[0] - 1,))
                if self._is_stated(Term.of(Sym(name)) - Term.of(last)):
                    return CountSymbol(name, level.name)
        return None

    def _last_symbol(self, name: str) -> Definition | None:
        for rule in self.format.invariants:
            if rule.variables or len(rule.conclusion) != 1:
                continue
            for constraint in rule.conclusion[0].constraints:
                rest = constraint.term.without(Sym(name))
                factor = constraint.term.coefficient(Sym(name))
                element = (rest * -factor).atom
                if (
                    not constraint.is_equality
                    or abs(factor) != 1
                    or not isinstance(element, UFCall)
                ):
                    continue
                if element.name in self.known and symbols(rest) <= self.known:
                    return LastSymbol(name, element)
        return None

    def _max_symbol(self, name: str) -> Definition | None:
        for index in self.format.indices:
            if index.name in self.known and range_maximum(index) == Term.of(Sym(name)):
                return MaxSymbol(name, index.name)
        return None

    def _is_stated(self, term: Term) -> bool:
        """Whether an invariant says that a term is 0."""
        return any(
            constraint.is_equality and constraint.term in (term, -term)
            for rule in self.format.invariants
            if not rule.variables and len(rule.conclusion) == 1
            for constraint in rule.conclusion[0].constraints
        )

    def _refuse(self, waiting: list[str]) -> None:
        name = waiting[0]
        said = [str(s) for s in self.inverse.stored if s.element.name == name]
        said += [
            str(c)
            for conj in (*self.format.map.conjs, *self.format.access.conjs)
            for c in conj.constraints
            if name in {call.name for call in calls(c.term)} | symbols(c.term)
        ]
        said += [rule.text for rule in self.format.invariants if name in _named(rule)]
        others = f" (nor do {', '.join(waiting[1:])})" if waiting[1:] else ""
        raise UsageError(
            f"{self.format.name}: '{name}' does not follow from the entries{others}",
            found=" and ".join(dict.fromkeys(said)) or "nothing is said of it",
            hint=f"an invariant that gives '{name}', such as f(x+1) = f(x) + g(x)",
        )


_PLACE = "place"


def _single(rule: Invariant) -> tuple[str, bool, Term] | None:
    """The variable, the kind and the term of an invariant with one variable and one constraint."""
    if len(rule.variables) != 1 or len(rule.conclusion) != 1:
        return None
    constraints = rule.conclusion[0].constraints
    if len(constraints) != 1:
        return None
    return rule.variables[0], constraints[0].is_equality, constraints[0].term


def _named(rule: Invariant) -> set[str]:
    """The functions and symbols in an invariant."""
    terms = [c.term for conj in (*rule.premise, *rule.conclusion) for c in conj.constraints]
    return {name for t in terms for name in {call.name for call in calls(t)} | symbols(t)}
