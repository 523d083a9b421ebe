"""Entries with equal coordinates, summed."""

from __future__ import annotations

from dataclasses import replace

from loopwright.ir.dtypes import BOOL, DType
from loopwright.ir.expr import Binary, Const, Expr
from loopwright.sparse.spf.computation import Stmt
from loopwright.sparse.synthesis.changes import Changes
from loopwright.sparse.synthesis.sorting import listed
from loopwright.sparse.synthesis.stages import Builder, Learnt, Same, element
from loopwright.sparse.synthesis.stream import Stream, cast, once, over
from loopwright.sparse.synthesis.told import Told
from loopwright.sparse.uf import (
    Atom,
    Call,
    Conj,
    Constraint,
    IntegerSet,
    Linear,
    Sym,
    Var,
    calls,
    substitute,
    variables,
)

__all__ = ["added", "united"]


def added(x: Expr, y: Expr) -> Expr:
    """x + y; of truth values, whether one is true."""
    return Binary("or" if x.dtype == BOOL else "add", x, y)


def united(stream: Stream, builder: Builder) -> Stream:
    """A stream whose equal coordinates stand side by side, each once with the sum of its values.

    Sums are taken in the order of the stream. Where no coordinate is repeated, which is known after
    one pass, the arrays stay what they are.
    """
    stream = listed(stream, builder)
    assert stream.count is not None
    e = Linear.of(Var("e"))
    told = _told_by(stream)
    total = _count_different(stream, told, builder)
    shape = (total,)
    made = {term: builder.array("once", _dtype(term, builder), shape) for term in told}
    values = builder.array("sums", builder.spaces[stream.values].dtype, shape)
    _unite(stream, made, values, total, builder)
    later: dict[Atom, Linear] = {
        term.atom: element(name, e) for term, name in made.items() if term.atom is not None
    }
    where = {c: substitute(term, later) for c, term in stream.coordinates.items()}
    once_each = Stream(over("e", total), where, values, e, None, stream.order, True, total)
    if stream.told is None:
        return once_each
    # Pointers count repeated entries too.
    return replace(once_each, told=replace(stream.told, left=total, right=stream.count))


def _count_different(stream: Stream, told: list[Linear], builder: Builder) -> Linear:
    """The symbol of how many entries differ from the one before: all but those that repeat it."""
    assert stream.count is not None
    e, zero, index = Linear.of(Var("e")), Linear.of(0), builder.index
    back: dict[Atom, Linear] = {Var("e"): e - 1}
    equal: Expr | None = None
    for term in told:
        here, before = builder.load(term), builder.load(substitute(term, back))
        one = Binary("eq", here, before)
        equal = one if equal is None else Binary("and", equal, one)
    assert equal is not None, "an entry has coordinates"
    again = builder.array("again", index, (Linear.of(1),), fill=0)
    more = builder.load(element(again, zero)) + cast(equal, index)
    later = Conj.of([Constraint.ge(e, 1), Constraint.lt(e, stream.count)])
    count = Stmt("count", IntegerSet(("e",), (later,)), (e,), again, (zero,), more)
    number = len(builder.stages)
    known = stream.told or Told(f"R{number}")
    builder.stage("repeated", [count], [Learnt(known.repeats, again, (zero,))], when=known.untold)
    builder.define(f"E{number}", stream.count - Linear.of(Sym(known.repeats)))
    return Linear.of(Sym(f"E{number}"))


def _told_by(stream: Stream) -> list[Linear]:
    """Elements at e that tell the coordinates: arrays of them, or of numbers that hold them."""
    e = (Linear.of(Var("e")),)
    found = [
        Linear.of(call)
        for term in stream.coordinates.values()
        for call in calls(term)
        if call.args == e
    ]
    told = list(dict.fromkeys(found))
    gone: dict[Atom, Linear] = {t.atom: Linear.of(0) for t in told if t.atom is not None}
    left = [t for t in stream.coordinates.values() if variables(substitute(t, gone))]
    assert not left, f"{left[0]} is read from a list"
    return told


def _dtype(term: Linear, builder: Builder) -> DType:
    assert isinstance(term.atom, Call)
    return builder.spaces[term.atom.name].dtype


def _unite(
    stream: Stream, made: dict[Linear, str], values: str, total: Linear, builder: Builder
) -> None:
    index = builder.index
    changes = Changes([("entry", tuple(made))], stream, builder)
    at = builder.scalar("at")
    is_first = changes.is_first("entry")
    is_again = Binary("eq", changes.flag("entry"), Const(0, index))
    body = [once("start", at, Const(-1, index)), *changes.statements]
    body.append(stream.each("move", 90, at, builder.load(at) + changes.flag("entry")))
    for number, (term, name) in enumerate(made.items()):
        value = builder.load(term)
        body.append(stream.each(f"put{number}", 91 + number, element(name, at), value, is_first))
    value = builder.load(element(stream.values, stream.place))
    cell = element(values, at)
    body.append(stream.each("again", 110, cell, added(builder.load(cell), value), is_again))
    body.append(stream.each("first", 111, cell, value, is_first))
    assert stream.count is not None
    same = None
    if stream.place == Linear.of(Var("e")):
        arrays = [(values, stream.values)]
        for term, name in made.items():
            assert isinstance(term.atom, Call)
            arrays.append((name, term.atom.name))
        same = Same(total, stream.count, tuple(arrays))
    # Groups of equal coordinates have elements of their own.
    groups = [term.atom.name for term in made if isinstance(term.atom, Call)]
    builder.stage("unite", body, same=same, apart=[*made.values(), values], together=groups)
