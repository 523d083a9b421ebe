"""What a descriptor must fulfil, as conjunctions that must have no solution; isl and z3 prove it.

With T(t, x, p) for "the tuple t of the storage has the dense coordinates x and the place p":

    function   no t has two x, and none two p
    injective  no two t have one x, unless coordinates may repeat
    access     no two t have one p
    calls      no index array is read outside its domain
    shape      no x lies outside the tensor
    places     no p lies outside the values
    order      no t before t' has a key after that of t'
    bounds     no x within the shape needs an element outside an index array, or outside its range

isl is asked about finitely many instances of the axioms; z3, where it is installed, gets them with
their quantifiers and knows some arithmetic of products. "Unsatisfiable" is a proof; the effort is
bounded by a count of z3's steps, not by a clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from loopwright.diagnostics import UsageError
from loopwright.lazy_dataclass import dataclass

from .bounds_proof import joint, out_of_bounds_cases, out_of_domain_calls, violations
from .format import Format
from .invariants import facts_of
from .synthesis.inverse import invert
from .uf import (
    Atom,
    AtomProduct,
    Conj,
    Constraint,
    Floor,
    Relation,
    Sym,
    Term,
    TupleVar,
    UFCall,
    conjoin,
    fresh,
    inverse,
    renamed,
    substitute,
)
from .uf.axioms import Clause, Facts
from .uf.oracle import ambiguities, is_empty, is_function, witness

__all__ = ["Claim", "claims_of", "has_z3", "plain_witness", "proved_by_isl", "proved_by_z3"]


@dataclass(frozen=True)
class Claim:
    """Something that holds of all storages exactly if none of its cases has a solution."""

    name: str
    sentence: str
    cases: tuple[Conj, ...]
    hint: str  # what to look at when it fails
    is_on_sight: bool = False  # whether equalities alone show it
    obstacle: str = ""  # why the cases could not be written down


def claims_of(format: Format) -> tuple[Claim, ...]:
    """The claims that are to be proved of a format; declared ties and repetitions make none."""
    whole = joint(format)
    found = [
        Claim(
            "function",
            "a tuple of the storage has one coordinate and one place",
            (*ambiguities(format.map), *ambiguities(whole)),
            "give every coordinate and the place by an equality",
            is_function(format.map) and is_function(whole),
        )
    ]
    if format.is_unique:
        found.append(
            Claim(
                "injective",
                "no coordinate is stored twice",
                tuple(ambiguities(inverse(format.map))),
                "add an invariant that excludes it, or say is_unique=False",
            )
        )
    found += [
        Claim(
            "access",
            "no two tuples share a place",
            tuple(ambiguities(inverse(_places(whole)))),
            "check the access, and whether the pointers are declared monotone",
        ),
        Claim(
            "calls",
            "index arrays are read in their domains",
            tuple(out_of_domain_calls(format)) + tuple(_invariant_calls(format)),
            "extend the domain of the index array, or bound its argument in the map",
        ),
        Claim(
            "shape",
            "coordinates lie within the shape",
            tuple(_outside(whole, zip(format.coordinates, format.sizes, strict=True))),
            "bound the coordinates in the map, or the range of the index array",
        ),
        Claim(
            "places",
            "places lie within the values",
            tuple(_beyond(whole, format.places)),
            "check the access and `places`",
        ),
    ]
    if format.order:
        found.append(
            Claim(
                "order",
                f"tuples ascend by ({', '.join(map(str, format.order))})",
                tuple(_descents(format)),
                "name the key by which the tuples of the map ascend",
            )
        )
    found.append(_bounds_claim(format))
    return tuple(found)


def _places(whole: Relation) -> Relation:
    """{ t -> p }: of the joint relation, tuples and places alone."""
    *coordinates, place = whole.outputs
    conjs = (Conj.of(conj.constraints, (*conj.exists, *coordinates)) for conj in whole.conjs)
    return Relation(whole.inputs, (place,), tuple(conjs))


def proved_by_isl(claim: Claim, format: Format) -> bool:
    """Whether isl shows that no case of a claim has a solution."""
    if claim.obstacle:
        return False
    return claim.is_on_sight or all(is_empty(case, facts_of(format)) for case in claim.cases)


def plain_witness(claim: Claim) -> dict[str, int] | None:
    """Values that solve a case of a claim in which no index array occurs; None if there are none.

    Of other cases a solution may be spurious: isl has seen only some instances of the axioms.
    """
    for case in claim.cases:
        if all(isinstance(atom, TupleVar | Sym) for atom in case.atoms):
            found = witness(case)
            if found is not None:
                return {str(atom): value for atom, value in found.items()}
    return None


def _invariant_calls(format: Format) -> Iterator[Conj]:
    """The same for invariants; a call on bare variables itself says where they range."""
    facts = facts_of(format)
    for rule in format.invariants:
        for premise in rule.premise:
            used = [call for conj in (premise, *rule.conclusion) for call in conj.calls]
            bare = [call for call in used if all(isinstance(a.atom, TupleVar) for a in call.args)]
            base = premise
            for call in bare:
                function = facts.function(call.name)
                if function is not None and len(domain := function.in_domain(call.args)) == 1:
                    base = base.conjoined(domain[0].constraints)
            for call in used:
                function = facts.function(call.name)
                if function is not None and call not in bare:
                    yield from violations(base, function.in_domain(call.args))


def _outside(whole: Relation, sizes: Iterable[tuple[str, str]]) -> Iterator[Conj]:
    for coordinate, size in sizes:
        x = Term.of(TupleVar(coordinate))
        for conj in whole.conjs:
            yield conj.conjoined([Constraint.lt(x, 0)])
            yield conj.conjoined([Constraint.ge(x, Term.of(Sym(size)))])


def _beyond(whole: Relation, places: Term) -> Iterator[Conj]:
    place = Term.of(TupleVar(whole.outputs[-1]))
    for conj in whole.conjs:
        yield conj.conjoined([Constraint.lt(place, 0)])
        yield conj.conjoined([Constraint.ge(place, places)])


def _descents(format: Format) -> Iterator[Conj]:
    """Two tuples, the first before the second, whose keys are in the opposite order."""
    first = format.map
    taken = {*first.variables, *first.symbols, *(n for c in first.conjs for n in c.exists)}
    names: list[str] = []
    for name in first.variables:
        names.append(fresh(name, taken))
        taken.add(names[-1])
    second = renamed(first, names)
    change: dict[Atom, Term] = {
        TupleVar(a): Term.of(TupleVar(b)) for a, b in zip(first.variables, names, strict=True)
    }
    keys = [(key, substitute(key, change)) for key in format.order]
    tuples = list(zip(first.inputs, second.inputs, strict=True))
    earlier = list(_less([(Term.of(TupleVar(a)), Term.of(TupleVar(b))) for a, b in tuples]))
    later = list(_less([(there, here) for here, there in keys]))
    for x in first.conjs:
        for y in second.conjs:
            both = conjoin(x, y, taken)
            for before in earlier:
                for after in later:
                    case = both.conjoined((*before, *after))
                    if not case.is_false:
                        yield case


def _less(pairs: Sequence[tuple[Term, Term]]) -> Iterator[tuple[Constraint, ...]]:
    """The ways in which the first of each pair together come before the second."""
    for at, (x, y) in enumerate(pairs):
        same = (Constraint.eq(a, b) for a, b in pairs[:at])
        yield (*same, Constraint.lt(x, y))


def _bounds_claim(format: Format) -> Claim:
    sentence = "index arrays are long enough for every coordinate within the shape"
    hint = "check the extents of the index arrays and the order of the coordinates"
    try:
        found = invert(format)
    except UsageError as error:
        return Claim("bounds", sentence, (), hint, obstacle=str(error).splitlines()[0])
    return Claim("bounds", sentence, tuple(out_of_bounds_cases(found)), hint)


_STEPS = 20_000_000  # z3's own count of resources, for one case


def has_z3() -> bool:
    """Whether z3 can be imported."""
    from importlib.util import find_spec  # lazy: only verification asks

    return find_spec("z3") is not None


def proved_by_z3(cases: tuple[Conj, ...], facts: Facts) -> bool:
    """Whether z3 shows that no case has a solution, whatever the functions are that obey facts."""
    return all(_is_impossible(case, facts) for case in cases)


def _is_impossible(case: Conj, facts: Facts) -> bool:
    # With quantifiers z3 does not use its arithmetic of products, so they are left out first.
    plain = Facts(known=facts.known)
    return any(_Translation(known).is_impossible(case) for known in (plain, facts))


class _Translation:
    """Terms as those of z3, functions and symbols by name."""

    def __init__(self, facts: Facts) -> None:
        import z3  # lazy: an extra, and slow to load

        self._z3: Any = z3
        self._solver: Any = z3.Solver()
        self._solver.set("rlimit", _STEPS)
        for rule in facts.rules:
            variables = [z3.Int(f"v {name}") for name in rule.variables]
            clause = self._clause(rule.clause)
            self._solver.add(z3.ForAll(variables, clause) if variables else clause)

    def is_impossible(self, case: Conj) -> bool:
        self._solver.add(*map(self._constraint, case.constraints))
        return bool(self._solver.check() == self._z3.unsat)

    def _clause(self, clause: Clause) -> Any:
        z3 = self._z3
        ends = [z3.And(*map(self._constraint, end)) for end in clause.conclusions]
        return z3.Implies(z3.And(*map(self._constraint, clause.premises)), z3.Or(*ends))

    def _constraint(self, constraint: Constraint) -> Any:
        term = self._term(constraint.term)
        return term == 0 if constraint.is_equality else term >= 0

    def _term(self, term: Term) -> Any:
        return self._z3.Sum(
            self._z3.IntVal(term.constant),
            *(self._z3.IntVal(factor) * self._atom(atom) for atom, factor in term.terms),
        )

    def _atom(self, atom: Atom) -> Any:
        z3 = self._z3
        match atom:
            case TupleVar(name=name):
                return z3.Int(f"v {name}")
            case Sym(name=name):
                return z3.Int(f"s {name}")
            case UFCall(name=name, args=args, result=result):
                sorts = [z3.IntSort()] * (len(args) + 1)
                return z3.Function(f"f {name} {result}", *sorts)(*map(self._term, args))
            case Floor(x=x, by=by):
                # z3 rounds down for positive divisors, and all of ours are.
                return self._term(x) / self._term(by)
            case AtomProduct(factors=factors):
                return z3.Product(*map(self._atom, factors))
