"""Assemble a format from a stream of entries: count, make index arrays, fill."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from loopwright.ir.dtypes import INT64, DType
from loopwright.ir.expr import Binary, Const, Expr
from loopwright.ir.program import Role
from loopwright.sparse.format import Format
from loopwright.sparse.spf.computation import Stmt
from loopwright.sparse.synthesis.changes import Changes
from loopwright.sparse.synthesis.deal import dealt
from loopwright.sparse.synthesis.definitions import (
    Definition,
    End,
    Held,
    Largest,
    Lengths,
    Most,
    Number,
    Running,
    Segments,
    Sorted,
)
from loopwright.sparse.synthesis.inverse import Inverse, Rank, Stored, read_at
from loopwright.sparse.synthesis.order import follows
from loopwright.sparse.synthesis.permutation import sort_places
from loopwright.sparse.synthesis.pointers import store_ends
from loopwright.sparse.synthesis.repeated import added
from loopwright.sparse.synthesis.stages import Builder, Learnt, element
from loopwright.sparse.synthesis.stream import Sizes, Stream, cast, once, over, running_sum
from loopwright.sparse.synthesis.ways import Way, choose_ways, parents_of
from loopwright.sparse.uf import Atom, Call, IntegerSet, Linear, Sym, Var, substitute

__all__ = ["Assembled", "assemble"]

_ZERO = Linear.of(0)


@dataclass(frozen=True)
class Assembled:
    """What holds the arrays of the new tensor after the last stage."""

    arrays: Mapping[str, str]  # index array of the format -> array of the stages
    values: str
    ways: tuple[tuple[str, Way], ...]


def assemble(
    inverse: Inverse,
    definitions: tuple[Definition, ...],
    stream: Stream,
    builder: Builder,
    sizes: Sizes,
    dtypes: Mapping[str, DType],
) -> Assembled:
    """Add the stages that make a tensor of the stream's entries."""
    for symbol, term in inverse.format.defined:
        builder.define(symbol, term)
    ways, ordered = choose_ways(inverse, stream, builder, sizes)
    work = _Assembly(inverse, ordered, builder, sizes, dtypes, ways)
    work.count()
    for definition in definitions:
        work.make(definition)
    return work.fill()


@dataclass
class _Assembly:
    inverse: Inverse
    stream: Stream
    builder: Builder
    sizes: Sizes
    dtypes: Mapping[str, DType]
    ways: Mapping[str, Way]
    tables: dict[str, str] = field(default_factory=dict)  # rank -> numbers by key
    cursors: dict[str, str] = field(default_factory=dict)  # rank -> next number by parent
    totals: dict[str, Linear] = field(default_factory=dict)  # rank -> how many numbers it has

    @property
    def format(self) -> Format:
        return self.inverse.format

    @property
    def running(self) -> list[Rank]:
        """The ranks whose keys are watched."""
        ranks = self.inverse.ranks
        return [r for r in ranks if self.ways[r.name] is Way.RUNNING and not self._is_position(r)]

    def _is_position(self, rank: Rank) -> bool:
        """Whether the number of an entry is its position in the stream."""
        is_running = rank.is_entry and self.ways[rank.name] is Way.RUNNING
        return is_running and self.stream.position is not None

    def _array(self, name: str, fill: int | None = None) -> str:
        """Make the array of an index of the format."""
        index = self.format.index(name)
        spare = None if self.builder.is_sound else 0  # an array may be longer than entries need
        pad = next((x for x in (index.pad, fill, spare) if x is not None), None)
        return self.builder.array(name, self.dtypes[name], index.extents, pad)

    def _changes(self) -> Changes:
        # An entry that is counted differs from the last one, whatever its coordinates.
        groups = [(r.name, () if r.is_entry else r.group) for r in self.running]
        return Changes(groups, self.stream, self.builder)

    # -- counting ---------------------------------------------------------------------------------

    def count(self) -> None:
        """One pass over the entries: what must be known before arrays are made."""
        builder, stream = self.builder, self.stream
        changes = self._changes()
        body: list[Stmt] = [*changes.statements]
        learnt: list[Learnt] = []
        for number, rank in enumerate(self.inverse.ranks):
            if self._is_position(rank):
                assert stream.position is not None
                self.totals[rank.name] = stream.position.total
            elif self.ways[rank.name] is Way.RUNNING:
                tally = builder.array("tally", builder.index, (Linear.of(1),), 0)
                cell = element(tally, _ZERO)
                value = builder.load(cell) + changes.flag(rank.name)
                body.append(stream.each(f"tally_{rank.name}", 100 + number, cell, value))
                learnt.append(Learnt(f"{rank.name}_total", tally, (_ZERO,)))
                self.totals[rank.name] = _symbol(f"{rank.name}_total")
            elif self.ways[rank.name] is Way.TABLE:
                found = self.sizes.key(rank.keys[0])
                assert found is not None
                seen = builder.array("seen", builder.index, (found.count + 1,), 0)
                self.tables[rank.name] = seen
                cell = element(seen, stream.term(rank.keys[0]) - found.low + 1)
                body.append(stream.each("mark", 100 + number, cell, Const(1, builder.index)))
            if self._ends_tell(rank):
                continue  # nothing is counted: `_segments` stores where each parent ends
            if parents := parents_of(rank, self.inverse):
                by = changes.flag(rank.name) if rank.name in changes.flags else None
                body.append(self._per_parent(rank, parents, by, 200 + number))
        if len(body) > len(changes.statements):
            builder.stage("count", body, learnt)

    def _per_parent(
        self, rank: Rank, parents: tuple[Linear, ...], by: Expr | None, at: int
    ) -> Stmt:
        """Count the numbers of a rank under each parent."""
        bound = rank.bound
        where = [self.stream.term(term) for term in parents]
        if bound.length is not None:
            name = self._array(bound.length.name, 0)
        else:
            name = self._array(bound.pointer, 0)
            where = [where[0] + 1]
        cell = element(name, *where)
        dtype = self.builder.spaces[name].dtype
        more = Const(1, dtype) if by is None else cast(by, dtype)
        return self.stream.each(f"per_{rank.name}", at, cell, self.builder.load(cell) + more)

    # -- index arrays -----------------------------------------------------------------------------

    def make(self, definition: Definition) -> None:
        """Make an index array or find a count; those held by entries are left to `fill`."""
        builder = self.builder
        x = Linear.of(Var("x"))
        match definition:
            case Segments(array=name, rank=rank):
                self._segments(name, self.inverse.rank(rank))
            case Number(symbol=symbol, rank=rank):
                if self.ways[rank] is Way.TABLE:
                    self._number_keys(self.inverse.rank(rank))
                builder.define(symbol, self.totals[rank])
                if self.ways[rank] is Way.TABLE:
                    self._list_keys(self.inverse.rank(rank))
            case Most(symbol=symbol, array=name):
                most = builder.array("most", INT64, (Linear.of(1),), 0)
                cell = element(most, _ZERO)
                held = cast(builder.load(element(name, x)), INT64)
                most_so_far = Binary("max", builder.load(cell), held)
                extent = self.format.index(name).extents[0]
                stmt = Stmt("most", over("x", extent), (x,), most, (_ZERO,), most_so_far)
                builder.stage("most", [stmt], [Learnt(symbol, most, (_ZERO,))])
            case End(symbol=symbol, element=last):
                builder.learn(symbol, last.name, *last.args)
            case Running(variable=variable):
                name = self._array(definition.array, 0)
                here = Linear.of(Var(variable))
                dtype = builder.spaces[name].dtype
                step = cast(builder.number(definition.step), dtype)
                value = builder.load(element(name, here)) + step
                domain, times = over(variable, definition.count), (Linear.of(1), here)
                body = [Stmt("add", domain, times, name, (here + 1,), value)]
                if definition.first != _ZERO:
                    first = cast(builder.number(definition.first), dtype)
                    body.append(once("first", element(name, _ZERO), first))
                builder.stage("running", body)
            case Largest():
                self._largest(definition)
            case Sorted():
                sort_places(definition, self.format, builder, self.sizes, self.dtypes)
            case Lengths() | Held():
                pass

    def _ends_tell(self, rank: Rank) -> bool:
        """Whether numbers are positions in a list that ascends by the parent of pointers."""
        parents = parents_of(rank, self.inverse)
        is_pointer = rank.bound.length is None and len(parents) == 1
        is_list = self._is_position(rank) and self.stream.count is not None
        return is_list and is_pointer and follows(parents, self.stream.order)

    def _segments(self, name: str, rank: Rank) -> None:
        if not parents_of(rank, self.inverse):
            return  # stored where the keys of the parent change
        builder = self.builder
        last = self.format.index(name).extents[0] - 1
        if self._ends_tell(rank):
            (parent,) = parents_of(rank, self.inverse)
            store_ends(self.stream, parent, self._array(name, 0), last, builder)
            return
        cursors = ""
        if self.ways[rank.name] is Way.CURSOR:
            cursors = builder.array("cursors", builder.spaces[name].dtype, (last,))
            self.cursors[rank.name] = cursors
        running_sum(builder, name, last, copy=cursors)
        if rank.name not in self.totals:
            builder.learn(f"{rank.name}_total", name, last)
            self.totals[rank.name] = _symbol(f"{rank.name}_total")

    def _number_keys(self, rank: Rank) -> None:
        """Number the keys that were seen: a running sum is the table."""
        found = self.sizes.key(rank.keys[0])
        assert found is not None
        total, seen = f"{rank.name}_total", self.tables[rank.name]
        running_sum(self.builder, seen, found.count, Learnt(total, seen, (found.count,)))
        self.totals[rank.name] = _symbol(total)

    def _list_keys(self, rank: Rank) -> None:
        """Store each key that was seen at its number."""
        found = self.sizes.key(rank.keys[0])
        assert found is not None
        builder, seen = self.builder, self.tables[rank.name]
        x = Linear.of(Var("x"))
        here, after = element(seen, x), element(seen, x + 1)
        is_seen = Binary("ne", builder.load(here), builder.load(after))
        for stored in self._stored(rank):
            name = self._array(stored.element.name)
            value = cast(builder.number(x + found.low), builder.spaces[name].dtype)
            stmt = Stmt("key", over("x", found.count), (x,), name, (here,), value, is_seen)
            builder.stage("keys", [stmt], apart=[name])  # keys that were seen differ in number

    def _stored(self, rank: Rank) -> list[Stored]:
        return [s for s in self.inverse.stored if rank.name in read_at(s.element)]

    def _largest(self, made: Largest) -> None:
        assert made.floor.is_constant
        builder = self.builder
        name = self._array(made.array, made.floor.constant)
        cell = element(name, made.place)
        value = cast(builder.number(made.value), builder.spaces[name].dtype)
        times = tuple(Linear.of(Var(v)) for v in made.variables)
        most = Binary("max", builder.load(cell), value)
        domain = IntegerSet(made.variables, (made.domain,))
        builder.stage("largest", [Stmt("most", domain, times, name, (made.place,), most)])

    # -- filling ----------------------------------------------------------------------------------

    def fill(self) -> Assembled:
        """The last pass over the entries: their numbers, what index arrays hold, their values."""
        is_by_table = all(way is Way.TABLE for way in self.ways.values())
        if is_by_table and not self.stream.order:
            # Places are met at random: parts of them, one after the other, stay in a cache.
            self.stream = dealt(self.stream, self.builder, self.sizes)
        builder, stream = self.builder, self.stream
        changes = self._changes()
        body: list[Stmt] = [*changes.statements]
        numbers: dict[Atom, Linear] = {}
        for at, rank in enumerate(self.inverse.ranks):
            numbers[Var(rank.name)] = self._numbered(rank, changes, body, 100 + 2 * at)
        arrays = self._store_held(numbers, changes, body)
        self._store_pointers(numbers, changes, body)
        place = substitute(stream.term(self.inverse.place), numbers)
        values = self._store_values(place, body)
        if len(body) > len(changes.statements):
            builder.stage("fill", body, apart=self._apart(body))
        names = {i.name: i.name for i in self.format.indices} | arrays
        return Assembled(names, values, tuple(self.ways.items()))

    def _apart(self, body: list[Stmt]) -> set[str]:
        """Arrays in which iterations do not meet: tuples have elements of their own.

        Different entries have different tuples, except where coordinates are repeated; parts of
        entries that were dealt out have no coordinates in common.
        """
        is_dealt = self.stream.domain.variables == ("b", "e")
        has_entry = any(rank.is_entry for rank in self.inverse.ranks)
        has_tuple = self.stream.is_unique or has_entry or is_dealt
        targets = {s.target for s in body if self.builder.spaces[s.target].role is not Role.LOCAL}
        return targets - {*self.cursors.values()} if has_tuple and self.builder.is_sound else set()

    def _numbered(self, rank: Rank, changes: Changes, body: list[Stmt], at: int) -> Linear:
        """The number of a rank for the entry at hand."""
        builder, stream = self.builder, self.stream
        if self._is_position(rank):
            assert stream.position is not None
            return stream.position.number
        if self.ways[rank.name] is Way.TABLE:
            found = self.sizes.key(rank.keys[0])
            assert found is not None
            return element(self.tables[rank.name], stream.term(rank.keys[0]) - found.low)
        number = builder.scalar(f"at_{rank.name}")
        if self.ways[rank.name] is Way.RUNNING:
            body.append(once(f"start_{rank.name}", number, Const(-1, builder.index)))
            value = builder.load(number) + changes.flag(rank.name)
            body.append(stream.each(f"move_{rank.name}", at, number, value))
            return number
        parents = [stream.term(term) for term in parents_of(rank, self.inverse)]
        if rank.name not in self.cursors:
            length = rank.bound.length
            assert length is not None, "cursors of pointers were copied"
            extents = self.format.index(length.name).extents
            self.cursors[rank.name] = builder.array("cursors", builder.index, extents, 0)
        cursor = element(self.cursors[rank.name], *parents)
        dtype = builder.spaces[self.cursors[rank.name]].dtype
        taken = cast(builder.load(cursor), builder.index)
        body.append(stream.each(f"take_{rank.name}", at, number, taken))
        later = cast(builder.load(number) + Const(1, builder.index), dtype)
        body.append(stream.each(f"move_{rank.name}", at + 1, cursor, later))
        return number

    def _store_held(
        self, numbers: Mapping[Atom, Linear], changes: Changes, body: list[Stmt]
    ) -> dict[str, str]:
        """Store what index arrays hold; arrays that are there already are handed on instead."""
        builder, stream = self.builder, self.stream
        shared: dict[str, str] = {}
        for at, stored in enumerate(self.inverse.stored):
            name = stored.element.name
            if name in builder.spaces:
                continue  # made before
            args = tuple(substitute(stream.term(a), numbers) for a in stored.element.args)
            value = stream.term(stored.value)
            if own := self._is_shared(args, value, self.dtypes[name]):
                shared[name] = own
                continue
            self._array(name)
            used = [r for r in self.inverse.ranks if r.name in read_at(stored.element)]
            guard = None
            if used and used[-1].name in changes.flags and not used[-1].is_entry:
                guard = changes.is_first(used[-1].name)
            number = cast(builder.number(value), self.dtypes[name])
            body.append(stream.each(f"hold_{name}", 200 + at, element(name, *args), number, guard))
        return shared

    def _is_shared(self, args: tuple[Linear, ...], value: Linear, dtype: DType) -> str:
        """The array that holds just this already: value = array(e) where args are (e)."""
        position, found = self.stream.position, self.stream.looked_up(value).atom
        if position is None or not isinstance(found, Call) or found.args != args:
            return ""
        if args != (position.number,):
            return ""
        space = self.builder.spaces[found.name]
        return found.name if space.dtype == dtype and space.shape == (position.total,) else ""

    def _store_pointers(
        self, numbers: Mapping[Atom, Linear], changes: Changes, body: list[Stmt]
    ) -> None:
        """Pointers under ranks: the first number of a child where the parent is new."""
        builder = self.builder
        for at, rank in enumerate(self.inverse.ranks):
            bound = rank.bound
            if bound.parent is None or parents_of(rank, self.inverse):
                continue
            (name,) = (n for n in read_at(Call("", (bound.parent,))))
            array = self._array(bound.pointer)
            dtype = builder.spaces[array].dtype
            number = cast(builder.number(numbers[Var(rank.name)]), dtype)
            target = element(array, numbers[Var(name)])
            guard = changes.is_first(name)
            body.append(self.stream.each(f"point_{rank.name}", 300 + at, target, number, guard))
            end = cast(builder.number(self.totals[rank.name]), dtype)
            body.append(once(f"end_{rank.name}", element(array, self.totals[name]), end, 2))

    def _store_values(self, place: Linear, body: list[Stmt]) -> str:
        builder, stream = self.builder, self.stream
        dtype = builder.spaces[stream.values].dtype
        if self._is_shared((place,), element(stream.values, stream.place), dtype):
            return stream.values
        padding = self.format.padding
        meets = not stream.is_unique and not any(rank.is_entry for rank in self.inverse.ranks)
        fill = padding.fill if padding is not None else 0 if meets else None
        values = builder.array("to_values", dtype, (self.format.places,), fill)
        cell = element(values, place)
        value: Expr = builder.load(element(stream.values, stream.place))
        if meets:
            value = added(builder.load(cell), value)
        body.append(stream.each("value", 999, cell, value))
        return values


def _symbol(name: str) -> Linear:
    return Linear.of(Sym(name))
