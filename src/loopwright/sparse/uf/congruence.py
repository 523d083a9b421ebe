"""Congruence closure with difference bounds: what follows from a conjunction without case splits.

Vertices are terms without their constants: atoms, and the sides of constraints with more atoms. An
edge bounds the difference of two vertices, so offsets are kept: `k < rowptr(i+1)` and
`rowptr(i+1) <= n + 3` give `k - n <= 2`. Vertices that differ by a known number are one term with
an offset; calls with equal arguments are equal; a clause of the facts applies as soon as its
premises follow. Every answer is a proof; what is not found may still be true (see oracle).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, TypeVar

from loopwright.sparse.uf.ackermann import instances
from loopwright.sparse.uf.axioms import NO_FACTS, Clause, Facts
from loopwright.sparse.uf.constraints import FALSE, Conj, Constraint, Operand
from loopwright.sparse.uf.linear_terms import Atom, Term, TupleVar, atoms, replace_atoms, variables
from loopwright.sparse.uf.solve import Isolated

__all__ = ["CongruenceClosure", "DifferenceBounds"]

N = TypeVar("N", bound=Hashable)


class DifferenceBounds(Generic[N]):
    """The strongest bounds x - y <= c that follow from those that were added.

    They are kept closed: adding one bound updates every pair it shortens (Floyd and Warshall's
    step for one edge).
    """

    def __init__(self) -> None:
        self._out: dict[N, dict[N, int]] = {}  # x -> y -> c with x - y <= c
        self._into: dict[N, dict[N, int]] = {}  # the same from y
        self.is_contradictory = False

    def add_node(self, node: N) -> None:
        if node not in self._out:
            self._out[node] = {node: 0}
            self._into[node] = {node: 0}

    def add(self, x: N, y: N, c: int) -> bool:
        """Learn x - y <= c; returns whether that says anything new."""
        self.add_node(x)
        self.add_node(y)
        known = self._out[x].get(y)
        if known is not None and known <= c:
            return False
        for start, before in tuple(self._into[x].items()):
            row = self._out[start]
            for end, after in self._out[y].items():
                length = before + c + after
                if end not in row or length < row[end]:
                    row[end] = length
                    self._into[end][start] = length
                    self.is_contradictory |= start == end
        return True

    def bound(self, x: N, y: N) -> int | None:
        """The least c known with x - y <= c."""
        return self._out[x].get(y) if x in self._out else None

    def offset(self, x: N, y: N) -> int | None:
        """x - y where it is known to be one number."""
        above, below = self.bound(x, y), self.bound(y, x)
        return above if above is not None and below is not None and above == -below else None

    def nodes(self) -> tuple[N, ...]:
        return tuple(self._out)

    def classes(self) -> Iterator[dict[N, int]]:
        """Nodes that differ by known numbers: each with its value above the first of its class."""
        done: set[N] = set()
        for node, row in self._out.items():
            if node in done:
                continue
            found = {node: 0}
            for other in row:
                if (offset := self.offset(other, node)) is not None:
                    found[other] = offset
            done |= found.keys()
            yield found


_ZERO = Term()


class CongruenceClosure:
    """All that follows from a conjunction by equality and addition of bounds.

    Among equal terms the simplest stands for all; with `known`, first those with variables of these
    names only.
    """

    def __init__(
        self, conj: Conj, facts: Facts = NO_FACTS, known: Iterable[str] | None = None
    ) -> None:
        self._known = None if known is None else frozenset(known)
        self._graph: DifferenceBounds[Term] = DifferenceBounds()
        self._graph.add_node(_ZERO)
        self._normal: dict[Atom, Term] = {}  # with normal arguments -> what it equals
        for atom in conj.atoms:
            self._graph.add_node(Term.of(atom))
        for constraint in conj.constraints:
            self._learn(constraint)
        self._close(list(instances(facts, conj.atoms, 0)))

    @property
    def is_contradictory(self) -> bool:
        """Whether the conjunction cannot hold."""
        return self._graph.is_contradictory

    def bound(self, x: Operand, y: Operand = 0) -> int | None:
        """The least c known with x - y <= c."""
        term = Term.of(x) - Term.of(y)
        if term.is_constant:
            return term.constant
        found = [self._bound(form) for form in dict.fromkeys((term, self.normal(term)))]
        return min((c for c in found if c is not None), default=None)

    def offset(self, x: Operand, y: Operand = 0) -> int | None:
        """x - y where it is known to be one number."""
        above, below = self.bound(x, y), self.bound(y, x)
        return above if above is not None and below is not None and above == -below else None

    def is_equal(self, x: Operand, y: Operand = 0) -> bool:
        return self.offset(x, y) == 0

    def implies(self, constraint: Constraint) -> bool:
        """Whether the constraint follows."""
        below = self.bound(-constraint.term)
        if self.is_contradictory:
            return True
        if constraint.is_equality:
            return self.offset(constraint.term) == 0
        return below is not None and below <= 0

    def normal(self, term: Term) -> Term:
        """The term with every atom replaced by the simplest one that it equals up to an offset."""
        return replace_atoms(term, self._normal.get)

    def equals(self, term: Operand) -> tuple[Term, ...]:
        """Other terms known to equal this one, simplest first."""
        term = Term.of(term)
        found = []
        for node in self._graph.nodes():
            offset = self.offset(term, node)
            if offset is not None and node + offset != term:
                found.append(node + offset)
        return tuple(sorted(found, key=self._rank))

    def equalities(self) -> tuple[Constraint, ...]:
        """Every equality between vertices, those of one class against its simplest member."""
        found: dict[Constraint, None] = {}
        for members in self._graph.classes():
            first = min(members, key=self._rank)
            for node, offset in members.items():
                found[Constraint.eq(node - first, offset - members[first])] = None
        return tuple(c for c in found if not c.is_true and not c.is_false)

    def about(self, atom: Atom) -> tuple[Isolated, ...]:
        """The strongest =, <= and >= known of an atom against every other vertex."""
        found: dict[Isolated, None] = {}
        for node in self._graph.nodes():
            if atom in atoms(node):
                continue
            offset = self.offset(atom, node)
            if offset is not None:
                found[Isolated(atom, "=", node + offset)] = None
                continue
            above, below = self.bound(atom, node), self.bound(node, atom)
            if above is not None:
                found[Isolated(atom, "<=", node + above)] = None
            if below is not None:
                found[Isolated(atom, ">=", node - below)] = None
        return tuple(found)

    # -- closing -----------------------------------------------------------------------------

    def _close(self, clauses: list[Clause]) -> None:
        is_moving = True
        while is_moving and not self.is_contradictory:
            self._choose_normals()
            is_moving = self._merge()
            for clause in tuple(clauses):
                if len(clause.conclusions) == 1 and all(map(self.implies, clause.premises)):
                    clauses.remove(clause)
                    for constraint in clause.conclusions[0]:
                        is_moving |= self._learn(constraint)

    def _choose_normals(self) -> None:
        """For each class of atoms its simplest member; arguments first, as they are smaller."""
        self._normal = {}
        values: dict[Atom, Term] = {}
        for members in self._graph.classes():
            known = [node for node in members if node == _ZERO or node.atom is not None]
            if not known:
                continue
            first = min(known, key=self._rank)
            for node in known:
                if node.atom is not None and node != first:
                    values[node.atom] = first + (members[node] - members[first])
        for atom in sorted(values, key=lambda atom: _size(Term.of(atom))):
            inner = self.normal(Term.of(atom))
            value = self.normal(values[atom])
            if inner.atom is not None and inner != value:
                self._normal[inner.atom] = value
        self._normal = {atom: self.normal(value) for atom, value in self._normal.items()}

    def _rank(self, term: Term) -> tuple[bool, int, int, int, str]:
        """What stands for others: known before unknown, small before large, numbers first."""
        is_unknown = self._known is not None and not variables(term) <= self._known
        return is_unknown, *_size(term)

    def _merge(self) -> bool:
        """Learn that vertices with one normal form are equal; returns whether any was news."""
        is_new = False
        seen: dict[Term, tuple[Term, int]] = {}
        for node in self._graph.nodes():
            normal = self.normal(node)
            part, constant = Term(normal.terms), normal.constant
            other, level = seen.setdefault(part, (node, constant))
            # node = part + constant, other = part + level
            if other is not node:
                is_new |= self._graph.add(node, other, constant - level)
                is_new |= self._graph.add(other, node, level - constant)
        if _ZERO in seen and seen[_ZERO][0] != _ZERO:
            node, constant = seen[_ZERO]
            is_new |= self._graph.add(node, _ZERO, constant)
            is_new |= self._graph.add(_ZERO, node, -constant)
        return is_new

    def _learn(self, constraint: Constraint) -> bool:
        if constraint == FALSE:
            return self._graph.add(_ZERO, _ZERO, -1)
        is_new = False
        for x, y, constant in _splits(constraint.term):
            # x - y + constant >= 0
            is_new |= self._graph.add(y, x, constant)
            if constraint.is_equality:
                is_new |= self._graph.add(x, y, -constant)
        return is_new

    def _bound(self, term: Term) -> int | None:
        """The least c known with term <= c, for vertices whose difference it is."""
        found = []
        for x, y, constant in _splits(term):
            c = self._graph.bound(x, y)
            if c is not None:
                found.append(c + constant)
        return min(found, default=None)


def _splits(term: Term) -> Iterator[tuple[Term, Term, int]]:
    """x, y and c with term = x - y + c: positive against negative, each atom against the rest."""
    part = Term(term.terms)
    above = Term(tuple((a, f) for a, f in term.terms if f > 0))
    yield above, above - part, term.constant
    for atom, factor in term.terms:
        if factor == 1:
            yield Term.of(atom), Term.of(atom) - part, term.constant
        elif factor == -1:
            yield part + atom, Term.of(atom), term.constant


def _size(term: Term) -> tuple[int, int, int, str]:
    inside = tuple(atoms(term))
    return len(term.terms), len(inside), sum(isinstance(a, TupleVar) for a in inside), str(term)
