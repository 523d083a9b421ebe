"""What a descriptor must fulfil, as conjunctions that must have no solution.

With T(t, x, p) for "the tuple t of the storage has the dense coordinates x and the place p":

    function   no t has two x, and none two p
    injective  no two t have one x, unless coordinates may repeat
    access     no two t have one p
    calls      no index array is asked outside its domain
    shape      no x lies outside the tensor
    places     no p lies outside the values
    order      no t before t' has a key after that of t'
    room       no x within the shape needs an element outside an index array, or outside its range
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from loopwright.diagnostics import UsageError

from .format import Format
from .promises import facts_of
from .room import cramped_cases, failing, joint, strays
from .synthesis.inverse import invert
from .uf import (
    Atom,
    Conj,
    Constraint,
    Linear,
    Relation,
    Sym,
    Var,
    fresh,
    inverse,
    meet,
    renamed,
    substitute,
)
from .uf.oracle import is_empty, witness
from .uf.prove import ambiguities, is_function

__all__ = ["Claim", "claims_of", "plain_witness", "proved_by_isl"]


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
                "promise an order of the index arrays that excludes it, or say is_unique=False",
            )
        )
    found += [
        Claim(
            "access",
            "no two tuples share a place",
            tuple(ambiguities(inverse(_places(whole)))),
            "look at the access, and at what the pointers promise: are they monotone?",
        ),
        Claim(
            "calls",
            "index arrays are read in their domains",
            tuple(strays(format)) + tuple(_rule_strays(format)),
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
            "look at the access and at `places`",
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
    found.append(_room_claim(format))
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

    Of other cases a solution may be spurious: isl has seen only some instances of the promises.
    """
    for case in claim.cases:
        if all(isinstance(atom, Var | Sym) for atom in case.atoms):
            found = witness(case)
            if found is not None:
                return {str(atom): value for atom, value in found.items()}
    return None


def _rule_strays(format: Format) -> Iterator[Conj]:
    """The same for what rules speak of; a call on bare variables says itself where they range."""
    facts = facts_of(format)
    for rule in format.rules:
        for premise in rule.premise:
            used = [call for conj in (premise, *rule.conclusion) for call in conj.calls]
            bare = [call for call in used if all(isinstance(a.atom, Var) for a in call.args)]
            base = premise
            for call in bare:
                function = facts.function(call.name)
                if function is not None and len(domain := function.in_domain(call.args)) == 1:
                    base = base.conjoined(domain[0].constraints)
            for call in used:
                function = facts.function(call.name)
                if function is not None and call not in bare:
                    yield from failing(base, function.in_domain(call.args))


def _outside(whole: Relation, sizes: Iterable[tuple[str, str]]) -> Iterator[Conj]:
    for coordinate, size in sizes:
        x = Linear.of(Var(coordinate))
        for conj in whole.conjs:
            yield conj.conjoined([Constraint.lt(x, 0)])
            yield conj.conjoined([Constraint.ge(x, Linear.of(Sym(size)))])


def _beyond(whole: Relation, places: Linear) -> Iterator[Conj]:
    place = Linear.of(Var(whole.outputs[-1]))
    for conj in whole.conjs:
        yield conj.conjoined([Constraint.lt(place, 0)])
        yield conj.conjoined([Constraint.ge(place, places)])


def _descents(format: Format) -> Iterator[Conj]:
    """Two tuples, the first before the second, whose keys are the other way round."""
    first = format.map
    taken = {*first.variables, *first.symbols, *(n for c in first.conjs for n in c.exists)}
    names: list[str] = []
    for name in first.variables:
        names.append(fresh(name, taken))
        taken.add(names[-1])
    second = renamed(first, names)
    change: dict[Atom, Linear] = {
        Var(a): Linear.of(Var(b)) for a, b in zip(first.variables, names, strict=True)
    }
    keys = [(key, substitute(key, change)) for key in format.order]
    tuples = list(zip(first.inputs, second.inputs, strict=True))
    earlier = list(_less([(Linear.of(Var(a)), Linear.of(Var(b))) for a, b in tuples]))
    later = list(_less([(there, here) for here, there in keys]))
    for x in first.conjs:
        for y in second.conjs:
            both = meet(x, y, taken)
            for before in earlier:
                for after in later:
                    case = both.conjoined((*before, *after))
                    if not case.is_false:
                        yield case


def _less(pairs: Sequence[tuple[Linear, Linear]]) -> Iterator[tuple[Constraint, ...]]:
    """The ways in which the first of each pair together come before the second."""
    for at, (x, y) in enumerate(pairs):
        same = (Constraint.eq(a, b) for a, b in pairs[:at])
        yield (*same, Constraint.lt(x, y))


def _room_claim(format: Format) -> Claim:
    sentence = "there is room for every coordinate within the shape"
    hint = "look at the extents of the index arrays and at which coordinate is which"
    try:
        found = invert(format)
    except UsageError as error:
        return Claim("room", sentence, (), hint, obstacle=str(error).splitlines()[0])
    return Claim("room", sentence, tuple(cramped_cases(found)), hint)
