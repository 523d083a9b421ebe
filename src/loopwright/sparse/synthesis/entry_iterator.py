"""Entry iterators: the tuples of a format in their order, with coordinates and value of each.

An iterator visits the points of a set in lexicographic order. Where one of its variables numbers
the entries, an array indexed by entries can be addressed without counting. A list has one tuple for
each 0 <= n < NNZ; under pointers the innermost variable counts:

    0 <= x < N,  ptr(x) <= k < ptr(x+1),  ptr(0) = 0,  ptr(N) = M

has one k for each of 0 .. M-1, in order, for pointers ascend; and so on, level by level. That holds
only where no other constraint of the map excludes tuples.
"""

from __future__ import annotations

from collections.abc import Mapping

from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import FLOAT64, INT64, DType
from loopwright.ir.expr import Binary, Const, Expr
from loopwright.lazy_dataclass import dataclass
from loopwright.sparse.format import Format
from loopwright.sparse.invariants import loop_facts
from loopwright.sparse.spf.computation import Stmt
from loopwright.sparse.synthesis.entry_order import Order
from loopwright.sparse.synthesis.stages import ArrayReuse, Builder, RuntimeSymbol, element
from loopwright.sparse.synthesis.value_intervals import Interval, interval_of
from loopwright.sparse.uf import (
    Atom,
    Conj,
    Constraint,
    IntegerSet,
    Relation,
    Term,
    TupleVar,
    UFCall,
    calls,
    evaluate,
    substitute,
    symbols,
    variables,
)

__all__ = [
    "EntryIterator",
    "KeySizes",
    "KnownStatistics",
    "Numbering",
    "defined_by",
    "entry_iterator",
    "find_numbering",
    "once",
    "over",
    "plain_iterator",
    "running",
    "running_sum",
]

_ZERO = Term.of(0)
_FEW = 20  # bits of numbers that are counted one by one in any case


@dataclass(frozen=True)
class KnownStatistics:
    """How many entries repeat the one before, and where the entries of each parent begin."""

    repeats: str  # the symbol of their number
    # Known already, except where none of these terms is negative.
    unknown_when: tuple[Term, ...] = ()
    parent: Term | None = None  # over coordinates
    pointers: str = ""  # pointers[x] entries have a parent below x, while `left` = `right`
    left: Term = _ZERO
    right: Term = _ZERO


_CURVES = ("MORTON", "ALTO")


@dataclass(frozen=True)
class Numbering:
    """The number of a tuple among all in their order, and how many there are."""

    number: Term
    total: Term


def find_numbering(format: Format, domain: IntegerSet) -> Numbering | None:
    """The numbering of the tuples of a format, `domain`, where it is a variable of theirs."""
    conj = domain.conjs[0]
    inequalities = {c for c in conj.constraints if not c.is_equality}
    known: set[Constraint] = set()  # of the tuples that are numbered
    defined: dict[Atom, Term] = {}  # by the variables of the levels
    last: Term | None = None  # the variable that numbers the tuples of the levels so far
    total = _ZERO
    for name in domain.variables:
        x = Term.of(TupleVar(name))
        if definition := _definition(conj.equalities, name, domain):
            known.add(definition)
            factor = definition.term.coefficient(TupleVar(name))
            defined[TupleVar(name)] = definition.term.without(TupleVar(name)) * -factor
            continue
        if last is None:
            above, bounds = _symbolic_end(inequalities, x, name)
        else:
            above, bounds = _segment(format, inequalities, x, last, total)
        if above is None or not inequalities.issuperset(bounds):
            return None
        known |= {*bounds, Constraint.ge(x), Constraint.lt(x, above)}
        last, total = x, above
    if last is None or not _are_implied(set(conj.constraints) - known, known, defined, format):
        return None
    return Numbering(last, total)


def defined_by(number: str, domain: IntegerSet) -> dict[Atom, Term]:
    """Variables of a domain as terms of one of them."""
    found: dict[Atom, Term] = {}
    for name in domain.variables:
        for constraint in domain.conjs[0].equalities:
            factor = constraint.term.coefficient(TupleVar(name))
            rest = substitute(constraint.term.without(TupleVar(name)), found)
            if name != number and abs(factor) == 1 and variables(rest) <= {number}:
                found.setdefault(TupleVar(name), rest * -factor)
    return found


def _definition(
    equalities: tuple[Constraint, ...], name: str, domain: IntegerSet
) -> Constraint | None:
    """An equality that makes a variable a term of those before it."""
    before = {*domain.variables[: domain.variables.index(name)]}
    for constraint in equalities:
        rest = constraint.term.without(TupleVar(name))
        if abs(constraint.term.coefficient(TupleVar(name))) == 1 and variables(rest) <= before:
            return constraint
    return None


def _symbolic_end(
    inequalities: set[Constraint], x: Term, name: str
) -> tuple[Term | None, tuple[Constraint, ...]]:
    """n and the bounds 0 <= x < n, where some constraint says x < n, a term without variables."""
    for constraint in inequalities:
        end = constraint.term + x + 1
        if constraint.term.coefficient(TupleVar(name)) == -1 and not variables(end):
            return end, (Constraint.ge(x), constraint)
    return None, ()


def _segment(
    format: Format, inequalities: set[Constraint], x: Term, parent: Term, count: Term
) -> tuple[Term | None, tuple[Constraint, ...]]:
    """The bounds ptr(parent) <= x < ptr(parent+1), and ptr(count) where an invariant gives it."""
    for index in format.indices:
        if index.rank != 1 or not index.monotone.endswith("increasing"):
            continue
        first, after = (Term.of(UFCall(index.name, (at,))) for at in (parent, parent + 1))
        bounds = Constraint.ge(x, first), Constraint.lt(x, after)
        if not inequalities.issuperset(bounds):
            continue
        promised = [
            conj.constraints
            for rule in format.invariants
            if not rule.variables
            for conj in rule.conclusion[:1]
        ]
        plain = {c for constraints in promised for c in constraints}
        begins = Constraint.eq(UFCall(index.name, (_ZERO,)))
        end = UFCall(index.name, (count,))
        ends = [c.term for c in plain if c.is_equality and abs(c.term.coefficient(end)) == 1]
        if begins in plain and ends:
            return ends[0].without(end) * -ends[0].coefficient(end), bounds
    return None, ()


def _are_implied(
    others: set[Constraint], known: set[Constraint], defined: Mapping[Atom, Term], format: Format
) -> bool:
    """Whether constraints exclude no tuple, by what is known and the invariants of the format.

    An invariant applies to tuples where it uses their variables.
    """
    given = set(known)
    for rule in format.invariants:
        if all(given.issuperset(conj.constraints) for conj in rule.premise):
            given.update(c for conj in rule.conclusion[:1] for c in conj.constraints)
    plain = [c.substitute(defined) for c in others]
    left = [c for c in plain if c not in given and not _follows_from_ranges(c, format)]
    if not left:
        return True
    from loopwright.sparse.uf.oracle import implies  # lazy: isl, which formats of ours do not need

    return implies(Conj.of(given), left, loop_facts(format))


def _follows_from_ranges(constraint: Constraint, format: Format) -> bool:
    """Whether declared ranges imply it: literally, or as a sum of natural numbers."""
    term = constraint.term
    if constraint.is_equality:
        return False
    is_sum = term.constant >= 0 and all(factor > 0 for _, factor in term.terms)
    if is_sum and all(_is_natural(atom, format) for atom, _ in term.terms):
        return True
    return any(constraint == said for call in calls(term) for said in _range_of(call, format))


def _is_natural(atom: Atom, format: Format) -> bool:
    """Whether an element or a number along a curve is never negative."""
    if not isinstance(atom, UFCall):
        return False
    return atom.name.startswith(_CURVES) or Constraint.ge(atom) in _range_of(atom, format)


def _range_of(call: UFCall, format: Format) -> tuple[Constraint, ...]:
    """The range of an index array, of one of its elements."""
    for index in format.indices:
        if index.name == call.name and len(index.range.conjs) == 1:
            (name,) = index.range.variables
            where: dict[Atom, Term] = {TupleVar(name): Term.of(call)}
            return tuple(c.substitute(where) for c in index.range.conjs[0].constraints)
    return ()


@dataclass(frozen=True)
class KeySizes:
    """What is known of the coordinates: their spans, and the bits of their sizes."""

    spans: Mapping[str, Interval]
    bits: Mapping[str, int]  # that the largest coordinate has
    wide: frozenset[str] = frozenset()  # coordinates with too many values to count each

    def key(self, term: Term) -> Interval | None:
        """The span of a key whose values can be counted."""
        names = {a.name for a, _ in term.terms if isinstance(a, TupleVar)}
        found = interval_of(term, self.spans)
        return None if found is None or names & self.wide or self.is_wide(found) else found

    def is_wide(self, span: Interval) -> bool:
        """Whether a span has too many values to count each, as a wide coordinate has."""
        named, by_wide = symbols(span.count), {s for c in self.wide for s in self._named(c)}
        is_known = named <= {s for c in self.spans for s in self._named(c)}
        return bool(named & by_wide) and is_known and self.width(span) > _FEW

    def width(self, span: Interval) -> int:
        """The bits of the largest number above the least in a span."""
        known = {s: 1 << bits for c, bits in self.bits.items() for s in self._named(c)}
        return (evaluate(span.count, known, {}) - 1).bit_length()

    def _named(self, coordinate: str) -> frozenset[str]:
        """The symbols of the size of a coordinate."""
        return symbols(self.spans[coordinate].high)


@dataclass(frozen=True)
class EntryIterator:
    """Tuples of a set in lexicographic order, each with an entry where `guard` holds."""

    domain: IntegerSet
    coordinates: Mapping[str, Term]  # dense coordinate -> term over the variables of the domain
    values: str  # the array of values
    place: Term  # of the value
    guard: Expr | None  # over the variables of the domain
    order: Order  # over the dense coordinates
    is_unique: bool
    count: Term | None = None  # of entries, where the domain is 0 <= e < count and nothing else
    numbering: Numbering | None = None  # of the tuples, where a variable tells it
    statistics: KnownStatistics | None = None  # found by the sort

    @property
    def position(self) -> Numbering | None:
        """The number of an entry among all, where each tuple has one and some variable counts."""
        if self.guard is not None:
            return None
        if self.count is not None:
            return Numbering(Term.of(TupleVar(self.domain.variables[0])), self.count)
        return self.numbering

    def as_element(self, term: Term) -> Term:
        """A variable of the tuples as the element that it is; another term as it is."""
        name = term.atom
        if not isinstance(name, TupleVar):
            return term
        for constraint in self.domain.conjs[0].equalities:
            factor = constraint.term.coefficient(name)
            rest = constraint.term.without(name) * -factor
            if abs(factor) == 1 and isinstance(rest.atom, UFCall):
                return rest
        return term

    def term(self, of: Term) -> Term:
        """A term over dense coordinates as one over the variables of the domain."""
        values: dict[Atom, Term] = {TupleVar(c): value for c, value in self.coordinates.items()}
        return substitute(of, values)

    def each(
        self, name: str, at: int, target: Term, value: Expr, guard: Expr | None = None
    ) -> Stmt:
        """target = value for every entry; `at` orders the statements of one entry."""
        place = target.atom
        assert isinstance(place, UFCall), f"{target} is no element"
        both = self.guard if guard is None else guard
        if self.guard is not None and guard is not None:
            both = Binary("and", self.guard, guard)
        loops = (Term.of(TupleVar(v)) for v in self.domain.variables)
        times = (Term.of(1), *loops, Term.of(at))
        return Stmt(name, self.domain, times, place.name, place.args, value, both)


def once(name: str, target: Term, value: Expr, time: int = 0) -> Stmt:
    """target = value once: before the entries at time 0, after them at time 2."""
    place = target.atom
    assert isinstance(place, UFCall), f"{target} is no element"
    return Stmt(name, IntegerSet((), (Conj(),)), (Term.of(time),), place.name, place.args, value)


def over(variable: str, count: Term) -> IntegerSet:
    """{ [variable] : 0 <= variable < count }"""
    x = Term.of(TupleVar(variable))
    return IntegerSet((variable,), (Conj.of([Constraint.ge(x), Constraint.lt(x, count)]),))


def running_sum(
    builder: Builder, array: str, count: Term, *runtime_symbols: RuntimeSymbol, copy: str = ""
) -> None:
    """array[x+1] += array[x] for 0 <= x < count; `copy` gets what array[x] has become."""
    running(builder, "add", array, count, *runtime_symbols, copy=copy)


def running(
    builder: Builder,
    op: str,
    array: str,
    count: Term,
    *runtime_symbols: RuntimeSymbol,
    copy: str = "",
    reuse: ArrayReuse | None = None,
) -> None:
    """array[x+1] = array[x+1] op array[x]; see `running_sum`."""
    x, domain = Term.of(TupleVar("x")), over("x", count)
    here, there = element(array, x), element(array, x + 1)
    name = "sum" if op == "add" else op
    value = Binary(op, builder.load(there), builder.load(here))
    body = [Stmt(name, domain, (x, Term.of(1)), array, (x + 1,), value)]
    if copy:
        body.append(Stmt("copy", domain, (x, Term.of(0)), copy, (x,), builder.load(here)))
    builder.stage(name, body, runtime_symbols, reuse)


def entry_iterator(format: Format, values: str, dtype: DType, builder: Builder) -> EntryIterator:
    """The entries of a tensor; in formats whose padding is mapped, values other than the fill."""
    if len(format.map.conjs) != 1:
        raise UsageError(f"{format.name} stores entries in several ways at once", str(format.map))
    solved = _outputs(format.map)
    (place,) = _outputs(format.access).values()
    coordinates: dict[Atom, Term] = {TupleVar(name): term for name, term in solved.items()}
    conj = format.map.conjs[0].substitute(coordinates)
    domain = IntegerSet(format.variables, (conj,))
    numbering = find_numbering(format, domain)
    count = None
    if numbering is not None and numbering.number == Term.of(TupleVar(domain.variables[0])):
        first, count = domain.variables[0], numbering.total
        known = defined_by(first, domain)
        solved = {name: substitute(term, known) for name, term in solved.items()}
        place, domain = substitute(place, known), over(first, count)
    builder.given(values, dtype, (format.places,))
    guard = None
    if format.padding is not None and format.padding.is_mapped:
        zero = bool(format.padding.fill) if dtype.kind == "b" else format.padding.fill
        guard = Binary("ne", builder.load(element(values, place)), Const(zero, dtype))
    return EntryIterator(
        domain, solved, values, place, guard, format.order, format.is_unique, count, numbering
    )


def plain_iterator(format: Format) -> EntryIterator | None:
    """The entries of a tensor whatever its types, for questions about a format.

    None where the format is refused by who reads it.
    """
    builder = Builder(INT64, loop_facts(format))
    for index in format.indices:
        builder.given(index.name, INT64, index.extents)
    try:
        return entry_iterator(format, "values", FLOAT64, builder)
    except UsageError:
        return None


def _outputs(relation: Relation) -> dict[str, Term]:
    """Each output as a term over the inputs, by equalities in any order."""
    solved: dict[Atom, Term] = {}
    left = list(relation.outputs)
    while left:
        # What inputs alone give is taken first: it is plainer than what other outputs give.
        ready = {name: term for name in left if (term := _output(relation, name, {})) is not None}
        if not ready:
            ready = {n: term for n in left if (term := _output(relation, n, solved)) is not None}
        if not ready:
            about = [str(c) for c in relation.conjs[0].constraints if left[0] in variables(c.term)]
            raise UsageError(
                f"'{left[0]}' does not follow from the storage",
                found=f"{' && '.join(about) or 'no constraint'}, of {relation}",
                hint=f"an equality that gives '{left[0]}' by {', '.join(relation.inputs)}",
            )
        solved |= {TupleVar(name): term for name, term in ready.items()}
        left = [name for name in left if name not in ready]
    return {name: solved[TupleVar(name)] for name in relation.outputs}


def _output(relation: Relation, name: str, solved: Mapping[Atom, Term]) -> Term | None:
    """An output as a term over the inputs, by one equality and what is solved already."""
    found: Term | None = None
    for constraint in relation.conjs[0].equalities:
        factor = constraint.term.coefficient(TupleVar(name))
        rest = substitute(constraint.term.without(TupleVar(name)), solved)
        if abs(factor) == 1 and variables(rest) <= set(relation.inputs):
            # Of several equal terms the simplest: a variable rather than a load.
            term = rest * -factor
            if found is None or len(str(term)) < len(str(found)):
                found = term
    return found
