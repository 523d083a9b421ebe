"""Turn a format's map round: which tuple of the storage holds given dense coordinates.

The map R takes tuples of the storage to dense coordinates x. Read backwards, each variable of the
storage is solved for, from equalities alone where they suffice:

    t = f(x)                            an equality with t alone
    q = floor(e/c), r = e mod c         e = c*q + r with 0 <= r < c
    z = g(e)                            f(z) = e, where g undoes f

What is left are *ranks*: variables that count. A rank t numbers the groups of entries that agree in
its keys, the terms that index arrays hold at t: `off(d) = j-i` makes d the number of a diagonal,
`col(k) = j` with `rowptr(i) <= k < rowptr(i+1)` makes k the number of an entry of row i.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from loopwright.diagnostics import UsageError
from loopwright.sparse.format import Format
from loopwright.sparse.uf import (
    Atom,
    Call,
    Constraint,
    Linear,
    Sym,
    Var,
    atoms,
    calls,
    substitute,
    variables,
)

__all__ = ["Bound", "Inverse", "Rank", "Stored", "determines", "invert", "read_at"]


@dataclass(frozen=True)
class Stored:
    """An element of an index array and the number that stands there."""

    element: Call
    value: Linear

    def __str__(self) -> str:
        return f"{self.element} = {self.value}"


@dataclass(frozen=True)
class Bound:
    """The range of a rank: from 0 to a count or a length, or between two entries of a pointer."""

    count: str = ""  # 0 <= t < count, a symbol
    length: Call | None = None  # 0 <= t < length
    pointer: str = ""  # pointer(parent) <= t < pointer(parent+1)
    parent: Linear | None = None

    @property
    def is_local(self) -> bool:
        """Whether numbers begin anew in each group of the ranks around."""
        return self.length is not None


@dataclass(frozen=True)
class Rank:
    """A variable of the storage that numbers groups of entries."""

    name: str
    bound: Bound
    keys: tuple[Linear, ...]  # what index arrays hold at it
    group: tuple[Linear, ...]  # entries that agree in these, functions of x, share a number
    is_entry: bool  # whether such entries have all coordinates in common


@dataclass(frozen=True)
class Inverse:
    """A tuple of the storage in terms of dense coordinates, ranks and index arrays."""

    format: Format
    values: tuple[tuple[str, Linear], ...]  # variables of the storage that are no ranks
    ranks: tuple[Rank, ...]  # outer ones first
    stored: tuple[Stored, ...]
    place: Linear  # of the entry in the values

    def rank(self, name: str) -> Rank:
        return next(rank for rank in self.ranks if rank.name == name)

    def __str__(self) -> str:
        lines = [f"{name} = {value}" for name, value in self.values]
        lines += [f"{r.name} numbers ({', '.join(map(str, r.group))})" for r in self.ranks]
        lines += map(str, self.stored)
        return "\n".join([*lines, f"place = {self.place}"])


def invert(format: Format) -> Inverse:
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
    values: dict[Atom, Linear] = field(default_factory=dict)  # of variables and of index arrays
    ranks: list[str] = field(default_factory=list)
    open: list[Linear] = field(default_factory=list)  # terms that are 0
    bounds: list[Linear] = field(default_factory=list)  # terms that are >= 0

    def solve(self) -> Inverse:
        format = self.format
        for conj in (*format.map.conjs, *format.access.conjs):
            for constraint in conj.constraints:
                (self.open if constraint.is_equality else self.bounds).append(constraint.term)
        waiting = [*format.variables, *format.access.outputs]
        while True:
            while self._step():
                pass
            left = [name for name in waiting if not self._is_known(Var(name))]
            if not left:
                break
            # Ranks are what arrays are read at; the leftmost one is the outermost.
            read = {
                n for t in self.open for call in calls(t) for a in call.args for n in variables(a)
            }
            chosen = next((name for name in left if name in read), "")
            if not chosen:
                self._refuse(left[0])
            self.ranks.append(chosen)
        self._use_rules()
        place = self._settled(Linear.of(Var(format.access.outputs[0])))
        names = [name for name in format.variables if name not in self.ranks]
        stored = tuple(
            Stored(settled, self._settled(value))
            for atom, value in self.values.items()
            if isinstance(settled := self._settled(Linear.of(atom)).atom, Call)
            and isinstance(atom, Call)
        )
        ranks: list[Rank] = []
        for name in self.ranks:
            ranks.append(self._rank(name, stored, ranks))
        values = tuple((name, self._settled(Linear.of(Var(name)))) for name in names)
        return Inverse(format, values, tuple(ranks), stored, place)

    # -- solving ----------------------------------------------------------------------------------

    def _is_known(self, atom: Atom) -> bool:
        """Whether an atom depends on nothing but coordinates, sizes, ranks and solved variables."""
        known = {*self.format.coordinates, *self.ranks}
        return all(name in known or Var(name) in self.values for name in variables(Linear.of(atom)))

    def _settled(self, term: Linear) -> Linear:
        """A term without solved variables."""
        solved: dict[Atom, Linear] = {a: v for a, v in self.values.items() if isinstance(a, Var)}
        before = None
        while term != before:
            before, term = term, substitute(term, solved)
        return term

    def _step(self) -> bool:
        """Solve for something by one equality; False when none helps."""
        self.open = [t for t in map(self._settled, self.open) if t.terms]
        for rule in (self._direct, self._undone, self._divided, self._held):
            for term in self.open:
                found = rule(term)
                if found:
                    self.values |= found
                    self.open.remove(term)
                    return True
        return False

    def _arrays(self, term: Linear) -> list[Call]:
        """Calls of the format's index arrays in a term, inner ones included."""
        names = {index.name for index in self.format.indices}
        return [call for call in calls(term) if call.name in names]

    def _direct(self, term: Linear) -> dict[Atom, Linear] | None:
        """t = f(x): the one unknown variable, outside of all calls."""
        unknown = variables(term) - {*self.format.coordinates, *self.ranks}
        if len(unknown) != 1:
            return None
        atom = Var(next(iter(unknown)))
        factor = term.coefficient(atom)
        rest = term.without(atom)
        is_inside = atom.name in variables(rest)
        # A variable that an index array gives may follow from the coordinates all the same.
        is_place = atom.name in self.format.access.outputs
        if abs(factor) != 1 or is_inside or (self._arrays(rest) and not is_place):
            return None
        return {atom: rest * -factor}

    def _undone(self, term: Linear) -> dict[Atom, Linear] | None:
        """f(z) = e with an f that g undoes: z = g(e)."""
        inverse = {index.name: index.inverse for index in self.format.indices if index.inverse}
        for atom, factor in term.terms:
            if not isinstance(atom, Call) or atom.name not in inverse or abs(factor) != 1:
                continue
            rest = term.without(atom)
            (argument,) = atom.args
            if self._is_known(atom) or not all(map(self._is_known, (a for a, _ in rest.terms))):
                continue
            undone = Linear.of(Call(inverse[atom.name], (rest * -factor,)))
            self.open.append(argument - undone)
            return {atom: rest * -factor}
        return None

    def _divided(self, term: Linear) -> dict[Atom, Linear] | None:
        """e = c*q + r with 0 <= r < c: q = floor(e/c) and r = e mod c."""
        unknown = [(a, f) for a, f in term.terms if self._is_open(a)]
        if len(unknown) != 2 or any(
            isinstance(a, Call) and not self._is_known(a) for a, _ in unknown
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

    def _held(self, term: Linear) -> dict[Atom, Linear] | None:
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
        if isinstance(atom, Var):
            return not self._is_known(atom)
        names = {index.name for index in self.format.indices}
        return isinstance(atom, Call) and atom.name in names and atom not in self.values

    def _is_within(self, atom: Atom, size: int) -> bool:
        """Whether 0 <= atom < size is among the constraints, or the range of an index array."""
        term = Linear.of(atom)
        bounds = {Constraint.ge(self._settled(b)) for b in self.bounds}
        if isinstance(atom, Call):
            index = self.format.index(atom.name)
            (name,) = index.range.variables
            values: dict[Atom, Linear] = {Var(name): term}
            bounds |= {c.substitute(values) for conj in index.range.conjs for c in conj.constraints}
        return {Constraint.ge(term), Constraint.lt(term, size)} <= bounds

    def _use_rules(self) -> None:
        """Solve for index arrays by rules: of `f(g(t)) = t` where g(t) is known to be x."""
        known: dict[Atom, Linear] = {}
        for term in self.open:
            for atom, factor in term.terms:
                if isinstance(atom, Call) and abs(factor) == 1 and not self._is_open(atom):
                    known[atom] = term.without(atom) * -factor
        for rule in self.format.rules:
            if len(rule.variables) != 1 or len(rule.conclusion) != 1:
                continue
            for rank in self.ranks:
                renamed: dict[Atom, Linear] = {Var(rule.variables[0]): Linear.of(Var(rank))}
                for constraint in rule.conclusion[0].constraints:
                    term = substitute(substitute(constraint.term, renamed), known)
                    found = self._held(term) if constraint.is_equality else None
                    if found:
                        self.values |= found

    # -- ranks ------------------------------------------------------------------------------------

    def _rank(self, name: str, stored: Iterable[Stored], outer: list[Rank]) -> Rank:
        around = {*self.format.coordinates, *(rank.name for rank in outer)}
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
        group: list[Linear] = []
        for parent in parents:
            settled = self._settled(parent)
            rank = next((r for r in outer if settled.atom == Var(r.name)), None)
            group += rank.group if rank is not None else [settled]
        group += keys
        own = tuple(dict.fromkeys(group))
        return Rank(name, bound, keys, own, determines(own, self.format.coordinates))

    def _bound(self, name: str) -> Bound:
        atom = Var(name)
        lower: list[Linear] = []
        upper: list[Linear] = []
        for bound in map(self._settled, self.bounds):
            factor = bound.coefficient(atom)
            rest = bound.without(atom)
            if abs(factor) == 1 and name not in variables(rest):
                (lower if factor > 0 else upper).append(-rest if factor > 0 else rest + 1)
        for first in lower:
            for last in upper:
                start, stop = first.atom, last.atom
                if isinstance(start, Call) and isinstance(stop, Call) and start.name == stop.name:
                    (parent,), (after,) = start.args, stop.args
                    if after == parent + 1:
                        return Bound(pointer=start.name, parent=parent)
        if Linear.of(0) in lower:
            ends = [last.atom for last in upper]
            names = {index.name for index in self.format.indices}
            for end in ends:
                if isinstance(end, Call) and end.name in names:
                    return Bound(length=end)
            for end in ends:
                if isinstance(end, Sym) and end.name in self.format.counts:
                    return Bound(count=end.name)
        raise UsageError(
            f"{self.format.name}: the range of '{name}' is not understood",
            found=" && ".join(str(Constraint.ge(b)) for b in self.bounds if name in variables(b)),
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


def read_at(element: Call) -> set[str]:
    """The variables at which an element of an index array is read."""
    return {name for argument in element.args for name in variables(argument)}


def determines(terms: Iterable[Linear], coordinates: Iterable[str]) -> bool:
    """Whether equal terms mean equal coordinates, by what stands in them."""
    wanted = set(coordinates)
    left = list(dict.fromkeys(terms))
    known: dict[Atom, Linear] = {}
    progress = True
    while progress and wanted:
        progress = False
        for term in left:
            part = substitute(term, known)
            unknown = variables(part)
            if len(unknown) == 1 and abs(part.coefficient(Var(next(iter(unknown))))) == 1:
                (name,) = unknown
                inner = part.without(Var(name))
                if name in variables(inner) and not _is_remainder(part, name, left, known):
                    continue
                known[Var(name)] = Linear.of(Sym(f"known {name}"))
                wanted.discard(name)
                progress = True
                break
            if _is_bijection(part):
                for name in unknown:
                    known[Var(name)] = Linear.of(Sym(f"known {name}"))
                wanted -= unknown
                progress = bool(unknown)
                if progress:
                    break
    return not wanted


def _is_remainder(
    part: Linear, name: str, terms: Iterable[Linear], known: dict[Atom, Linear]
) -> bool:
    """Whether `part` is name mod c and floor(name/c) is among the terms too."""
    floors = [a for a, _ in part.terms if not isinstance(a, Var)]
    others = [substitute(term, known) for term in terms]
    return len(floors) == 1 and Linear.of(floors[0]) in others


def _is_bijection(term: Linear) -> bool:
    """Whether a term is a known function that tells its coordinates."""
    call = term.atom
    if not isinstance(call, Call) or call.name not in ("MORTON", "ALTO"):
        return False
    return all(a.atom is not None for a in call.args) and any(
        isinstance(x, Var) for a in call.args for x in atoms(a)
    )
