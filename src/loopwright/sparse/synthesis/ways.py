"""How the numbers of ranks are found for an entry, and the order of the stream that this needs.

    TABLE     the number of a key is looked up; the keys are marked and numbered first: diagonals
    CURSOR    entries of a parent take numbers one after the other, each parent has a cursor
    RUNNING   a counter goes on where the keys change

TABLE needs no order of the stream, CURSOR one among the entries of a parent, RUNNING that of the
format.
"""

from __future__ import annotations

from enum import Enum

from loopwright.sparse.synthesis.inverse import Inverse, Rank, read_at
from loopwright.sparse.synthesis.order import Order, follows, is_run_of
from loopwright.sparse.synthesis.repeated import united
from loopwright.sparse.synthesis.sorting import sort
from loopwright.sparse.synthesis.stages import Builder
from loopwright.sparse.synthesis.stream import Sizes, Stream
from loopwright.sparse.uf import Atom, Call, Linear, Var, calls, substitute, variables

__all__ = ["Way", "choose_ways", "parents_of"]


class Way(Enum):
    """How the number of a rank is found."""

    TABLE = "table"
    CURSOR = "cursor"
    RUNNING = "running"


def choose_ways(
    inverse: Inverse, stream: Stream, builder: Builder, sizes: Sizes
) -> tuple[dict[str, Way], Stream]:
    """A way for each rank, and the stream in an order in which they work.

    Where the format wants each coordinate once and the stream may repeat some, equal ones are
    summed first, unless their values meet in one place anyway.
    """
    ways = _fitting(inverse, sizes)
    format = inverse.format
    entry = next((rank for rank in inverse.ranks if rank.is_entry), None)
    if entry is not None and format.is_unique and not stream.is_unique:
        stream = united(sort(stream, _total_order(inverse), builder, sizes), builder)
    if Way.RUNNING in ways.values():
        return ways, sort(stream, _needed(inverse, ways), builder, sizes)
    if entry is None or ways[entry.name] is not Way.CURSOR:
        return ways, stream
    parents = parents_of(entry, inverse)
    if not follows(format.order, stream.order, parents):
        rest = tuple(term for term in format.order if not _is_fixed(term, parents))
        return ways, sort(stream, rest, builder, sizes)
    is_numbered = stream.position is not None and not entry.bound.is_local
    if is_numbered and follows(format.order, stream.order):
        ways[entry.name] = Way.RUNNING  # the position in the stream is the number
    return ways, stream


def parents_of(rank: Rank, inverse: Inverse) -> tuple[Linear, ...]:
    """The terms of coordinates under which numbers of a rank are counted; none where ranks are."""
    bound = rank.bound
    terms = bound.length.args if bound.length is not None else ()
    if bound.parent is not None:
        terms = (bound.parent,)
    names = {name for term in terms for name in variables(term)}
    return terms if names <= set(inverse.format.coordinates) else ()


def _fitting(inverse: Inverse, sizes: Sizes) -> dict[str, Way]:
    parents = [r.bound.parent for r in inverse.ranks if r.bound.parent is not None]
    above = {name for parent in parents for name in variables(parent)}
    ways: dict[str, Way] = {}
    for rank in inverse.ranks:
        if rank.name not in above and _is_table(rank, inverse, sizes):
            ways[rank.name] = Way.TABLE
        elif rank.is_entry and parents_of(rank, inverse):
            ways[rank.name] = Way.CURSOR
        else:
            ways[rank.name] = Way.RUNNING
    return ways


def _is_table(rank: Rank, inverse: Inverse, sizes: Sizes) -> bool:
    """Whether keys are numbered by value: one key, of few values, its array ascending."""
    if rank.is_entry or not rank.bound.count or len(rank.keys) != 1:
        return False
    array = next(s.element for s in inverse.stored if rank.name in read_at(s.element))
    is_ascending = inverse.format.index(array.name).monotone == "strictly increasing"
    return is_ascending and sizes.key(rank.keys[0]) is not None


def _total_order(inverse: Inverse) -> Order:
    """The format's order, if it tells coordinates apart; else that of all coordinates."""
    format = inverse.format
    plain = tuple(Linear.of(Var(c)) for c in format.coordinates)
    is_plain = all(_is_curve(term) or not any(True for _ in calls(term)) for term in format.order)
    if format.order and is_plain and is_run_of(plain, format.order):
        return format.order
    return plain


def _needed(inverse: Inverse, ways: dict[str, Way]) -> Order:
    """The shortest part of the format's order in which the groups of running ranks are runs."""
    order = inverse.format.order
    running = [rank for rank in inverse.ranks if ways[rank.name] is Way.RUNNING]
    if any(rank.is_entry for rank in running):
        return order
    for count in range(len(order)):
        if all(is_run_of(rank.group, order[:count]) for rank in running):
            return order[:count]
    return order


def _is_fixed(term: Linear, fixed: tuple[Linear, ...]) -> bool:
    """Whether equal `fixed` terms leave a term no freedom."""
    known: dict[Atom, Linear] = {t.atom: Linear.of(0) for t in fixed if t.atom is not None}
    return not variables(substitute(term, known))


def _is_curve(term: Linear) -> bool:
    call = term.atom
    return isinstance(call, Call) and call.name in ("MORTON", "ALTO")
