"""Sort parts whose runs are short: one counting pass, then entries find their places among few.

A run is the entries of a part whose numbers agree but for their lowest bits: those of one row, say.

    runs        entries of each run are counted; a running sum tells where runs begin
    longest     the longest run of each part
    neighbours  entries go to their runs; in a run of at most w entries, entry e belongs at
                e + #{0 < d < w: key(e+d) < key(e)} - #{0 < d < w: key(e-d) > key(e)}

Entries of other runs in the window are smaller before and larger after, so they count for nothing,
and equal keys keep their order. There is no branch in it: vectors of entries are placed at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from loopwright.ir.dtypes import INT64
from loopwright.ir.expr import Binary, Const, Expr
from loopwright.sparse.spf.computation import Stmt
from loopwright.sparse.synthesis.deal import Pair, Parts, Result
from loopwright.sparse.synthesis.stages import Builder, Learnt, element
from loopwright.sparse.synthesis.stream import cast, running_sum
from loopwright.sparse.uf import Call, Conj, Constraint, IntegerSet, Linear, Sym, Var

__all__ = ["Runs", "count_runs", "sort_runs"]

# Pairs of neighbours on each side of an entry that take as long as a counting pass, by the bits of
# keys: about 3.4 ns, at 0.4 ns for a pair of 32 bits (measured on a Neoverse N1).
_PAIRS_OF_A_PASS = {32: 8, 64: 4}

_B, _E, _X, _ZERO = *(Linear.of(Var(name)) for name in "bex"), Linear.of(0)


@dataclass(frozen=True)
class Runs:
    """The runs of all parts, counted."""

    parts: Parts
    low: int  # bits in which the keys of a run differ
    pointers: str  # where runs begin
    cursors: str  # the same, to be moved on
    pairs: str  # of a part whose longest run has w entries: floor(w / 2)
    most: Linear  # entries of the largest part
    most_pairs: Linear
    spare: Linear  # not negative where runs are short

    @property
    def builder(self) -> Builder:
        return self.parts.builder

    def number(self, key: Linear) -> Linear:
        """The number among all of the run of a key of part b."""
        return _B * (1 << self.parts.rest - self.low) + key.floor(1 << self.low)


def count_runs(parts: Parts, low: int, count: Linear, passes: int, result: Result) -> Runs:
    """Add the stages that count runs by all but the `low` lowest bits of numbers.

    Runs are short where neighbours take no longer than counting passes would, one being made here.
    """
    builder = parts.builder
    pointers = builder.array("runs", builder.index, (count + 1,), 0)
    cursors = builder.array("cursors", builder.index, (count,))
    pairs = builder.array("pairs", builder.index, (Linear.of(1 << parts.top),))
    most, most_pairs, work = (
        Linear.of(Sym(f"{letter}{len(builder.stages)}")) for letter in ("M", "W", "T")
    )
    bits = builder.spaces[parts.dealt.keys].dtype.bits
    spare = parts.count * (_PAIRS_OF_A_PASS[bits] * (passes - 1)) - work
    runs = Runs(parts, low, pointers, cursors, pairs, most, most_pairs, spare)
    cell = runs.number(element(parts.dealt.keys, _E)) + 1
    more = builder.load(element(pointers, cell)) + Const(1, builder.index)
    body = [Stmt("count", parts.entries, (_B, _E), pointers, (cell,), more)]
    builder.stage("runs", body, apart=[pointers])  # a run lies in one part
    running_sum(builder, pointers, count, copy=cursors)
    _find_longest(runs, count, (most, most_pairs, work), result)
    return runs


def _find_longest(
    runs: Runs, count: Linear, found: tuple[Linear, Linear, Linear], result: Result
) -> None:
    """Learn the size of the largest part, the most pairs, and the sum of size times pairs."""
    builder, parts = runs.builder, runs.parts
    width = 1 << parts.rest - runs.low
    # The last part may have fewer runs than others.
    cells = parts.within("x", _B * width, (_B + 1) * width, Constraint.lt(_X, count))
    longest = builder.scalar("longest")
    here, there = (builder.load(element(runs.pointers, x)) for x in (_X, _X + 1))
    half = cast(builder.number(longest.floor(2)), builder.index)
    most = Binary("max", builder.load(longest), there - here)
    body = [
        Stmt("none", parts.numbers, _at(0), _name(longest), (), Const(0, builder.index)),
        Stmt("longest", cells, (*_at(1), _X), _name(longest), (), most),
        Stmt("pairs", parts.numbers, _at(2), runs.pairs, (_B,), half),
    ]
    length, pairs = builder.number(parts.length), builder.number(element(runs.pairs, _B))
    largest, total = (builder.array(n, INT64, (Linear.of(2),), 0) for n in ("largest", "total"))
    updates = (
        ("max", largest, _ZERO, length),
        ("max", largest, Linear.of(1), pairs),
        ("add", total, _ZERO, Binary("mul", length, pairs)),
    )
    learnt = []
    for at, (symbol, (op, array, place, value)) in enumerate(zip(found, updates, strict=True)):
        more = Binary(op, builder.load(element(array, place)), value)
        times = (*_at(3), Linear.of(at))
        body.append(Stmt(f"found{at}", parts.numbers, times, array, (place,), more))
        learnt.append(Learnt(_symbol(symbol), array, (place,)))
    builder.stage("longest", body, learnt, makes=result.arrays)


def sort_runs(runs: Runs, result: Result, repeats: str) -> None:
    """Add the stage that sorts parts with short runs; `repeats` is learnt by it.

    What it does with a part stays in a cache: entries go to their runs, find their places, go
    there, and leave as coordinates.
    """
    builder, parts = runs.builder, runs.parts
    key, value = (builder.spaces[name].dtype for name in (parts.dealt.keys, parts.dealt.values))
    pad = 2 * runs.most_pairs + 2  # neighbours that are none, on both sides of a part
    room = (runs.most + 2 * pad,)
    near = Pair(builder.array("keys", key, room), builder.array("values", value, (runs.most,)))
    ordered = builder.array("keys", key, (runs.most,))
    places = builder.array("places", builder.index, (runs.most,))
    again = builder.array("again", builder.index, (Linear.of(1),), 0)
    body = [
        *_padding(parts, near.keys, pad),
        *_taken(runs, near, pad),
        *_placed(runs, near.keys, places, pad),
        *_put(parts, near, pad, places, (ordered, result.values)),
        *_left(parts, ordered, again, result),
    ]
    builder.stage(
        "neighbours",
        body,
        [Learnt(repeats, again, (_ZERO,))],
        apart=[*result.arrays, runs.cursors],  # runs of a part, and its places, are its own
        inner=[near.keys, near.values, ordered, places],
        when=(runs.spare,),
    )


def _padding(parts: Parts, keys: str, pad: Linear) -> list[Stmt]:
    """No key is smaller than those before a part, none is larger than those after it."""
    dtype = parts.builder.spaces[keys].dtype
    most = (1 << dtype.bits - (dtype.kind == "i")) - 1
    cells = parts.within("x", _ZERO, pad)
    after = (_X + parts.length + pad,)
    return [
        Stmt("before", cells, (*_at(0), _X, _ZERO), keys, (_X,), Const(0, dtype)),
        Stmt("after", cells, (*_at(0), _X, Linear.of(1)), keys, after, Const(most, dtype)),
    ]


def _taken(runs: Runs, near: Pair, pad: Linear) -> list[Stmt]:
    """Entries to their runs, in the order in which they come."""
    builder, parts = runs.builder, runs.parts
    at = builder.scalar("at")
    key, value = (element(name, _E) for name in (parts.dealt.keys, parts.dealt.values))
    run = runs.number(key)
    here = at - element(parts.starts, _B)
    moved = builder.load(at) + Const(1, builder.index)
    stores: list[tuple[str, tuple[Linear, ...], Expr]] = [
        (_name(at), (), builder.load(element(runs.cursors, run))),
        (runs.cursors, (run,), moved),
        (near.keys, (here + pad,), builder.load(key)),
        (near.values, (here,), builder.load(value)),
    ]
    return _each("take", parts.entries, _at(1), stores)


def _placed(runs: Runs, keys: str, places: str, pad: Linear) -> list[Stmt]:
    """Where entries belong, by two neighbours on each side at a time."""
    builder, parts = runs.builder, runs.parts

    def shift(pair: Linear) -> Expr:
        """How far neighbours 2*pair + 1 and 2*pair + 2 on each side move an entry."""
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

    pairs = parts.within("x", Linear.of(1), element(runs.pairs, _B))
    both = pairs.conjs[0].constraints + parts.places.conjs[0].constraints
    more = IntegerSet(("b", "x", "e"), (Conj.of(dict.fromkeys(both)),))
    first = cast(builder.number(_E), builder.index) + shift(_ZERO)
    further = builder.load(element(places, _E)) + shift(_X)
    return [
        Stmt("place", parts.places, (*_at(2), _E), places, (_E,), first),
        Stmt("further", more, (*_at(3), _X, _E), places, (_E,), further),
    ]


def _put(
    parts: Parts, near: Pair, pad: Linear, places: str, targets: tuple[str, str]
) -> list[Stmt]:
    """Entries to their places."""
    builder, (keys, values) = parts.builder, targets
    to = builder.scalar("to")
    stores: list[tuple[str, tuple[Linear, ...], Expr]] = [
        (_name(to), (), builder.load(element(places, _E))),
        (keys, (to,), builder.load(element(near.keys, _E + pad))),
        (values, (to + element(parts.starts, _B),), builder.load(element(near.values, _E))),
    ]
    return _each("put", parts.places, _at(4), stores)


def _left(parts: Parts, keys: str, again: str, result: Result) -> list[Stmt]:
    """Coordinates from keys in order, and how many keys are those before them."""
    builder = parts.builder
    own, before = (builder.load(element(keys, e)) for e in (_E, _E - 1))
    same = cast(Binary("eq", own, before), builder.index)
    count = builder.load(element(again, _ZERO)) + same
    later = parts.within("e", Linear.of(1), parts.length)
    place = (_E + element(parts.starts, _B),)
    body = []
    for at, (name, array) in enumerate(result.coordinates.items()):
        term = cast(builder.number(parts.coordinate(name, element(keys, _E))), builder.index)
        times = (*_at(5), Linear.of(at), _E)
        body.append(Stmt(f"left{at}", parts.places, times, array, place, term))
    return [*body, Stmt("again", later, (*_at(6), _E), again, (_ZERO,), count)]


def _each(
    name: str,
    domain: IntegerSet,
    times: tuple[Linear, ...],
    stores: list[tuple[str, tuple[Linear, ...], Expr]],
) -> list[Stmt]:
    """Stores one after the other for each entry."""
    return [
        Stmt(f"{name}{at}", domain, (*times, _E, Linear.of(at)), *store)
        for at, store in enumerate(stores)
    ]


def _at(phase: int) -> tuple[Linear, Linear]:
    return _B, Linear.of(phase)


def _name(term: Linear) -> str:
    assert isinstance(term.atom, Call)
    return term.atom.name


def _symbol(term: Linear) -> str:
    assert isinstance(term.atom, Sym)
    return term.atom.name
