"""Questions about terms as questions about integers: each atom becomes an unknown of its own.

What is lost by that is given back as clauses: x = y => f(x) = f(y) for calls, the rules of the
facts for the calls at hand, and what multiplication and division by unknown numbers obey. Every
solution in integers of the original question solves the new one; the other way round it may not
be so, because rules are instantiated only where calls meet them and products obey some of their
laws only. So "no solution" is a proof, "a solution" is not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, islice

from loopwright.sparse.uf.conj import Conj
from loopwright.sparse.uf.constraint import Constraint
from loopwright.sparse.uf.facts import Clause, Facts
from loopwright.sparse.uf.instantiate import clause_atoms, consistency, instances
from loopwright.sparse.uf.terms import Atom, Call, Floor, Linear, Product, Sym
from loopwright.sparse.uf.visit import atoms

__all__ = ["Question", "ackermann"]

_MOST_PAIRS = 200


@dataclass(frozen=True)
class Question:
    """Is there an integer for every atom such that all of `base` and all `clauses` hold?"""

    atoms: tuple[Atom, ...]
    base: tuple[Constraint, ...]
    clauses: tuple[Clause, ...]


def ackermann(conj: Conj, facts: Facts, growth: int, extra: Iterable[Linear] = ()) -> Question:
    """The question whether `conj` holds somewhere; the atoms of `extra` are unknowns too.

    `growth` says how often rules may bring in calls that were not there.
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
    calls = (atom for atom in everything if isinstance(atom, Call))
    clauses.update(dict.fromkeys(consistency(calls)))
    left = []
    for clause in clauses:
        if clause.premises or len(clause.conclusions) != 1:
            left.append(clause)
        else:
            base.update(dict.fromkeys(clause.conclusions[0]))
    return Question(tuple(everything), tuple(base), tuple(left))


def _all(present: Iterable[Atom], clauses: Iterable[Clause]) -> dict[Atom, None]:
    found = dict.fromkeys(present)
    for clause in clauses:
        found.update(dict.fromkeys(clause_atoms(clause)))
    return found


def _quotient(atom: Atom) -> Iterator[Constraint]:
    """q = floor(x/b) for a number b is b*q <= x < b*q + b."""
    if isinstance(atom, Floor) and atom.by.is_constant:
        rest = atom.x - Linear.of(atom) * atom.by
        yield Constraint.ge(rest)
        yield Constraint.lt(rest, atom.by)


def _divisions(present: Iterable[Atom]) -> Iterator[Clause]:
    """The same for a divisor that is not a number."""
    for atom in present:
        if isinstance(atom, Floor) and not atom.by.is_constant:
            rest = atom.x - Linear.of(atom) * atom.by
            ends = (Constraint.ge(rest), Constraint.lt(rest, atom.by))
            yield Clause((Constraint.gt(atom.by),), (ends,))


def _products(conj: Conj, clauses: Iterable[Clause], present: Iterable[Atom]) -> Iterator[Clause]:
    """Laws of a*q for the factors `a` and what each is multiplied with in a term at hand.

    Each constraint is read as a*q + r with all of a's cofactors gathered in q, and then q the same
    way: so BC*(BR*k + r) + c is taken apart as positions in blocks are.
    """
    products = [atom for atom in present if isinstance(atom, Product)]
    if not products:
        return
    waiting = [Linear.of(atom) for atom in products]
    for x, y in islice(combinations(products, 2), _MOST_PAIRS):
        waiting.append(Linear.of(x) - y)
        yield from _same(x, y)
    waiting += [c.term for c in conj.constraints]
    for clause in clauses:
        waiting += [c.term for c in clause.premises]
        waiting += [c.term for end in clause.conclusions for c in end]
    done: set[tuple[Atom, Linear]] = set()
    while waiting:
        for factor, rest in _gathered(waiting.pop()):
            if (factor, rest) not in done:
                done.add((factor, rest))
                waiting.append(rest)
                yield from _laws(Linear.of(factor), rest)


def _same(x: Product, y: Product) -> Iterator[Clause]:
    """a = b => a*q = b*q"""
    ours, theirs = Counter(x.factors), Counter(y.factors)
    one, other = list((ours - theirs).elements()), list((theirs - ours).elements())
    if len(one) == len(other) == 1:
        yield Clause((Constraint.eq(one[0], other[0]),), ((Constraint.eq(x, y),),))


def _gathered(term: Linear) -> Iterator[tuple[Atom, Linear]]:
    """a and q for every factor a of a product in a term a*q + r, where a is in no product of r."""
    found: dict[Atom, Linear] = {}
    for atom, count in term.terms:
        if not isinstance(atom, Product):
            continue
        # Sizes are what places are multiplied with; other factors count where there is no size.
        sizes = [factor for factor in atom.factors if isinstance(factor, Sym)]
        for factor in dict.fromkeys(sizes or atom.factors):
            rest = list(atom.factors)
            rest.remove(factor)
            cofactor = Linear.of(rest[0] if len(rest) == 1 else Product(tuple(rest)))
            found[factor] = found.get(factor, Linear()) + cofactor * count
    for factor, rest_of_it in found.items():
        # a itself beside a*x belongs to a*(x + 1)
        yield factor, rest_of_it
        if beside := term.coefficient(factor):
            yield factor, rest_of_it + beside


def _laws(a: Linear, q: Linear) -> Iterator[Clause]:
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
