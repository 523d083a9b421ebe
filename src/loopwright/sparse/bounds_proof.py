"""Whether code made from a descriptor stays inside the arrays that the descriptor declares.

Code that reads a format asks index arrays where its map says, code that fills one writes where the
inverse of its map says. Were an array shorter than that, code would leave it; so
that is proved, or small shapes are searched, before code is made for an unverified format.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import product

from loopwright.diagnostics import UsageError
from loopwright.lazy_dataclass import dataclass

from .curves import CURVES
from .format import Format
from .format_symbols import fixed_symbols
from .formats.canonical_formats import is_verified
from .invariants import facts_of, loop_facts
from .synthesis.definitions import CountSymbol, define_arrays
from .synthesis.inverse import InverseMap, invert
from .uf import (
    AtomProduct,
    Conj,
    Constraint,
    Facts,
    Formula,
    Relation,
    Sym,
    Term,
    TupleVar,
    UFCall,
    atoms,
    calls,
    conjoin,
    fresh,
    holds,
    renamed,
    variables,
)
from .validate_tensor import within_domains

__all__ = [
    "OutOfBoundsCase",
    "entry_facts",
    "find_out_of_bounds",
    "find_overrun",
    "invariants_read_inside",
    "joint",
    "out_of_bounds_cases",
    "out_of_domain_calls",
    "reads_inside",
    "require_bounds",
    "violations",
]

_SIDE = 3


@lru_cache(maxsize=64)
def joint(format: Format) -> Relation:
    """{ t -> p : t is a tuple of the map, p its place }, coordinates among the inputs."""
    map_, access = format.map, format.access
    names = tuple(fresh(name, map_.variables) for name in access.outputs)
    own = renamed(access, (*access.inputs, *names))
    outputs = (*map_.outputs, *names)
    conjs = [conjoin(x, y, (*map_.inputs, *outputs)) for x in map_.conjs for y in own.conjs]
    return Relation(map_.inputs, outputs, tuple(conjs))


def out_of_domain_calls(format: Format) -> Iterator[Conj]:
    """A call with arguments outside its domain, where nothing but the call itself forbids it."""
    facts = facts_of(format)
    for conj in joint(format).conjs:
        for call in conj.calls:
            function = facts.function(call.name)
            if function is None:
                continue
            # A constraint on the function cannot be tested before the function has been read.
            own = (c for c in conj.constraints if call.name not in {x.name for x in calls(c.term)})
            yield from violations(Conj.of(own, conj.exists), function.in_domain(call.args))


@lru_cache(maxsize=64)
def reads_inside(format: Format) -> bool:
    """Whether index arrays are known to be read in their domains, in any tensor of a format."""
    if is_verified(format):
        return True
    from .uf.oracle import is_empty  # lazy: loads isl, which built-in formats do without

    return all(is_empty(case, facts_of(format)) for case in out_of_domain_calls(format))


@lru_cache(maxsize=64)
def invariants_read_inside(format: Format) -> bool:
    """Whether code that counts violated invariants reads index arrays in their domains only.

    The arrays have been found to lie in their ranges and to be monotone as declared; no invariant
    is relied on.
    """
    if is_verified(format):
        return True
    from .uf.oracle import is_empty  # lazy: loads isl, which verified formats do without

    facts = loop_facts(format)
    return all(is_empty(case, facts) for case in _invariant_calls(format, facts))


def _invariant_calls(format: Format, facts: Facts) -> Iterator[Conj]:
    """A call in an invariant with arguments outside its domain, where loops reach the call."""
    for rule in format.invariants:
        names = rule.variables
        for premise in (within_domains(format, rule, conj) for conj in rule.premise):
            reached = [(call, _depth(names, call.args)) for call in premise.calls]
            ends = [call for conj in rule.conclusion for call in conj.calls]
            reached += [(call, len(names)) for call in ends]
            for call, depth in reached:
                function = facts.function(call.name)
                if function is not None:
                    bounds = Conj.of(_loop_bounds(premise, names, depth), premise.exists)
                    yield from violations(bounds, function.in_domain(call.args))


def _depth(names: tuple[str, ...], terms: Iterable[Term]) -> int:
    """The number of loops over these variables, in their order, around what uses some of them."""
    used = {name for term in terms for name in variables(term)}
    return max((at + 1 for at, name in enumerate(names) if name in used), default=0)


def _loop_bounds(conj: Conj, names: tuple[str, ...], depth: int) -> Iterator[Constraint]:
    """The constraints that are bounds of the outermost `depth` loops; all others are tests."""
    for constraint in conj.constraints:
        own = _depth(names, [constraint.term])
        if 0 < own <= depth and not constraint.is_equality:
            inner = TupleVar(names[own - 1])
            if abs(constraint.term.coefficient(inner)) == 1 and not _is_called(constraint, inner):
                yield constraint


def _is_called(constraint: Constraint, variable: TupleVar) -> bool:
    return any(variable.name in variables(a) for call in calls(constraint.term) for a in call.args)


@dataclass(frozen=True)
class Requirement:
    """Something that must hold of every coordinate within the shape."""

    text: str
    formula: Formula


def requirements_of(found: InverseMap) -> Iterator[Requirement]:
    """The elements of index arrays that an entry needs, and the numbers they must hold."""
    facts = facts_of(found.format)
    elements: list[UFCall] = []
    for level in found.levels:
        bound = level.bound
        if bound.pointer and bound.parent is not None:
            elements += [UFCall(bound.pointer, (bound.parent + step,)) for step in (0, 1)]
        elif bound.length is not None:
            elements.append(bound.length)
    elements += [stored.element for stored in found.stored]
    for element in dict.fromkeys(elements):
        function = facts.function(element.name)
        if function is not None:
            text = f"{element} outside the domain {function.domain}"
            yield Requirement(text, function.in_domain(element.args))
    for stored in found.stored:
        function = facts.function(stored.element.name)
        if function is not None:
            text = f"{stored}, outside the range {function.range}"
            yield Requirement(text, function.in_range((stored.value,)))


def out_of_bounds_cases(found: InverseMap) -> Iterator[Conj]:
    """Conjunctions of which none has a solution exactly if every entry finds what it needs."""
    base = Conj.of(entry_facts(found))
    for need in requirements_of(found):
        yield from violations(base, need.formula)


def violations(conj: Conj, wanted: Formula) -> Iterator[Conj]:
    """Where `conj` holds and no conjunction of `wanted` does."""
    ways = [[no for c in case.constraints for no in c.negated()] for case in wanted]
    for choice in product(*ways):
        case = conj.conjoined(choice)
        if not case.is_false:
            yield case


def entry_facts(found: InverseMap) -> Iterator[Constraint]:
    """What is known of an entry to be stored: its coordinate, and its numbers in their bounds."""
    format = found.format
    for coordinate, size in zip(format.coordinates, format.sizes, strict=True):
        x = Term.of(TupleVar(coordinate))
        yield from (Constraint.ge(x), Constraint.lt(x, Term.of(Sym(size))))
    for level in found.levels:
        number, bound = Term.of(TupleVar(level.name)), level.bound
        if bound.pointer and bound.parent is not None:
            first, last = (Term.of(UFCall(bound.pointer, (bound.parent + d,))) for d in (0, 1))
            yield from (Constraint.ge(number, first), Constraint.lt(number, last))
            continue
        yield Constraint.ge(number)
        if bound.length is not None:
            yield Constraint.lt(number, Term.of(bound.length))
        if bound.count:
            yield Constraint.lt(number, Term.of(Sym(bound.count)))
    for stored in found.stored:
        # Numbers along a curve are not negative where coordinates are not.
        yield from (Constraint.ge(x) for x in calls(stored.value) if x.name in CURVES)


@dataclass(frozen=True)
class OutOfBoundsCase:
    """A coordinate of a small shape for which an index array is too short."""

    shape: tuple[int, ...]
    at: tuple[int, ...]
    text: str


def find_out_of_bounds(format: Format, side: int = _SIDE) -> OutOfBoundsCase | None:
    """The first coordinate without room in shapes with sides up to `side`; None if there is none.

    Only requirements that coordinates and sizes decide are evaluated.
    """
    needs = list(requirements_of(invert(format)))
    for shape in product(range(1, side + 1), repeat=format.rank):
        symbols = fixed_symbols(format, shape)
        plain = [need for need in needs if _is_plain(need.formula, format, symbols)]
        for at in product(*map(range, shape)):
            values = symbols | dict(zip(format.coordinates, at, strict=True))
            for need in plain:
                if not any(_is_true(conj, values) for conj in need.formula):
                    return OutOfBoundsCase(shape, at, f"the entry {at} needs {need.text}")
    return None


def _is_plain(formula: Formula, format: Format, symbols: Mapping[str, int]) -> bool:
    """Whether a formula can be decided from coordinates and sizes."""
    known = {*map(TupleVar, format.coordinates), *map(Sym, symbols)}
    return all(not conj.calls and set(conj.atoms) - known == set() for conj in formula)


def _is_true(conj: Conj, values: Mapping[str, int]) -> bool:
    return all(holds(constraint, values, {}) for constraint in conj.constraints)


@lru_cache(maxsize=64)
def require_bounds(format: Format) -> None:
    """Refuse a format of one's own whose index arrays are too short for some coordinate."""
    if is_verified(format):
        return
    found = find_out_of_bounds(format)
    if found is not None:
        spelled = " x ".join(map(str, found.shape))
        raise UsageError(
            f"{format.name}: its index arrays are too short for some coordinate",
            found=f"in a tensor of {spelled} {found.text}",
            hint="check the extents of the index arrays and the order of the coordinates",
        )
    text = find_overrun(format)
    if text is not None:
        raise UsageError(
            f"{format.name}: an array is too short for its entries",
            found=f"an entry needs {text}",
            hint="check the domains of index arrays, the access, and `places`",
        )


def find_overrun(format: Format) -> str | None:
    """What some entry needs and does not find, by coordinates and numbers alone; None if all do.

    Numbers of entries take every value below their count, so what fails for one of them fails in
    some tensor. Requirements that depend on the contents of index arrays are left out.
    """
    from .uf.oracle import is_empty  # lazy: loads isl, which built-in formats do without

    found = invert(format)
    try:
        counts = {d.level: d.symbol for d in define_arrays(found) if isinstance(d, CountSymbol)}
    except UsageError:
        return None  # synthesis refuses the format and says why
    free = {*format.coordinates, *counts}
    bounds = [Constraint.ge(Term.of(TupleVar(level))) for level in counts]
    bounds += [Constraint.lt(Term.of(TupleVar(r)), Term.of(Sym(s))) for r, s in counts.items()]
    plain = [c for c in entry_facts(found) if not [*calls(c.term)] and variables(c.term) <= free]
    base = Conj.of([*plain, *bounds])
    inside = Conj.of((Constraint.ge(found.place), Constraint.lt(found.place, format.places)))
    place = Requirement(f"the place {found.place} among {format.places} values", (inside,))
    for need in (*requirements_of(found), place):
        terms = [c.term for conj in need.formula for c in conj.constraints]
        if any([*calls(term)] for term in terms):
            continue
        if any(variables(term) - free for term in terms):
            continue
        if any(isinstance(atom, AtomProduct) for term in terms for atom in atoms(term)):
            continue
        if not all(is_empty(case, facts_of(format)) for case in violations(base, need.formula)):
            return need.text
    return None
