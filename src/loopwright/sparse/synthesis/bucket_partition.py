"""Partition entries into buckets by the highest bits of a packed key.

A packed key holds all coordinates in one integer that ascends as an order does. Within a bucket the
highest bits are the number b of the bucket, so entries are moved as the remaining bits and the
value. Buckets fit a cache, and what is stored by coordinates stays in few places for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from loopwright.ir.dtypes import DTYPES, INT32, INT64
from loopwright.ir.expr import Const, cast
from loopwright.lazy_dataclass import dataclass
from loopwright.sparse.synthesis.entry_iterator import EntryIterator, KeySizes, over, running_sum
from loopwright.sparse.synthesis.entry_order import Order
from loopwright.sparse.synthesis.stages import Builder, RuntimeSymbol, element
from loopwright.sparse.uf import Conj, Constraint, IntegerSet, Sym, Term, TupleVar, UFCall

__all__ = [
    "MOST_BITS",
    "Buckets",
    "KeyValueArrays",
    "PackedKey",
    "SortedArrays",
    "pack_key",
    "partition",
    "partitioned",
]

MOST_BITS = 62  # of a packed key


@dataclass(frozen=True)
class PackedKey:
    """All coordinates in one number that ascends as an order does."""

    key: Term  # over the coordinates
    bits: int
    fields: tuple[tuple[str, int, int], ...]  # coordinate, its lowest bit, its bits
    curve: int = 0  # bits of each coordinate, where the number is one along Morton's curve
    layout: tuple[Term, ...] = ()  # sizes, where it is ALTO's

    @property
    def is_plain(self) -> bool:
        """Whether coordinates stand side by side in the number."""
        return not self.curve and not self.layout

    def coordinate(self, name: str, at: int, number: Term) -> Term:
        """A coordinate, the `at`-th of all, from the number."""
        if not self.is_plain:
            sizes = self.layout or (Term.of(1 << self.curve),) * len(self.fields)
            return Term.of(UFCall(f"ALTO_{at}", (number, *sizes)))
        low, bits = next((low, bits) for part, low, bits in self.fields if part == name)
        above = number.floor(1 << low)
        return above if low + bits == self.bits else above % (1 << bits)

    def above(self, shift: int) -> Term:
        """The bits of the number from `shift` on, over the coordinates that have some of them."""
        if not self.is_plain:
            return self.key.floor(1 << shift) if shift else self.key
        found = Term.of(0)
        for name, low, bits in self.fields:
            if low + bits > shift:
                term = Term.of(TupleVar(name))
                held = term.floor(1 << shift - low) if low < shift else term
                found += held * (1 << max(low - shift, 0))
        return found

    def below(self, width: int) -> Term:
        """The lowest bits of the number, over the coordinates that have some of them."""
        if not self.is_plain:
            # A number has nothing above its last bit, which may reach over the width of a key.
            return self.key if width >= MOST_BITS else self.key % (1 << width)
        found = Term.of(0)
        for name, low, bits in self.fields:
            if low < width:
                term = Term.of(TupleVar(name))
                held = term % (1 << width - low) if low + bits > width else term
                found += held * (1 << low)
        return found


def pack_key(wanted: Order, coordinates: tuple[str, ...], sizes: KeySizes) -> PackedKey | None:
    """The number to sort by; None where the order is not one of plain coordinates or a curve."""
    bits = {name: max(sizes.bits[name], 1) for name in coordinates}
    names = [term.atom.name for term in wanted if isinstance(term.atom, TupleVar)]
    if set(names) == set(coordinates) and len(names) == len(wanted):
        key, low, fields = Term.of(0), 0, []
        for name in reversed(names):
            key += Term.of(TupleVar(name)) * (1 << low)
            fields.append((name, low, bits[name]))
            low += bits[name]
        return PackedKey(key, low, tuple(fields)) if low <= MOST_BITS else None
    call = wanted[0].atom
    if not isinstance(call, UFCall) or call.name not in ("MORTON", "ALTO"):
        return None
    each = max(bits.values())
    fields = [(name, 0, bits[name]) for name in coordinates]
    if call.name == "MORTON":
        total = each * len(coordinates)
        return PackedKey(wanted[0], total, tuple(fields), each) if total <= MOST_BITS else None
    layout = call.args[len(coordinates) :]
    total = sum(sizes.bits[name] for name in coordinates)
    return (
        PackedKey(wanted[0], max(total, 1), tuple(fields), 0, layout)
        if total <= MOST_BITS
        else None
    )


_WORTH_PARTITIONING = 8  # bucket bits: from a million entries on, places lie beyond the caches
_LINE = 64  # bytes of a cache
# Bucket bits for keys along a curve: they take so long to compute that few entries are in flight at
# once, and stores to many buckets stall.
_MOST_CURVE_BITS = 8
_UINT32 = DTYPES["uint32"]

_B, _E = (Term.of(TupleVar(name)) for name in "be")


@dataclass(frozen=True)
class KeyValueArrays:
    """Arrays of packed numbers and of values."""

    keys: str
    values: str


@dataclass(frozen=True)
class SortedArrays:
    """Arrays of coordinates, by name, and of values."""

    coordinates: Mapping[str, str]
    values: str

    @property
    def arrays(self) -> list[str]:
        return [*self.coordinates.values(), self.values]


@dataclass(frozen=True)
class Buckets:
    """Entries partitioned into buckets."""

    code: PackedKey
    top: int  # bits of the bucket number
    starts: str  # where buckets begin
    count: Term  # of entries
    arrays: KeyValueArrays
    coordinates: tuple[str, ...]
    builder: Builder

    @property
    def rest(self) -> int:
        """The bits of a key that its bucket leaves open."""
        return self.code.bits - self.top

    @property
    def domain(self) -> tuple[Constraint, ...]:
        return over("b", Term.of(1 << self.top)).conjs[0].constraints

    @property
    def numbers(self) -> IntegerSet:
        return IntegerSet(("b",), (Conj.of(self.domain),))

    @property
    def length(self) -> Term:
        """How many entries bucket b has."""
        return element(self.starts, _B + 1) - element(self.starts, _B)

    @property
    def entries(self) -> IntegerSet:
        """The entries of each bucket, where they were moved to."""
        first, last = element(self.starts, _B), element(self.starts, _B + 1)
        return self.within("e", first, last)

    @property
    def places(self) -> IntegerSet:
        """The same entries numbered from 0 on in each bucket."""
        return self.within("e", Term.of(0), self.length)

    def within(self, name: str, first: Term, end: Term, *also: Constraint) -> IntegerSet:
        """Tuples (b, name) with first <= name < end, which may depend on b."""
        x = Term.of(TupleVar(name))
        inside = (Constraint.ge(x, first), Constraint.lt(x, end))
        return IntegerSet(("b", name), (Conj.of([*self.domain, *inside, *also]),))

    def coordinate(self, name: str, key: Term) -> Term:
        """A coordinate from the term of the bits that are kept of an entry of bucket b."""
        whole = key + _B * (1 << self.rest)
        if self.code.is_plain:
            low, bits = next((low, n) for part, low, n in self.code.fields if part == name)
            if low + bits <= self.rest:
                above = key.floor(1 << low)
                return above if low + bits == self.rest else above % (1 << bits)
        return self.code.coordinate(name, self.coordinates.index(name), whole)


def partition(iterator: EntryIterator, code: PackedKey, builder: Builder) -> Buckets:
    """Copy entries into buckets by the highest bits of their keys."""
    top = min(
        code.bits,
        builder.bucket_bits if code.is_plain else min(builder.bucket_bits, _MOST_CURVE_BITS),
    )
    rest = code.bits - top
    starts, count = _count_buckets(iterator, code, top, builder)
    value = builder.spaces[iterator.values].dtype
    key = INT32 if rest < 32 else _UINT32 if rest == 32 else INT64
    pair = KeyValueArrays(
        builder.array("keys", key, (count,)), builder.array("values", value, (count,))
    )
    _move(iterator, code, pair, starts, rest, builder)
    return Buckets(code, top, starts, count, pair, tuple(iterator.coordinates), builder)


def partitioned(iterator: EntryIterator, builder: Builder, sizes: KeySizes) -> EntryIterator:
    """Partition unsorted entries into buckets, in the lexicographic order of their coordinates.

    The tuples are (b, e), e a place in bucket b. What is stored by coordinates then lies in a cache
    while a bucket is visited. Entries with equal coordinates keep their order.
    """
    coordinates = tuple(iterator.coordinates)
    code = pack_key(tuple(Term.of(TupleVar(c)) for c in coordinates), coordinates, sizes)
    if code is None or iterator.order or builder.bucket_bits < _WORTH_PARTITIONING:
        return iterator
    buckets = partition(iterator, code, builder)
    key = element(buckets.arrays.keys, _E)
    where = {name: buckets.coordinate(name, key) for name in coordinates}
    return EntryIterator(
        buckets.entries, where, buckets.arrays.values, _E, None, (), iterator.is_unique
    )


def _count_buckets(
    iterator: EntryIterator, code: PackedKey, top: int, builder: Builder
) -> tuple[str, Term]:
    """Where the buckets of equal highest bits begin, and how many entries there are."""
    size = Term.of((1 << top) + 2)
    starts = builder.array("starts", builder.index, (size,), 0)
    cell = element(starts, iterator.term(code.above(code.bits - top)) + 2)
    one = Const(1, builder.index)
    builder.stage("digits", [iterator.each("count", 0, cell, builder.load(cell) + one)])
    total = f"E{len(builder.stages)}"
    running_sum(builder, starts, size - 1, RuntimeSymbol(total, starts, (size - 1,)))
    return starts, Term.of(Sym(total))


def _move(
    iterator: EntryIterator,
    code: PackedKey,
    target: KeyValueArrays,
    starts: str,
    rest: int,
    builder: Builder,
) -> None:
    """Copy each entry into its bucket. Afterwards starts[x] is where bucket x begins."""
    cursor = element(starts, iterator.term(code.above(rest)) + 1)
    at = builder.scalar("at")
    low = cast(builder.number(iterator.term(code.below(rest))), builder.spaces[target.keys].dtype)
    value = builder.load(element(iterator.values, iterator.place))
    one = Const(1, builder.index)
    ahead = _LINE // value.dtype.bytes if code.is_plain else 0
    body = [
        iterator.each("take", 0, at, builder.load(cursor)),
        iterator.each("move", 1, cursor, builder.load(at) + one),
        iterator.each("key", 2, element(target.keys, at), low),
        replace(iterator.each("value", 3, element(target.values, at), value), ahead=ahead),
    ]
    builder.stage("partition", body)
