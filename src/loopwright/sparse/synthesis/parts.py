"""Sort streams by a packed number: deal entries out into parts, then sort each part in a cache.

    count, deal     entries are dealt out by the highest bits of their numbers
    spans           the least of each coordinate in a part, and how far coordinates spread at most
    ranges          where they spread little: a counting pass for each coordinate, the last first
    digits          otherwise: counting passes over digits of the number, the lowest first

In a part the highest bits are those of its number b, so entries travel as the rest of the bits and
the value. A matrix with its entries near some diagonals needs two passes over parts, whatever its
size: rows of a part are few, and so are the columns from their first to their last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from loopwright.ir.dtypes import INT32, INT64
from loopwright.ir.expr import Binary, Const, Expr, Select
from loopwright.sparse.spf.computation import Stmt
from loopwright.sparse.synthesis.codes import MOST_BITS, Code, packed
from loopwright.sparse.synthesis.order import Order
from loopwright.sparse.synthesis.stages import Builder, Learnt, element
from loopwright.sparse.synthesis.stream import Sizes, Stream, cast, over, running_sum
from loopwright.sparse.uf import Call, Conj, Constraint, IntegerSet, Linear, Sym, Var

__all__ = ["dealt", "sort_in_parts"]

DIGIT = 13  # bits of a digit at most: its counters fit the nearest cache
# Counters of a range are cleared and summed for each part: so many for an entry still pay, against
# one more pass.
_PER_ENTRY = 8
_WORTH_DEALING = 8  # bits of parts: from a million entries on, places lie beyond the caches

_B, _E, _X, _ZERO = *(Linear.of(Var(name)) for name in "bex"), Linear.of(0)


def sort_in_parts(stream: Stream, code: Code, wanted: Order, builder: Builder) -> Stream:
    """The entries of a stream as lists of coordinates and values, sorted by a packed number."""
    parts = _dealt_out(stream, code, builder)
    count = parts.count
    names = {c: builder.array(f"sorted_{c}", builder.index, (count,)) for c in stream.coordinates}
    values = builder.array("sorted_values", builder.spaces[stream.values].dtype, (count,))
    parts.sort(names, values)
    where = {c: element(name, _E) for c, name in names.items()}
    return Stream(over("e", count), where, values, _E, None, wanted, stream.is_unique, count)


def dealt(stream: Stream, builder: Builder, sizes: Sizes) -> Stream:
    """Entries in any order dealt out into parts, whose order is that of all coordinates.

    The tuples are (b, e), e a place in part b. What is stored by coordinates then lies in a cache
    while a part is gone through. Entries with equal coordinates keep their order.
    """
    coordinates = tuple(stream.coordinates)
    code = packed(tuple(Linear.of(Var(c)) for c in coordinates), coordinates, sizes)
    if code is None or stream.order or builder.parts < _WORTH_DEALING:
        return stream
    parts = _dealt_out(stream, code, builder)
    key = element(parts.dealt.keys, _E)
    where = {name: parts.coordinate(name, key) for name in coordinates}
    return Stream(parts.entries, where, parts.dealt.values, _E, None, (), stream.is_unique)


@dataclass(frozen=True)
class _Pair:
    """Arrays of packed numbers and of values."""

    keys: str
    values: str


def _dealt_out(stream: Stream, code: Code, builder: Builder) -> _Parts:
    """Entries copied into parts by the highest bits of their numbers."""
    top = min(code.bits, builder.parts)
    rest = code.bits - top
    starts, count = _count_parts(stream, code, top, builder)
    value = builder.spaces[stream.values].dtype
    key = INT32 if rest < INT32.bits else INT64
    pair = _Pair(builder.array("keys", key, (count,)), builder.array("values", value, (count,)))
    _deal(stream, code, pair, starts, top, builder)
    return _Parts(code, top, starts, count, pair, tuple(stream.coordinates), builder)


def _count_parts(stream: Stream, code: Code, top: int, builder: Builder) -> tuple[str, Linear]:
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
    stream: Stream, code: Code, target: _Pair, starts: str, top: int, builder: Builder
) -> None:
    """Copy each entry into its part. Afterwards starts[x] is where part x begins."""
    key, rest = stream.term(code.key), code.bits - top
    cursor = element(starts, _digit(key, rest, top) + 1)
    at = builder.scalar("at")
    low = cast(builder.number(_digit(key, 0, rest)), builder.spaces[target.keys].dtype)
    value = builder.load(element(stream.values, stream.place))
    one = Const(1, builder.index)
    body = [
        stream.each("take", 0, at, builder.load(cursor)),
        stream.each("move", 1, cursor, builder.load(at) + one),
        stream.each("key", 2, element(target.keys, at), low),
        stream.each("value", 3, element(target.values, at), value),
    ]
    builder.stage("deal", body)


@dataclass(frozen=True)
class _Result:
    """Arrays of coordinates, by name, and of values."""

    coordinates: Mapping[str, str]
    values: str


@dataclass(frozen=True)
class _Pass:
    """A counting pass over a part: the bucket of an entry by the term of its key, and how many."""

    bucket: Callable[[Linear], Linear]
    size: Linear


@dataclass(frozen=True)
class _Parts:
    """Entries dealt out into parts."""

    code: Code
    top: int  # bits that are the number of a part
    starts: str  # where parts begin
    count: Linear  # of entries
    dealt: _Pair
    coordinates: tuple[str, ...]
    builder: Builder

    @property
    def rest(self) -> int:
        return self.code.bits - self.top

    @property
    def domain(self) -> tuple[Constraint, ...]:
        return over("b", Linear.of(1 << self.top)).conjs[0].constraints

    @property
    def entries(self) -> IntegerSet:
        """The entries of each part, where they were dealt to."""
        first, last = element(self.starts, _B), element(self.starts, _B + 1)
        inside = (Constraint.ge(_E, first), Constraint.lt(_E, last))
        return IntegerSet(("b", "e"), (Conj.of([*self.domain, *inside]),))

    @property
    def places(self) -> IntegerSet:
        """The same entries numbered from 0 on in each part."""
        length = element(self.starts, _B + 1) - element(self.starts, _B)
        inside = (Constraint.ge(_E), Constraint.lt(_E, length))
        return IntegerSet(("b", "e"), (Conj.of([*self.domain, *inside]),))

    def sort(self, names: Mapping[str, str], values: str) -> None:
        """Add the stages that sort the parts into arrays of the coordinates and of the values."""
        result = _Result(names, values)
        digits = self._digits()
        if self.code.curve or self.code.layout:
            _, (most,) = self._spans((), result)
            self._sorted("parts", digits, most, result)
            return
        # The last key of the order is the first to be sorted by; a stable pass keeps what was.
        keys = [name for name, _, _ in self.code.parts]
        least, (*spreads, most) = self._spans(keys, result)
        ranges = [
            _Pass(self._above(name, array), spread + 1)
            for name, array, spread in zip(keys, least, spreads, strict=True)
        ]
        counters = sum((spread + 1 for spread in spreads), _ZERO)
        # With as many passes either way, the smaller tables are the better ones.
        most_counters = sum((each.size for each in digits), _ZERO)
        if len(ranges) < len(digits):
            most_counters = (self.count * _PER_ENTRY).floor(1 << self.top) + len(ranges)
        spare = most_counters - counters
        if len(ranges) <= len(digits):
            self._sorted("ranges", ranges, most, result, when=spare)
            self._sorted("digits", digits, most, result, when=-spare - 1)
        else:
            self._sorted("parts", digits, most, result)

    def _above(self, name: str, least: str) -> Callable[[Linear], Linear]:
        return lambda key: self.coordinate(name, key) - element(least, _B)

    def _digits(self) -> list[_Pass]:
        passes = max(-(-self.rest // DIGIT), 1)
        width = -(-self.rest // passes)

        def digit(number: int) -> Callable[[Linear], Linear]:
            return lambda key: _digit(key, number * width, min(width, self.rest - number * width))

        return [_Pass(digit(n), Linear.of(1 << width)) for n in range(passes)]

    def coordinate(self, name: str, key: Linear) -> Linear:
        """A coordinate from the term of the bits that are kept of an entry of part b."""
        whole = key + _B * (1 << self.rest)
        if not self.code.curve and not self.code.layout:
            low, bits = next((low, n) for part, low, n in self.code.parts if part == name)
            if low + bits <= self.rest:
                above = key.floor(1 << low)
                return above if low + bits == self.rest else above % (1 << bits)
        return self.code.coordinate(name, self.coordinates.index(name), whole)

    def _spans(self, names: Sequence[str], result: _Result) -> tuple[list[str], list[Linear]]:
        """Arrays of the least coordinates of parts, and how far coordinates spread at most.

        After the spreads comes the number of entries of the largest part.
        """
        builder, key = self.builder, element(self.dealt.keys, _E)
        parts = IntegerSet(("b",), (Conj.of(self.domain),))
        found = builder.array("spread", builder.index, (Linear.of(len(names) + 1),), 0)
        limit = Const((1 << builder.index.bits - 1) - 1, builder.index)
        body: list[Stmt] = []
        leasts: list[str] = []

        def widest(at: int, value: Expr) -> Stmt:
            cell = element(found, Linear.of(at))
            most = Binary("max", builder.load(cell), value)
            times = (_B, Linear.of(2), Linear.of(at))
            return Stmt(f"most{at}", parts, times, found, (Linear.of(at),), most)

        for at, name in enumerate(names):
            least = builder.array(f"least_{name}", builder.index, (Linear.of(1 << self.top),))
            leasts.append(least)
            low, high = builder.scalar("low"), builder.scalar("high")
            here = cast(builder.number(self.coordinate(name, key)), builder.index)
            for step, (cell, op, first) in enumerate(
                ((low, "min", limit), (high, "max", Const(-1, builder.index)))
            ):
                order = Linear.of(2 * at + step)
                more = Binary(op, builder.load(cell), here)
                body.append(Stmt(f"{op}{at}_", parts, (_B, _ZERO, order), _name(cell), (), first))
                each = (_B, Linear.of(1), _E, order)
                body.append(Stmt(f"{op}{at}", self.entries, each, _name(cell), (), more))
            body.append(widest(at, builder.load(high) - builder.load(low)))
            times = (_B, Linear.of(3), Linear.of(at))
            body.append(Stmt(f"least{at}", parts, times, least, (_B,), builder.load(low)))
        begin, end = (builder.load(element(self.starts, b)) for b in (_B, _B + 1))
        body.append(widest(len(names), end - begin))
        symbols = [f"S{len(builder.stages)}_{at}" for at in range(len(names) + 1)]
        learnt = [Learnt(s, found, (Linear.of(at),)) for at, s in enumerate(symbols)]
        builder.stage("spans", body, learnt, makes=[*result.coordinates.values(), result.values])
        return leasts, [Linear.of(Sym(symbol)) for symbol in symbols]

    def _sorted(
        self,
        stage: str,
        passes: Sequence[_Pass],
        most: Linear,
        result: _Result,
        when: Linear | None = None,
    ) -> None:
        """Stable counting passes over each part; the last one writes where entries belong.

        Entries in between lie in memory for one part only, which stays in a cache.
        """
        builder = self.builder
        value = builder.spaces[self.dealt.values].dtype
        key = builder.spaces[self.dealt.keys].dtype
        buffers = [
            _Pair(builder.array("keys", key, (most,)), builder.array("values", value, (most,)))
            for _ in range(min(len(passes) - 1, 2))
        ]
        body: list[Stmt] = []
        tables = [builder.array("counts", builder.index, (one.size + 1,)) for one in passes]
        for number, (each, counts) in enumerate(zip(passes, tables, strict=True)):
            body += self._counts(number, each, counts, number == len(passes) - 1)
        source, domain = self.dealt, self.entries
        for number, (each, counts) in enumerate(zip(passes, tables, strict=True)):
            bucket = each.bucket(element(source.keys, _E))
            cursor = element(counts, bucket)
            is_last = number == len(passes) - 1
            target: _Pair | _Result = result if is_last else buffers[number % 2]
            body += self._moves(number, domain, cursor, source, target)
            if isinstance(target, _Pair):
                source, domain = target, self.places
        # A part is sorted within the places from starts(b) to starts(b+1).
        apart = [*result.coordinates.values(), result.values]
        inner = [name for pair in buffers for name in (pair.keys, pair.values)]
        builder.stage(stage, body, apart=apart, inner=inner, when=when)

    def _counts(self, number: int, each: _Pass, counts: str, is_last: bool) -> list[Stmt]:
        """Count the entries of each bucket: all passes in one read, for order plays no part."""
        builder, index = self.builder, self.builder.index
        size = each.size + 1
        cells = IntegerSet(("b", "x"), (Conj.of([*self.domain, *_within(_X, size)]),))
        steps = IntegerSet(("b", "x"), (Conj.of([*self.domain, *_within(_X, size - 1)]),))
        zero: Expr = Const(0, index)
        if is_last:
            is_first = Binary("eq", builder.number(_X), Const(0))
            zero = Select(is_first, builder.load(element(self.starts, _B)), zero)
        bucket = each.bucket(element(self.dealt.keys, _E)) + 1
        more = builder.load(element(counts, bucket)) + Const(1, index)
        sums = builder.load(element(counts, _X + 1)) + builder.load(element(counts, _X))
        order = Linear.of(number)
        times = (_B, Linear.of(1), _E, order)
        return [
            # Tables have sizes of their own: each is cleared and summed by a loop of its own.
            Stmt(f"clear{number}", cells, (_B, _ZERO, order, _X), counts, (_X,), zero),
            Stmt(f"count{number}", self.entries, times, counts, (bucket,), more),
            Stmt(f"sum{number}", steps, (_B, Linear.of(2), order, _X), counts, (_X + 1,), sums),
        ]

    def _moves(
        self,
        number: int,
        domain: IntegerSet,
        cursor: Linear,
        source: _Pair,
        target: _Pair | _Result,
    ) -> list[Stmt]:
        """Put each entry where its cursor is, and move the cursor on."""
        builder = self.builder
        at = builder.scalar("at")
        key = element(source.keys, _E)
        made: list[tuple[str, Expr]] = []
        if isinstance(target, _Pair):
            made.append((target.keys, builder.load(key)))
        else:
            for name, array in target.coordinates.items():
                term = builder.number(self.coordinate(name, key))
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
                (_B, Linear.of(3 + number), _E, Linear.of(step)),
                array,
                place,
                value,
            )
            for step, (array, place, value) in enumerate(stores)
        ]


def _name(term: Linear) -> str:
    assert isinstance(term.atom, Call)
    return term.atom.name


def _index(term: Linear) -> tuple[Linear, ...]:
    assert isinstance(term.atom, Call)
    return term.atom.args


def _within(x: Linear, count: Linear) -> tuple[Constraint, Constraint]:
    return Constraint.ge(x), Constraint.lt(x, count)


def _digit(key: Linear, shift: int, width: int) -> Linear:
    above = key.floor(1 << shift) if shift else key
    # A key has nothing above its last digit, which may reach over the width of a number.
    return above if shift + width >= MOST_BITS else above % (1 << width)
