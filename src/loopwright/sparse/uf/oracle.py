"""isl as decision procedure for conjunctions, after Ackermann's reduction of their terms.

Clauses are case distinctions. They are made lazily: isl finds a point of the affine part, a clause
that the point breaks splits the part, and so on until a point breaks none or no part is left.
"Empty", "implies", equalities and bounds are proofs; "not empty" may be spurious (see ackermann),
and it is also the answer when the quota of isl's operations is spent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import islpy as isl

from loopwright.ir.islkit import GaveUp, attempt, context
from loopwright.sparse.uf.ackermann import GroundProblem, ackermann
from loopwright.sparse.uf.axioms import NO_FACTS, Clause, Facts
from loopwright.sparse.uf.constraints import Conj, Constraint
from loopwright.sparse.uf.linear_terms import Atom, Term, TupleVar
from loopwright.sparse.uf.solve import eliminate_defined

__all__ = ["bounds", "hidden_equalities", "implies", "is_empty", "symbolic_bounds", "witness"]

OPERATIONS = 3_000_000  # of isl, for one question
_MOST_PARTS = 4000
_MOST_TRIED = 16
_GROWTH = 1  # rounds of instantiation that may add calls

Row: TypeAlias = tuple[tuple[tuple[int, int], ...], int, bool]  # places and factors, constant, =
Branch: TypeAlias = tuple[Row, ...]
Point: TypeAlias = tuple[int, ...]


def is_empty(conj: Conj, facts: Facts = NO_FACTS) -> bool:
    """Whether no integers make `conj` true, whatever the functions are that obey `facts`.

    True is a proof; False means only that none was found.
    """
    return _found(eliminate_defined(conj)[0], facts) == "empty"


def witness(conj: Conj, facts: Facts = NO_FACTS) -> dict[Atom, int] | None:
    """Values of all atoms that obey `conj` and the instances of `facts`; None if none is found."""
    less, gone = eliminate_defined(conj)
    found = _found(less, facts)
    if isinstance(found, str):
        return None
    values = dict(found)
    for name, term in reversed(gone.items()):
        # What is nowhere constrained is in no question; its value is open.
        if all(atom in values for atom, _ in term.terms):
            sum_ = sum(values[atom] * factor for atom, factor in term.terms)
            values[TupleVar(name)] = sum_ + term.constant
    return values


def implies(
    conj: Conj, constraints: Constraint | Iterable[Constraint], facts: Facts = NO_FACTS
) -> bool:
    """Whether every constraint holds wherever `conj` does; True is a proof."""
    wanted = (constraints,) if isinstance(constraints, Constraint) else constraints
    return all(
        constraint in conj.constraints
        or all(is_empty(conj.conjoined((case,)), facts) for case in constraint.negated())
        for constraint in wanted
    )


def hidden_equalities(conj: Conj, facts: Facts = NO_FACTS) -> tuple[Constraint, ...]:
    """Equalities between atoms that hold wherever `conj` does, in isl's reduced form."""
    try:
        with attempt(OPERATIONS):
            space, part = _saturated(ackermann(conj, facts, _GROWTH))
            return tuple(c for c in space.constraints(part.affine_hull()) if c.is_equality)
    except GaveUp:
        return conj.equalities


def bounds(term: Term, conj: Conj, facts: Facts = NO_FACTS) -> tuple[int | None, int | None]:
    """The least and greatest values that `term` may have where `conj` holds; None: no bound known.

    Where `conj` is empty the first may be above the second.
    """
    try:
        with attempt(OPERATIONS):
            space, part = _saturated(ackermann(conj, facts, _GROWTH, (term,)))
            aff = space.aff(term)
            whole = isl.Set.from_basic_set(part)
            return _finite(whole.min_val(aff), 1), _finite(whole.max_val(aff), 0)
    except GaveUp:
        return None, None


def symbolic_bounds(
    term: Term, over: Iterable[Atom], conj: Conj, facts: Facts = NO_FACTS
) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
    """Lower and upper bounds of `term` as sums of the atoms `over`, wherever `conj` holds."""
    kept = tuple(over)
    try:
        with attempt(OPERATIONS):
            question = ackermann(conj, facts, _GROWTH, (term, *map(Term.of, kept)))
            space, part = _saturated(question)
            return space.solved(part, term, kept)
    except GaveUp:
        return (), ()


@dataclass(frozen=True)
class _Space:
    """The integer tuples of the atoms of a question."""

    atoms: tuple[Atom, ...]
    places: dict[Atom, int]
    local: isl.LocalSpace

    @classmethod
    def of(cls, atoms: tuple[Atom, ...]) -> _Space:
        space = isl.Space.set_alloc(context(), 0, len(atoms))
        places = {atom: at for at, atom in enumerate(atoms)}
        return cls(atoms, places, isl.LocalSpace.from_space(space))

    def universe(self) -> isl.BasicSet:
        return isl.BasicSet.universe(self.local.get_space())

    def row(self, constraint: Constraint) -> Row:
        term = constraint.term
        entries = tuple((self.places[atom], factor) for atom, factor in term.terms)
        return entries, term.constant, constraint.is_equality

    def branches(self, clause: Clause) -> tuple[Branch, ...]:
        """Disjoint cases of a clause: a first premise fails, or all hold and a conclusion does."""
        found: list[Branch] = []
        true: list[Row] = []
        for premise in clause.premises:
            found += [(*true, self.row(case)) for case in premise.negated()]
            true.append(self.row(premise))
        found += [(*true, *map(self.row, end)) for end in clause.conclusions]
        return tuple(found)

    def within(self, part: isl.BasicSet, branch: Branch) -> isl.BasicSet:
        for entries, constant, is_equality in branch:
            make = isl.Constraint.alloc_equality if is_equality else isl.Constraint.alloc_inequality
            made = make(self.local).set_constant_val(_val(constant))
            for place, factor in entries:
                made = made.set_coefficient_val(isl.dim_type.set, place, _val(factor))
            part = part.add_constraint(made)
        return part

    def aff(self, term: Term) -> isl.Aff:
        found = isl.Aff.zero_on_domain(self.local).set_constant_val(_val(term.constant))
        for atom, factor in term.terms:
            found = found.set_coefficient_val(isl.dim_type.in_, self.places[atom], _val(factor))
        return found

    def point(self, part: isl.BasicSet) -> Point | None:
        found = part.sample_point()
        if found.is_void():
            return None
        values = (found.get_coordinate_val(isl.dim_type.set, at) for at in range(len(self.atoms)))
        return tuple(value.to_python() for value in values)

    def constraints(self, part: isl.BasicSet) -> Iterator[Constraint]:
        """The constraints of a part as constraints on atoms; those with divisions are left out."""
        for found in part.get_constraints():
            if _has_divisions(found):
                continue
            terms = [
                (atom, found.get_coefficient_val(isl.dim_type.set, at).to_python())
                for at, atom in enumerate(self.atoms)
            ]
            term = Term.sum(terms, found.get_constant_val().to_python())
            yield Constraint.eq(term) if found.is_equality() else Constraint.ge(term)

    def solved(
        self, part: isl.BasicSet, term: Term, kept: Sequence[Atom]
    ) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
        """Bounds of a term after all but `kept` has been eliminated."""
        last = len(self.atoms)
        part = part.add_dims(isl.dim_type.set, 1)
        local = isl.LocalSpace.from_space(part.get_space())
        made = isl.Constraint.alloc_equality(local).set_constant_val(_val(term.constant))
        for atom, factor in term.terms:
            made = made.set_coefficient_val(isl.dim_type.set, self.places[atom], _val(factor))
        part = part.add_constraint(made.set_coefficient_val(isl.dim_type.set, last, _val(-1)))
        for at, atom in enumerate(self.atoms):
            if atom not in kept:
                part = part.eliminate(isl.dim_type.set, at, 1)
        lower: list[Term] = []
        upper: list[Term] = []
        for found in part.get_constraints():
            factor = found.get_coefficient_val(isl.dim_type.set, last).to_python()
            if factor == 0 or _has_divisions(found):
                continue
            rest = Term.sum(
                ((atom, _coefficient(found, self.places[atom])) for atom in kept),
                found.get_constant_val().to_python(),
            )
            # factor*t + rest >= 0: t >= ceil(-rest/factor), or t <= floor(rest/-factor)
            size = abs(factor)
            if factor > 0 or found.is_equality():
                lower.append(-(rest if factor > 0 else -rest).floor(size))
            if factor < 0 or found.is_equality():
                upper.append((rest if factor < 0 else -rest).floor(size))
        return tuple(dict.fromkeys(lower)), tuple(dict.fromkeys(upper))


def _has_divisions(constraint: isl.Constraint) -> bool:
    """Whether it needs an integer of isl's own, such as the half of an even number."""
    return any(
        not constraint.get_coefficient_val(isl.dim_type.div, at).is_zero()
        for at in range(constraint.dim(isl.dim_type.div))
    )


def _coefficient(constraint: isl.Constraint, place: int) -> int:
    value: int = constraint.get_coefficient_val(isl.dim_type.set, place).to_python()
    return value


def _val(value: int) -> isl.Val:
    return isl.Val(value, context=context())


def _finite(value: isl.Val, otherwise: int) -> int | None:
    if value.is_infty() or value.is_neginfty():
        return None
    if value.is_nan():
        return otherwise  # of no point at all: the least is 1, the greatest 0
    found: int = value.to_python()
    return found


@lru_cache(maxsize=4096)
def _found(conj: Conj, facts: Facts) -> str | tuple[tuple[Atom, int], ...]:
    """The word "empty" or "unknown", or values that obey everything."""
    if conj.is_false:
        return "empty"
    found: Point | None = None
    question = ackermann(conj, facts, 0)
    try:
        with attempt(OPERATIONS):
            found = _search(_Space.of(question.atoms), question)
            grown = question if found is None else ackermann(conj, facts, _GROWTH)
            if grown.atoms != question.atoms:
                # Calls that were not there cost much and are seldom needed for a proof.
                question = grown
                found = _search(_Space.of(question.atoms), question)
    except GaveUp:
        return "unknown"
    return "empty" if found is None else tuple(zip(question.atoms, found, strict=True))


def _search(space: _Space, question: GroundProblem) -> Point | None:
    """A point that obeys everything, depth first; None if there is none."""
    clauses = [space.branches(clause) for clause in question.clauses]
    waiting = [space.within(space.universe(), tuple(map(space.row, question.base)))]
    for _ in range(_MOST_PARTS):
        if not waiting:
            return None
        part = waiting.pop()
        point = space.point(part)
        if point is None:
            continue
        broken = [branches for branches in clauses if not any(_obeys(point, b) for b in branches)]
        if not broken:
            return point
        waiting += _split(space, part, broken)
    raise GaveUp(f"more than {_MOST_PARTS} cases")


def _split(
    space: _Space, part: isl.BasicSet, broken: Sequence[tuple[Branch, ...]]
) -> list[isl.BasicSet]:
    """The part without the point that breaks clauses, by the clause that leaves fewest cases."""
    best: list[isl.BasicSet] | None = None
    for branches in sorted(broken, key=len)[:_MOST_TRIED]:
        cases = [space.within(part, branch) for branch in branches]
        left = [case for case in cases if not case.is_empty()]
        if best is None or len(left) < len(best):
            best = left
        if len(best) <= 1:
            break
    assert best is not None
    return best


def _obeys(point: Point, branch: Branch) -> bool:
    for entries, constant, is_equality in branch:
        value = constant
        for place, factor in entries:
            value += factor * point[place]
        if value < 0 or (is_equality and value):
            return False
    return True


def _saturated(question: GroundProblem) -> tuple[_Space, isl.BasicSet]:
    """The affine part with every clause added of which only one case is possible there."""
    space = _Space.of(question.atoms)
    part = space.within(space.universe(), tuple(map(space.row, question.base)))
    points = [point] if (point := space.point(part)) is not None else []
    waiting = [space.branches(clause) for clause in question.clauses]
    is_moving = bool(points)
    while is_moving:
        is_moving = False
        for branches in tuple(waiting):
            # Two cases with a point of their own are both possible: no need to ask isl.
            seen = [any(_obeys(point, branch) for point in points) for branch in branches]
            if sum(seen) > 1:
                continue
            left = _possible(space, part, branches, seen, points)
            if len(left) > 1:
                continue
            waiting.remove(branches)
            if not left:
                return space, isl.BasicSet.empty(part.get_space())
            part = space.within(part, left[0])
            points = [point for point in points if _obeys(point, left[0])]
            is_moving = True
    return space, part


def _possible(
    space: _Space,
    part: isl.BasicSet,
    branches: Sequence[Branch],
    seen: Sequence[bool],
    points: list[Point],
) -> list[Branch]:
    """The cases of a clause with a point in the part, two at most; adds points that it meets."""
    left: list[Branch] = []
    for branch, is_seen in zip(branches, seen, strict=True):
        point = None if is_seen else space.point(space.within(part, branch))
        if point is not None:
            points.append(point)
        if is_seen or point is not None:
            left.append(branch)
        if len(left) > 1:
            break
    return left
