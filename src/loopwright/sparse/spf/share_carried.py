"""Scalars that go from iteration to iteration, and what they are where a share begins.

counter     s = s + e: the sums of all shares are made first, then each share starts from those
            of the shares before it
last value  s = e, read in the next iteration: e of the iteration before the share
"""

from __future__ import annotations

from dataclasses import replace

from loopwright.diagnostics import IllegalStep
from loopwright.ir.expr import Binary, Const, Expr
from loopwright.ir.program import Role
from loopwright.ir.walk import rewrite, substitute
from loopwright.sparse.spf.accesses import update_of
from loopwright.sparse.spf.computation import Stmt
from loopwright.sparse.spf.regions import Scan, reads_of
from loopwright.sparse.spf.share_parts import Parts, neutral
from loopwright.sparse.uf import Conj, IntegerSet, Linear, Var

__all__ = ["Carried", "running_sums"]

_ZERO = Linear.of(0)


class Carried:
    """The carried scalars of a region."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.counters: dict[str, Expr] = {}  # what they start from
        self.lasts: dict[str, tuple[Expr, Stmt]] = {}  # what they start from, who sets them

    @property
    def settled(self) -> set[str]:
        return {*self.counters, *self.lasts}

    def take(self, name: str) -> bool:
        """Whether a scalar is one of those kinds."""
        region, old = self.parts.region, self.parts.old
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
        is_told = not any(old.space(x).role is Role.LOCAL for x in self._told(writer))
        if writer.guard is None and is_told and writer.variables == (region.variable,):
            self.lasts[name] = first.value, writer
            return True
        return False

    def _told(self, writer: Stmt) -> set[str]:
        written = {stmt.target for stmt in self.parts.region.statements}
        return {name for name in reads_of(writer) if name in written}

    def write(self, count: int, start: int, main: int) -> list[str]:
        """Add the statements that give the scalars their values where shares begin."""
        notes = []
        if self.counters:
            self._count_first(count, start, main)
            notes.append(f"{', '.join(self.counters)} counted by shares first")
        self._set_lasts(main)
        if self.lasts:
            notes.append(f"{', '.join(self.lasts)} read from the iteration before a share")
        return notes

    def _set_lasts(self, phase: int) -> None:
        """The value of the iteration before a share, and of none before the first."""
        parts, region = self.parts, self.parts.region
        begin = parts.load(parts.cut, parts.here)
        low = parts.number(region.low)
        for number, (name, (first, writer)) in enumerate(self.lasts.items()):
            before = substitute(writer.value, {region.variable: begin - 1})
            at = -100 - 2 * number
            is_inside = Binary("gt", begin, low)
            parts.add(parts.once_in_share("none", phase, at, (name,), first))
            parts.add(parts.once_in_share("before", phase, at + 1, (name,), before, is_inside))

    def _count_first(self, count: int, start: int, main: int) -> None:
        parts = self.parts
        self._set_lasts(count)
        for stmt in self._slice():
            parts.add(parts.in_share(stmt, count))
        for number, (name, first) in enumerate(self.counters.items()):
            dtype = parts.spaces[name].dtype
            row = parts.row(name, Linear.of(1), dtype)
            zero, cell = Const(0, dtype), parts.load(row, parts.here, _ZERO)
            at = -200 - number
            parts.add(parts.once_in_share("zero", count, at, (name,), zero))
            total = (row, parts.here, _ZERO)
            parts.add(parts.once_in_share("total", count, 2 + number, total, parts.load(name)))
            _sum_rows(parts, start, number, row, first)
            parts.add(parts.once_in_share("so_far", main, at, (name,), cell))

    def _slice(self) -> list[Stmt]:
        """The statements that the counters depend on."""
        region, spaces = self.parts.region, self.parts.spaces
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


def running_sums(parts: Parts, scan: Scan) -> str:
    """Sums of all shares first, then running sums that start from those of shares before."""
    name, variable = scan.array, Linear.of(Var(parts.region.variable))
    dtype = parts.spaces[name].dtype
    sums = parts.row(name, Linear.of(1), dtype)
    cell, place = parts.load(sums, parts.here, _ZERO), (sums, parts.here, _ZERO)
    start = neutral(scan.op, dtype)
    if start is None:
        raise IllegalStep("share", f"{dtype} has no least or largest number")
    parts.add(parts.once_in_share("clear", 0, 0, place, start))
    more = Binary(scan.op, cell, scan.step)
    total = replace(scan.stmt, name="total", target=sums, index=place[1:], value=more)
    parts.add(parts.in_share(total, 0))
    _sum_rows(parts, 1, 0, sums, parts.load(name, parts.region.low), scan.op)
    carry = parts.scalar("carry", dtype)
    parts.add(parts.once_in_share("carry", 2, 0, (carry,), cell))
    own = parts.in_share(scan.stmt, 2)
    inner = own.schedule[: own.schedule.index(variable) + 1]
    now, before = parts.load(carry), parts.load(name, variable)

    def change(expr: Expr) -> Expr:
        return now if expr == before else expr

    def last(at: int, stmt: Stmt, value: Expr) -> None:
        parts.add(replace(stmt, schedule=(*inner, Linear.of(at)), value=value))

    for at, stmt in enumerate(scan.copies):
        last(at, parts.in_share(stmt, 2), rewrite(stmt.value, change))
    at = len(scan.copies)
    step = replace(own, name="carried", target=carry, index=())
    last(at, step, Binary(scan.op, now, scan.step))
    last(at + 1, own, now)
    what = "sum" if scan.op == "add" else scan.op
    return f"the running {what} {name} by shares, then again from where each begins"


def _sum_rows(
    parts: Parts, phase: int, number: int, row: str, first: Expr, op: str = "add"
) -> None:
    """row[t, 0] = first + the sum of row[u, 0] for u < t, by one thread; or another op than +."""
    dtype = parts.spaces[row].dtype
    so_far, held = parts.scalar("so_far", dtype), parts.scalar("held", dtype)
    times = parts.time(phase), Linear.of(2 * number)
    once = IntegerSet((), (Conj(),))
    parts.add(Stmt("first", once, times, so_far, (), first), is_parallel=False)
    cell = parts.load(row, parts.here, _ZERO)
    steps: list[tuple[str, tuple[Linear, ...], Expr]] = [
        (held, (), cell),
        (row, (parts.here, _ZERO), parts.load(so_far)),
        (so_far, (), Binary(op, parts.load(so_far), parts.load(held))),
    ]
    for at, (target, index, value) in enumerate(steps):
        schedule = (times[0], Linear.of(2 * number + 1), parts.here, Linear.of(at))
        stmt = Stmt(f"before{at}", parts.each_share, schedule, target, index, value)
        parts.add(stmt, is_parallel=False)
