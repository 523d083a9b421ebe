"""Numbering strategies: how the position of an entry in a level is found, and the order needed.

    TABLE     a key is looked up in a table of positions, computed first: diagonals
    CURSOR    entries of a parent take consecutive positions, each parent has a cursor
    RUNNING   a counter advances where the keys change

TABLE needs no order of the entries, CURSOR one among the entries of a parent, RUNNING one in which
equal keys are contiguous: that of the format, or that of the keys.
"""

from __future__ import annotations

from enum import Enum

from loopwright.sparse.synthesis.coalesce import coalesced
from loopwright.sparse.synthesis.counting_sort import sort_entries
from loopwright.sparse.synthesis.entry_iterator import EntryIterator, KeySizes
from loopwright.sparse.synthesis.entry_order import Order, follows, is_contiguous_in
from loopwright.sparse.synthesis.inverse import InverseMap, PositionLevel, read_at
from loopwright.sparse.synthesis.stages import Builder
from loopwright.sparse.synthesis.value_intervals import interval_of
from loopwright.sparse.uf import Atom, Term, TupleVar, UFCall, calls, substitute, variables

__all__ = ["NumberingStrategy", "choose_strategies", "parent_terms"]


class NumberingStrategy(Enum):
    """How the position of an entry in a level is found."""

    TABLE = "table"
    CURSOR = "cursor"
    RUNNING = "running"


def choose_strategies(
    inverse: InverseMap, iterator: EntryIterator, builder: Builder, sizes: KeySizes
) -> tuple[dict[str, NumberingStrategy], EntryIterator]:
    """A strategy for each level, and the iterator in an order in which they work.

    Where the format wants each coordinate once and the iterator may repeat some, equal ones are
    coalesced first, unless their values are summed in one place anyway.
    """
    strategies = _fitting_strategies(inverse, sizes)
    format = inverse.format
    entry = next((level for level in inverse.levels if level.is_entry), None)
    if entry is not None and format.is_unique and not iterator.is_unique:
        iterator = coalesced(sort_entries(iterator, _total_order(inverse), builder, sizes), builder)
    if NumberingStrategy.RUNNING in strategies.values():
        return strategies, sort_entries(
            iterator, _needed(inverse, strategies, sizes), builder, sizes
        )
    if entry is None or strategies[entry.name] is not NumberingStrategy.CURSOR:
        return strategies, iterator
    parents = parent_terms(entry, inverse)
    if not follows(format.order, iterator.order, parents):
        rest = tuple(term for term in format.order if not _is_fixed(term, parents))
        return strategies, sort_entries(iterator, rest, builder, sizes)
    is_numbered = iterator.position is not None and not entry.bound.is_local
    if is_numbered and follows(format.order, iterator.order):
        # The position of an entry in the iterator is its number.
        strategies[entry.name] = NumberingStrategy.RUNNING
    return strategies, iterator


def parent_terms(level: PositionLevel, inverse: InverseMap) -> tuple[Term, ...]:
    """The terms of coordinates under which positions of a level are counted; none under levels."""
    bound = level.bound
    terms = bound.length.args if bound.length is not None else ()
    if bound.parent is not None:
        terms = (bound.parent,)
    names = {name for term in terms for name in variables(term)}
    return terms if names <= set(inverse.format.coordinates) else ()


def _fitting_strategies(inverse: InverseMap, sizes: KeySizes) -> dict[str, NumberingStrategy]:
    parents = [r.bound.parent for r in inverse.levels if r.bound.parent is not None]
    above = {name for parent in parents for name in variables(parent)}
    strategies: dict[str, NumberingStrategy] = {}
    for level in inverse.levels:
        if level.name not in above and _is_table(level, inverse, sizes):
            strategies[level.name] = NumberingStrategy.TABLE
        elif level.is_entry and parent_terms(level, inverse):
            strategies[level.name] = NumberingStrategy.CURSOR
        else:
            strategies[level.name] = NumberingStrategy.RUNNING
    return strategies


def _is_table(level: PositionLevel, inverse: InverseMap, sizes: KeySizes) -> bool:
    """Whether keys are numbered by value: one key, of few values, its array ascending."""
    if level.is_entry or not level.bound.count or len(level.keys) != 1:
        return False
    array = next(s.element for s in inverse.stored if level.name in read_at(s.element))
    is_ascending = inverse.format.index(array.name).monotone == "strictly increasing"
    return is_ascending and sizes.key(level.keys[0]) is not None


def _total_order(inverse: InverseMap) -> Order:
    """The format's order, if it distinguishes coordinates; else that of all coordinates."""
    format = inverse.format
    plain = tuple(Term.of(TupleVar(c)) for c in format.coordinates)
    is_plain = all(_is_curve(term) or not any(True for _ in calls(term)) for term in format.order)
    if format.order and is_plain and is_contiguous_in(plain, format.order):
        return format.order
    return plain


def _needed(
    inverse: InverseMap, strategies: dict[str, NumberingStrategy], sizes: KeySizes
) -> Order:
    """The shortest prefix of the format's order in which running levels have contiguous groups.

    Diagonals are contiguous in no prefix of (i, j): where no level numbers entries, whose order
    is the format's, entries come in the order of the groups, outer levels first, if these are
    terms that can be sorted by.
    """
    order = inverse.format.order
    running = [
        level for level in inverse.levels if strategies[level.name] is NumberingStrategy.RUNNING
    ]
    if any(level.is_entry for level in running):
        return order
    for count in range(len(order) + 1):
        if all(is_contiguous_in(level.group, order[:count]) for level in running):
            return order[:count]
    groups = tuple(dict.fromkeys(term for level in running for term in level.group))
    can_sort = all(interval_of(term, sizes.spans) is not None for term in groups)
    return groups if can_sort else order


def _is_fixed(term: Term, fixed: tuple[Term, ...]) -> bool:
    """Whether equal `fixed` terms leave a term no freedom."""
    known: dict[Atom, Term] = {t.atom: Term.of(0) for t in fixed if t.atom is not None}
    return not variables(substitute(term, known))


def _is_curve(term: Term) -> bool:
    call = term.atom
    return isinstance(call, UFCall) and call.name in ("MORTON", "ALTO")
