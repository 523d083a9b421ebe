"""Sort streams: stable passes that count.

A pass over a key of few possible values puts each entry behind those of smaller keys and those of
its own that came before. What a stream's order says of the wanted one already costs no pass. Where
it says nothing, or a key has too many values to count each, all keys are packed into one number,
which is sorted digit by digit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from loopwright.diagnostics import UsageError
from loopwright.ir.expr import Const
from loopwright.sparse.synthesis.codes import MOST_BITS, packed
from loopwright.sparse.synthesis.order import Order, left_to_sort
from loopwright.sparse.synthesis.parts import DIGIT, sort_in_parts
from loopwright.sparse.synthesis.ranges import Span
from loopwright.sparse.synthesis.stages import Builder, Learnt, element
from loopwright.sparse.synthesis.stream import Sizes, Stream, cast, over, running_sum
from loopwright.sparse.uf import (
    Atom,
    Linear,
    Sym,
    Var,
    substitute,
)

__all__ = ["listed", "sort"]


def sort(stream: Stream, wanted: Order, builder: Builder, sizes: Sizes) -> Stream:
    """The stream in the order `wanted`, with as few passes as its own order leaves to do.

    Entries in any order are sorted by all keys packed into one number: each pass then writes to few
    places at once, while counters for every coordinate would be met at random.
    """
    count = left_to_sort(wanted, stream.order)
    keys = wanted[:count]
    if not keys:
        return stream
    if not stream.order or any(sizes.key(key) is None for key in keys):
        code = packed(wanted, tuple(stream.coordinates), sizes)
        if code is not None:
            return sort_in_parts(stream, code, wanted, builder, sizes)
    for key in reversed(keys):
        found = sizes.key(key)
        if found is not None:
            stream = _counted(stream, key, found, builder)
        elif isinstance(key.atom, Var):
            stream = _by_digits(stream, key, sizes.bits[key.atom.name], builder)
        else:
            raise UsageError(
                f"the order by {key} takes more than {MOST_BITS} bits",
                hint="smaller sizes, or a format in the order of coordinates, such as csf",
            )
    return stream


def _by_digits(stream: Stream, key: Linear, bits: int, builder: Builder) -> Stream:
    """Stable passes by a coordinate with too many values to count each: its lowest digit first."""
    order = stream.order
    for low in range(0, bits, DIGIT):
        above = key.floor(1 << low) if low else key
        digit = above % (1 << min(DIGIT, bits - low))
        span = Span(Linear.of(0), Linear.of((1 << min(DIGIT, bits - low)) - 1))
        stream = _counted(stream, digit, span, builder)
    return replace(stream, order=(key, *order))


def _counted(stream: Stream, key: Linear, found: Span, builder: Builder) -> Stream:
    """One stable pass by a key with few values."""
    bucket = stream.term(key) - found.low
    # Counters stand two places on: after a running sum, one place on is where a bucket begins.
    size = found.count + 2
    counts = builder.array("counts", builder.index, (size,), fill=0)
    cell = element(counts, bucket + 2)
    one = Const(1, builder.index)
    builder.stage("count", [stream.each("count", 0, cell, builder.load(cell) + one)])
    total = f"E{len(builder.stages)}"
    running_sum(builder, counts, size - 1, Learnt(total, counts, (size - 1,)))
    return _scattered(stream, key, element(counts, bucket + 1), Sym(total), builder)


def _scattered(stream: Stream, key: Linear, cursor: Linear, total: Sym, builder: Builder) -> Stream:
    """Entries copied to the places that cursors give, which move on."""
    shape = (Linear.of(total),)
    names = {c: builder.array(f"sorted_{c}", builder.index, shape) for c in stream.coordinates}
    values = builder.array("sorted_values", builder.spaces[stream.values].dtype, shape)
    at = builder.scalar("at")
    one = Const(1, builder.index)
    body = [
        stream.each("take", 0, at, builder.load(cursor)),
        stream.each("move", 1, cursor, builder.load(at) + one),
    ]
    for number, (name, term) in enumerate(stream.coordinates.items()):
        value = cast(builder.number(term), builder.index)
        body.append(stream.each(f"put_{name}", 2 + number, element(names[name], at), value))
    value = builder.load(element(stream.values, stream.place))
    body.append(stream.each("put_value", 99, element(values, at), value))
    builder.stage("scatter", body)
    return _list(names, values, total, (key, *stream.order), stream.is_unique)


def _list(
    names: Mapping[str, str], values: str, total: Sym, order: Order, is_unique: bool
) -> Stream:
    e, count = Linear.of(Var("e")), Linear.of(total)
    where = {c: element(name, e) for c, name in names.items()}
    return Stream(over("e", count), where, values, e, None, order, is_unique, count)


def listed(stream: Stream, builder: Builder) -> Stream:
    """The entries of a stream as a list 0 <= e < count in its order; a list stays as it is."""
    if stream.count is not None and stream.guard is None:
        e: dict[Atom, Linear] = {Var(stream.domain.variables[0]): Linear.of(Var("e"))}
        return replace(
            stream,
            domain=over("e", stream.count),
            coordinates={c: substitute(t, e) for c, t in stream.coordinates.items()},
            place=substitute(stream.place, e),
        )
    total = _entries(stream, builder)
    cursor = builder.array("cursor", builder.index, (Linear.of(1),), fill=0)
    found = _scattered(stream, Linear.of(0), element(cursor, Linear.of(0)), total, builder)
    return replace(found, order=stream.order)


def _entries(stream: Stream, builder: Builder) -> Sym:
    """How many entries a stream has."""
    total = Sym(f"E{len(builder.stages)}")
    number = builder.array("entries", builder.index, (Linear.of(1),), fill=0)
    cell = element(number, Linear.of(0))
    count = stream.each("number", 0, cell, builder.load(cell) + Const(1, builder.index))
    builder.stage("number", [count], [Learnt(total.name, number, (Linear.of(0),))])
    return total
