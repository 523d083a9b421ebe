"""Sort streams by a packed number: deal entries out into parts, then sort each part in a cache.

    count, deal     entries are dealt out by the highest bits of their numbers
    runs            entries that agree but for the lowest bits are counted
    neighbours      where runs are short: entries go to their runs, and find their places there
    spans           the least of each coordinate in a part, and how far coordinates spread at most
    ranges          where they spread little: a counting pass for each coordinate, the last first
    digits          otherwise: counting passes over digits of the number, the lowest first

A matrix with its entries near some diagonals needs two passes over parts, whatever its size: rows
of a part are few, and so are the columns from their first to their last. Short rows need but one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from loopwright.ir.expr import Binary, Const, Expr, Select
from loopwright.sparse.spf.computation import Stmt
from loopwright.sparse.synthesis.codes import MOST_BITS, Code
from loopwright.sparse.synthesis.deal import Pair, Parts, Result, deal
from loopwright.sparse.synthesis.order import Order
from loopwright.sparse.synthesis.runs import count_runs, sort_runs
from loopwright.sparse.synthesis.stages import Builder, Learnt, element
from loopwright.sparse.synthesis.stream import Sizes, Stream, cast, over
from loopwright.sparse.synthesis.told import Told
from loopwright.sparse.uf import Call, IntegerSet, Linear, Sym, Var

__all__ = ["sort_in_parts"]

DIGIT = 13  # bits of a digit at most: its counters fit the nearest cache
_RUNS = 11  # bits that tell runs of a part from each other: more counters than entries do not pay
# Counters of a range are cleared and summed for each part: so many for an entry still pay, against
# one more pass.
_PER_ENTRY = 8

_B, _E, _X, _ZERO = *(Linear.of(Var(name)) for name in "bex"), Linear.of(0)


def sort_in_parts(
    stream: Stream, code: Code, wanted: Order, builder: Builder, sizes: Sizes
) -> Stream:
    """The entries of a stream as lists of coordinates and values, sorted by a packed number."""
    parts = deal(stream, code, builder)
    count = parts.count
    names = {c: builder.array(f"sorted_{c}", builder.index, (count,)) for c in stream.coordinates}
    values = builder.array("sorted_values", builder.spaces[stream.values].dtype, (count,))
    told = _Sorter(parts, Result(names, values), sizes).sort()
    where = {c: element(name, _E) for c, name in names.items()}
    return Stream(
        over("e", count), where, values, _E, None, wanted, stream.is_unique, count, told=told
    )


@dataclass(frozen=True)
class _Pass:
    """A counting pass over a part: the bucket of an entry by the term of its key, and how many."""

    bucket: Callable[[Linear], Linear]
    size: Linear


@dataclass(frozen=True)
class _Sorter:
    """Adds the stages that sort entries in parts into arrays of coordinates and values."""

    parts: Parts
    result: Result
    sizes: Sizes

    @property
    def builder(self) -> Builder:
        return self.parts.builder

    def sort(self) -> Told | None:
        """Add the stages."""
        digits = self._digits()
        if len(digits) == 1:
            self._by_passes(digits)
            return None
        low, count, parent = self._runs()
        passes = min(len(digits), len(self.parts.coordinates))
        runs = count_runs(self.parts, low, count, passes, self.result)
        repeats = f"R{len(self.builder.stages)}"
        sort_runs(runs, self.result, repeats)
        untold = (-runs.spare - 1,)
        self._by_passes(digits, untold)
        return Told(repeats, untold, parent, runs.pointers)

    def _runs(self) -> tuple[int, Linear, Linear | None]:
        """The bits in which keys of a run differ, the number of runs, and what a run has in common.

        Those of the last coordinate, where a part has few enough lines along it; else as many as
        leave a run about one entry.
        """
        code, rest, top = self.parts.code, self.parts.rest, self.parts.top
        lines = rest - code.parts[0][2]
        if not code.is_plain or len(code.parts) == 1 or not 0 <= lines <= _RUNS:
            width = _RUNS + self.builder.parts - top  # fewer parts have more entries
            return rest - width, Linear.of(1 << top + width), None
        (_, _, low), *others = code.parts
        if len(others) > 1:
            return low, Linear.of(1 << code.bits - low), None
        name = others[0][0]
        return low, self.sizes.spans[name].count, Linear.of(Var(name))

    def _by_passes(self, digits: list[_Pass], when: tuple[Linear, ...] = ()) -> None:
        """Counting passes, by coordinates or by digits."""
        if not self.parts.code.is_plain:
            _, (most,) = self._spans((), when)
            self._sorted("parts", digits, most, when)
            return
        # The last key of the order is the first to be sorted by; a stable pass keeps what was.
        keys = [name for name, _, _ in self.parts.code.parts]
        least, (*spreads, most) = self._spans(keys, when)
        ranges = [
            _Pass(self._above(name, array), spread + 1)
            for name, array, spread in zip(keys, least, spreads, strict=True)
        ]
        counters = sum((spread + 1 for spread in spreads), _ZERO)
        # With as many passes either way, the smaller tables are the better ones.
        most_counters = sum((each.size for each in digits), _ZERO)
        if len(ranges) < len(digits):
            most_counters = (self.parts.count * _PER_ENTRY).floor(1 << self.parts.top) + len(ranges)
        spare = most_counters - counters
        if len(ranges) <= len(digits):
            self._sorted("ranges", ranges, most, (*when, spare))
            self._sorted("digits", digits, most, (*when, -spare - 1))
        else:
            self._sorted("parts", digits, most, when)

    def _above(self, name: str, least: str) -> Callable[[Linear], Linear]:
        return lambda key: self.parts.coordinate(name, key) - element(least, _B)

    def _digits(self) -> list[_Pass]:
        passes = max(-(-self.parts.rest // DIGIT), 1)
        width = -(-self.parts.rest // passes)

        def digit(number: int) -> Callable[[Linear], Linear]:
            return lambda key: _digit(
                key, number * width, min(width, self.parts.rest - number * width)
            )

        return [_Pass(digit(n), Linear.of(1 << width)) for n in range(passes)]

    def _spans(
        self, names: Sequence[str], when: tuple[Linear, ...]
    ) -> tuple[list[str], list[Linear]]:
        """Arrays of the least coordinates of parts, and how far coordinates spread at most.

        After the spreads comes the number of entries of the largest part.
        """
        builder, key = self.builder, element(self.parts.dealt.keys, _E)
        parts = self.parts.numbers
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
            least = builder.array(f"least_{name}", builder.index, (Linear.of(1 << self.parts.top),))
            leasts.append(least)
            low, high = builder.scalar("low"), builder.scalar("high")
            here = cast(builder.number(self.parts.coordinate(name, key)), builder.index)
            for step, (cell, op, first) in enumerate(
                ((low, "min", limit), (high, "max", Const(-1, builder.index)))
            ):
                order = Linear.of(2 * at + step)
                more = Binary(op, builder.load(cell), here)
                body.append(Stmt(f"{op}{at}_", parts, (_B, _ZERO, order), _name(cell), (), first))
                each = (_B, Linear.of(1), _E, order)
                body.append(Stmt(f"{op}{at}", self.parts.entries, each, _name(cell), (), more))
            body.append(widest(at, builder.load(high) - builder.load(low)))
            times = (_B, Linear.of(3), Linear.of(at))
            body.append(Stmt(f"least{at}", parts, times, least, (_B,), builder.load(low)))
        begin, end = (builder.load(element(self.parts.starts, b)) for b in (_B, _B + 1))
        body.append(widest(len(names), end - begin))
        symbols = [f"S{len(builder.stages)}_{at}" for at in range(len(names) + 1)]
        learnt = [Learnt(s, found, (Linear.of(at),)) for at, s in enumerate(symbols)]
        builder.stage("spans", body, learnt, makes=self.result.arrays, when=when)
        return leasts, [Linear.of(Sym(symbol)) for symbol in symbols]

    def _sorted(
        self,
        stage: str,
        passes: Sequence[_Pass],
        most: Linear,
        when: tuple[Linear, ...],
    ) -> None:
        """Stable counting passes over each part; the last one writes where entries belong.

        Entries in between lie in memory for one part only, which stays in a cache.
        """
        builder = self.builder
        value = builder.spaces[self.parts.dealt.values].dtype
        key = builder.spaces[self.parts.dealt.keys].dtype
        buffers = [
            Pair(builder.array("keys", key, (most,)), builder.array("values", value, (most,)))
            for _ in range(min(len(passes) - 1, 2))
        ]
        body: list[Stmt] = []
        tables = [builder.array("counts", builder.index, (one.size + 1,)) for one in passes]
        for number, (each, counts) in enumerate(zip(passes, tables, strict=True)):
            body += self._counts(number, each, counts, number == len(passes) - 1)
        source, domain = self.parts.dealt, self.parts.entries
        for number, (each, counts) in enumerate(zip(passes, tables, strict=True)):
            bucket = each.bucket(element(source.keys, _E))
            cursor = element(counts, bucket)
            is_last = number == len(passes) - 1
            target: Pair | Result = self.result if is_last else buffers[number % 2]
            body += self._moves(number, domain, cursor, source, target)
            if isinstance(target, Pair):
                source, domain = target, self.parts.places
        # A part is sorted within the places from starts(b) to starts(b+1).
        apart = self.result.arrays
        inner = [name for pair in buffers for name in (pair.keys, pair.values)]
        builder.stage(stage, body, apart=apart, inner=inner, when=when)

    def _counts(self, number: int, each: _Pass, counts: str, is_last: bool) -> list[Stmt]:
        """Count the entries of each bucket: all passes in one read, for order plays no part."""
        builder, index = self.builder, self.builder.index
        size = each.size + 1
        cells, steps = (self.parts.within("x", _ZERO, end) for end in (size, size - 1))
        zero: Expr = Const(0, index)
        if is_last:
            is_first = Binary("eq", builder.number(_X), Const(0))
            zero = Select(is_first, builder.load(element(self.parts.starts, _B)), zero)
        bucket = each.bucket(element(self.parts.dealt.keys, _E)) + 1
        more = builder.load(element(counts, bucket)) + Const(1, index)
        sums = builder.load(element(counts, _X + 1)) + builder.load(element(counts, _X))
        order = Linear.of(number)
        times = (_B, Linear.of(1), _E, order)
        return [
            # Tables have sizes of their own: each is cleared and summed by a loop of its own.
            Stmt(f"clear{number}", cells, (_B, _ZERO, order, _X), counts, (_X,), zero),
            Stmt(f"count{number}", self.parts.entries, times, counts, (bucket,), more),
            Stmt(f"sum{number}", steps, (_B, Linear.of(2), order, _X), counts, (_X + 1,), sums),
        ]

    def _moves(
        self,
        number: int,
        domain: IntegerSet,
        cursor: Linear,
        source: Pair,
        target: Pair | Result,
    ) -> list[Stmt]:
        """Put each entry where its cursor is, and move the cursor on."""
        builder = self.builder
        at = builder.scalar("at")
        key = element(source.keys, _E)
        made: list[tuple[str, Expr]] = []
        if isinstance(target, Pair):
            made.append((target.keys, builder.load(key)))
        else:
            for name, array in target.coordinates.items():
                term = builder.number(self.parts.coordinate(name, key))
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


def _digit(key: Linear, shift: int, width: int) -> Linear:
    above = key.floor(1 << shift) if shift else key
    # A key has nothing above its last digit, which may reach over the width of a number.
    return above if shift + width >= MOST_BITS else above % (1 << width)
