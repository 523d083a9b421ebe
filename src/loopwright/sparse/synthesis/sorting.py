"""Sort streams: stable passes that count.

A pass over a key of few possible values puts each entry behind those of smaller keys and those of
its own that came before. What a stream's order says of the wanted one already costs no pass. Where
it says nothing, or a key has too many values to count each, all keys are packed into one number,
which is sorted digit by digit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import INT64
from loopwright.ir.expr import Binary, Const, Expr, Select
from loopwright.sparse.spf.computation import Stmt
from loopwright.sparse.synthesis.order import Order, left_to_sort
from loopwright.sparse.synthesis.ranges import Span
from loopwright.sparse.synthesis.stages import Builder, Learnt, element
from loopwright.sparse.synthesis.stream import Sizes, Stream, cast, over, running_sum
from loopwright.sparse.uf import (
    Atom,
    Call,
    Conj,
    Constraint,
    IntegerSet,
    Linear,
    Sym,
    Var,
    substitute,
)

__all__ = ["listed", "sort"]

DIGIT = 8  # bits of a digit at most: its counters and the lines written to fit the nearest cache
MOST_BITS = 62  # of a packed key

_Each: TypeAlias = Callable[[str, int, Linear, Expr], Stmt]


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
        code = _packed(wanted, tuple(stream.coordinates), sizes)
        if code is not None:
            return _by_digits(stream, code, wanted, builder)
    for key in reversed(keys):
        found = sizes.key(key)
        if found is None:
            raise UsageError(
                f"the order by {key} takes more than {MOST_BITS} bits",
                hint="smaller sizes, or another format",
            )
        stream = _counted(stream, key, found, builder)
    return stream


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


@dataclass(frozen=True)
class _Code:
    """All coordinates in one number that ascends as an order does."""

    key: Linear  # over the coordinates
    bits: int
    parts: tuple[tuple[str, int, int], ...]  # coordinate, its lowest bit, its bits
    curve: int = 0  # bits of each coordinate, where the number is one along Morton's curve
    layout: tuple[Linear, ...] = ()  # sizes, where it is ALTO's

    def coordinate(self, name: str, at: int, number: Linear) -> Linear:
        """A coordinate, the `at`-th of all, from the number."""
        if self.curve or self.layout:
            sizes = self.layout or (Linear.of(1 << self.curve),) * len(self.parts)
            return Linear.of(Call(f"ALTO_{at}", (number, *sizes)))
        low, bits = next((low, bits) for part, low, bits in self.parts if part == name)
        above = number.floor(1 << low)
        return above if low + bits == self.bits else above % (1 << bits)


def _packed(wanted: Order, coordinates: tuple[str, ...], sizes: Sizes) -> _Code | None:
    """The number to sort by; None where the order is not one of plain coordinates or a curve."""
    bits = {name: max(sizes.bits[name], 1) for name in coordinates}
    names = [term.atom.name for term in wanted if isinstance(term.atom, Var)]
    if set(names) == set(coordinates) and len(names) == len(wanted):
        key, low, parts = Linear.of(0), 0, []
        for name in reversed(names):
            key += Linear.of(Var(name)) * (1 << low)
            parts.append((name, low, bits[name]))
            low += bits[name]
        return _Code(key, low, tuple(parts)) if low <= MOST_BITS else None
    call = wanted[0].atom
    if not isinstance(call, Call) or call.name not in ("MORTON", "ALTO"):
        return None
    each = max(bits.values())
    parts = [(name, 0, bits[name]) for name in coordinates]
    if call.name == "MORTON":
        total = each * len(coordinates)
        return _Code(wanted[0], total, tuple(parts), each) if total <= MOST_BITS else None
    layout = call.args[len(coordinates) :]
    total = sum(sizes.bits[name] for name in coordinates)
    return _Code(wanted[0], max(total, 1), tuple(parts), 0, layout) if total <= MOST_BITS else None


def _by_digits(stream: Stream, code: _Code, wanted: Order, builder: Builder) -> Stream:
    """Sort by a packed number; entries travel as the number and the value.

    A first pass deals entries out by their highest bits. The parts are sorted by the rest of the
    bits, the lowest first; they are small enough to stay in a cache meanwhile.
    """
    e = Linear.of(Var("e"))
    top = min(code.bits, builder.parts)
    starts, count = _deal_out(stream, code, top, builder)
    dtype = builder.spaces[stream.values].dtype
    buffers = [
        _Pair(builder.array("keys", INT64, (count,)), builder.array("values", dtype, (count,)))
        for _ in range(2 if code.bits > top else 1)
    ]
    here = buffers[0]
    _deal(stream, code, here, starts, top, builder)
    if code.bits > top:
        here = _sort_parts(buffers, starts, code.bits - top, top, builder)
    where = {
        name: code.coordinate(name, at, element(here.keys, e))
        for at, name in enumerate(stream.coordinates)
    }
    return Stream(over("e", count), where, here.values, e, None, wanted, stream.is_unique, count)


def _deal_out(stream: Stream, code: _Code, top: int, builder: Builder) -> tuple[str, Linear]:
    """Where the parts of equal highest bits begin, and how many entries there are."""
    size = Linear.of((1 << top) + 2)
    starts = builder.array("starts", builder.index, (size,), 0)
    cell = element(starts, _digit(stream.term(code.key), code.bits - top, top) + 2)
    one = Const(1, builder.index)
    builder.stage("digits", [stream.each("count", 0, cell, builder.load(cell) + one)])
    total = f"E{len(builder.stages)}"
    running_sum(builder, starts, size - 1, Learnt(total, starts, (size - 1,)))
    return starts, Linear.of(Sym(total))


def _deal(
    stream: Stream, code: _Code, target: _Pair, starts: str, top: int, builder: Builder
) -> None:
    """Copy each entry into its part. Afterwards starts[x] is where part x begins."""
    key = stream.term(code.key)
    cursor = element(starts, _digit(key, code.bits - top, top) + 1)
    value = builder.load(element(stream.values, stream.place))
    body = _moves(target, cursor, builder.number(key), value, stream.each, builder)
    builder.stage("deal", body)


@dataclass(frozen=True)
class _Pair:
    """Arrays of packed numbers and of values."""

    keys: str
    values: str


def _moves(
    target: _Pair, cursor: Linear, key: Expr, value: Expr, each: _Each, builder: Builder
) -> list[Stmt]:
    """Statements that put an entry where its cursor is, and move the cursor on."""
    at = builder.scalar("at")
    taken = builder.load(cursor)
    return [
        each("take", 0, at, taken),
        each("move", 1, cursor, builder.load(at) + Const(1, taken.dtype)),
        each("key", 2, element(target.keys, at), key),
        each("value", 3, element(target.values, at), value),
    ]


def _sort_parts(buffers: list[_Pair], starts: str, bits: int, top: int, builder: Builder) -> _Pair:
    """Sort each part by the lower bits, digit by digit, between two buffers."""
    passes = -(-bits // DIGIT)
    width = -(-bits // passes)
    b, e, x = (Linear.of(Var(name)) for name in "bex")
    size = Linear.of((1 << width) + 1)
    tables = [builder.array("counts", builder.index, (size,)) for _ in range(passes)]
    parts = over("b", Linear.of(1 << top)).conjs[0].constraints
    inside = [Constraint.ge(e, element(starts, b)), Constraint.lt(e, element(starts, b + 1))]
    entries = IntegerSet(("b", "e"), (Conj.of([*parts, *inside]),))
    cells = IntegerSet(("b", "x"), (Conj.of([*parts, *_within(x, size)]),))
    steps = IntegerSet(("b", "x"), (Conj.of([*parts, *_within(x, size - 1)]),))
    one = Const(1, builder.index)
    body: list[Stmt] = []
    source, target = buffers

    def times(step: int, *inner: Linear | int) -> tuple[Linear, ...]:
        return (b, Linear.of(step), *map(Linear.of, inner))

    # The digits of a part are the same in any order: all are counted in one read.
    first = Binary("eq", builder.number(x), Const(0))
    start = Select(first, builder.load(element(starts, b)), Const(0, builder.index))
    for number, counts in enumerate(tables):
        digit = _digit(element(source.keys, e), number * width, width)
        body.append(Stmt(f"clear{number}", cells, times(0, x, number), counts, (x,), start))
        more = builder.load(element(counts, digit + 1)) + one
        body.append(
            Stmt(f"count{number}", entries, times(1, e, number), counts, (digit + 1,), more)
        )
        sums = builder.load(element(counts, x + 1)) + builder.load(element(counts, x))
        body.append(Stmt(f"sum{number}", steps, times(2, x, number), counts, (x + 1,), sums))
    for number, counts in enumerate(tables):
        digit = _digit(element(source.keys, e), number * width, width)

        def each(name: str, at: int, place: Linear, value: Expr, to: int = number) -> Stmt:
            found = place.atom
            assert isinstance(found, Call)
            when = times(3 + to, e, at)
            return Stmt(f"{name}{to}", entries, when, found.name, found.args, value)

        key, value = (builder.load(element(a, e)) for a in (source.keys, source.values))
        body += _moves(target, element(counts, digit), key, value, each, builder)
        source, target = target, source
    builder.stage("parts", body)
    return source


def _within(x: Linear, count: Linear) -> tuple[Constraint, Constraint]:
    return Constraint.ge(x), Constraint.lt(x, count)


def _digit(key: Linear, shift: int, width: int) -> Linear:
    above = key.floor(1 << shift)
    # A key has nothing above its last digit, which may reach over the width of a number.
    return above if shift + width >= MOST_BITS else above % (1 << width)


def _entries(stream: Stream, builder: Builder) -> Sym:
    """How many entries a stream has."""
    total = Sym(f"E{len(builder.stages)}")
    number = builder.array("entries", builder.index, (Linear.of(1),), fill=0)
    cell = element(number, Linear.of(0))
    count = stream.each("number", 0, cell, builder.load(cell) + Const(1, builder.index))
    builder.stage("number", [count], [Learnt(total.name, number, (Linear.of(0),))])
    return total
