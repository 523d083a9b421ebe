"""Chunked computations: the outermost loop is split into contiguous chunks, one per thread.

    for v in low .. high: S(v)
    ->  parallel for t in 0 .. SHARES: for v in cut(t) .. cut(t+1): S(v)

Where iterations of different chunks access one element, each chunk gets a private row: updates
start from the identity element and are reduced afterwards; cursors start behind what the chunks
before will take, which a histogram per chunk tells. Scalars carried from iteration to iteration:

    counter     s = s + e: chunks are summed first, then each starts from the sum of those before
    last value  s = e, read in the next iteration: e of the iteration before the chunk

The result is the same bit by bit for any number of chunks, which is chosen at run time.
"""

from __future__ import annotations

from dataclasses import replace

from loopwright.diagnostics import IllegalStep
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.expr import Binary, Const, Expr, Load, Select
from loopwright.ir.expr import Var as ExprVar
from loopwright.ir.program import Role
from loopwright.ir.visit import loads, rewrite, substitute
from loopwright.lazy_dataclass import dataclass
from loopwright.sparse.spf.array_dependences import accesses, update_of
from loopwright.sparse.spf.chunk_builder import ChunkBuilder, identity_element
from loopwright.sparse.spf.chunk_plan import (
    ChunkContext,
    ChunkedComputation,
    ChunkedRange,
    Histogram,
)
from loopwright.sparse.spf.computation import Computation, DataSpace, Stmt
from loopwright.sparse.spf.regions import (
    InsertionCursor,
    Region,
    Scan,
    adds_constant_one,
    cursor_of,
    is_filled_first,
    is_marked,
    is_set_first,
    pointers_of,
    reads_of,
    regions_of,
    scan_of,
    update_kind,
)
from loopwright.sparse.spf.rescheduling import check_parallel
from loopwright.sparse.uf import (
    Atom,
    Conj,
    IntegerSet,
    Term,
    TupleVar,
    UFCall,
    calls,
    replace_atoms,
)

__all__ = [
    "CarriedScalars",
    "adds_constant_one",
    "chunk_computation",
    "chunked_scan",
]

_ZERO = Term.of(0)


class CarriedScalars:
    """The carried scalars of a region."""

    def __init__(self, builder: ChunkBuilder) -> None:
        self.builder = builder
        self.counters: dict[str, Expr] = {}  # what they start from
        self.lasts: dict[str, tuple[Expr, Stmt]] = {}  # what they start from, who sets them

    @property
    def settled(self) -> set[str]:
        return {*self.counters, *self.lasts}

    def take(self, name: str) -> bool:
        """Whether a scalar is one of those kinds."""
        region, old = self.builder.region, self.builder.old
        others = [s for s in old.statements if s not in region.statements]
        inside = region.writers(name)
        outside = [s for s in others if name in {s.target, *reads_of(s)}]
        if len(inside) != 1 or len(outside) != 1:
            return False
        (writer,), (first,) = inside, outside
        is_before = not first.loops and first.schedule[0].constant < region.time
        is_set = first.target == name and first.guard is None and isinstance(first.value, Const)
        if not is_before or not is_set or region.is_bound(name):
            return False
        if update_of(writer, old.by_name) == "add" and old.space(name).dtype.is_exact:
            self.counters[name] = first.value
            return True
        is_told = not any(old.space(x).role is Role.LOCAL for x in self._conflicting_reads(writer))
        if writer.guard is None and is_told and writer.variables == (region.variable,):
            self.lasts[name] = first.value, writer
            return True
        return False

    def _conflicting_reads(self, writer: Stmt) -> set[str]:
        written = {stmt.target for stmt in self.builder.region.statements}
        return {name for name in reads_of(writer) if name in written}

    def write(self, count: int, start: int, main: int) -> list[str]:
        """Add the statements that give the scalars their values where chunks begin."""
        notes = []
        if self.counters:
            self._count_first(count, start, main)
            notes.append(f"{', '.join(self.counters)} counted per chunk first")
        self._set_lasts(main)
        if self.lasts:
            notes.append(f"{', '.join(self.lasts)} read from the iteration before a chunk")
        return notes

    def _set_lasts(self, phase: int) -> None:
        """Set the value of the iteration before a chunk; the first keeps the initial value."""
        builder, region = self.builder, self.builder.region
        begin = builder.load(builder.cut, builder.here)
        low = builder.number(region.low)
        for number, (name, (first, writer)) in enumerate(self.lasts.items()):
            before = substitute(writer.value, {region.variable: begin - 1})
            at = -100 - 2 * number
            is_inside = Binary("gt", begin, low)
            builder.add(builder.once_in_chunk("none", phase, at, (name,), first))
            builder.add(builder.once_in_chunk("before", phase, at + 1, (name,), before, is_inside))

    def _count_first(self, count: int, start: int, main: int) -> None:
        builder = self.builder
        self._set_lasts(count)
        for stmt in self._slice():
            builder.add(builder.in_chunk(stmt, count))
        for number, (name, first) in enumerate(self.counters.items()):
            dtype = builder.spaces[name].dtype
            row = builder.row(name, Term.of(1), dtype)
            zero, cell = Const(0, dtype), builder.load(row, builder.here, _ZERO)
            at = -200 - number
            builder.add(builder.once_in_chunk("zero", count, at, (name,), zero))
            total = (row, builder.here, _ZERO)
            builder.add(
                builder.once_in_chunk("total", count, 2 + number, total, builder.load(name))
            )
            _sum_rows(builder, start, number, row, first)
            builder.add(builder.once_in_chunk("so_far", main, at, (name,), cell))

    def _slice(self) -> list[Stmt]:
        """The statements that the counters depend on."""
        region, spaces = self.builder.region, self.builder.spaces
        wanted = {*self.counters}
        is_growing = True
        while is_growing:
            found = {n for s in region.statements if s.target in wanted for n in reads_of(s)}
            found = {name for name in found if region.writers(name)}
            is_growing = not found <= wanted
            wanted |= found
        if stray := [name for name in sorted(wanted) if spaces[name].role is not Role.LOCAL]:
            raise IllegalStep(
                "share", f"counting depends on {stray[0]}, which is written meanwhile"
            )
        return [stmt for stmt in region.statements if stmt.target in wanted]


def chunked_scan(builder: ChunkBuilder, scan: Scan) -> str:
    """Scan in two passes: reduce each chunk, then scan it from the total of those before."""
    name, variable = scan.array, Term.of(TupleVar(builder.region.variable))
    dtype = builder.spaces[name].dtype
    sums = builder.row(name, Term.of(1), dtype)
    cell, place = builder.load(sums, builder.here, _ZERO), (sums, builder.here, _ZERO)
    start = identity_element(scan.op, dtype)
    if start is None:
        raise IllegalStep("share", f"{dtype} has no least or largest number")
    builder.add(builder.once_in_chunk("clear", 0, 0, place, start))
    more = Binary(scan.op, cell, scan.step)
    total = replace(scan.stmt, name="total", target=sums, index=place[1:], value=more)
    builder.add(builder.in_chunk(total, 0))
    _sum_rows(builder, 1, 0, sums, builder.load(name, builder.region.low), scan.op)
    carry = builder.scalar("carry", dtype)
    builder.add(builder.once_in_chunk("carry", 2, 0, (carry,), cell))
    own = builder.in_chunk(scan.stmt, 2)
    outer = own.schedule[: own.schedule.index(variable) + 1]
    now, before = builder.load(carry), builder.load(name, variable)

    def change(expr: Expr) -> Expr:
        return now if expr == before else expr

    def last(at: int, stmt: Stmt, value: Expr) -> None:
        builder.add(replace(stmt, schedule=(*outer, Term.of(at)), value=value))

    for at, stmt in enumerate(scan.copies):
        last(at, builder.in_chunk(stmt, 2), rewrite(stmt.value, change))
    at = len(scan.copies)
    step = replace(own, name="carried", target=carry, index=())
    last(at, step, Binary(scan.op, now, scan.step))
    last(at + 1, own, now)
    what = "sum" if scan.op == "add" else scan.op
    return f"the running {what} {name} per chunk, then again from where each begins"


def _sum_rows(
    builder: ChunkBuilder, phase: int, number: int, row: str, first: Expr, op: str = "add"
) -> None:
    """row[t, 0] = first + the sum of row[u, 0] for u < t, by one thread; or another op than +."""
    dtype = builder.spaces[row].dtype
    so_far, held = builder.scalar("so_far", dtype), builder.scalar("held", dtype)
    times = builder.time(phase), Term.of(2 * number)
    once = IntegerSet((), (Conj(),))
    builder.add(Stmt("first", once, times, so_far, (), first), is_parallel=False)
    cell = builder.load(row, builder.here, _ZERO)
    steps: list[tuple[str, tuple[Term, ...], Expr]] = [
        (held, (), cell),
        (row, (builder.here, _ZERO), builder.load(so_far)),
        (so_far, (), Binary(op, builder.load(so_far), builder.load(held))),
    ]
    for at, (target, index, value) in enumerate(steps):
        schedule = (times[0], Term.of(2 * number + 1), builder.here, Term.of(at))
        stmt = Stmt(f"before{at}", builder.each_chunk, schedule, target, index, value)
        builder.add(stmt, is_parallel=False)


_BYTE = DTYPES["uint8"]
# Phases of a chunked region.
_COUNT, _START, _MAIN = 0, 1, 2


def chunk_computation(
    computation: Computation, context: ChunkContext | None = None
) -> ChunkedComputation | str:
    """The computation with its outermost loop in chunks, or why it cannot be chunked."""
    regions = regions_of(computation)
    looped = [region for region in regions if any(stmt.loops for stmt in region.statements)]
    if computation.marks or len(looped) != 1 or not looped[0].variable:
        return "there is no one loop around all of it"
    (region,) = looped
    work = _Chunker(computation, region, context or ChunkContext())
    scan = scan_of(region, computation)
    try:
        if scan is not None:
            work.is_light = True
            work.notes.append(chunked_scan(work.builder, scan))
        else:
            work.entries()
        for other in regions:
            if other is not region:
                work.builder.keep(other, work.carried.settled)
    except IllegalStep as error:
        return error.reason
    return work.finish()


@dataclass(frozen=True)
class _PrivateRow:
    """Rows in place of an array: element x of the array is row[t, x + shift]."""

    name: str
    shift: int = 0


class _Chunker:
    def __init__(self, computation: Computation, region: Region, context: ChunkContext) -> None:
        self.old, self.region, self.context = computation, region, context
        self.builder = ChunkBuilder(computation, region)
        self.carried = CarriedScalars(self.builder)
        self.rows: dict[str, _PrivateRow] = {}  # by the array that they stand for
        self.free: set[str] = set()  # spaces in which iterations no longer conflict
        self.ranks: set[str] = set()  # scalars that differ from entry to entry
        self.marked: set[str] = set()
        self.used: list[Histogram] = []
        self.made: list[Histogram] = []
        self.notes: list[str] = []
        self.is_light = False
        self.places: ChunkedRange | None = None  # set where chunks are of places, not of entries
        self.joins = 0  # phases after the entries

    def finish(self) -> ChunkedComputation:
        region, builder = self.region, self.builder
        atomic_group = self.context.atomic_group
        entries = ChunkedRange(region.low, region.high, pointers_of(region), atomic_group)
        return ChunkedComputation(
            builder.computation(),
            self.places or entries,
            entries,
            builder.chunks,
            builder.cut,
            tuple(builder.rows),
            tuple(self.used),
            tuple(self.made),
            builder.longest,
            self.is_light,
            tuple(self.notes),
        )

    # -- loops over entries --------------------------------------------------------------------

    def entries(self) -> None:
        """Chunk the loop; IllegalStep where iterations conflict in a way that is not recognised."""
        left = [name for name in self._targets() if not self._is_settled(name)]
        for name in left:
            if self.old.space(name).role is Role.LOCAL:
                raise IllegalStep("share", f"{name} goes from iteration to iteration")
        if (
            len(left) == 1
            and not self.rows
            and not self.carried.settled
            and self._may_conflict(left[0])
        ):
            self._chunk_places(left[0])
            return
        for name in left:
            if (
                name in self.context.disjoint_writes
                or self._is_placed(name)
                or self._is_indexed_by_iteration(name)
            ):
                self.free.add(name)
        if not self.free.issuperset(left):
            stmt = self.region.statements[0]
            check_parallel("share", self.old, stmt, 1, self.free)
        extents = [self.old.space(name).shape for name in self.rows]
        self.is_light = self.free == {*self.rows} and all(e.is_constant for (e,) in extents)
        self.notes += self.carried.write(_COUNT, _START, _MAIN)
        for stmt in self.region.statements:
            self.builder.add(self._moved(self.builder.in_chunk(stmt, _MAIN)))

    def _may_conflict(self, name: str) -> bool:
        """Whether entries may update common elements of an array, in an order to be kept."""
        space, region = self.old.space(name), self.region
        writers = region.writers(name)
        kinds = {update_of(stmt, self.old.by_name) for stmt in writers}
        is_only_updated = None not in kinds and region.readers(name) == writers
        is_listed = name not in self.context.disjoint_writes and not region.is_called(name)
        is_long = space.rank == 1 and not space.shape[0].is_constant
        return is_long and is_only_updated and is_listed

    def _chunk_places(self, name: str) -> None:
        """Each chunk visits all entries and updates only the places that it owns (owner computes).

        rewrite:  for e: x[p(e)] = x[p(e)] op f(e)
                  ->  parallel for t: for e: if cut(t) <= p(e) < cut(t+1): x[p(e)] = x[p(e)] op f(e)
        """
        builder, (extent,) = self.builder, self.old.space(name).shape
        low, high = (builder.load(builder.cut, t) for t in (builder.here, builder.here + 1))
        for stmt in self.region.statements:
            own = builder.in_all(stmt, _MAIN)
            if stmt.target == name:
                place = builder.number(stmt.index[0])
                mine: Expr = Binary("and", Binary("le", low, place), Binary("lt", place, high))
                own = replace(
                    own, guard=mine if own.guard is None else Binary("and", own.guard, mine)
                )
            builder.add(own)
        self.places = ChunkedRange(_ZERO, extent)
        self.notes.append(f"{name} is chunked; each chunk visits all entries in order")

    def _next(self) -> int:
        """The next phase after the entries."""
        self.joins += 1
        return _MAIN + self.joins

    def _targets(self) -> list[str]:
        return list(dict.fromkeys(stmt.target for stmt in self.region.statements))

    def _is_settled(self, name: str) -> bool:
        """Whether iterations no longer conflict in a space, since each chunk has a private copy."""
        space = self.old.space(name)
        region, old = self.region, self.old
        if space.role is Role.LOCAL and not space.rank:
            is_own = is_set_first(region, old, name) or is_filled_first(region, old, name)
            is_own = is_own or self.carried.take(name)
        elif self._is_iteration_private(name):
            is_own = self._private_row(space)
        elif space.rank != 1 or (
            name in self.context.disjoint_writes and not self.context.atomic_group
        ):
            return False  # needs no row, or cannot have one
        elif op := update_kind(region, old, name):
            is_own = self._update(space, op)
        elif is_marked(region, name):
            is_own = self._mark(space)
        elif cursor := cursor_of(region, old, name):
            is_own = self._cursor(space, cursor)
        else:
            return False
        if is_own:
            self.free.add(name)
        return is_own

    def _is_indexed_by_iteration(self, name: str) -> bool:
        """Whether iterations touch only elements that have their own number as a subscript."""
        v = Term.of(TupleVar(self.region.variable))
        found = [
            access.index
            for stmt in self.region.statements
            for access in accesses(stmt)
            if access.space == name
        ]
        return any(all(index[at] == v for index in found) for at in range(len(found[0])))

    def _is_iteration_private(self, name: str) -> bool:
        """Whether nothing in an array outlives an iteration."""
        is_filled = name in self.context.dead and is_filled_first(self.region, self.old, name)
        return is_filled or (
            name in self.context.iteration_private and not self.region.is_bound(name)
        )

    def _is_placed(self, name: str) -> bool:
        """Whether an array is only written, where the number of an entry among all says."""
        if self.region.readers(name):
            return False
        terms = {Term.of(UFCall(scalar, ())) for scalar in self.ranks}
        return all(
            len(stmt.index) == 1 and stmt.index[0] in terms for stmt in self.region.writers(name)
        )

    def _private_row(self, space: DataSpace) -> bool:
        if space.rank != 1:
            return False
        self.rows[space.name] = _PrivateRow(
            self.builder.row(space.name, space.shape[0], space.dtype)
        )
        self.notes.append(f"each chunk has its own {space.name}")
        return True

    def _update(self, space: DataSpace, op: str) -> bool:
        """Updates into rows, which are joined."""
        builder, (extent,) = self.builder, space.shape
        start = identity_element(op, space.dtype)
        if start is None:
            return False
        row = builder.row(space.name, extent, space.dtype)
        self.rows[space.name] = _PrivateRow(row)
        builder.add(
            builder.along_row(
                "clear", _MAIN, -len(self.rows), (_ZERO, extent), row, builder.at, start
            )
        )
        before, here = (
            builder.load(space.name, builder.at),
            builder.load(row, builder.here, builder.at),
        )
        (writer, *others) = self.region.writers(space.name)
        is_count = op == "add" and not others and adds_constant_one(writer)
        if space.name in self.context.counted and is_count:
            self._join_counts(space, row, self._next())
            histogram = Histogram(
                space.name,
                row,
                space.dtype,
                extent,
                writer.domain,
                writer.guard,
                writer.index[0],
            )
            self.made.append(histogram)
            self.notes.append(f"{space.name} is counted per chunk, for later cursors")
        else:
            value = Binary(op, before, here)
            target = (space.name, builder.at)
            builder.across_rows("join", self._next(), 0, extent, target, value)
            self.notes.append(f"{space.name} is updated in rows, joined by {op}")
        return True

    def _join_counts(self, space: DataSpace, row: str, phase: int) -> None:
        """array[x] = sum of all rows; row[t, x] = array[x] of before and the rows before t."""
        builder, (extent,) = self.builder, space.shape
        held = builder.scalar("held", space.dtype)
        before, here = (
            builder.load(space.name, builder.at),
            builder.load(row, builder.here, builder.at),
        )
        for at, target, value in (
            (0, (held,), here),
            (1, (row, builder.here, builder.at), before),
            (2, (space.name, builder.at), Binary("add", before, builder.load(held))),
        ):
            builder.across_rows(f"join{at}", phase, at, extent, target, value)

    def _mark(self, space: DataSpace) -> bool:
        """Marks in rows of bytes; what a row has marked is set."""
        builder, (extent,) = self.builder, space.shape
        row = builder.row(space.name, extent, _BYTE)
        self.rows[space.name] = _PrivateRow(row)
        self.marked.add(space.name)
        no, here = Const(0, _BYTE), builder.load(row, builder.here, builder.at)
        clear = builder.along_row(
            "clear", _MAIN, -len(self.rows), (_ZERO, extent), row, builder.at, no
        )
        builder.add(clear)
        own = builder.load(space.name, builder.at)
        value = Select(Binary("ne", here, no), self.region.writers(space.name)[0].value, own)
        builder.across_rows("join", self._next(), 0, extent, (space.name, builder.at), value)
        self.notes.append(f"{space.name} is marked in rows")
        return True

    def _cursor(self, space: DataSpace, cursor: InsertionCursor) -> bool:
        """Private cursors per chunk, which start where those of the chunk before end."""
        (index,) = cursor.index
        scalar = cursor.take.target
        scanned = self.context.scanned.get(space.name)
        if (
            scanned is not None
            and _counts_same_entries(scanned, cursor)
            and scanned.index - index == Term.of(1)
        ):
            self.ranks.add(scalar)
        for histogram in self.context.histograms:
            shift = histogram.index - index
            if (
                _counts_same_entries(histogram, cursor)
                and shift.is_constant
                and histogram.dtype == space.dtype
            ):
                self._start_from(space, histogram, shift.constant)
                return True
        return self._count_first(space, cursor)

    def _start_from(self, space: DataSpace, histogram: Histogram, shift: int) -> None:
        """Cursors from counts that were made before."""
        builder, (extent,) = self.builder, space.shape
        row = builder.kept_row(histogram.row, histogram.extent, histogram.dtype)
        self.rows[space.name] = _PrivateRow(row, shift)
        self.used.append(histogram)
        # Elements of the array that the counts reach.
        span = (Term.of(max(0, -shift)), extent, histogram.extent - shift)
        place = builder.at + shift
        own = builder.load(row, builder.here, place)
        value = Binary("add", own, builder.load(space.name, builder.at))
        builder.add(builder.along_row("start", _MAIN, -len(self.rows), span, row, place, value))
        if space.name not in self.context.dead:
            last = builder.load(row, builder.count - 1, place)
            builder.add(builder.by_blocks("end", self._next(), span, space.name, last))
        self.notes.append(
            f"cursors {space.name} of each chunk start behind those of the chunk before"
        )

    def _count_first(self, space: DataSpace, cursor: InsertionCursor) -> bool:
        """Cursors from counts that are made here, in a pass of their own."""
        builder, (extent,), take = self.builder, space.shape, cursor.take
        read = [load for e in (take.value, take.guard) if e is not None for load in loads(e)]
        names = {load.array for load in read} | {c.name for e in cursor.index for c in calls(e)}
        if any(builder.spaces[name].role is Role.LOCAL for name in names):
            return False
        row = builder.row(space.name, extent, space.dtype)
        self.rows[space.name] = _PrivateRow(row)
        zero, one = Const(0, space.dtype), Const(1, space.dtype)
        builder.add(builder.along_row("clear", _COUNT, 0, (_ZERO, extent), row, builder.at, zero))
        index = (builder.here, *cursor.index)
        more = Binary("add", builder.load(row, *index), one)
        count = replace(take, name="count", target=row, index=index, value=more)
        builder.add(builder.in_chunk(count, _COUNT))
        self._join_counts(space, row, _START)
        self.notes.append(f"cursors {space.name} are counted per chunk first")
        return True

    def _moved(self, stmt: Stmt) -> Stmt:
        """A statement that uses the private rows of its chunk."""
        t = ExprVar(self.builder.t)

        def change(expr: Expr) -> Expr:
            if isinstance(expr, Load) and expr.array in self.rows:
                row = self.rows[expr.array]
                (index,) = expr.index
                return replace(expr, array=row.name, index=(t, index + row.shift))
            return expr

        def moved(atom: Atom) -> Term | None:
            if not isinstance(atom, UFCall) or atom.name not in self.rows:
                return None
            row = self.rows[atom.name]
            return Term.of(UFCall(row.name, (self.builder.here, atom.args[0] + row.shift)))

        guard = None if stmt.guard is None else rewrite(stmt.guard, change)
        value = rewrite(stmt.value, change)
        index = tuple(replace_atoms(entry, moved) for entry in stmt.index)
        row = self.rows.get(stmt.target)
        if row is None:
            return replace(stmt, index=index, value=value, guard=guard)
        index = (self.builder.here, index[0] + row.shift)
        value = Const(1, _BYTE) if stmt.target in self.marked else value
        return replace(stmt, target=row.name, index=index, value=value, guard=guard)


def _counts_same_entries(histogram: Histogram, cursor: InsertionCursor) -> bool:
    """Whether a count is of the entries that move a cursor."""
    return histogram.domain == cursor.take.domain and histogram.guard == cursor.take.guard
