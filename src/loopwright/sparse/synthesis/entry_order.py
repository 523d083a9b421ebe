"""Orders of entries: the keys by which entries ascend, and what one order implies for another.

An order is a tuple of terms over dense coordinates, compared lexicographically. Entries that ascend
by (i, j) ascend by (i), and among entries with equal i they ascend by (j).
"""

from __future__ import annotations

from collections.abc import Iterable

from loopwright.sparse.synthesis.inverse import determines
from loopwright.sparse.uf import Atom, Floor, Sym, Term, TupleVar, UFCall, substitute, variables

__all__ = ["Order", "follows", "is_contiguous_in", "left_to_sort"]

Order = tuple[Term, ...]


def follows(wanted: Order, given: Order, fixed: Iterable[Term] = ()) -> bool:
    """Whether entries in the order `given` are in the order `wanted`, among those with equal
    `fixed` terms."""
    known = _fixing(fixed)
    have = [term for term in (substitute(t, known) for t in given) if variables(term)]
    for want in (substitute(t, known) for t in wanted):
        if not variables(want):
            continue
        if not have:
            return False
        if want != have[0]:
            # floor(i/c) ascends with i; but what comes after it ascends only where i is equal.
            return _ascends(want, have[0]) and want == _last(wanted, known)
        moved = _fixing(have[:1])
        have = [term for term in (substitute(t, moved) for t in have[1:]) if variables(term)]
        known |= moved
    return True


def left_to_sort(wanted: Order, given: Order, fixed: Iterable[Term] = ()) -> int:
    """How many leading keys of `wanted` a stable sort has to go through, from the last of them on.

    The rest of the order is there already: it holds among entries with equal leading keys.
    """
    fixed = tuple(fixed)
    for count in range(len(wanted) + 1):
        if follows(wanted[count:], given, (*fixed, *wanted[:count])):
            return count
    raise AssertionError("nothing is left of an order whose keys are all equal")


def is_contiguous_in(group: Iterable[Term], order: Order) -> bool:
    """Whether entries with equal `group` are contiguous in this order."""
    wanted = set(group)
    if order and _is_curve_block(wanted, order):
        return True
    for count in range(len(order) + 1):
        prefix = order[:count]
        if wanted <= set(prefix) or _determined(wanted, prefix):
            # The prefix must not distinguish what the group holds equal.
            return all(_is_function_of(term, wanted) for term in prefix)
    return False


def _last(wanted: Order, known: dict[Atom, Term]) -> Term:
    return [t for t in (substitute(w, known) for w in wanted) if variables(t)][-1]


def _ascends(term: Term, by: Term) -> bool:
    """Whether `term` never falls where `by` rises."""
    found = term.atom
    return isinstance(found, Floor) and found.x == by and found.by.is_constant


def _fixing(terms: Iterable[Term]) -> dict[Atom, Term]:
    """Substitute constants for terms that are equal."""
    found: dict[Atom, Term] = {}
    for at, term in enumerate(terms):
        if term.atom is not None:
            found[term.atom] = Term.of(Sym(f"fixed {at} {term}"))
    return found


def _determined(wanted: set[Term], given: Order) -> bool:
    names = {name for term in wanted for name in variables(term)}
    return determines(given, names) if names else True


def _is_function_of(term: Term, terms: set[Term]) -> bool:
    """Whether equal `terms` make `term` equal."""
    return term in terms or determines(terms, variables(term))


def _is_curve_block(wanted: set[Term], order: Order) -> bool:
    """Blocks whose sides are powers of two are contiguous along Morton's curve."""
    curve = order[0].atom
    if not isinstance(curve, UFCall) or curve.name != "MORTON":
        return False
    sides = set()
    names = set()
    for term in wanted:
        block = term.atom
        if not isinstance(block, Floor) or not block.by.is_constant:
            return False
        inner = block.x.atom
        if not isinstance(inner, TupleVar):
            return False
        names.add(inner.name)
        sides.add(block.by.constant)
    (side,) = sides if len(sides) == 1 else (0,)
    is_power = side > 0 and side & (side - 1) == 0
    return is_power and names == {n for a in curve.args for n in variables(a)}
