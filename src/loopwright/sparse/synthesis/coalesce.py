"""Coalesce entries: those with equal coordinates become one, with the sum of their values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from loopwright.ir.dtypes import BOOL, INT64, DType
from loopwright.ir.expr import Binary, Const, Expr, cast
from loopwright.sparse.spf.computation import Stmt
from loopwright.sparse.synthesis.counting_sort import as_list
from loopwright.sparse.synthesis.entry_iterator import EntryIterator, KnownStatistics, once, over
from loopwright.sparse.synthesis.stages import ArrayReuse, Builder, RuntimeSymbol, element
from loopwright.sparse.uf import (
    Atom,
    Conj,
    Constraint,
    IntegerSet,
    Sym,
    Term,
    TupleVar,
    UFCall,
    calls,
    substitute,
    variables,
)

__all__ = ["KeyChanges", "coalesced", "sum_of"]

_NEVER = -(1 << 62)  # no key of an entry


class KeyChanges:
    """Statements that keep, for groups of keys, a flag that is 1 where a key has changed.

    The first entry changes every key. Flags and keys are variables of one stage.
    """

    def __init__(
        self,
        groups: Iterable[tuple[str, tuple[Term, ...]]],
        iterator: EntryIterator,
        builder: Builder,
    ) -> None:
        self.builder = builder
        self.flags: dict[str, Term] = {}
        keys: dict[Term, Term] = {}
        body: list[Stmt] = []
        index = builder.index
        for name, group in groups:
            differs: Expr | None = None
            for key in group:
                if key not in keys:
                    keys[key] = builder.scalar("last", INT64)
                    body.append(once(f"no_{len(keys)}", keys[key], Const(_NEVER)))
                now = builder.number(iterator.term(key))
                one = Binary("ne", now, builder.load(keys[key]))
                differs = one if differs is None else Binary("or", differs, one)
            flag = self.flags[name] = builder.scalar(f"new_{name}")
            value = Const(1, index) if differs is None else cast(differs, index)
            body.append(iterator.each(f"new_{name}", len(body), flag, value))
        for number, (key, last) in enumerate(keys.items()):
            now = builder.number(iterator.term(key))
            body.append(iterator.each(f"last_{number}", len(body), last, now))
        self.statements = tuple(body)

    def flag(self, name: str) -> Expr:
        """1 at the first entry of each group of equal keys, else 0."""
        return self.builder.load(self.flags[name])

    def is_first(self, name: str) -> Expr:
        """Whether an entry is the first with its keys."""
        return Binary("ne", self.flag(name), Const(0, self.builder.index))


def sum_of(x: Expr, y: Expr) -> Expr:
    """x + y; of truth values, whether one is true."""
    return Binary("or" if x.dtype == BOOL else "add", x, y)


def coalesced(iterator: EntryIterator, builder: Builder) -> EntryIterator:
    """The iterator with each coordinate once; equal coordinates must be adjacent.

    Values of equal coordinates are summed in the order of the iterator. Where no coordinate is
    repeated, which is known after one pass, the arrays stay what they are.
    """
    iterator = as_list(iterator, builder)
    assert iterator.count is not None
    e = Term.of(TupleVar("e"))
    elements = _coordinate_elements(iterator)
    total = _count_distinct(iterator, elements, builder)
    shape = (total,)
    made = {term: builder.array("once", _dtype(term, builder), shape) for term in elements}
    values = builder.array("sums", builder.spaces[iterator.values].dtype, shape)
    _coalesce(iterator, made, values, total, builder)
    later: dict[Atom, Term] = {
        term.atom: element(name, e) for term, name in made.items() if term.atom is not None
    }
    where = {c: substitute(term, later) for c, term in iterator.coordinates.items()}
    once_each = EntryIterator(over("e", total), where, values, e, None, iterator.order, True, total)
    if iterator.statistics is None:
        return once_each
    # Pointers count repeated entries too.
    return replace(
        once_each, statistics=replace(iterator.statistics, left=total, right=iterator.count)
    )


def _count_distinct(iterator: EntryIterator, elements: list[Term], builder: Builder) -> Term:
    """The symbol of how many entries differ from the one before: all but those that repeat it."""
    assert iterator.count is not None
    e, zero, index = Term.of(TupleVar("e")), Term.of(0), builder.index
    back: dict[Atom, Term] = {TupleVar("e"): e - 1}
    equal: Expr | None = None
    for term in elements:
        here, before = builder.load(term), builder.load(substitute(term, back))
        one = Binary("eq", here, before)
        equal = one if equal is None else Binary("and", equal, one)
    assert equal is not None, "an entry has coordinates"
    again = builder.array("again", index, (Term.of(1),), fill=0)
    more = builder.load(element(again, zero)) + cast(equal, index)
    later = Conj.of([Constraint.ge(e, 1), Constraint.lt(e, iterator.count)])
    count = Stmt("count", IntegerSet(("e",), (later,)), (e,), again, (zero,), more)
    number = len(builder.stages)
    known = iterator.statistics or KnownStatistics(f"R{number}")
    builder.stage(
        "repeated", [count], [RuntimeSymbol(known.repeats, again, (zero,))], when=known.unknown_when
    )
    builder.define(f"E{number}", iterator.count - Term.of(Sym(known.repeats)))
    return Term.of(Sym(f"E{number}"))


def _coordinate_elements(iterator: EntryIterator) -> list[Term]:
    """Elements at e that tell the coordinates: arrays of them, or of numbers that hold them."""
    e = (Term.of(TupleVar("e")),)
    found = [
        Term.of(call)
        for term in iterator.coordinates.values()
        for call in calls(term)
        if call.args == e
    ]
    elements = list(dict.fromkeys(found))
    gone: dict[Atom, Term] = {t.atom: Term.of(0) for t in elements if t.atom is not None}
    left = [t for t in iterator.coordinates.values() if variables(substitute(t, gone))]
    assert not left, f"{left[0]} is read from a list"
    return elements


def _dtype(term: Term, builder: Builder) -> DType:
    assert isinstance(term.atom, UFCall)
    return builder.spaces[term.atom.name].dtype


def _coalesce(
    iterator: EntryIterator, made: dict[Term, str], values: str, total: Term, builder: Builder
) -> None:
    index = builder.index
    changes = KeyChanges([("entry", tuple(made))], iterator, builder)
    at = builder.scalar("at")
    is_first = changes.is_first("entry")
    is_again = Binary("eq", changes.flag("entry"), Const(0, index))
    body = [once("start", at, Const(-1, index)), *changes.statements]
    body.append(iterator.each("move", 90, at, builder.load(at) + changes.flag("entry")))
    for number, (term, name) in enumerate(made.items()):
        value = builder.load(term)
        body.append(iterator.each(f"put{number}", 91 + number, element(name, at), value, is_first))
    value = builder.load(element(iterator.values, iterator.place))
    cell = element(values, at)
    body.append(iterator.each("again", 110, cell, sum_of(builder.load(cell), value), is_again))
    body.append(iterator.each("first", 111, cell, value, is_first))
    assert iterator.count is not None
    reuse = None
    if iterator.place == Term.of(TupleVar("e")):
        arrays = [(values, iterator.values)]
        for term, name in made.items():
            assert isinstance(term.atom, UFCall)
            arrays.append((name, term.atom.name))
        reuse = ArrayReuse(total, iterator.count, tuple(arrays))
    # Groups of equal coordinates have elements of their own.
    groups = [term.atom.name for term in made if isinstance(term.atom, UFCall)]
    builder.stage(
        "coalesce", body, reuse=reuse, disjoint_writes=[*made.values(), values], atomic_group=groups
    )
