"""Branches around roots and quotients of all lanes that no lane needs.

    vector v: mask = r[v] < cut; q = 1 / r[v]; s[v] = (s[v] + q if mask else s[v])
->  if mask holds in any lane: vector v: mask = r[v] < cut; q = ...; s[v] = ...

Lanes of a vector compute what the condition of each may leave out. Where it rarely holds (pairs
within a cutoff, one in a hundred), most vectors compute for nothing: eight roots and quotients of
double precision take fifty cycles, the branch a few. Vectors side by side, the copies of a jam,
have one branch: each asks for its own conditions, and the branch for all of them. Where the
condition often holds in some lane, the branch costs a few cycles; it is put only around roots and
quotients that take several times as long (measured, Cascade Lake, pairs in cells, times gcc before
and after: one in a hundred within 0.5, 1.8 as C text and 0.9, 2.6 as machine code, all of them
within the same; around one quotient it lost a fourth where one in ten is within).

The values that the condition is made of are computed twice, from what nothing has changed between;
compilers compute them once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from loopwright.ir.any_lane import LaneTest, where_any_lane
from loopwright.ir.expr import Const
from loopwright.ir.loops import Alloc, Block, For, If, Let, LoopNest, Mark, Stmt, Store
from loopwright.ir.visit import constant_trips, fresh_name, loads, rebuild, walk
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.build import bound_names, seq
from loopwright.lower.values.update_rows import (
    is_dear,
    meet,
    names_through,
    nested,
    update_condition,
    update_row,
    with_values,
    written,
)

__all__ = ["branch_on_lanes"]

_LEAST = 32  # roots and quotients of a branch, those of 64 bits counted twice
_LEAST_EACH = 2  # in a lane: beside one quotient a branch that goes wrong is dear


def branch_on_lanes(nest: LoopNest) -> LoopNest:
    """The nest with such branches around its loops of vectors."""
    taken = bound_names(nest)

    def visit(stmt: Stmt) -> Stmt:
        match stmt:
            case Block(body=body):
                return seq(*_branched(body, taken))
            case For() | Let() | Alloc() | If() if isinstance(stmt.body, For):
                return replace(stmt, body=seq(*_branched((stmt.body,), taken)))
        return stmt

    return replace(nest, body=rebuild(nest.body, visit))


def _branched(body: Sequence[Stmt], taken: set[str]) -> Iterator[Stmt]:
    """Statements in order, loops of vectors side by side behind one branch."""
    for _, group in groupby(body, lambda stmt: _lanes_of(stmt)):
        row = list(group)
        rares = [_rare(stmt) for stmt in row]
        found = [rare for rare in rares if rare is not None]
        if len(found) < len(row) or sum(rare.work for rare in found) < _LEAST:
            yield from row
            continue
        flag = fresh_name("any", taken)
        taken.add(flag)
        yield from (rare.always for rare in found if rare.always is not None)
        tests = [rare.test for rare in found]
        yield where_any_lane(flag, found[0].loop, tests, seq(*(rare.loop for rare in found)))


def _lanes_of(stmt: Stmt) -> tuple[object, ...]:
    if isinstance(stmt, For) and stmt.mark is Mark.VECTOR:
        return stmt.var, stmt.start, stmt.stop, stmt.step
    return ()


@dataclass(frozen=True, slots=True)
class _Rare:
    """A loop of vectors whose stores have no effect where a test fails."""

    loop: For
    test: LaneTest
    work: int  # roots and quotients that the test may leave out, over all lanes
    always: For | None  # what else the loop had stored


def _rare(stmt: Stmt) -> _Rare | None:
    """A loop of vectors as conditional updates; None where it is something else."""
    row = update_row(stmt.body) if isinstance(stmt, For) and stmt.mark is Mark.VECTOR else None
    lanes = constant_trips(stmt) if isinstance(stmt, For) else None
    if row is None or not isinstance(stmt, For) or not lanes or lanes == 1:
        return None
    if (stmt.start, stmt.step) != (Const(0), Const(1)):
        return None
    values = {part.name: part.value for part in row if isinstance(part, Let)}
    stores = [part for part in row if isinstance(part, Store)]
    conditions = [update_condition(row, at, values) for at in range(len(row))]
    for cond in dict.fromkeys(cond for cond in conditions if cond is not None):
        own = [part for part, asked in zip(row, conditions, strict=True) if asked == cond]
        others = [store for store in stores if not any(store is x for x in own)]
        first, rest = with_values(row, own), with_values(row, others)
        if meet(first, rest) or stmt.var not in names_through(values, [cond]):
            continue
        asked = with_values(row, [Store("", (), cond)])[:-1]
        if {x.array for e in (cond, *(x.value for x in asked)) for x in loads(e)} & written(own):
            continue
        if any(part.value.dtype.is_integer for part in asked):
            continue  # subscripts that follow it would be no sums of the lane
        known = {x for part in (*asked, *rest) for x in walk(part.value)} | set(walk(cond))
        dear = [x for part in first for x in set(walk(part.value)) - known if is_dear(x)]
        work = lanes * sum(x.dtype.bits // 32 for x in dear)
        if len(dear) >= _LEAST_EACH:
            test = LaneTest(tuple(part for part in asked if isinstance(part, Let)), cond)
            always = replace(stmt, body=nested(rest)) if others else None
            return _Rare(replace(stmt, body=nested(first)), test, work, always)
    return None
