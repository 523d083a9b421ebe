"""Deal entries out into parts by the highest bits of a packed number.

In a part the highest bits are those of its number b, so entries travel as the rest of the bits and
the value. Parts fit a cache, and what is stored by coordinates lies in few places for one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from loopwright.ir.dtypes import DTYPES, INT32, INT64
from loopwright.ir.expr import Const
from loopwright.sparse.synthesis.codes import Code, packed
from loopwright.sparse.synthesis.stages import Builder, Learnt, element
from loopwright.sparse.synthesis.stream import Sizes, Stream, cast, over, running_sum
from loopwright.sparse.uf import Conj, Constraint, IntegerSet, Linear, Sym, Var

__all__ = ["Pair", "Parts", "Result", "deal", "dealt"]

_WORTH_DEALING = 8  # bits of parts: from a million entries on, places lie beyond the caches
_LINE = 64  # bytes of a cache
# Bits of parts for numbers along a curve: they take so long to tell that few entries are under way
# at once, and stores to many parts are waited for.
_MOST_OF_CURVES = 8
_UINT32 = DTYPES["uint32"]

_B, _E = (Linear.of(Var(name)) for name in "be")


@dataclass(frozen=True)
class Pair:
    """Arrays of packed numbers and of values."""

    keys: str
    values: str


@dataclass(frozen=True)
class Result:
    """Arrays of coordinates, by name, and of values."""

    coordinates: Mapping[str, str]
    values: str

    @property
    def arrays(self) -> list[str]:
        return [*self.coordinates.values(), self.values]


@dataclass(frozen=True)
class Parts:
    """Entries dealt out into parts."""

    code: Code
    top: int  # bits that are the number of a part
    starts: str  # where parts begin
    count: Linear  # of entries
    dealt: Pair
    coordinates: tuple[str, ...]
    builder: Builder

    @property
    def rest(self) -> int:
        """The bits of a number that its part leaves open."""
        return self.code.bits - self.top

    @property
    def domain(self) -> tuple[Constraint, ...]:
        return over("b", Linear.of(1 << self.top)).conjs[0].constraints

    @property
    def numbers(self) -> IntegerSet:
        return IntegerSet(("b",), (Conj.of(self.domain),))

    @property
    def length(self) -> Linear:
        """How many entries part b has."""
        return element(self.starts, _B + 1) - element(self.starts, _B)

    @property
    def entries(self) -> IntegerSet:
        """The entries of each part, where they were dealt to."""
        first, last = element(self.starts, _B), element(self.starts, _B + 1)
        return self.within("e", first, last)

    @property
    def places(self) -> IntegerSet:
        """The same entries numbered from 0 on in each part."""
        return self.within("e", Linear.of(0), self.length)

    def within(self, name: str, first: Linear, end: Linear, *also: Constraint) -> IntegerSet:
        """Tuples (b, name) with first <= name < end, which may depend on b."""
        x = Linear.of(Var(name))
        inside = (Constraint.ge(x, first), Constraint.lt(x, end))
        return IntegerSet(("b", name), (Conj.of([*self.domain, *inside, *also]),))

    def coordinate(self, name: str, key: Linear) -> Linear:
        """A coordinate from the term of the bits that are kept of an entry of part b."""
        whole = key + _B * (1 << self.rest)
        if self.code.is_plain:
            low, bits = next((low, n) for part, low, n in self.code.parts if part == name)
            if low + bits <= self.rest:
                above = key.floor(1 << low)
                return above if low + bits == self.rest else above % (1 << bits)
        return self.code.coordinate(name, self.coordinates.index(name), whole)


def deal(stream: Stream, code: Code, builder: Builder) -> Parts:
    """Entries copied into parts by the highest bits of their numbers."""
    top = min(code.bits, builder.parts if code.is_plain else min(builder.parts, _MOST_OF_CURVES))
    rest = code.bits - top
    starts, count = _count_parts(stream, code, top, builder)
    value = builder.spaces[stream.values].dtype
    key = INT32 if rest < 32 else _UINT32 if rest == 32 else INT64
    pair = Pair(builder.array("keys", key, (count,)), builder.array("values", value, (count,)))
    _move(stream, code, pair, starts, rest, builder)
    return Parts(code, top, starts, count, pair, tuple(stream.coordinates), builder)


def dealt(stream: Stream, builder: Builder, sizes: Sizes) -> Stream:
    """Entries in any order dealt out into parts, whose order is that of all coordinates.

    The tuples are (b, e), e a place in part b. What is stored by coordinates then lies in a cache
    while a part is gone through. Entries with equal coordinates keep their order.
    """
    coordinates = tuple(stream.coordinates)
    code = packed(tuple(Linear.of(Var(c)) for c in coordinates), coordinates, sizes)
    if code is None or stream.order or builder.parts < _WORTH_DEALING:
        return stream
    parts = deal(stream, code, builder)
    key = element(parts.dealt.keys, _E)
    where = {name: parts.coordinate(name, key) for name in coordinates}
    return Stream(parts.entries, where, parts.dealt.values, _E, None, (), stream.is_unique)


def _count_parts(stream: Stream, code: Code, top: int, builder: Builder) -> tuple[str, Linear]:
    """Where the parts of equal highest bits begin, and how many entries there are."""
    size = Linear.of((1 << top) + 2)
    starts = builder.array("starts", builder.index, (size,), 0)
    cell = element(starts, stream.term(code.above(code.bits - top)) + 2)
    one = Const(1, builder.index)
    builder.stage("digits", [stream.each("count", 0, cell, builder.load(cell) + one)])
    total = f"E{len(builder.stages)}"
    running_sum(builder, starts, size - 1, Learnt(total, starts, (size - 1,)))
    return starts, Linear.of(Sym(total))


def _move(
    stream: Stream, code: Code, target: Pair, starts: str, rest: int, builder: Builder
) -> None:
    """Copy each entry into its part. Afterwards starts[x] is where part x begins."""
    cursor = element(starts, stream.term(code.above(rest)) + 1)
    at = builder.scalar("at")
    low = cast(builder.number(stream.term(code.below(rest))), builder.spaces[target.keys].dtype)
    value = builder.load(element(stream.values, stream.place))
    one = Const(1, builder.index)
    ahead = _LINE // value.dtype.bytes if code.is_plain else 0
    body = [
        stream.each("take", 0, at, builder.load(cursor)),
        stream.each("move", 1, cursor, builder.load(at) + one),
        stream.each("key", 2, element(target.keys, at), low),
        replace(stream.each("value", 3, element(target.values, at), value), ahead=ahead),
    ]
    builder.stage("deal", body)
