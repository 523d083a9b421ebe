"""Invert a format's map: which tuple of the storage holds given dense coordinates.

The map R takes tuples of the storage to dense coordinates x. Read backwards, each variable of the
storage is solved for, from equalities alone where they suffice:

    t = f(x)                            an equality with t alone
    q = floor(e/c), r = e mod c         e = c*q + r with 0 <= r < c
    z = g(e)                            f(z) = e, where g undoes f

What is left are *position levels*: variables that count. A level t numbers the groups of entries
that agree in its keys, the terms that index arrays hold at t: `off(d) = j-i` makes d the number of
a diagonal, `col(k) = j` with `rowptr(i) <= k < rowptr(i+1)` makes k number the entries of row i.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from loopwright.diagnostics import UsageError
from loopwright.lazy_dataclass import dataclass
from loopwright.sparse.format import Format
from loopwright.sparse.uf import (
    Atom,
    Constraint,
    Sym,
    Term,
    TupleVar,
    UFCall,
    atoms,
    calls,
    substitute,
    variables,
)

__all__ = [
    "InverseMap",
    "LevelBound",
    "PositionLevel",
    "StoredElement",
    "determines",
    "invert",
    "read_at",
]


@dataclass(frozen=True)
class StoredElement:
    """An element of an index array and the number that stands there."""

    element: UFCall
    value: Term

    def __str__(self) -> str:
        return f"{self.element} = {self.value}"


@dataclass(frozen=True)
class LevelBound:
    """The range of a level: from 0 to a count or a length, or between two entries of a pointer."""

    count: str = ""  # 0 <= t < count, a symbol
    length: UFCall | None = None  # 0 <= t < length
    pointer: str = ""  # pointer(parent) <= t < pointer(parent+1)
    parent: Term | None = None

    @property
    def is_local(self) -> bool:
        """Whether positions start from 0 in each group of the outer levels."""
        return self.length is not None


@dataclass(frozen=True)
class PositionLevel:
    """A variable of the storage that numbers groups of entries."""

    name: str
    bound: LevelBound
    keys: tuple[Term, ...]  # what index arrays hold at it
    group: tuple[Term, ...]  # entries that agree in these, functions of x, share a number
    is_entry: bool  # whether such entries have all coordinates in common


@dataclass(frozen=True)
class InverseMap:
    """A tuple of the storage in terms of dense coordinates, positions and index arrays."""

    format: Format
    values: tuple[tuple[str, Term], ...]  # variables of the storage that are no position levels
    levels: tuple[PositionLevel, ...]  # outer ones first
    stored: tuple[StoredElement, ...]
    place: Term  # of the entry in the values

    def level(self, name: str) -> PositionLevel:
        return next(level for level in self.levels if level.name == name)

    def __str__(self) -> str:
        lines = [f"{name} = {value}" for name, value in self.values]
        lines += [f"{r.name} numbers ({', '.join(map(str, r.group))})" for r in self.levels]
        lines += map(str, self.stored)
        return "\n".join([*lines, f"place = {self.place}"])


def invert(format: Format) -> InverseMap:
    """The inverse of a format's map; UsageError naming what cannot be solved for."""
    if len(format.map.conjs) != 1 or len(format.access.conjs) != 1:
        raise UsageError(
            f"{format.name} stores entries in several ways at once",
            found=str(format.map),
            hint="a map with a single conjunction",
        )
    return _Solver(format).solve()


@dataclass
class _Solver:
    format: Format
    values: dict[Atom, Term] = field(default_factory=dict)  # of variables and of index arrays
    levels: list[str] = field(default_factory=list)
    open: list[Term] = field(default_factory=list)  # terms that are 0
    bounds: list[Term] = field(default_factory=list)  # terms that are >= 0

    def solve(self) -> InverseMap:
        format = self.format
        for conj in (*format.map.conjs, *format.access.conjs):
            for constraint in conj.constraints:
                (self.open if constraint.is_equality else self.bounds).append(constraint.term)
        waiting = [*format.variables, *format.access.outputs]
        while True:
            while self._step():
                pass
            left = [name for name in waiting if not self._is_known(TupleVar(name))]
            if not left:
                break
            # Levels are what arrays are indexed by; the leftmost one is the outermost.
            read = {
                n for t in self.open for call in calls(t) for a in call.args for n in variables(a)
            }
            chosen = next((name for name in left if name in read), "")
            if not chosen:
                self._refuse(left[0])
            self.levels.append(chosen)
        self._use_invariants()
        place = self._settled(Term.of(TupleVar(format.access.outputs[0])))
        names = [name for name in format.variables if name not in self.levels]
        stored = tuple(
            StoredElement(settled, self._settled(value))
            for atom, value in self.values.items()
            if isinstance(settled := self._settled(Term.of(atom)).atom, UFCall)
            and isinstance(atom, UFCall)
        )
        levels: list[PositionLevel] = []
        for name in self.levels:
            levels.append(self._level(name, stored, levels))
        values = tuple((name, self._settled(Term.of(TupleVar(name)))) for name in names)
        return InverseMap(format, values, tuple(levels), stored, place)

    # -- solving ----------------------------------------------------------------------------------

    def _is_known(self, atom: Atom) -> bool:
        """Whether an atom depends only on coordinates, sizes, positions and solved variables."""
        known = {*self.format.coordinates, *self.levels}
        return all(
            name in known or TupleVar(name) in self.values for name in variables(Term.of(atom))
        )

    def _settled(self, term: Term) -> Term:
        """A term without solved variables."""
        solved: dict[Atom, Term] = {a: v for a, v in self.values.items() if isinstance(a, TupleVar)}
        before = None
        while term != before:
            before, term = term, substitute(term, solved)
        return term

    def _step(self) -> bool:
        """Solve for something by one equality; False when none helps."""
        self.open = [t for t in map(self._settled, self.open) if t.terms]
        for rule in (self._direct, self._inverted, self._divided, self._stored_value):
            for term in self.open:
                found = rule(term)
                if found:
                    self.values |= found
                    self.open.remove(term)
                    return True
        return False

    def _arrays(self, term: Term) -> list[UFCall]:
        """Calls of the format's index arrays in a term, inner ones included."""
        names = {index.name for index in self.format.indices}
        return [call for call in calls(term) if call.name in names]

    def _direct(self, term: Term) -> dict[Atom, Term] | None:
        """t = f(x): the one unknown variable, outside of all calls."""
        unknown = variables(term) - {*self.format.coordinates, *self.levels}
        if len(unknown) != 1:
            return None
        atom = TupleVar(next(iter(unknown)))
        factor = term.coefficient(atom)
        rest = term.without(atom)
        is_inside = atom.name in variables(rest)
        # A variable that an index array gives may follow from the coordinates all the same.
        is_place = atom.name in self.format.access.outputs
        if abs(factor) != 1 or is_inside or (self._arrays(rest) and not is_place):
            return None
        return {atom: rest * -factor}

    def _inverted(self, term: Term) -> dict[Atom, Term] | None:
        """f(z) = e with an f that g undoes: z = g(e)."""
        inverse = {index.name: index.inverse for index in self.format.indices if index.inverse}
        for atom, factor in term.terms:
            if not isinstance(atom, UFCall) or atom.name not in inverse or abs(factor) != 1:
                continue
            rest = term.without(atom)
            (argument,) = atom.args
            if self._is_known(atom) or not all(map(self._is_known, (a for a, _ in rest.terms))):
                continue
            undone = Term.of(UFCall(inverse[atom.name], (rest * -factor,)))
            self.open.append(argument - undone)
            return {atom: rest * -factor}
        return None

    def _divided(self, term: Term) -> dict[Atom, Term] | None:
        """e = c*q + r with 0 <= r < c: q = floor(e/c) and r = e mod c."""
        unknown = [(a, f) for a, f in term.terms if self._is_open(a)]
        if len(unknown) != 2 or any(
            isinstance(a, UFCall) and not self._is_known(a) for a, _ in unknown
        ):
            return None
        for (q, big), (r, small) in (unknown, unknown[::-1]):
            size = big * small  # both on the same side
            if abs(small) != 1 or size < 1 or not self._is_within(r, size):
                continue
            rest = term.without(q).without(r) * -small
            if not all(map(self._is_known, (a for a, _ in rest.terms))) or self._arrays(rest):
                continue
            return {q: rest.floor(size), r: rest % size}
        return None

    def _stored_value(self, term: Term) -> dict[Atom, Term] | None:
        """f(t) = e: what an index array holds."""
        if not all(self._is_known(atom) for atom, _ in term.terms):
            return None
        unknown = [(a, f) for a, f in term.terms if self._is_open(a)]
        if len(unknown) != 1 or abs(unknown[0][1]) != 1:
            return None
        atom, factor = unknown[0]
        rest = term.without(atom)
        return None if self._arrays(rest) else {atom: rest * -factor}

    def _is_open(self, atom: Atom) -> bool:
        """Whether an atom is a variable or an element of an index array without a value."""
        if isinstance(atom, TupleVar):
            return not self._is_known(atom)
        names = {index.name for index in self.format.indices}
        return isinstance(atom, UFCall) and atom.name in names and atom not in self.values

    def _is_within(self, atom: Atom, size: int) -> bool:
        """Whether 0 <= atom < size is among the constraints, or the range of an index array."""
        term = Term.of(atom)
        bounds = {Constraint.ge(self._settled(b)) for b in self.bounds}
        if isinstance(atom, UFCall):
            index = self.format.index(atom.name)
            (name,) = index.range.variables
            values: dict[Atom, Term] = {TupleVar(name): term}
            bounds |= {c.substitute(values) for conj in index.range.conjs for c in conj.constraints}
        return {Constraint.ge(term), Constraint.lt(term, size)} <= bounds

    def _use_invariants(self) -> None:
        """Solve for index arrays by invariants: of `f(g(t)) = t` where g(t) is known to be x."""
        known: dict[Atom, Term] = {}
        for term in self.open:
            for atom, factor in term.terms:
                if isinstance(atom, UFCall) and abs(factor) == 1 and not self._is_open(atom):
                    known[atom] = term.without(atom) * -factor
        for rule in self.format.invariants:
            if len(rule.variables) != 1 or len(rule.conclusion) != 1:
                continue
            for level in self.levels:
                renamed: dict[Atom, Term] = {TupleVar(rule.variables[0]): Term.of(TupleVar(level))}
                for constraint in rule.conclusion[0].constraints:
                    term = substitute(substitute(constraint.term, renamed), known)
                    found = self._stored_value(term) if constraint.is_equality else None
                    if found:
                        self.values |= found

    # -- levels -----------------------------------------------------------------------------------

    def _level(
        self, name: str, stored: Iterable[StoredElement], outer: list[PositionLevel]
    ) -> PositionLevel:
        around = {*self.format.coordinates, *(level.name for level in outer)}
        bound = self._bound(name)
        keys = tuple(
            dict.fromkeys(
                s.value
                for s in stored
                if name in (used := read_at(s.element)) and used <= {name, *around}
            )
        )
        over = bound.parent if bound.length is None else None
        parents = [over] if over is not None else list(bound.length.args) if bound.length else []
        group: list[Term] = []
        for parent in parents:
            settled = self._settled(parent)
            level = next((r for r in outer if settled.atom == TupleVar(r.name)), None)
            group += level.group if level is not None else [settled]
        group += keys
        own = tuple(dict.fromkeys(group))
        return PositionLevel(name, bound, keys, own, determines(own, self.format.coordinates))

    def _bound(self, name: str) -> LevelBound:
        atom = TupleVar(name)
        lower: list[Term] = []
        upper: list[Term] = []
        for bound in map(self._settled, self.bounds):
            factor = bound.coefficient(atom)
            rest = bound.without(atom)
            if abs(factor) == 1 and name not in variables(rest):
                (lower if factor > 0 else upper).append(-rest if factor > 0 else rest + 1)
        for first in lower:
            for last in upper:
                start, stop = first.atom, last.atom
                if (
                    isinstance(start, UFCall)
                    and isinstance(stop, UFCall)
                    and start.name == stop.name
                    and len(start.args) == len(stop.args) == 1
                    and stop.args[0] == start.args[0] + 1
                ):
                    return LevelBound(pointer=start.name, parent=start.args[0])
        if Term.of(0) in lower:
            ends = [last.atom for last in upper]
            names = {index.name for index in self.format.indices}
            for end in ends:
                if isinstance(end, UFCall) and end.name in names:
                    return LevelBound(length=end)
            for end in ends:
                if isinstance(end, Sym) and end.name in self.format.counts:
                    return LevelBound(count=end.name)
        pointers = [t.atom for t in lower if isinstance(t.atom, UFCall) and len(t.atom.args) > 1]
        found = " && ".join(str(Constraint.ge(b)) for b in self.bounds if name in variables(b))
        if pointers:
            raise UsageError(
                f"{self.format.name}: '{name}' runs between elements of '{pointers[0].name}', "
                f"which has {len(pointers[0].args)} arguments",
                found,
                "a pointer has one argument, pointer(b) <= t < pointer(b+1): number the blocks",
            )
        raise UsageError(
            f"{self.format.name}: the range of '{name}' is not understood",
            found,
            hint="0 <= t < COUNT, 0 <= t < length(i), or pointer(i) <= t < pointer(i+1)",
        )

    def _refuse(self, name: str) -> None:
        about = [str(Constraint.eq(t)) for t in self.open if name in variables(t)]
        about += [str(Constraint.ge(b)) for b in self.bounds if name in variables(b)]
        raise UsageError(
            f"{self.format.name}: '{name}' does not follow from the coordinates",
            found=" && ".join(about) or "no constraint",
            hint="an equality that gives it, or an index array that is read at it",
        )


def read_at(element: UFCall) -> set[str]:
    """The variables at which an element of an index array is read."""
    return {name for argument in element.args for name in variables(argument)}


def determines(terms: Iterable[Term], coordinates: Iterable[str]) -> bool:
    """Whether equal terms mean equal coordinates, by what stands in them."""
    wanted = set(coordinates)
    left = list(dict.fromkeys(terms))
    known: dict[Atom, Term] = {}
    progress = True
    while progress and wanted:
        progress = False
        for term in left:
            part = substitute(term, known)
            unknown = variables(part)
            if len(unknown) == 1 and abs(part.coefficient(TupleVar(next(iter(unknown))))) == 1:
                (name,) = unknown
                inner = part.without(TupleVar(name))
                if name in variables(inner) and not _is_remainder(part, name, left, known):
                    continue
                known[TupleVar(name)] = Term.of(Sym(f"known {name}"))
                wanted.discard(name)
                progress = True
                break
            if _is_bijection(part):
                for name in unknown:
                    known[TupleVar(name)] = Term.of(Sym(f"known {name}"))
                wanted -= unknown
                progress = bool(unknown)
                if progress:
                    break
    return not wanted


def _is_remainder(part: Term, name: str, terms: Iterable[Term], known: dict[Atom, Term]) -> bool:
    """Whether `part` is name mod c and floor(name/c) is among the terms too."""
    floors = [a for a, _ in part.terms if not isinstance(a, TupleVar)]
    others = [substitute(term, known) for term in terms]
    return len(floors) == 1 and Term.of(floors[0]) in others


def _is_bijection(term: Term) -> bool:
    """Whether a term is a known function that tells its coordinates."""
    call = term.atom
    if not isinstance(call, UFCall) or call.name not in ("MORTON", "ALTO"):
        return False
    return all(a.atom is not None for a in call.args) and any(
        isinstance(x, TupleVar) for a in call.args for x in atoms(a)
    )
