"""Permutations of places: sorted by keys, and their inverses."""

from __future__ import annotations

from collections.abc import Mapping

from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Const
from loopwright.sparse.format import Format, Index
from loopwright.sparse.spf.computation import Stmt
from loopwright.sparse.synthesis.definitions import Sorted
from loopwright.sparse.synthesis.ranges import Span, least, most, span
from loopwright.sparse.synthesis.stages import Builder, element
from loopwright.sparse.synthesis.stream import Sizes, cast, over, running_sum
from loopwright.sparse.uf import Atom, Linear, Var, substitute

__all__ = ["sort_places"]


def sort_places(
    made: Sorted, format: Format, builder: Builder, sizes: Sizes, dtypes: Mapping[str, DType]
) -> None:
    """Sort the places 0 .. count-1 by keys, the last key first; equal ones stay as they are."""
    count = made.count
    e = Linear.of(Var("e"))
    spans = {index.name: found for index in format.indices if (found := _range_of(index))}
    spans[made.variable] = Span(Linear.of(0), count - 1)
    keys = [(key.term, key.falls) for key in made.keys]
    if keys[-1] == (Linear.of(Var(made.variable)), False):
        keys.pop()  # a stable sort keeps them so
    origin = e
    for term, falls in reversed(keys):
        found = span(term, spans)
        if found is None:
            raise UsageError(f"{format.name}: the key {term} of '{made.array}' has no bounds")
        here: dict[Atom, Linear] = {Var(made.variable): origin}
        key = substitute(term, here)
        origin = _pass(
            found.high - key if falls else key - found.low, found, origin, count, builder
        )
    forth = builder.array(made.array, dtypes[made.array], (count,))
    back = builder.array(made.inverse, builder.index, (count,))
    number = cast(builder.number(origin), dtypes[made.array])
    position = cast(builder.number(e), builder.index)
    domain = over("e", count)
    body = [
        Stmt("forth", domain, (e, Linear.of(0)), forth, (e,), number),
        Stmt("back", domain, (e, Linear.of(1)), back, (origin,), position),
    ]
    builder.stage("permutation", body, apart=[back])  # no place stands twice among the sorted


def _pass(bucket: Linear, found: Span, origin: Linear, count: Linear, builder: Builder) -> Linear:
    """One stable counting pass; the term that tells which place stands at e afterwards."""
    e = Linear.of(Var("e"))
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
        Stmt("take", domain, (e, Linear.of(0)), name, (), builder.load(cursor)),
        Stmt("move", domain, (e, Linear.of(1)), counts, (bucket + 1,), builder.load(at) + one),
        Stmt(
            "put",
            domain,
            (e, Linear.of(2)),
            places,
            (at,),
            cast(builder.number(origin), builder.index),
        ),
    ]
    builder.stage("scatter", body)
    return element(places, e)


def _range_of(index: Index) -> Span | None:
    """The span that the range of an index array gives."""
    low, high = least(index), most(index)
    return None if low is None or high is None else Span(low, high)
