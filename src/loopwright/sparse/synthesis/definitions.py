"""What every index array and count of a format is, in terms of the entries it is to hold.

A descriptor says what is true of its arrays; here each becomes something to compute. The kinds:

    Held        f(place) = value              for every entry; `col(k) = j`
    Segments    f(x) .. f(x+1)                the numbers that a rank has under parent x; `rowptr`
    Lengths     f(x)                          how many numbers a rank has under x; `rlen`
    Sorted      f                             the places in the order of some keys; `perm` of SELL
    Running     f(x+1) = f(x) + step(x)       a running sum; `cptr` of SELL
    Largest     f(place) >= value             the least array that does; `clen` of SELL

and for counts: Number of a rank, Most of an array, End of an array. They are found in an order in
which each uses only what comes before it, beside coordinates and ranks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from loopwright.diagnostics import UsageError
from loopwright.sparse.format import Format, Rule
from loopwright.sparse.synthesis.inverse import Inverse, Stored
from loopwright.sparse.synthesis.ranges import least, most
from loopwright.sparse.uf import (
    Atom,
    Call,
    Conj,
    Linear,
    Sym,
    Var,
    calls,
    substitute,
    symbols,
    variables,
)

__all__ = [
    "Definition",
    "End",
    "Held",
    "Key",
    "Largest",
    "Lengths",
    "Most",
    "Number",
    "Running",
    "Segments",
    "Sorted",
    "define",
]


@dataclass(frozen=True)
class Held:
    """array(place) = value, for every entry."""

    array: str
    entries: tuple[Stored, ...]


@dataclass(frozen=True)
class Segments:
    """array(x) .. array(x+1) are the numbers of a rank under parent x."""

    array: str
    rank: str


@dataclass(frozen=True)
class Lengths:
    """array(x) is how many numbers a rank has under x."""

    array: str
    rank: str


@dataclass(frozen=True)
class Key:
    """A term of one place `x` by which places are sorted."""

    term: Linear
    falls: bool = False


@dataclass(frozen=True)
class Sorted:
    """The places 0 .. count-1 in the order of the keys, ties in their own; `inverse` undoes it."""

    array: str
    inverse: str
    count: Linear
    variable: str
    keys: tuple[Key, ...]


@dataclass(frozen=True)
class Running:
    """array(0) = first, array(x+1) = array(x) + step for 0 <= x < count."""

    array: str
    first: Linear
    variable: str
    step: Linear
    count: Linear


@dataclass(frozen=True)
class Largest:
    """The least array >= floor with array(place) >= value for all points of a domain."""

    array: str
    floor: Linear
    variables: tuple[str, ...]
    domain: Conj
    place: Linear
    value: Linear


@dataclass(frozen=True)
class Number:
    """A count: how many numbers a rank has altogether."""

    symbol: str
    rank: str


@dataclass(frozen=True)
class Most:
    """A count: the largest element of an array, 0 at least."""

    symbol: str
    array: str


@dataclass(frozen=True)
class End:
    """A count: an element of an array."""

    symbol: str
    element: Call


Definition: TypeAlias = Held | Segments | Lengths | Sorted | Running | Largest | Number | Most | End


def define(inverse: Inverse) -> tuple[Definition, ...]:
    """Definitions of all index arrays and counts of a format, each after what it uses.

    Raises UsageError that names an array without a definition and all that is said of it.
    """
    return _Definer(inverse).run()


@dataclass
class _Definer:
    inverse: Inverse
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
            (self._number, self._end, self._most)
            if name in self.format.counts
            else (self._bounds, self._held, self._sorted, self._running, self._largest)
        )
        for way in ways:
            definition = way(name)
            if definition is not None:
                self.found.append(definition)
                self.known.add(name)
                if isinstance(definition, Sorted):
                    self.known.add(definition.inverse)
                return True
        return False

    # -- index arrays -----------------------------------------------------------------------------

    def _bounds(self, name: str) -> Definition | None:
        for rank in self.inverse.ranks:
            if rank.bound.pointer == name:
                return Segments(name, rank.name)
            if rank.bound.length is not None and rank.bound.length.name == name:
                return Lengths(name, rank.name)
        return None

    def _held(self, name: str) -> Definition | None:
        entries = tuple(s for s in self.inverse.stored if s.element.name == name)
        if not entries:
            return None
        used = {c.name for s in entries for a in s.element.args for c in calls(a)}
        return Held(name, entries) if used <= self.known else None

    def _sorted(self, name: str) -> Definition | None:
        """From rules of neighbours: key(f(x)) <= key(f(x+1)), and h(f(x)) = h(x)."""
        index = self.format.index(name)
        if not index.inverse or index.rank != 1:
            return None
        outer: list[Key] = []
        inner: list[Key] = []
        for rule in self.format.rules:
            key = self._kept(rule, name)
            if key is not None:
                outer.append(key)
            key = self._compared(rule, name)
            if key is not None:
                inner.append(key)
        keys = (*outer, *inner)
        used = {c.name for key in keys for c in calls(key.term)}
        if not keys or not used <= self.known:
            return None
        return Sorted(name, index.inverse, index.extents[0], _PLACE, keys)

    def _kept(self, rule: Rule, name: str) -> Key | None:
        """h(f(x)) = h(x): places stay within the parts that h makes."""
        found = _single(rule)
        if found is None or not found[1]:
            return None
        x, _, term = found
        inside: dict[Atom, Linear] = {Call(name, (Linear.of(Var(x)),)): Linear.of(Var(_PLACE))}
        moved = substitute(term, inside)
        plain = substitute(moved, {Var(x): Linear.of(Var(_PLACE))})
        if moved == term or variables(moved) != {x, _PLACE} or plain.terms:
            return None
        return Key(Linear.sum((a, f) for a, f in moved.terms if x not in variables(Linear.of(a))))

    def _compared(self, rule: Rule, name: str) -> Key | None:
        """key(f(x)) >= key(f(x+1)) or <=: what is told of neighbours."""
        found = _single(rule)
        if found is None or found[1]:
            return None
        x, _, term = found
        here = Call(name, (Linear.of(Var(x)),))
        there = Call(name, (Linear.of(Var(x)) + 1,))
        one, two = Linear.of(Var("_here")), Linear.of(Var("_there"))
        moved = substitute(term, {here: one, there: two})
        if variables(moved) != {"_here", "_there"}:
            return None
        first = Linear.sum((a, f) for a, f in moved.terms if "_here" in variables(Linear.of(a)))
        last = Linear.sum((a, f) for a, f in moved.terms if "_there" in variables(Linear.of(a)))
        place = Linear.of(Var(_PLACE))
        forms = [substitute(t, {Var("_here"): place, Var("_there"): place}) for t in (first, last)]
        if forms[0] != -forms[1]:
            return None
        falls = forms[0].terms[0][1] > 0  # key(here) - key(there) >= 0
        return Key(forms[0] if falls else forms[1], falls)

    def _running(self, name: str) -> Definition | None:
        """f(x+1) = f(x) + step(x)."""
        index = self.format.index(name)
        for rule in self.format.rules:
            found = _single(rule)
            if found is None or not found[1]:
                continue
            x, _, term = found
            here = Call(name, (Linear.of(Var(x)),))
            there = Call(name, (Linear.of(Var(x)) + 1,))
            sign = term.coefficient(there)
            if abs(sign) != 1 or term.coefficient(here) != -sign:
                continue
            step = term.without(here).without(there) * -sign
            used = {c.name for c in calls(step)}
            if name not in used and used <= self.known:
                return Running(name, self._first(name), x, step, index.extents[0] - 1)
        return None

    def _first(self, name: str) -> Linear:
        """What a rule says of f(0); 0 unless told otherwise."""
        first = Call(name, (Linear.of(0),))
        for rule in self.format.rules:
            if rule.variables or len(rule.conclusion) != 1:
                continue
            for constraint in rule.conclusion[0].constraints:
                factor = constraint.term.coefficient(first)
                if constraint.is_equality and abs(factor) == 1:
                    return constraint.term.without(first) * -factor
        return Linear.of(0)

    def _largest(self, name: str) -> Definition | None:
        """value(x) <= f(place(x)) for all x of a domain, and nothing else bounds f from below."""
        for rule in self.format.rules:
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
                floor = least(self.format.index(name)) or Linear.of(0)
                place = elements[0].args[0]
                return Largest(name, floor, rule.variables, domain, place, value)
        return None

    # -- counts -----------------------------------------------------------------------------------

    def _number(self, name: str) -> Definition | None:
        for rank in self.inverse.ranks:
            if rank.bound.count == name:
                return Number(name, rank.name)
            if rank.bound.pointer:
                index = self.format.index(rank.bound.pointer)
                last = Call(index.name, (index.extents[0] - 1,))
                if self._is_told(Linear.of(Sym(name)) - Linear.of(last)):
                    return Number(name, rank.name)
        return None

    def _end(self, name: str) -> Definition | None:
        for rule in self.format.rules:
            if rule.variables or len(rule.conclusion) != 1:
                continue
            for constraint in rule.conclusion[0].constraints:
                rest = constraint.term.without(Sym(name))
                factor = constraint.term.coefficient(Sym(name))
                element = (rest * -factor).atom
                if not constraint.is_equality or abs(factor) != 1 or not isinstance(element, Call):
                    continue
                if element.name in self.known and symbols(rest) <= self.known:
                    return End(name, element)
        return None

    def _most(self, name: str) -> Definition | None:
        for index in self.format.indices:
            if index.name in self.known and most(index) == Linear.of(Sym(name)):
                return Most(name, index.name)
        return None

    def _is_told(self, term: Linear) -> bool:
        """Whether a rule says that a term is 0."""
        return any(
            constraint.is_equality and constraint.term in (term, -term)
            for rule in self.format.rules
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
        said += [rule.text for rule in self.format.rules if name in _named(rule)]
        others = f" (nor do {', '.join(waiting[1:])})" if waiting[1:] else ""
        raise UsageError(
            f"{self.format.name}: '{name}' does not follow from the entries{others}",
            found=" and ".join(dict.fromkeys(said)) or "nothing is said of it",
            hint=f"a rule that gives '{name}', such as f(x+1) = f(x) + g(x)",
        )


_PLACE = "place"


def _single(rule: Rule) -> tuple[str, bool, Linear] | None:
    """The variable, the kind and the term of a rule of one variable and one constraint."""
    if len(rule.variables) != 1 or len(rule.conclusion) != 1:
        return None
    constraints = rule.conclusion[0].constraints
    if len(constraints) != 1:
        return None
    return rule.variables[0], constraints[0].is_equality, constraints[0].term


def _named(rule: Rule) -> set[str]:
    """The functions and symbols that a rule speaks of."""
    terms = [c.term for conj in (*rule.premise, *rule.conclusion) for c in conj.constraints]
    return {name for t in terms for name in {call.name for call in calls(t)} | symbols(t)}
