"""Ground instances of axioms, and Ackermann's reduction of terms to integer unknowns.

An axiom is instantiated where its calls match calls that are present: `rowptr(x0)` matches
`rowptr(i+1)` with x0 = i+1. Conclusions may introduce new calls, for which axioms are instantiated
again, a few rounds at most; leaving out instances never makes a wrong clause.

Ackermann's reduction then replaces each atom by an integer unknown and adds what is lost by that as
clauses: x = y => f(x) = f(y) for calls, the instances of the axioms, and some laws of products and
of quotients by unknown divisors. Every integer solution of the original problem solves the reduced
one; the converse may fail, because only some instances and laws are present. So "no solution" is a
proof, "a solution" is not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations, islice

from loopwright.lazy_dataclass import dataclass
from loopwright.sparse.uf.axioms import Clause, Facts, Rule
from loopwright.sparse.uf.constraints import Conj, Constraint
from loopwright.sparse.uf.linear_terms import (
    Atom,
    AtomProduct,
    Floor,
    Sym,
    Term,
    TupleVar,
    UFCall,
    atoms,
    substitute,
    variables,
)

__all__ = ["GroundProblem", "ackermann", "clause_atoms", "consistency", "instances"]

_MOST_CLAUSES = 3000
_MOST_COVERS = 8


def instances(facts: Facts, present: Iterable[Atom], growth: int) -> tuple[Clause, ...]:
    """Instances of the rules of `facts` for the calls among `present`, and for calls they add.

    Clauses may bring new calls `growth` times; after that only clauses about known calls count.
    """
    known = dict.fromkeys(atom for atom in present if isinstance(atom, UFCall))
    for rule in facts.rules:
        if not rule.variables:
            known.update((call, None) for call in _calls(rule.clause))
    for _ in range(growth):
        before = len(known)
        for clause in _all_instances(facts, tuple(known)):
            known.update((call, None) for call in _calls(clause))
        if len(known) == before:
            break
    return tuple(
        clause
        for clause in _all_instances(facts, tuple(known))
        if all(call in known for call in _calls(clause))
    )


def _all_instances(facts: Facts, known: Sequence[UFCall]) -> tuple[Clause, ...]:
    made = (clause for rule in facts.rules for clause in _instances(rule, known))
    return tuple(dict.fromkeys(islice(made, _MOST_CLAUSES)))


def _calls(clause: Clause) -> Iterator[UFCall]:
    return (atom for atom in clause_atoms(clause) if isinstance(atom, UFCall))


def consistency(present: Iterable[UFCall]) -> Iterator[Clause]:
    """x = y => f(x) = f(y), for each pair of calls of one function."""
    for one, other in combinations(present, 2):
        is_same = (one.name, one.result, len(one.args)) == (
            other.name,
            other.result,
            len(other.args),
        )
        if not is_same:
            continue
        premises = tuple(map(Constraint.eq, one.args, other.args))
        if not any(premise.is_false for premise in premises):
            kept = tuple(premise for premise in premises if not premise.is_true)
            yield Clause(kept, ((Constraint.eq(one, other),),))


def clause_atoms(clause: Clause) -> Iterator[Atom]:
    """Every atom in a clause, with repetitions."""
    for constraint in clause.premises:
        yield from atoms(constraint.term)
    for end in clause.conclusions:
        for constraint in end:
            yield from atoms(constraint.term)


def _instances(rule: Rule, present: Sequence[UFCall]) -> tuple[Clause, ...]:
    names = _prepared(rule).names
    return _matched(rule, tuple(call for call in present if call.name in names))


@lru_cache(maxsize=4096)
def _matched(rule: Rule, present: tuple[UFCall, ...]) -> tuple[Clause, ...]:
    prepared = _prepared(rule)
    found: dict[Clause, None] = {}
    if not rule.variables:
        found[prepared.clause] = None
    for cover in prepared.covers:
        for binding in islice(_matches(cover, present, {}), _MOST_CLAUSES):
            clause = _put(prepared.clause, binding)
            if clause is not None:
                found[clause] = None
    return tuple(found)


@dataclass(frozen=True)
class _Prepared:
    """A rule with variables that no text can spell, ready to be matched."""

    clause: Clause
    names: frozenset[str]  # of the functions in it
    covers: tuple[tuple[UFCall, ...], ...]  # small sets of calls that have all its variables


@lru_cache(maxsize=1024)
def _prepared(rule: Rule) -> _Prepared:
    put: dict[Atom, Term] = {
        TupleVar(name): Term.of(TupleVar(f"?{name}")) for name in rule.variables
    }
    clause = _put(rule.clause, put) or Clause((), ((),))
    wanted = frozenset(f"?{name}" for name in rule.variables)
    patterns = {call: variables(Term.of(call)) & wanted for call in dict.fromkeys(_calls(clause))}
    useful = [call for call, names in patterns.items() if names]
    covers: list[tuple[UFCall, ...]] = []
    for size in range(1, len(wanted) + 1):
        for cover in combinations(useful, size):
            names = frozenset[str]().union(*(patterns[call] for call in cover))
            is_smallest = not any(set(smaller) <= set(cover) for smaller in covers)
            if names == wanted and is_smallest:
                covers.append(cover)
    functions = frozenset(call.name for call in patterns)
    return _Prepared(clause, functions, tuple(covers[:_MOST_COVERS]))


def _put(clause: Clause, binding: Mapping[Atom, Term]) -> Clause | None:
    """The clause with terms for variables; None where it says nothing."""
    premises = dict.fromkeys(c.substitute(binding) for c in clause.premises)
    if any(c.is_false for c in premises):
        return None
    ends = [[c.substitute(binding) for c in end] for end in clause.conclusions]
    kept = [tuple(c for c in end if not c.is_true) for end in ends if not any(map(_is_false, end))]
    if any(not end for end in kept):
        return None
    return Clause(tuple(c for c in premises if not c.is_true), tuple(dict.fromkeys(kept)))


def _is_false(constraint: Constraint) -> bool:
    return constraint.is_false


def _matches(
    cover: Sequence[UFCall], present: Sequence[UFCall], binding: Mapping[Atom, Term]
) -> Iterator[dict[Atom, Term]]:
    if not cover:
        yield dict(binding)
        return
    for call in present:
        found = _match_call(cover[0], call, binding)
        if found is not None:
            yield from _matches(cover[1:], present, found)


def _match_call(
    pattern: UFCall, call: UFCall, binding: Mapping[Atom, Term]
) -> dict[Atom, Term] | None:
    """The binding under which the pattern is the call, for every argument in any order."""
    if (pattern.name, pattern.result, len(pattern.args)) != (
        call.name,
        call.result,
        len(call.args),
    ):
        return None
    found = dict(binding)
    waiting = list(zip(pattern.args, call.args, strict=True))
    while waiting:
        left = []
        for shape, term in waiting:
            more = _match(substitute(shape, found), term, found)
            if more is None:
                left.append((shape, term))
            else:
                found = more
        if len(left) == len(waiting):
            return None
        waiting = left
    return found


def _match(shape: Term, term: Term, binding: dict[Atom, Term]) -> dict[Atom, Term] | None:
    unknown = [a for a in atoms(shape) if isinstance(a, TupleVar) and a.name.startswith("?")]
    if not unknown:
        return binding if shape == term else None
    free = unknown[0]
    factor = shape.coefficient(free)
    if len(unknown) == 1 and factor in (1, -1):
        return {**binding, free: (term - shape.without(free)) * factor}
    inner, outer = shape.atom, term.atom
    if isinstance(inner, UFCall) and isinstance(outer, UFCall):
        return _match_call(inner, outer, binding)
    return None


_MOST_PAIRS = 200


@dataclass(frozen=True)
class GroundProblem:
    """Is there an integer for every atom such that all of `base` and all `clauses` hold?"""

    atoms: tuple[Atom, ...]
    base: tuple[Constraint, ...]
    clauses: tuple[Clause, ...]


def ackermann(conj: Conj, facts: Facts, growth: int, extra: Iterable[Term] = ()) -> GroundProblem:
    """The question whether `conj` holds somewhere; the atoms of `extra` are unknowns too.

    `growth` is how many rounds of instantiation may add calls.
    """
    terms = [c.term for c in conj.constraints] + list(extra)
    present = dict.fromkeys(atom for term in terms for atom in atoms(term))
    clauses = dict.fromkeys(instances(facts, present, growth))
    clauses.update(dict.fromkeys(_divisions(_all(present, clauses))))
    clauses.update(dict.fromkeys(_products(conj, clauses, _all(present, clauses))))
    everything = _all(present, clauses)
    base = dict.fromkeys(conj.constraints)
    for atom in everything:
        base.update(dict.fromkeys(_quotient(atom)))
    calls = (atom for atom in everything if isinstance(atom, UFCall))
    clauses.update(dict.fromkeys(consistency(calls)))
    left = []
    for clause in clauses:
        if clause.premises or len(clause.conclusions) != 1:
            left.append(clause)
        else:
            base.update(dict.fromkeys(clause.conclusions[0]))
    return GroundProblem(tuple(everything), tuple(base), tuple(left))


def _all(present: Iterable[Atom], clauses: Iterable[Clause]) -> dict[Atom, None]:
    found = dict.fromkeys(present)
    for clause in clauses:
        found.update(dict.fromkeys(clause_atoms(clause)))
    return found


def _quotient(atom: Atom) -> Iterator[Constraint]:
    """q = floor(x/b) for a number b is b*q <= x < b*q + b."""
    if isinstance(atom, Floor) and atom.by.is_constant:
        rest = atom.x - Term.of(atom) * atom.by
        yield Constraint.ge(rest)
        yield Constraint.lt(rest, atom.by)


def _divisions(present: Iterable[Atom]) -> Iterator[Clause]:
    """The same for a divisor that is not a number."""
    for atom in present:
        if isinstance(atom, Floor) and not atom.by.is_constant:
            rest = atom.x - Term.of(atom) * atom.by
            ends = (Constraint.ge(rest), Constraint.lt(rest, atom.by))
            yield Clause((Constraint.gt(atom.by),), (ends,))


def _products(conj: Conj, clauses: Iterable[Clause], present: Iterable[Atom]) -> Iterator[Clause]:
    """Laws of a*q for the factors `a` and what each is multiplied with in a term at hand.

    Each constraint is read as a*q + r with all of a's cofactors gathered in q, and then q the same
    way: so BC*(BR*k + r) + c is decomposed like positions in blocks.
    """
    products = [atom for atom in present if isinstance(atom, AtomProduct)]
    if not products:
        return
    waiting = [Term.of(atom) for atom in products]
    for x, y in islice(combinations(products, 2), _MOST_PAIRS):
        waiting.append(Term.of(x) - y)
        yield from _same(x, y)
    waiting += [c.term for c in conj.constraints]
    for clause in clauses:
        waiting += [c.term for c in clause.premises]
        waiting += [c.term for end in clause.conclusions for c in end]
    done: set[tuple[Atom, Term]] = set()
    while waiting:
        for factor, rest in _gathered(waiting.pop()):
            if (factor, rest) not in done:
                done.add((factor, rest))
                waiting.append(rest)
                yield from _laws(Term.of(factor), rest)


def _same(x: AtomProduct, y: AtomProduct) -> Iterator[Clause]:
    """a = b => a*q = b*q"""
    ours, theirs = Counter(x.factors), Counter(y.factors)
    one, other = list((ours - theirs).elements()), list((theirs - ours).elements())
    if len(one) == len(other) == 1:
        yield Clause((Constraint.eq(one[0], other[0]),), ((Constraint.eq(x, y),),))


def _gathered(term: Term) -> Iterator[tuple[Atom, Term]]:
    """a and q for every factor a of a product in a term a*q + r, where a is in no product of r."""
    found: dict[Atom, Term] = {}
    for atom, count in term.terms:
        if not isinstance(atom, AtomProduct):
            continue
        # Sizes are what places are multiplied with; other factors count where there is no size.
        sizes = [factor for factor in atom.factors if isinstance(factor, Sym)]
        for factor in dict.fromkeys(sizes or atom.factors):
            rest = list(atom.factors)
            rest.remove(factor)
            cofactor = Term.of(rest[0] if len(rest) == 1 else AtomProduct(tuple(rest)))
            found[factor] = found.get(factor, Term()) + cofactor * count
    for factor, rest_of_it in found.items():
        # a itself beside a*x belongs to a*(x + 1)
        yield factor, rest_of_it
        if beside := term.coefficient(factor):
            yield factor, rest_of_it + beside


def _laws(a: Term, q: Term) -> Iterator[Clause]:
    """What signs and sizes of a and q say about a*q, by (|a| - 1)*(|q| - 1) >= 0."""
    p = a * q
    ge, le, eq = Constraint.ge, Constraint.le, Constraint.eq
    yield Clause((eq(q),), ((eq(p),),))
    yield Clause((eq(a),), ((eq(p),),))
    yield Clause((eq(a, 1),), ((eq(p, q),),))
    yield Clause((ge(a, 1), ge(q, 1)), ((ge(p, a + q - 1),),))
    yield Clause((ge(a, 1), le(q, -1)), ((le(p, q - a + 1),),))
    yield Clause((le(a, -1), ge(q, 1)), ((le(p, a - q + 1),),))
    yield Clause((le(a, -1), le(q, -1)), ((ge(p, -a - q - 1),),))
