"""Ground clauses: rules with the terms at hand in place of their variables.

A rule is used where its calls meet calls that are present: `rowptr(x0)` meets `rowptr(i+1)` with
x0 = i+1. Conclusions may bring new calls, with which rules are tried again, a few rounds at most:
fewer clauses than there could be never make a wrong one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, islice

from loopwright.sparse.uf.constraint import Constraint
from loopwright.sparse.uf.facts import Clause, Facts, Rule
from loopwright.sparse.uf.terms import Atom, Call, Linear, Var
from loopwright.sparse.uf.visit import atoms, substitute, variables

__all__ = ["clause_atoms", "consistency", "instances"]

_MOST_CLAUSES = 3000
_MOST_COVERS = 8


def instances(facts: Facts, present: Iterable[Atom], growth: int) -> tuple[Clause, ...]:
    """The rules of `facts` for the calls among `present`, and for those that come of it.

    Clauses may bring new calls `growth` times; after that only clauses about known calls count.
    """
    known = dict.fromkeys(atom for atom in present if isinstance(atom, Call))
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


def _all_instances(facts: Facts, known: Sequence[Call]) -> tuple[Clause, ...]:
    made = (clause for rule in facts.rules for clause in _instances(rule, known))
    return tuple(dict.fromkeys(islice(made, _MOST_CLAUSES)))


def _calls(clause: Clause) -> Iterator[Call]:
    return (atom for atom in clause_atoms(clause) if isinstance(atom, Call))


def consistency(present: Iterable[Call]) -> Iterator[Clause]:
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


def _instances(rule: Rule, present: Sequence[Call]) -> tuple[Clause, ...]:
    names = _prepared(rule).names
    return _matched(rule, tuple(call for call in present if call.name in names))


@lru_cache(maxsize=4096)
def _matched(rule: Rule, present: tuple[Call, ...]) -> tuple[Clause, ...]:
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
    """A rule in names that no text can spell, ready to meet calls."""

    clause: Clause
    names: frozenset[str]  # of the functions in it
    covers: tuple[tuple[Call, ...], ...]  # small sets of calls that have all its variables


@lru_cache(maxsize=1024)
def _prepared(rule: Rule) -> _Prepared:
    put: dict[Atom, Linear] = {Var(name): Linear.of(Var(f"?{name}")) for name in rule.variables}
    clause = _put(rule.clause, put) or Clause((), ((),))
    wanted = frozenset(f"?{name}" for name in rule.variables)
    patterns = {call: variables(Linear.of(call)) & wanted for call in dict.fromkeys(_calls(clause))}
    useful = [call for call, names in patterns.items() if names]
    covers: list[tuple[Call, ...]] = []
    for size in range(1, len(wanted) + 1):
        for cover in combinations(useful, size):
            names = frozenset[str]().union(*(patterns[call] for call in cover))
            is_smallest = not any(set(smaller) <= set(cover) for smaller in covers)
            if names == wanted and is_smallest:
                covers.append(cover)
    functions = frozenset(call.name for call in patterns)
    return _Prepared(clause, functions, tuple(covers[:_MOST_COVERS]))


def _put(clause: Clause, binding: Mapping[Atom, Linear]) -> Clause | None:
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
    cover: Sequence[Call], present: Sequence[Call], binding: Mapping[Atom, Linear]
) -> Iterator[dict[Atom, Linear]]:
    if not cover:
        yield dict(binding)
        return
    for call in present:
        found = _match_call(cover[0], call, binding)
        if found is not None:
            yield from _matches(cover[1:], present, found)


def _match_call(
    pattern: Call, call: Call, binding: Mapping[Atom, Linear]
) -> dict[Atom, Linear] | None:
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


def _match(shape: Linear, term: Linear, binding: dict[Atom, Linear]) -> dict[Atom, Linear] | None:
    unknown = [a for a in atoms(shape) if isinstance(a, Var) and a.name.startswith("?")]
    if not unknown:
        return binding if shape == term else None
    free = unknown[0]
    factor = shape.coefficient(free)
    if len(unknown) == 1 and factor in (1, -1):
        return {**binding, free: (term - shape.without(free)) * factor}
    inner, outer = shape.atom, term.atom
    if isinstance(inner, Call) and isinstance(outer, Call):
        return _match_call(inner, outer, binding)
    return None
