"""isl as decision procedure for conjunctions, after Ackermann's reduction of their terms.

Clauses are case distinctions. They are made lazily: isl finds a point of the affine part, a clause
that the point violates splits the part, and so on until a point violates none or no part is left.
"Empty", "implies", "function" and "injective" are proofs for all functions that obey the facts; the
negative answers may be spurious (see ackermann), and are also given when the quota of isl's
operations is spent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TypeAlias

from loopwright.ir.islkit import GaveUp, bounded, context, isl, isl_integer
from loopwright.lazy_dataclass import dataclass
from loopwright.sparse.uf.ackermann import GroundProblem, ackermann
from loopwright.sparse.uf.axioms import NO_FACTS, Clause, Facts
from loopwright.sparse.uf.constraints import Conj, Constraint, conjoin, fresh
from loopwright.sparse.uf.linear_terms import Atom, TupleVar
from loopwright.sparse.uf.relation import Relation
from loopwright.sparse.uf.relation_algebra import inverse, renamed
from loopwright.sparse.uf.solve import definition, eliminate_defined

__all__ = ["ambiguities", "implies", "is_empty", "is_function", "is_injective", "witness"]

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
            made = make(self.local).set_constant_val(isl_integer(constant))
            for place, factor in entries:
                made = made.set_coefficient_val(isl.dim_type.set, place, isl_integer(factor))
            part = part.add_constraint(made)
        return part

    def point(self, part: isl.BasicSet) -> Point | None:
        found = part.sample_point()
        if found.is_void():
            return None
        values = (found.get_coordinate_val(isl.dim_type.set, at) for at in range(len(self.atoms)))
        return tuple(value.to_python() for value in values)


@lru_cache(maxsize=4096)
def _found(conj: Conj, facts: Facts) -> str | tuple[tuple[Atom, int], ...]:
    """The word "empty" or "unknown", or values that obey everything."""
    if conj.is_false:
        return "empty"

    def search() -> str | tuple[tuple[Atom, int], ...]:
        question = ackermann(conj, facts, 0)
        found = _search(_Space.of(question.atoms), question)
        grown = question if found is None else ackermann(conj, facts, _GROWTH)
        if grown.atoms != question.atoms:
            # Calls that were not there cost much and are seldom needed for a proof.
            question = grown
            found = _search(_Space.of(question.atoms), question)
        return "empty" if found is None else tuple(zip(question.atoms, found, strict=True))

    return bounded(search, lambda _: "unknown", OPERATIONS)


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


def is_function(relation: Relation, facts: Facts = NO_FACTS) -> bool:
    """Whether an input has at most one output: two of them that differ are impossible."""
    if len(relation.conjs) == 1 and _is_explicit(relation):
        return True
    return all(is_empty(conj, facts) for conj in ambiguities(relation))


def is_injective(relation: Relation, facts: Facts = NO_FACTS) -> bool:
    """Whether an output has at most one input."""
    return is_function(inverse(relation), facts)


def ambiguities(relation: Relation) -> Iterator[Conj]:
    """Conjunctions of which one holds somewhere exactly if some input has two outputs.

    The second output has names of its own; a witness of one of them is a counter-example.
    """
    taken = {*relation.variables}
    for conj in relation.conjs:
        taken |= conj.variables | conj.symbols
    others: list[str] = []
    for name in relation.outputs:
        others.append(fresh(name, taken))
        taken.add(others[-1])
    second = renamed(relation, (*relation.inputs, *others))
    for at, x in enumerate(relation.conjs):
        for y in second.conjs[at:]:
            both = conjoin(x, y, (*relation.variables, *others))
            for one, other in zip(relation.outputs, others, strict=True):
                yield both.conjoined([Constraint.lt(TupleVar(one), TupleVar(other))])
                # Two outputs of one conjunction can change places.
                if y is not second.conjs[at]:
                    yield both.conjoined([Constraint.gt(TupleVar(one), TupleVar(other))])


def _is_explicit(relation: Relation) -> bool:
    """Whether equalities define every output by the inputs, syntactically."""
    known = set(relation.inputs)
    conj = relation.conjs[0]
    left = list(relation.outputs)
    while left:
        ready = next((name for name in left if definition(conj, name, known) is not None), None)
        if ready is None:
            return False
        left.remove(ready)
        known.add(ready)
    return True
