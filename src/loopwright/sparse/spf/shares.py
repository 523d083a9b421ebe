"""Shares: a computation whose outermost loop is cut into contiguous parts, one for each thread.

    for v in low .. high: S(v)
    ->  parallel for t in 0 .. SHARES: for v in cut(t) .. cut(t+1): S(v)

Where iterations meet, each share has a row of its own: updates start from the neutral element and
are joined afterwards; cursors start behind what the shares before will take, which a count by
shares tells. The result is the same bit by bit for any number of shares, a number of the run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from loopwright.diagnostics import IllegalStep
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.expr import Binary, Const, Expr, Load, Select
from loopwright.ir.expr import Var as ExprVar
from loopwright.ir.program import Role
from loopwright.ir.walk import loads, rewrite
from loopwright.sparse.spf.accesses import accesses, update_of
from loopwright.sparse.spf.computation import Computation, DataSpace, Stmt
from loopwright.sparse.spf.legality import check_parallel
from loopwright.sparse.spf.regions import (
    Cursor,
    Region,
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
from loopwright.sparse.spf.share_carried import Carried, running_sums
from loopwright.sparse.spf.share_parts import Parts, neutral
from loopwright.sparse.spf.sharing import Around, Sharing, Split, Tally
from loopwright.sparse.uf import Atom, Call, Linear, Var, calls, replace_atoms

__all__ = ["adds_one", "one_by_one", "share"]

_ZERO, _BYTE = Linear.of(0), DTYPES["uint8"]
# Phases of a region in shares.
_COUNT, _START, _MAIN = 0, 1, 2


def share(computation: Computation, around: Around | None = None) -> Sharing | str:
    """A computation in shares, or why it stays whole."""
    regions = regions_of(computation)
    looped = [region for region in regions if any(stmt.loops for stmt in region.statements)]
    if computation.marks or len(looped) != 1 or not looped[0].variable:
        return "there is no one loop around all of it"
    (region,) = looped
    work = _Sharer(computation, region, around or Around())
    scan = scan_of(region, computation)
    try:
        if scan is not None:
            work.is_light = True
            work.notes.append(running_sums(work.parts, scan))
        else:
            work.entries()
        for other in regions:
            if other is not region:
                work.parts.keep(other, work.carried.settled)
    except IllegalStep as error:
        return error.reason
    return work.finish()


def one_by_one(computation: Computation) -> tuple[Computation, ...]:
    """A computation as several with one loop each, where no temporary joins these."""
    regions = regions_of(computation)
    has_local = any(space.role is Role.LOCAL for space in computation.spaces)
    if len(regions) < 2 or has_local or computation.marks:
        return (computation,)
    found = []
    for region in regions:
        names = {name for stmt in region.statements for name in (stmt.target, *reads_of(stmt))}
        spaces = tuple(space for space in computation.spaces if space.name in names)
        found.append(replace(computation, spaces=spaces, statements=region.statements))
    return tuple(found)


@dataclass(frozen=True)
class _Row:
    """Rows in place of an array: element x of the array is row[t, x + shift]."""

    name: str
    shift: int = 0


class _Sharer:
    def __init__(self, computation: Computation, region: Region, around: Around) -> None:
        self.old, self.region, self.around = computation, region, around
        self.parts = Parts(computation, region)
        self.carried = Carried(self.parts)
        self.rows: dict[str, _Row] = {}  # by the array that they stand for
        self.free: set[str] = set()  # spaces through which iterations do not meet any more
        self.ranks: set[str] = set()  # scalars that differ from entry to entry
        self.marked: set[str] = set()
        self.used: list[Tally] = []
        self.made: list[Tally] = []
        self.notes: list[str] = []
        self.is_light = False
        self.places: Split | None = None  # where shares are of places, not of entries
        self.joins = 0  # phases behind the entries

    def finish(self) -> Sharing:
        region, parts = self.region, self.parts
        together = self.around.together
        entries = Split(region.low, region.high, pointers_of(region), together)
        return Sharing(
            parts.computation(),
            self.places or entries,
            entries,
            parts.shares,
            parts.cut,
            tuple(parts.rows),
            tuple(self.used),
            tuple(self.made),
            parts.longest,
            self.is_light,
            tuple(self.notes),
        )

    # -- loops over entries --------------------------------------------------------------------

    def entries(self) -> None:
        """Cut the loop; IllegalStep where iterations meet in a way that is not known."""
        left = [name for name in self._targets() if not self._is_settled(name)]
        for name in left:
            if self.old.space(name).role is Role.LOCAL:
                raise IllegalStep("share", f"{name} goes from iteration to iteration")
        if len(left) == 1 and not self.rows and not self.carried.settled and self._meets(left[0]):
            self._share_places(left[0])
            return
        for name in left:
            if name in self.around.apart or self._is_placed(name) or self._is_own(name):
                self.free.add(name)
        if not self.free.issuperset(left):
            stmt = self.region.statements[0]
            check_parallel("share", self.old, stmt, 1, self.free)
        extents = [self.old.space(name).shape for name in self.rows]
        self.is_light = self.free == {*self.rows} and all(e.is_constant for (e,) in extents)
        self.notes += self.carried.write(_COUNT, _START, _MAIN)
        for stmt in self.region.statements:
            self.parts.add(self._moved(self.parts.in_share(stmt, _MAIN)))

    def _meets(self, name: str) -> bool:
        """Whether entries may meet in elements of an array, in updates that keep their order."""
        space, region = self.old.space(name), self.region
        writers = region.writers(name)
        kinds = {update_of(stmt, self.old.by_name) for stmt in writers}
        is_only_updated = None not in kinds and region.readers(name) == writers
        is_listed = name not in self.around.apart and not region.is_called(name)
        is_long = space.rank == 1 and not space.shape[0].is_constant
        return is_long and is_only_updated and is_listed

    def _share_places(self, name: str) -> None:
        """Each share goes over all entries, and does those whose place is its own.

        rewrite:  for e: x[p(e)] = x[p(e)] op f(e)
                  ->  parallel for t: for e: if cut(t) <= p(e) < cut(t+1): x[p(e)] = x[p(e)] op f(e)
        """
        parts, (extent,) = self.parts, self.old.space(name).shape
        low, high = (parts.load(parts.cut, t) for t in (parts.here, parts.here + 1))
        for stmt in self.region.statements:
            own = parts.in_all(stmt, _MAIN)
            if stmt.target == name:
                place = parts.number(stmt.index[0])
                mine: Expr = Binary("and", Binary("le", low, place), Binary("lt", place, high))
                own = replace(
                    own, guard=mine if own.guard is None else Binary("and", own.guard, mine)
                )
            parts.add(own)
        self.places = Split(_ZERO, extent)
        self.notes.append(f"{name} is cut into shares, each goes over all entries in their order")

    def _next(self) -> int:
        """A phase of its own behind the entries."""
        self.joins += 1
        return _MAIN + self.joins

    def _targets(self) -> list[str]:
        return list(dict.fromkeys(stmt.target for stmt in self.region.statements))

    def _is_settled(self, name: str) -> bool:
        """Whether iterations no longer meet in a space, since each share has its own."""
        space = self.old.space(name)
        region, old = self.region, self.old
        if space.role is Role.LOCAL and not space.rank:
            is_own = is_set_first(region, old, name) or is_filled_first(region, old, name)
            is_own = is_own or self.carried.take(name)
        elif self._is_inner(name):
            is_own = self._own_row(space)
        elif space.rank != 1 or (name in self.around.apart and not self.around.together):
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

    def _is_own(self, name: str) -> bool:
        """Whether iterations touch only elements that have their own number as a subscript."""
        v = Linear.of(Var(self.region.variable))
        found = [
            access.index
            for stmt in self.region.statements
            for access in accesses(stmt)
            if access.space == name
        ]
        return any(all(index[at] == v for index in found) for at in range(len(found[0])))

    def _is_inner(self, name: str) -> bool:
        """Whether nothing in an array outlives an iteration."""
        is_filled = name in self.around.dead and is_filled_first(self.region, self.old, name)
        return is_filled or (name in self.around.inner and not self.region.is_bound(name))

    def _is_placed(self, name: str) -> bool:
        """Whether an array is only written, where the number of an entry among all says."""
        if self.region.readers(name):
            return False
        terms = {Linear.of(Call(scalar, ())) for scalar in self.ranks}
        return all(
            len(stmt.index) == 1 and stmt.index[0] in terms for stmt in self.region.writers(name)
        )

    def _own_row(self, space: DataSpace) -> bool:
        if space.rank != 1:
            return False
        self.rows[space.name] = _Row(self.parts.row(space.name, space.shape[0], space.dtype))
        self.notes.append(f"each share has its {space.name}")
        return True

    def _update(self, space: DataSpace, op: str) -> bool:
        """Updates into rows, which are joined."""
        parts, (extent,) = self.parts, space.shape
        start = neutral(op, space.dtype)
        if start is None:
            return False
        row = parts.row(space.name, extent, space.dtype)
        self.rows[space.name] = _Row(row)
        parts.add(
            parts.along_row("clear", _MAIN, -len(self.rows), (_ZERO, extent), row, parts.at, start)
        )
        before, here = parts.load(space.name, parts.at), parts.load(row, parts.here, parts.at)
        (writer, *others) = self.region.writers(space.name)
        is_count = op == "add" and not others and adds_one(writer)
        if space.name in self.around.counted and is_count:
            self._join_counts(space, row, self._next())
            tally = Tally(
                space.name,
                row,
                space.dtype,
                extent,
                writer.domain,
                writer.guard,
                writer.index[0],
            )
            self.made.append(tally)
            self.notes.append(f"{space.name} is counted by shares, for the cursors to come")
        else:
            value = Binary(op, before, here)
            target = (space.name, parts.at)
            parts.across_rows("join", self._next(), 0, extent, target, value)
            self.notes.append(f"{space.name} is updated in rows, joined by {op}")
        return True

    def _join_counts(self, space: DataSpace, row: str, phase: int) -> None:
        """array[x] = sum of all rows; row[t, x] = array[x] of before and the rows before t."""
        parts, (extent,) = self.parts, space.shape
        held = parts.scalar("held", space.dtype)
        before, here = parts.load(space.name, parts.at), parts.load(row, parts.here, parts.at)
        for at, target, value in (
            (0, (held,), here),
            (1, (row, parts.here, parts.at), before),
            (2, (space.name, parts.at), Binary("add", before, parts.load(held))),
        ):
            parts.across_rows(f"join{at}", phase, at, extent, target, value)

    def _mark(self, space: DataSpace) -> bool:
        """Marks in rows of bytes; what a row has marked is set."""
        parts, (extent,) = self.parts, space.shape
        row = parts.row(space.name, extent, _BYTE)
        self.rows[space.name] = _Row(row)
        self.marked.add(space.name)
        no, here = Const(0, _BYTE), parts.load(row, parts.here, parts.at)
        clear = parts.along_row("clear", _MAIN, -len(self.rows), (_ZERO, extent), row, parts.at, no)
        parts.add(clear)
        own = parts.load(space.name, parts.at)
        value = Select(Binary("ne", here, no), self.region.writers(space.name)[0].value, own)
        parts.across_rows("join", self._next(), 0, extent, (space.name, parts.at), value)
        self.notes.append(f"{space.name} is marked in rows")
        return True

    def _cursor(self, space: DataSpace, cursor: Cursor) -> bool:
        """Cursors of each share, which start where those of the share before end."""
        (index,) = cursor.index
        scalar = cursor.take.target
        ranked = self.around.ranked.get(space.name)
        if ranked is not None and _is_same(ranked, cursor) and ranked.index - index == Linear.of(1):
            self.ranks.add(scalar)
        for tally in self.around.tallies:
            shift = tally.index - index
            if _is_same(tally, cursor) and shift.is_constant and tally.dtype == space.dtype:
                self._start_from(space, tally, shift.constant)
                return True
        return self._count_first(space, cursor)

    def _start_from(self, space: DataSpace, tally: Tally, shift: int) -> None:
        """Cursors from counts that were made before."""
        parts, (extent,) = self.parts, space.shape
        row = parts.kept_row(tally.row, tally.extent, tally.dtype)
        self.rows[space.name] = _Row(row, shift)
        self.used.append(tally)
        # Elements of the array that the counts reach.
        span = (Linear.of(max(0, -shift)), extent, tally.extent - shift)
        place = parts.at + shift
        own = parts.load(row, parts.here, place)
        value = Binary("add", own, parts.load(space.name, parts.at))
        parts.add(parts.along_row("start", _MAIN, -len(self.rows), span, row, place, value))
        if space.name not in self.around.dead:
            last = parts.load(row, parts.count - 1, place)
            parts.add(parts.by_blocks("end", self._next(), span, space.name, last))
        self.notes.append(
            f"cursors {space.name} of each share start behind those of the one before"
        )

    def _count_first(self, space: DataSpace, cursor: Cursor) -> bool:
        """Cursors from counts that are made here, in a pass of their own."""
        parts, (extent,), take = self.parts, space.shape, cursor.take
        told = [load for e in (take.value, take.guard) if e is not None for load in loads(e)]
        names = {load.array for load in told} | {c.name for e in cursor.index for c in calls(e)}
        if any(parts.spaces[name].role is Role.LOCAL for name in names):
            return False
        row = parts.row(space.name, extent, space.dtype)
        self.rows[space.name] = _Row(row)
        zero, one = Const(0, space.dtype), Const(1, space.dtype)
        parts.add(parts.along_row("clear", _COUNT, 0, (_ZERO, extent), row, parts.at, zero))
        index = (parts.here, *cursor.index)
        more = Binary("add", parts.load(row, *index), one)
        count = replace(take, name="count", target=row, index=index, value=more)
        parts.add(parts.in_share(count, _COUNT))
        self._join_counts(space, row, _START)
        self.notes.append(f"cursors {space.name} are counted by shares first")
        return True

    def _moved(self, stmt: Stmt) -> Stmt:
        """A statement that uses the rows of its share."""
        t = ExprVar(self.parts.t)

        def change(expr: Expr) -> Expr:
            if isinstance(expr, Load) and expr.array in self.rows:
                row = self.rows[expr.array]
                (index,) = expr.index
                return replace(expr, array=row.name, index=(t, index + row.shift))
            return expr

        def moved(atom: Atom) -> Linear | None:
            if not isinstance(atom, Call) or atom.name not in self.rows:
                return None
            row = self.rows[atom.name]
            return Linear.of(Call(row.name, (self.parts.here, atom.args[0] + row.shift)))

        guard = None if stmt.guard is None else rewrite(stmt.guard, change)
        value = rewrite(stmt.value, change)
        index = tuple(replace_atoms(entry, moved) for entry in stmt.index)
        row = self.rows.get(stmt.target)
        if row is None:
            return replace(stmt, index=index, value=value, guard=guard)
        index = (self.parts.here, index[0] + row.shift)
        value = Const(1, _BYTE) if stmt.target in self.marked else value
        return replace(stmt, target=row.name, index=index, value=value, guard=guard)


def adds_one(stmt: Stmt) -> bool:
    """Whether a statement is x[a] = x[a] + 1, given that it is a sum."""
    value = stmt.value
    return isinstance(value, Binary) and any(
        isinstance(part, Const) and part.value == 1 for part in (value.x, value.y)
    )


def _is_same(tally: Tally, cursor: Cursor) -> bool:
    """Whether a count is of the entries that move a cursor."""
    return tally.domain == cursor.take.domain and tally.guard == cursor.take.guard
