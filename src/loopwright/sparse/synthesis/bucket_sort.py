"""Sort entries by a packed key: partition them into buckets, then sort each bucket in a cache.

    digits, partition  entries are partitioned by the highest bits of their keys
    segments           the entries of each segment, equal but for the lowest bits, are counted
    ranksort           where segments are short: entries go to their segment, then to their rank
    spans              the least of each coordinate in a bucket, and how far coordinates spread
    ranges             where they spread little: a counting pass per coordinate, the last first
    digits             otherwise: counting passes over digits of the key, the lowest first

In a segment of at most w entries the rank sort puts entry e at

    e + #{0 < d < w: key(e+d) < key(e)} - #{0 < d < w: key(e-d) > key(e)}

Entries of other segments in the window are smaller before and larger after, so they do not count,
and equal keys keep their order. There is no branch in it, so it vectorises.

A matrix with its entries near some diagonals needs two passes over buckets, whatever its size: the
rows of a bucket are few, and so are the columns from first to last. Short rows need only one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from loopwright.ir.dtypes import INT64
from loopwright.ir.expr import Binary, Const, Expr, Select, cast
from loopwright.lazy_dataclass import dataclass
from loopwright.sparse.spf.computation import Stmt
from loopwright.sparse.synthesis.bucket_partition import (
    MOST_BITS,
    Buckets,
    KeyValueArrays,
    PackedKey,
    SortedArrays,
    partition,
)
from loopwright.sparse.synthesis.entry_iterator import (
    EntryIterator,
    KeySizes,
    KnownStatistics,
    over,
    running_sum,
)
from loopwright.sparse.synthesis.entry_order import Order
from loopwright.sparse.synthesis.stages import Builder, RuntimeSymbol, element
from loopwright.sparse.uf import Conj, Constraint, IntegerSet, Sym, Term, TupleVar, UFCall

__all__ = ["KeySegments", "bucket_sort", "count_segments", "rank_sort_segments"]

# Pairs of adjacent entries on each side that take as long as a counting pass, by the bits of
# keys: about 3.4 ns, at 0.4 ns for a pair of 32 bits (measured on a Neoverse N1).
_PAIRS_PER_PASS = {32: 8, 64: 4}

_B, _E, _X, _ZERO = *(Term.of(TupleVar(name)) for name in "bex"), Term.of(0)


@dataclass(frozen=True)
class KeySegments:
    """The segments of all buckets, counted."""

    buckets: Buckets
    low: int  # bits in which the keys of a segment differ
    pointers: str  # where segments begin
    cursors: str  # the same, to be moved on
    pairs: str  # of a bucket whose longest segment has w entries: floor(w / 2)
    most: Term  # entries of the largest bucket
    most_pairs: Term
    spare: Term  # not negative where segments are short

    @property
    def builder(self) -> Builder:
        return self.buckets.builder

    def number(self, key: Term) -> Term:
        """The index among all segments of the one that holds a key of bucket b."""
        return _B * (1 << self.buckets.rest - self.low) + key.floor(1 << self.low)


def count_segments(
    buckets: Buckets, low: int, count: Term, passes: int, result: SortedArrays
) -> KeySegments:
    """Add the stages that count segments by all but the `low` lowest bits of keys.

    Segments are short where rank sort takes no longer than the counting passes it replaces.
    """
    builder = buckets.builder
    pointers = builder.array("runs", builder.index, (count + 1,), 0)
    cursors = builder.array("cursors", builder.index, (count,))
    pairs = builder.array("pairs", builder.index, (Term.of(1 << buckets.top),))
    most, most_pairs, work = (
        Term.of(Sym(f"{letter}{len(builder.stages)}")) for letter in ("M", "W", "T")
    )
    bits = builder.spaces[buckets.arrays.keys].dtype.bits
    spare = buckets.count * (_PAIRS_PER_PASS[bits] * (passes - 1)) - work
    segments = KeySegments(buckets, low, pointers, cursors, pairs, most, most_pairs, spare)
    cell = segments.number(element(buckets.arrays.keys, _E)) + 1
    more = builder.load(element(pointers, cell)) + Const(1, builder.index)
    body = [Stmt("count", buckets.entries, (_B, _E), pointers, (cell,), more)]
    builder.stage("segments", body, disjoint_writes=[pointers])  # a segment lies in one bucket
    running_sum(builder, pointers, count, copy=cursors)
    _find_longest(segments, count, (most, most_pairs, work), result)
    return segments


def _find_longest(
    segments: KeySegments, count: Term, found: tuple[Term, Term, Term], result: SortedArrays
) -> None:
    """Find the size of the largest bucket, the most pairs, and the sum of size times pairs."""
    builder, buckets = segments.builder, segments.buckets
    width = 1 << buckets.rest - segments.low
    # The last bucket may have fewer segments than others.
    cells = buckets.within("x", _B * width, (_B + 1) * width, Constraint.lt(_X, count))
    longest = builder.scalar("longest")
    here, there = (builder.load(element(segments.pointers, x)) for x in (_X, _X + 1))
    half = cast(builder.number(longest.floor(2)), builder.index)
    most = Binary("max", builder.load(longest), there - here)
    body = [
        Stmt("none", buckets.numbers, _at(0), _name(longest), (), Const(0, builder.index)),
        Stmt("longest", cells, (*_at(1), _X), _name(longest), (), most),
        Stmt("pairs", buckets.numbers, _at(2), segments.pairs, (_B,), half),
    ]
    length, pairs = builder.number(buckets.length), builder.number(element(segments.pairs, _B))
    largest, total = (builder.array(n, INT64, (Term.of(2),), 0) for n in ("largest", "total"))
    updates = (
        ("max", largest, _ZERO, length),
        ("max", largest, Term.of(1), pairs),
        ("add", total, _ZERO, Binary("mul", length, pairs)),
    )
    runtime_symbols = []
    for at, (symbol, (op, array, place, value)) in enumerate(zip(found, updates, strict=True)):
        more = Binary(op, builder.load(element(array, place)), value)
        times = (*_at(3), Term.of(at))
        body.append(Stmt(f"found{at}", buckets.numbers, times, array, (place,), more))
        runtime_symbols.append(RuntimeSymbol(_symbol(symbol), array, (place,)))
    builder.stage("longest", body, runtime_symbols, makes=result.arrays)


def rank_sort_segments(segments: KeySegments, result: SortedArrays, repeats: str) -> None:
    """Add the stage that rank-sorts buckets with short segments; it sets the symbol `repeats`.

    A bucket stays in a cache: entries go to their segments, compute their ranks, go there, and
    leave as coordinates.
    """
    builder, buckets = segments.builder, segments.buckets
    key, value = (
        builder.spaces[name].dtype for name in (buckets.arrays.keys, buckets.arrays.values)
    )
    pad = 2 * segments.most_pairs + 2  # sentinels on both sides of a bucket
    room = (segments.most + 2 * pad,)
    near = KeyValueArrays(
        builder.array("keys", key, room), builder.array("values", value, (segments.most,))
    )
    ordered = builder.array("keys", key, (segments.most,))
    places = builder.array("places", builder.index, (segments.most,))
    again = builder.array("again", builder.index, (Term.of(1),), 0)
    body = [
        *_padding(buckets, near.keys, pad),
        *_taken(segments, near, pad),
        *_placed(segments, near.keys, places, pad),
        *_put(buckets, near, pad, places, (ordered, result.values)),
        *_left(buckets, ordered, again, result),
    ]
    builder.stage(
        "ranksort",
        body,
        [RuntimeSymbol(repeats, again, (_ZERO,))],
        disjoint_writes=[
            *result.arrays,
            segments.cursors,
        ],  # segments and places of a bucket are its own
        iteration_private=[near.keys, near.values, ordered, places],
        when=(segments.spare,),
    )


def _padding(buckets: Buckets, keys: str, pad: Term) -> list[Stmt]:
    """Sentinels: no key is smaller than those before a bucket, none larger than those after it."""
    dtype = buckets.builder.spaces[keys].dtype
    most = (1 << dtype.bits - (dtype.kind == "i")) - 1
    cells = buckets.within("x", _ZERO, pad)
    after = (_X + buckets.length + pad,)
    return [
        Stmt("before", cells, (*_at(0), _X, _ZERO), keys, (_X,), Const(0, dtype)),
        Stmt("after", cells, (*_at(0), _X, Term.of(1)), keys, after, Const(most, dtype)),
    ]


def _taken(segments: KeySegments, near: KeyValueArrays, pad: Term) -> list[Stmt]:
    """Move entries to their segments, in the order in which they come."""
    builder, buckets = segments.builder, segments.buckets
    at = builder.scalar("at")
    key, value = (element(name, _E) for name in (buckets.arrays.keys, buckets.arrays.values))
    run = segments.number(key)
    here = at - element(buckets.starts, _B)
    moved = builder.load(at) + Const(1, builder.index)
    stores: list[tuple[str, tuple[Term, ...], Expr]] = [
        (_name(at), (), builder.load(element(segments.cursors, run))),
        (segments.cursors, (run,), moved),
        (near.keys, (here + pad,), builder.load(key)),
        (near.values, (here,), builder.load(value)),
    ]
    return _each("take", buckets.entries, _at(1), stores)


def _placed(segments: KeySegments, keys: str, places: str, pad: Term) -> list[Stmt]:
    """The rank of each entry, from two adjacent entries on each side at a time."""
    builder, buckets = segments.builder, segments.buckets

    def shift(pair: Term) -> Expr:
        """The contribution of entries 2*pair + 1 and 2*pair + 2 on each side to the rank."""
        own = builder.load(element(keys, _E + pad))
        found: Expr | None = None
        for step in (1, 2):
            far = 2 * pair + step
            after, before = (builder.load(element(keys, _E + pad + d)) for d in (far, -far))
            up = cast(Binary("lt", after, own), builder.index)
            down = cast(Binary("gt", before, own), builder.index)
            found = up - down if found is None else found + (up - down)
        assert found is not None
        return found

    pairs = buckets.within("x", Term.of(1), element(segments.pairs, _B))
    both = pairs.conjs[0].constraints + buckets.places.conjs[0].constraints
    more = IntegerSet(("b", "x", "e"), (Conj.of(dict.fromkeys(both)),))
    first = cast(builder.number(_E), builder.index) + shift(_ZERO)
    further = builder.load(element(places, _E)) + shift(_X)
    return [
        Stmt("place", buckets.places, (*_at(2), _E), places, (_E,), first),
        Stmt("further", more, (*_at(3), _X, _E), places, (_E,), further),
    ]


def _put(
    buckets: Buckets, near: KeyValueArrays, pad: Term, places: str, targets: tuple[str, str]
) -> list[Stmt]:
    """Move entries to their ranks."""
    builder, (keys, values) = buckets.builder, targets
    to = builder.scalar("to")
    stores: list[tuple[str, tuple[Term, ...], Expr]] = [
        (_name(to), (), builder.load(element(places, _E))),
        (keys, (to,), builder.load(element(near.keys, _E + pad))),
        (values, (to + element(buckets.starts, _B),), builder.load(element(near.values, _E))),
    ]
    return _each("put", buckets.places, _at(4), stores)


def _left(buckets: Buckets, keys: str, again: str, result: SortedArrays) -> list[Stmt]:
    """Coordinates from sorted keys, and how many keys equal the one before."""
    builder = buckets.builder
    own, before = (builder.load(element(keys, e)) for e in (_E, _E - 1))
    is_equal = cast(Binary("eq", own, before), builder.index)
    count = builder.load(element(again, _ZERO)) + is_equal
    later = buckets.within("e", Term.of(1), buckets.length)
    place = (_E + element(buckets.starts, _B),)
    body = []
    for at, (name, array) in enumerate(result.coordinates.items()):
        term = cast(builder.number(buckets.coordinate(name, element(keys, _E))), builder.index)
        times = (*_at(5), Term.of(at), _E)
        body.append(Stmt(f"left{at}", buckets.places, times, array, place, term))
    return [*body, Stmt("again", later, (*_at(6), _E), again, (_ZERO,), count)]


def _each(
    name: str,
    domain: IntegerSet,
    times: tuple[Term, ...],
    stores: list[tuple[str, tuple[Term, ...], Expr]],
) -> list[Stmt]:
    """Stores one after the other for each entry."""
    return [
        Stmt(f"{name}{at}", domain, (*times, _E, Term.of(at)), *store)
        for at, store in enumerate(stores)
    ]


def _at(phase: int) -> tuple[Term, Term]:
    return _B, Term.of(phase)


def _name(term: Term) -> str:
    assert isinstance(term.atom, UFCall)
    return term.atom.name


def _symbol(term: Term) -> str:
    assert isinstance(term.atom, Sym)
    return term.atom.name


DIGIT = 13  # bits of a digit at most: its counters fit the nearest cache
_SEGMENT_BITS = (
    11  # bits that distinguish the segments of a bucket: more counters than entries do not pay
)
# Counters of a range are cleared and summed for each bucket: so many per entry still pay, against
# one more pass.
_PER_ENTRY = 8


def bucket_sort(
    iterator: EntryIterator, code: PackedKey, wanted: Order, builder: Builder, sizes: KeySizes
) -> EntryIterator:
    """The entries of an iterator as lists of coordinates and values, sorted by a packed key."""
    buckets = partition(iterator, code, builder)
    count = buckets.count
    names = {c: builder.array(f"sorted_{c}", builder.index, (count,)) for c in iterator.coordinates}
    values = builder.array("sorted_values", builder.spaces[iterator.values].dtype, (count,))
    statistics = _Sorter(buckets, SortedArrays(names, values), sizes).sort()
    where = {c: element(name, _E) for c, name in names.items()}
    return EntryIterator(
        over("e", count),
        where,
        values,
        _E,
        None,
        wanted,
        iterator.is_unique,
        count,
        statistics=statistics,
    )


@dataclass(frozen=True)
class _Pass:
    """A counting pass over a bucket: the counter of an entry by its key, and how many there are."""

    bucket: Callable[[Term], Term]
    size: Term


@dataclass(frozen=True)
class _Sorter:
    """Adds the stages that sort buckets of entries into arrays of coordinates and values."""

    buckets: Buckets
    result: SortedArrays
    sizes: KeySizes

    @property
    def builder(self) -> Builder:
        return self.buckets.builder

    def sort(self) -> KnownStatistics | None:
        """Add the stages."""
        digits = self._digits()
        if len(digits) == 1:
            self._by_passes(digits)
            return None
        low, count, parent = self._segments()
        passes = min(len(digits), len(self.buckets.coordinates))
        segments = count_segments(self.buckets, low, count, passes, self.result)
        repeats = f"R{len(self.builder.stages)}"
        rank_sort_segments(segments, self.result, repeats)
        unknown_when = (-segments.spare - 1,)
        self._by_passes(digits, unknown_when)
        return KnownStatistics(repeats, unknown_when, parent, segments.pointers)

    def _segments(self) -> tuple[int, Term, Term | None]:
        """The bits in which keys of a segment differ, how many segments, their common key.

        Those of the last coordinate, where a bucket has few enough lines along it; else as many
        as leave a segment about one entry.
        """
        code, rest, top = self.buckets.code, self.buckets.rest, self.buckets.top
        lines = rest - code.fields[0][2]
        if not code.is_plain or len(code.fields) == 1 or not 0 <= lines <= _SEGMENT_BITS:
            width = (
                _SEGMENT_BITS + self.builder.bucket_bits - top
            )  # fewer buckets have more entries
            return rest - width, Term.of(1 << top + width), None
        (_, _, low), *others = code.fields
        if len(others) > 1:
            return low, Term.of(1 << code.bits - low), None
        name = others[0][0]
        return low, self.sizes.spans[name].count, Term.of(TupleVar(name))

    def _by_passes(self, digits: list[_Pass], when: tuple[Term, ...] = ()) -> None:
        """Counting passes, by coordinates or by digits."""
        if not self.buckets.code.is_plain:
            _, (most,) = self._spans((), when)
            self._sorted("buckets", digits, most, when)
            return
        # The last key of the order is the first to be sorted by; a stable pass keeps what was.
        keys = [name for name, _, _ in self.buckets.code.fields]
        least, (*spreads, most) = self._spans(keys, when)
        ranges = [
            _Pass(self._above(name, array), spread + 1)
            for name, array, spread in zip(keys, least, spreads, strict=True)
        ]
        counters = sum((spread + 1 for spread in spreads), _ZERO)
        # With as many passes either way, the smaller tables are the better ones.
        most_counters = sum((each.size for each in digits), _ZERO)
        if len(ranges) < len(digits):
            most_counters = (self.buckets.count * _PER_ENTRY).floor(1 << self.buckets.top) + len(
                ranges
            )
        spare = most_counters - counters
        if len(ranges) <= len(digits):
            self._sorted("ranges", ranges, most, (*when, spare))
            self._sorted("digits", digits, most, (*when, -spare - 1))
        else:
            self._sorted("buckets", digits, most, when)

    def _above(self, name: str, least: str) -> Callable[[Term], Term]:
        return lambda key: self.buckets.coordinate(name, key) - element(least, _B)

    def _digits(self) -> list[_Pass]:
        passes = max(-(-self.buckets.rest // DIGIT), 1)
        width = -(-self.buckets.rest // passes)

        def digit(number: int) -> Callable[[Term], Term]:
            return lambda key: _digit(
                key, number * width, min(width, self.buckets.rest - number * width)
            )

        return [_Pass(digit(n), Term.of(1 << width)) for n in range(passes)]

    def _spans(self, names: Sequence[str], when: tuple[Term, ...]) -> tuple[list[str], list[Term]]:
        """Arrays of the least coordinates of buckets, and how far coordinates spread at most.

        After the spreads comes the number of entries of the largest bucket.
        """
        builder, key = self.builder, element(self.buckets.arrays.keys, _E)
        buckets = self.buckets.numbers
        found = builder.array("spread", builder.index, (Term.of(len(names) + 1),), 0)
        limit = Const((1 << builder.index.bits - 1) - 1, builder.index)
        body: list[Stmt] = []
        leasts: list[str] = []

        def widest(at: int, value: Expr) -> Stmt:
            cell = element(found, Term.of(at))
            most = Binary("max", builder.load(cell), value)
            times = (_B, Term.of(2), Term.of(at))
            return Stmt(f"most{at}", buckets, times, found, (Term.of(at),), most)

        for at, name in enumerate(names):
            least = builder.array(f"least_{name}", builder.index, (Term.of(1 << self.buckets.top),))
            leasts.append(least)
            low, high = builder.scalar("low"), builder.scalar("high")
            here = cast(builder.number(self.buckets.coordinate(name, key)), builder.index)
            for step, (cell, op, first) in enumerate(
                ((low, "min", limit), (high, "max", Const(-1, builder.index)))
            ):
                order = Term.of(2 * at + step)
                more = Binary(op, builder.load(cell), here)
                body.append(Stmt(f"{op}{at}_", buckets, (_B, _ZERO, order), _name(cell), (), first))
                each = (_B, Term.of(1), _E, order)
                body.append(Stmt(f"{op}{at}", self.buckets.entries, each, _name(cell), (), more))
            body.append(widest(at, builder.load(high) - builder.load(low)))
            times = (_B, Term.of(3), Term.of(at))
            body.append(Stmt(f"least{at}", buckets, times, least, (_B,), builder.load(low)))
        begin, end = (builder.load(element(self.buckets.starts, b)) for b in (_B, _B + 1))
        body.append(widest(len(names), end - begin))
        symbols = [f"S{len(builder.stages)}_{at}" for at in range(len(names) + 1)]
        runtime_symbols = [RuntimeSymbol(s, found, (Term.of(at),)) for at, s in enumerate(symbols)]
        builder.stage("spans", body, runtime_symbols, makes=self.result.arrays, when=when)
        return leasts, [Term.of(Sym(symbol)) for symbol in symbols]

    def _sorted(
        self,
        stage: str,
        passes: Sequence[_Pass],
        most: Term,
        when: tuple[Term, ...],
    ) -> None:
        """Stable counting passes over each bucket; the last one writes to the result.

        Intermediate entries take memory for one bucket only, which stays in a cache.
        """
        builder = self.builder
        value = builder.spaces[self.buckets.arrays.values].dtype
        key = builder.spaces[self.buckets.arrays.keys].dtype
        buffers = [
            KeyValueArrays(
                builder.array("keys", key, (most,)), builder.array("values", value, (most,))
            )
            for _ in range(min(len(passes) - 1, 2))
        ]
        body: list[Stmt] = []
        tables = [builder.array("counts", builder.index, (one.size + 1,)) for one in passes]
        for number, (each, counts) in enumerate(zip(passes, tables, strict=True)):
            body += self._counts(number, each, counts, number == len(passes) - 1)
        source, domain = self.buckets.arrays, self.buckets.entries
        for number, (each, counts) in enumerate(zip(passes, tables, strict=True)):
            bucket = each.bucket(element(source.keys, _E))
            cursor = element(counts, bucket)
            is_last = number == len(passes) - 1
            target: KeyValueArrays | SortedArrays = self.result if is_last else buffers[number % 2]
            body += self._moves(number, domain, cursor, source, target)
            if isinstance(target, KeyValueArrays):
                source, domain = target, self.buckets.places
        # A bucket is sorted within the places from starts(b) to starts(b+1).
        disjoint_writes = self.result.arrays
        iteration_private = [name for pair in buffers for name in (pair.keys, pair.values)]
        builder.stage(
            stage,
            body,
            disjoint_writes=disjoint_writes,
            iteration_private=iteration_private,
            when=when,
        )

    def _counts(self, number: int, each: _Pass, counts: str, is_last: bool) -> list[Stmt]:
        """Count the entries of each bucket: all passes in one read, for order plays no part."""
        builder, index = self.builder, self.builder.index
        size = each.size + 1
        cells, steps = (self.buckets.within("x", _ZERO, end) for end in (size, size - 1))
        zero: Expr = Const(0, index)
        if is_last:
            is_first = Binary("eq", builder.number(_X), Const(0))
            zero = Select(is_first, builder.load(element(self.buckets.starts, _B)), zero)
        bucket = each.bucket(element(self.buckets.arrays.keys, _E)) + 1
        more = builder.load(element(counts, bucket)) + Const(1, index)
        sums = builder.load(element(counts, _X + 1)) + builder.load(element(counts, _X))
        order = Term.of(number)
        times = (_B, Term.of(1), _E, order)
        return [
            # Tables differ in size: each is cleared and summed by a separate loop.
            Stmt(f"clear{number}", cells, (_B, _ZERO, order, _X), counts, (_X,), zero),
            Stmt(f"count{number}", self.buckets.entries, times, counts, (bucket,), more),
            Stmt(f"sum{number}", steps, (_B, Term.of(2), order, _X), counts, (_X + 1,), sums),
        ]

    def _moves(
        self,
        number: int,
        domain: IntegerSet,
        cursor: Term,
        source: KeyValueArrays,
        target: KeyValueArrays | SortedArrays,
    ) -> list[Stmt]:
        """Put each entry where its cursor is, and move the cursor on."""
        builder = self.builder
        at = builder.scalar("at")
        key = element(source.keys, _E)
        made: list[tuple[str, Expr]] = []
        if isinstance(target, KeyValueArrays):
            made.append((target.keys, builder.load(key)))
        else:
            for name, array in target.coordinates.items():
                term = builder.number(self.buckets.coordinate(name, key))
                made.append((array, cast(term, builder.index)))
        made.append((target.values, builder.load(element(source.values, _E))))
        taken = builder.load(cursor)
        moved = builder.load(at) + Const(1, taken.dtype)
        stores = [(_name(at), (), taken), (_name(cursor), _index(cursor), moved)]
        stores += [(array, (at,), value) for array, value in made]
        return [
            Stmt(
                f"move{number}_{step}",
                domain,
                (_B, Term.of(3 + number), _E, Term.of(step)),
                array,
                place,
                value,
            )
            for step, (array, place, value) in enumerate(stores)
        ]


def _index(term: Term) -> tuple[Term, ...]:
    assert isinstance(term.atom, UFCall)
    return term.atom.args


def _digit(key: Term, shift: int, width: int) -> Term:
    above = key.floor(1 << shift) if shift else key
    # A key has nothing above its last digit, which may reach over the width of a number.
    return above if shift + width >= MOST_BITS else above % (1 << width)
