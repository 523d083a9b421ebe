"""Stable counting sort of entries, and of places into a permutation.

A pass over a key of few possible values puts each entry after those of smaller keys and those of
equal keys that came before. What the order of the entries already implies costs no pass. Where it
implies nothing, or a key has too many values to count each, all keys are packed into one integer,
which is sorted digit by digit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Const, cast
from loopwright.sparse.format import Format, Index
from loopwright.sparse.spf.computation import Stmt
from loopwright.sparse.synthesis.bucket_partition import MOST_BITS, pack_key
from loopwright.sparse.synthesis.bucket_sort import DIGIT, bucket_sort
from loopwright.sparse.synthesis.definitions import PermutationArray
from loopwright.sparse.synthesis.entry_iterator import EntryIterator, KeySizes, over, running_sum
from loopwright.sparse.synthesis.entry_order import Order, left_to_sort
from loopwright.sparse.synthesis.stages import Builder, RuntimeSymbol, element
from loopwright.sparse.synthesis.value_intervals import (
    Interval,
    interval_of,
    range_maximum,
    range_minimum,
)
from loopwright.sparse.uf import (
    Atom,
    Sym,
    Term,
    TupleVar,
    substitute,
)

__all__ = ["as_list", "sort_entries", "sort_places"]


def sort_entries(
    iterator: EntryIterator, wanted: Order, builder: Builder, sizes: KeySizes
) -> EntryIterator:
    """The entries in the order `wanted`, with only the passes that their own order leaves to do.

    Entries in any order are sorted by all keys packed into one number: each pass then writes to few
    places at once, while counters for every coordinate would be accessed at random.
    """
    count = left_to_sort(wanted, iterator.order)
    keys = wanted[:count]
    if not keys:
        return iterator
    if not iterator.order or any(sizes.key(key) is None for key in keys):
        code = pack_key(wanted, tuple(iterator.coordinates), sizes)
        if code is not None:
            return bucket_sort(iterator, code, wanted, builder, sizes)
    for key in reversed(keys):
        found = interval_of(key, sizes.spans)
        if found is None:
            raise UsageError(
                f"the order by {key} takes more than {MOST_BITS} bits",
                hint="smaller sizes, or a format in the order of coordinates, such as csf",
            )
        if sizes.key(key) is not None:
            iterator = _counted(iterator, key, found, builder)
        else:
            iterator = _by_digits(iterator, key, found, sizes, builder)
    return iterator


def _by_digits(
    iterator: EntryIterator, key: Term, span: Interval, sizes: KeySizes, builder: Builder
) -> EntryIterator:
    """Stable passes by a key with too many values to count each: its lowest digit first."""
    order = iterator.order
    for digit, values in _digits(key - span.low, sizes.width(span)):
        iterator = _counted(iterator, digit, values, builder)
    return replace(iterator, order=(key, *order))


def _digits(number: Term, bits: int) -> Iterator[tuple[Term, Interval]]:
    """The digits of a natural number of `bits` bits, the lowest first, each with its span."""
    for low in range(0, bits, DIGIT):
        above = number.floor(1 << low) if low else number
        size = 1 << min(DIGIT, bits - low)
        yield above % size, Interval(Term.of(0), Term.of(size - 1))


def _counted(
    iterator: EntryIterator, key: Term, found: Interval, builder: Builder
) -> EntryIterator:
    """One stable pass by a key with few values."""
    bucket = iterator.term(key) - found.low
    # Counters stand two places on: after a running sum, one place on is where a bucket begins.
    size = found.count + 2
    counts = builder.array("counts", builder.index, (size,), fill=0)
    cell = element(counts, bucket + 2)
    one = Const(1, builder.index)
    builder.stage("count", [iterator.each("count", 0, cell, builder.load(cell) + one)])
    total = f"E{len(builder.stages)}"
    running_sum(builder, counts, size - 1, RuntimeSymbol(total, counts, (size - 1,)))
    return _scattered(iterator, key, element(counts, bucket + 1), Sym(total), builder)


def _scattered(
    iterator: EntryIterator, key: Term, cursor: Term, total: Sym, builder: Builder
) -> EntryIterator:
    """Entries copied to the places that cursors give, which move on."""
    shape = (Term.of(total),)
    names = {c: builder.array(f"sorted_{c}", builder.index, shape) for c in iterator.coordinates}
    values = builder.array("sorted_values", builder.spaces[iterator.values].dtype, shape)
    at = builder.scalar("at")
    one = Const(1, builder.index)
    body = [
        iterator.each("take", 0, at, builder.load(cursor)),
        iterator.each("move", 1, cursor, builder.load(at) + one),
    ]
    for number, (name, term) in enumerate(iterator.coordinates.items()):
        value = cast(builder.number(term), builder.index)
        body.append(iterator.each(f"put_{name}", 2 + number, element(names[name], at), value))
    value = builder.load(element(iterator.values, iterator.place))
    body.append(iterator.each("put_value", 99, element(values, at), value))
    builder.stage("scatter", body)
    return _list(names, values, total, (key, *iterator.order), iterator.is_unique)


def _list(
    names: Mapping[str, str], values: str, total: Sym, order: Order, is_unique: bool
) -> EntryIterator:
    e, count = Term.of(TupleVar("e")), Term.of(total)
    where = {c: element(name, e) for c, name in names.items()}
    return EntryIterator(over("e", count), where, values, e, None, order, is_unique, count)


def as_list(iterator: EntryIterator, builder: Builder) -> EntryIterator:
    """The entries of an iterator as a list 0 <= e < count in its order; a list stays as it is."""
    if iterator.count is not None and iterator.guard is None:
        e: dict[Atom, Term] = {TupleVar(iterator.domain.variables[0]): Term.of(TupleVar("e"))}
        return replace(
            iterator,
            domain=over("e", iterator.count),
            coordinates={c: substitute(t, e) for c, t in iterator.coordinates.items()},
            place=substitute(iterator.place, e),
        )
    total = _entries(iterator, builder)
    cursor = builder.array("cursor", builder.index, (Term.of(1),), fill=0)
    found = _scattered(iterator, Term.of(0), element(cursor, Term.of(0)), total, builder)
    return replace(found, order=iterator.order)


def _entries(iterator: EntryIterator, builder: Builder) -> Sym:
    """The number of entries of an iterator, counted."""
    total = Sym(f"E{len(builder.stages)}")
    number = builder.array("entries", builder.index, (Term.of(1),), fill=0)
    cell = element(number, Term.of(0))
    count = iterator.each("number", 0, cell, builder.load(cell) + Const(1, builder.index))
    builder.stage("number", [count], [RuntimeSymbol(total.name, number, (Term.of(0),))])
    return total


def sort_places(
    made: PermutationArray,
    format: Format,
    builder: Builder,
    sizes: KeySizes,
    dtypes: Mapping[str, DType],
) -> None:
    """Sort the places 0 .. count-1 by keys, the last key first; stably."""
    count = made.count
    e = Term.of(TupleVar("e"))
    spans = {index.name: found for index in format.indices if (found := _range_of(index))}
    spans[made.variable] = Interval(Term.of(0), count - 1)
    keys = [(key.term, key.falls) for key in made.keys]
    if keys[-1] == (Term.of(TupleVar(made.variable)), False):
        keys.pop()  # a stable sort keeps them so
    origin = e
    for term, falls in reversed(keys):
        found = interval_of(term, spans)
        if found is None:
            raise UsageError(f"{format.name}: the key {term} of '{made.array}' has no bounds")
        key = found.high - term if falls else term - found.low
        passes: Iterable[tuple[Term, Interval]] = [(key, found)]
        if sizes.is_wide(found):
            passes = _digits(key, sizes.width(found))
        for bucket, span in passes:
            here: dict[Atom, Term] = {TupleVar(made.variable): origin}
            origin = _pass(substitute(bucket, here), span, origin, count, builder)
    forth = builder.array(made.array, dtypes[made.array], (count,))
    back = builder.array(made.inverse, builder.index, (count,))
    number = cast(builder.number(origin), dtypes[made.array])
    position = cast(builder.number(e), builder.index)
    domain = over("e", count)
    body = [
        Stmt("forth", domain, (e, Term.of(0)), forth, (e,), number),
        Stmt("back", domain, (e, Term.of(1)), back, (origin,), position),
    ]
    # No place occurs twice among the sorted ones.
    builder.stage("permutation", body, disjoint_writes=[back])


def _pass(bucket: Term, found: Interval, origin: Term, count: Term, builder: Builder) -> Term:
    """One stable counting pass; the term that tells which place stands at e afterwards."""
    e = Term.of(TupleVar("e"))
    size = found.count + 2
    counts = builder.array("counts", builder.index, (size,), 0)
    one = Const(1, builder.index)
    domain = over("e", count)
    cell = element(counts, bucket + 2)
    tally = Stmt("count", domain, (e,), counts, (bucket + 2,), builder.load(cell) + one)
    builder.stage("count", [tally])
    running_sum(builder, counts, size - 1)
    places = builder.array("places", builder.index, (count,))
    at = builder.scalar("at")
    cursor = element(counts, bucket + 1)
    (name,) = (at.atom.name,) if at.atom is not None else ("",)  # type: ignore[union-attr]
    body = [
        Stmt("take", domain, (e, Term.of(0)), name, (), builder.load(cursor)),
        Stmt("move", domain, (e, Term.of(1)), counts, (bucket + 1,), builder.load(at) + one),
        Stmt(
            "put",
            domain,
            (e, Term.of(2)),
            places,
            (at,),
            cast(builder.number(origin), builder.index),
        ),
    ]
    builder.stage("scatter", body)
    return element(places, e)


def _range_of(index: Index) -> Interval | None:
    """The span that the range of an index array gives."""
    low, high = range_minimum(index), range_maximum(index)
    return None if low is None or high is None else Interval(low, high)
