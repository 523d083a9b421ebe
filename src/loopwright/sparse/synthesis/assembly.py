"""Assemble a format from an entry iterator: count, make index arrays, fill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from loopwright.ir.dtypes import INT64, DType
from loopwright.ir.expr import Binary, Const, Expr, cast
from loopwright.ir.program import Role
from loopwright.lazy_dataclass import dataclass
from loopwright.sparse.format import Format
from loopwright.sparse.spf.computation import Stmt
from loopwright.sparse.synthesis.bucket_partition import partitioned
from loopwright.sparse.synthesis.coalesce import KeyChanges, sum_of
from loopwright.sparse.synthesis.counting_sort import sort_places
from loopwright.sparse.synthesis.definitions import (
    CountArray,
    CountSymbol,
    Definition,
    LastSymbol,
    MaxArray,
    MaxSymbol,
    PermutationArray,
    PointerArray,
    RunningSumArray,
    StoredArray,
)
from loopwright.sparse.synthesis.entry_iterator import (
    EntryIterator,
    KeySizes,
    once,
    over,
    running,
    running_sum,
)
from loopwright.sparse.synthesis.entry_order import follows
from loopwright.sparse.synthesis.inverse import InverseMap, PositionLevel, StoredElement, read_at
from loopwright.sparse.synthesis.numbering_strategy import (
    NumberingStrategy,
    choose_strategies,
    parent_terms,
)
from loopwright.sparse.synthesis.stages import ArrayReuse, Builder, RuntimeSymbol, Stage, element
from loopwright.sparse.uf import Atom, IntegerSet, Sym, Term, TupleVar, UFCall, substitute

__all__ = ["Assembled", "SegmentEnds", "assemble", "pointer_only", "store_segment_ends"]

_END = "end"  # the statement that stores


@dataclass(frozen=True)
class SegmentEnds:
    """A pointer that is made from where segments of equal parents end."""

    parents: str
    pointer: str

    def __str__(self) -> str:
        return (
            f"where {self.parents} turns out to be sorted, "
            f"{self.pointer} is stored by code for segments"
        )


def store_segment_ends(
    iterator: EntryIterator, parent: Term, pointer: str, count: Term, builder: Builder
) -> None:
    """pointer[x] = how many entries have a parent below x, for 0 <= x <= count.

    pointer[parent + 1] is the place after an entry: the last store of a parent is the one that
    stays, so nothing is loaded or added. Parents without entries end where those before them do.
    Where a sort has counted the entries of parents already, its array is the pointer.
    """
    entry = Term.of(TupleVar(iterator.domain.variables[0]))
    term = iterator.term(parent)
    value = cast(builder.number(entry + 1), builder.spaces[pointer].dtype)
    body = [iterator.each(_END, 0, element(pointer, term + 1), value)]
    # Entries of one parent are contiguous and write one element; those of others do not.
    found = term.atom
    groups = (found.name,) if isinstance(found, UFCall) and found.args == (entry,) else ()
    reuse = _counted(iterator, parent, pointer, builder)
    builder.stage(
        "ends", body, reuse=reuse, disjoint_writes=(pointer,) if groups else (), atomic_group=groups
    )
    running(builder, "max", pointer, count, reuse=reuse and replace(reuse, arrays=()))


def _counted(
    iterator: EntryIterator, parent: Term, pointer: str, builder: Builder
) -> ArrayReuse | None:
    """The condition under which the pointer is one that a sort has computed."""
    statistics = iterator.statistics
    if statistics is None or statistics.parent != parent:
        return None
    own, other = (builder.spaces[name] for name in (pointer, statistics.pointers))
    if (own.dtype, own.shape) != (other.dtype, other.shape):
        return None
    return ArrayReuse(statistics.left, statistics.right, ((pointer, statistics.pointers),))


def pointer_only(stages: Sequence[Stage]) -> SegmentEnds | None:
    """What stages make, if they are those of `store_ends` for parents that lie in an array."""
    if len(stages) != 2:
        return None
    stores, most = (stage.computation.statements for stage in stages)
    is_own = len(stores) == 1 and stores[0].name == _END and len(most) == 1
    if not is_own or most[0].target != stores[0].target or len(stages[0].atomic_group) != 1:
        return None
    return SegmentEnds(stages[0].atomic_group[0], stores[0].target)


_ZERO = Term.of(0)


@dataclass(frozen=True)
class Assembled:
    """What holds the arrays of the new tensor after the last stage."""

    arrays: Mapping[str, str]  # index array of the format -> array of the stages
    values: str
    strategies: tuple[tuple[str, NumberingStrategy], ...]


def assemble(
    inverse: InverseMap,
    definitions: tuple[Definition, ...],
    iterator: EntryIterator,
    builder: Builder,
    sizes: KeySizes,
    dtypes: Mapping[str, DType],
) -> Assembled:
    """Add the stages that make a tensor of the iterator's entries."""
    for symbol, term in inverse.format.defined:
        builder.define(symbol, term)
    strategies, ordered = choose_strategies(inverse, iterator, builder, sizes)
    work = _Assembly(inverse, ordered, builder, sizes, dtypes, strategies)
    work.count()
    for definition in definitions:
        work.make(definition)
    return work.fill()


@dataclass
class _Assembly:
    inverse: InverseMap
    iterator: EntryIterator
    builder: Builder
    sizes: KeySizes
    dtypes: Mapping[str, DType]
    strategies: Mapping[str, NumberingStrategy]
    tables: dict[str, str] = field(default_factory=dict)  # level -> positions by key
    cursors: dict[str, str] = field(default_factory=dict)  # level -> next position by parent
    totals: dict[str, Term] = field(default_factory=dict)  # level -> how many positions it has

    @property
    def format(self) -> Format:
        return self.inverse.format

    @property
    def running(self) -> list[PositionLevel]:
        """The levels whose positions advance where keys change."""
        levels = self.inverse.levels
        return [
            r
            for r in levels
            if self.strategies[r.name] is NumberingStrategy.RUNNING and not self._is_position(r)
        ]

    def _is_position(self, level: PositionLevel) -> bool:
        """Whether the position of an entry is its number in the iterator."""
        is_running = level.is_entry and self.strategies[level.name] is NumberingStrategy.RUNNING
        return is_running and self.iterator.position is not None

    def _array(self, name: str, fill: int | None = None) -> str:
        """Make the array of an index of the format."""
        index = self.format.index(name)
        spare = None if self.builder.is_sound else 0  # an array may be longer than entries need
        pad = next((x for x in (index.pad, fill, spare) if x is not None), None)
        return self.builder.array(name, self.dtypes[name], index.extents, pad)

    def _changes(self) -> KeyChanges:
        # An entry that is counted differs from the last one, whatever its coordinates.
        groups = [(r.name, () if r.is_entry else r.group) for r in self.running]
        return KeyChanges(groups, self.iterator, self.builder)

    # -- counting ---------------------------------------------------------------------------------

    def count(self) -> None:
        """One pass over the entries: what must be known before arrays are made."""
        builder, iterator = self.builder, self.iterator
        changes = self._changes()
        body: list[Stmt] = [*changes.statements]
        runtime_symbols: list[RuntimeSymbol] = []
        for number, level in enumerate(self.inverse.levels):
            if self._is_position(level):
                assert iterator.position is not None
                self.totals[level.name] = iterator.position.total
            elif self.strategies[level.name] is NumberingStrategy.RUNNING:
                tally = builder.array("tally", builder.index, (Term.of(1),), 0)
                cell = element(tally, _ZERO)
                value = builder.load(cell) + changes.flag(level.name)
                body.append(iterator.each(f"tally_{level.name}", 100 + number, cell, value))
                runtime_symbols.append(RuntimeSymbol(f"{level.name}_total", tally, (_ZERO,)))
                self.totals[level.name] = _symbol(f"{level.name}_total")
            elif self.strategies[level.name] is NumberingStrategy.TABLE:
                found = self.sizes.key(level.keys[0])
                assert found is not None
                seen = builder.array("seen", builder.index, (found.count + 1,), 0)
                self.tables[level.name] = seen
                cell = element(seen, iterator.term(level.keys[0]) - found.low + 1)
                body.append(iterator.each("mark", 100 + number, cell, Const(1, builder.index)))
            if self._has_segment_ends(level):
                continue  # nothing is counted: `_segments` stores where each parent ends
            if parents := parent_terms(level, self.inverse):
                by = changes.flag(level.name) if level.name in changes.flags else None
                body.append(self._per_parent(level, parents, by, 200 + number))
        if len(body) > len(changes.statements):
            builder.stage("count", body, runtime_symbols)

    def _per_parent(
        self, level: PositionLevel, parents: tuple[Term, ...], by: Expr | None, at: int
    ) -> Stmt:
        """Count the positions of a level under each parent."""
        bound = level.bound
        where = [self.iterator.term(term) for term in parents]
        if bound.length is not None:
            name = self._array(bound.length.name, 0)
        else:
            name = self._array(bound.pointer, 0)
            where = [where[0] + 1]
        cell = element(name, *where)
        dtype = self.builder.spaces[name].dtype
        more = Const(1, dtype) if by is None else cast(by, dtype)
        return self.iterator.each(f"per_{level.name}", at, cell, self.builder.load(cell) + more)

    # -- index arrays -----------------------------------------------------------------------------

    def make(self, definition: Definition) -> None:
        """Make an index array or find a count; those held by entries are left to `fill`."""
        builder = self.builder
        x = Term.of(TupleVar("x"))
        match definition:
            case PointerArray(array=name, level=level):
                self._segments(name, self.inverse.level(level))
            case CountSymbol(symbol=symbol, level=level):
                if self.strategies[level] is NumberingStrategy.TABLE:
                    self._number_keys(self.inverse.level(level))
                builder.define(symbol, self.totals[level])
                if self.strategies[level] is NumberingStrategy.TABLE:
                    self._list_keys(self.inverse.level(level))
            case MaxSymbol(symbol=symbol, array=name):
                most = builder.array("most", INT64, (Term.of(1),), 0)
                cell = element(most, _ZERO)
                held = cast(builder.load(element(name, x)), INT64)
                most_so_far = Binary("max", builder.load(cell), held)
                extent = self.format.index(name).extents[0]
                stmt = Stmt("most", over("x", extent), (x,), most, (_ZERO,), most_so_far)
                builder.stage("most", [stmt], [RuntimeSymbol(symbol, most, (_ZERO,))])
            case LastSymbol(symbol=symbol, element=last):
                builder.symbol_from(
                    symbol, last.name, *last.args, is_claimed=self._is_claimed(last.name)
                )
            case RunningSumArray(variable=variable):
                name = self._array(definition.array, 0)
                here = Term.of(TupleVar(variable))
                dtype = builder.spaces[name].dtype
                step = cast(builder.number(definition.step), dtype)
                value = builder.load(element(name, here)) + step
                domain, times = over(variable, definition.count), (Term.of(1), here)
                body = [Stmt("add", domain, times, name, (here + 1,), value)]
                if definition.first != _ZERO:
                    first = cast(builder.number(definition.first), dtype)
                    body.append(once("first", element(name, _ZERO), first))
                builder.stage("running", body)
            case MaxArray():
                self._max_array(definition)
            case PermutationArray():
                sort_places(definition, self.format, builder, self.sizes, self.dtypes)
            case CountArray() | StoredArray():
                pass

    def _has_segment_ends(self, level: PositionLevel) -> bool:
        """Whether numbers are positions in a list that ascends by the parent of pointers."""
        parents = parent_terms(level, self.inverse)
        is_pointer = level.bound.length is None and len(parents) == 1
        is_list = self._is_position(level) and self.iterator.count is not None
        return is_list and is_pointer and follows(parents, self.iterator.order)

    def _segments(self, name: str, level: PositionLevel) -> None:
        if not parent_terms(level, self.inverse):
            return  # stored where the keys of the parent change
        builder = self.builder
        last = self.format.index(name).extents[0] - 1
        if self._has_segment_ends(level):
            (parent,) = parent_terms(level, self.inverse)
            store_segment_ends(self.iterator, parent, self._array(name, 0), last, builder)
            return
        cursors = ""
        if self.strategies[level.name] is NumberingStrategy.CURSOR:
            cursors = builder.array("cursors", builder.spaces[name].dtype, (last,))
            self.cursors[level.name] = cursors
        running_sum(builder, name, last, copy=cursors)
        if level.name not in self.totals:
            builder.symbol_from(f"{level.name}_total", name, last)
            self.totals[level.name] = _symbol(f"{level.name}_total")

    def _is_claimed(self, name: str) -> bool:
        """Whether arrays are as long as an element of this one, which ascends, in a user's format.

        Entries are stored below its largest element, wherever an invariant takes the length from.
        """
        is_pointer = any(level.bound.pointer == name for level in self.inverse.levels)
        ascends = self.format.index(name).monotone.endswith("increasing")
        return (is_pointer or ascends) and not self.builder.is_sound

    def _number_keys(self, level: PositionLevel) -> None:
        """Number the keys that were seen: a running sum is the table."""
        found = self.sizes.key(level.keys[0])
        assert found is not None
        total, seen = f"{level.name}_total", self.tables[level.name]
        running_sum(self.builder, seen, found.count, RuntimeSymbol(total, seen, (found.count,)))
        self.totals[level.name] = _symbol(total)

    def _list_keys(self, level: PositionLevel) -> None:
        """Store each key that was seen at its number."""
        found = self.sizes.key(level.keys[0])
        assert found is not None
        builder, seen = self.builder, self.tables[level.name]
        x = Term.of(TupleVar("x"))
        here, after = element(seen, x), element(seen, x + 1)
        is_seen = Binary("ne", builder.load(here), builder.load(after))
        for stored in self._elements_at(level):
            name = self._array(stored.element.name)
            value = cast(builder.number(x + found.low), builder.spaces[name].dtype)
            stmt = Stmt("key", over("x", found.count), (x,), name, (here,), value, is_seen)
            # Keys that were seen have different numbers.
            builder.stage("keys", [stmt], disjoint_writes=[name])

    def _elements_at(self, level: PositionLevel) -> list[StoredElement]:
        return [s for s in self.inverse.stored if level.name in read_at(s.element)]

    def _max_array(self, made: MaxArray) -> None:
        assert made.floor.is_constant
        builder = self.builder
        name = self._array(made.array, made.floor.constant)
        cell = element(name, made.place)
        value = cast(builder.number(made.value), builder.spaces[name].dtype)
        times = tuple(Term.of(TupleVar(v)) for v in made.variables)
        most = Binary("max", builder.load(cell), value)
        domain = IntegerSet(made.variables, (made.domain,))
        builder.stage("largest", [Stmt("most", domain, times, name, (made.place,), most)])

    # -- filling ----------------------------------------------------------------------------------

    def fill(self) -> Assembled:
        """The last pass over the entries: their numbers, what index arrays hold, their values."""
        is_by_table = all(
            strategy is NumberingStrategy.TABLE for strategy in self.strategies.values()
        )
        if is_by_table and not self.iterator.order:
            # Places are accessed at random: one bucket of them at a time stays in a cache.
            self.iterator = partitioned(self.iterator, self.builder, self.sizes)
        builder, iterator = self.builder, self.iterator
        changes = self._changes()
        body: list[Stmt] = [*changes.statements]
        numbers: dict[Atom, Term] = {}
        for at, level in enumerate(self.inverse.levels):
            numbers[TupleVar(level.name)] = self._numbered(level, changes, body, 100 + 2 * at)
        arrays = self._store_indices(numbers, changes, body)
        self._store_pointers(numbers, changes, body)
        place = substitute(iterator.term(self.inverse.place), numbers)
        values = self._store_values(place, body)
        if len(body) > len(changes.statements):
            builder.stage("fill", body, disjoint_writes=self._disjoint_writes(body))
        names = {i.name: i.name for i in self.format.indices} | arrays
        return Assembled(names, values, tuple(self.strategies.items()))

    def _disjoint_writes(self, body: list[Stmt]) -> set[str]:
        """Arrays in which iterations write disjoint elements: each tuple has its own.

        Different entries have different tuples, except where coordinates are repeated; buckets
        have no coordinates in common.
        """
        is_dealt = self.iterator.domain.variables == ("b", "e")
        has_entry = any(level.is_entry for level in self.inverse.levels)
        has_tuple = self.iterator.is_unique or has_entry or is_dealt
        targets = {s.target for s in body if self.builder.spaces[s.target].role is not Role.LOCAL}
        return targets - {*self.cursors.values()} if has_tuple and self.builder.is_sound else set()

    def _numbered(
        self, level: PositionLevel, changes: KeyChanges, body: list[Stmt], at: int
    ) -> Term:
        """The position of a level for the current entry."""
        builder, iterator = self.builder, self.iterator
        if self._is_position(level):
            assert iterator.position is not None
            return iterator.position.number
        if self.strategies[level.name] is NumberingStrategy.TABLE:
            found = self.sizes.key(level.keys[0])
            assert found is not None
            return element(self.tables[level.name], iterator.term(level.keys[0]) - found.low)
        number = builder.scalar(f"at_{level.name}")
        if self.strategies[level.name] is NumberingStrategy.RUNNING:
            body.append(once(f"start_{level.name}", number, Const(-1, builder.index)))
            value = builder.load(number) + changes.flag(level.name)
            body.append(iterator.each(f"move_{level.name}", at, number, value))
            return number
        parents = [iterator.term(term) for term in parent_terms(level, self.inverse)]
        if level.name not in self.cursors:
            length = level.bound.length
            assert length is not None, "cursors of pointers were copied"
            extents = self.format.index(length.name).extents
            self.cursors[level.name] = builder.array("cursors", builder.index, extents, 0)
        cursor = element(self.cursors[level.name], *parents)
        dtype = builder.spaces[self.cursors[level.name]].dtype
        taken = cast(builder.load(cursor), builder.index)
        body.append(iterator.each(f"take_{level.name}", at, number, taken))
        later = cast(builder.load(number) + Const(1, builder.index), dtype)
        body.append(iterator.each(f"move_{level.name}", at + 1, cursor, later))
        return number

    def _store_indices(
        self, numbers: Mapping[Atom, Term], changes: KeyChanges, body: list[Stmt]
    ) -> dict[str, str]:
        """Store what index arrays hold; arrays that are there already are handed on instead."""
        builder, iterator = self.builder, self.iterator
        shared: dict[str, str] = {}
        for at, stored in enumerate(self.inverse.stored):
            name = stored.element.name
            if name in builder.spaces:
                continue  # made before
            args = tuple(substitute(iterator.term(a), numbers) for a in stored.element.args)
            value = iterator.term(stored.value)
            if own := self._is_shared(args, value, self.dtypes[name]):
                shared[name] = own
                continue
            self._array(name)
            used = [r for r in self.inverse.levels if r.name in read_at(stored.element)]
            guard = None
            if used and used[-1].name in changes.flags and not used[-1].is_entry:
                guard = changes.is_first(used[-1].name)
            number = cast(builder.number(value), self.dtypes[name])
            body.append(
                iterator.each(f"hold_{name}", 200 + at, element(name, *args), number, guard)
            )
        return shared

    def _is_shared(self, args: tuple[Term, ...], value: Term, dtype: DType) -> str:
        """The array that holds just this already: value = array(e) where args are (e)."""
        position, found = self.iterator.position, self.iterator.as_element(value).atom
        if position is None or not isinstance(found, UFCall) or found.args != args:
            return ""
        if args != (position.number,):
            return ""
        space = self.builder.spaces[found.name]
        return found.name if space.dtype == dtype and space.shape == (position.total,) else ""

    def _store_pointers(
        self, numbers: Mapping[Atom, Term], changes: KeyChanges, body: list[Stmt]
    ) -> None:
        """Pointers between levels: the first position of a child where the parent is new."""
        builder = self.builder
        for at, level in enumerate(self.inverse.levels):
            bound = level.bound
            if bound.parent is None or parent_terms(level, self.inverse):
                continue
            (name,) = (n for n in read_at(UFCall("", (bound.parent,))))
            array = self._array(bound.pointer)
            dtype = builder.spaces[array].dtype
            number = cast(builder.number(numbers[TupleVar(level.name)]), dtype)
            target = element(array, numbers[TupleVar(name)])
            guard = changes.is_first(name)
            body.append(self.iterator.each(f"point_{level.name}", 300 + at, target, number, guard))
            end = cast(builder.number(self.totals[level.name]), dtype)
            body.append(once(f"end_{level.name}", element(array, self.totals[name]), end, 2))

    def _store_values(self, place: Term, body: list[Stmt]) -> str:
        builder, iterator = self.builder, self.iterator
        dtype = builder.spaces[iterator.values].dtype
        if self._is_shared((place,), element(iterator.values, iterator.place), dtype):
            return iterator.values
        padding = self.format.padding
        meets = not iterator.is_unique and not any(level.is_entry for level in self.inverse.levels)
        fill = padding.fill if padding is not None else 0 if meets else None
        values = builder.array("to_values", dtype, (self.format.places,), fill)
        cell = element(values, place)
        value: Expr = builder.load(element(iterator.values, iterator.place))
        if meets:
            value = sum_of(builder.load(cell), value)
        body.append(iterator.each("value", 999, cell, value))
        return values


def _symbol(name: str) -> Term:
    return Term.of(Sym(name))
