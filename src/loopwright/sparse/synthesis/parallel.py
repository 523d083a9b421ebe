"""Stages in shares: the parallel form of a conversion, stage by stage.

A stage that counts entries and a later one whose cursors give them their places go together: what
the first has counted in each share tells where the cursors of each share start in the second, so
that every entry gets the place that it has with one thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from loopwright.ir.expr import Cast
from loopwright.remembered import remembered
from loopwright.sparse.spf.bodies import element
from loopwright.sparse.spf.compile import CompiledComputation, compile_computation
from loopwright.sparse.spf.regions import Cursor, Region, cursor_of, regions_of, scan_of
from loopwright.sparse.spf.shared_run import cuts, new_rows, shares_of
from loopwright.sparse.spf.shares import adds_one, share
from loopwright.sparse.spf.sharing import Around, Sharing, Tally
from loopwright.sparse.synthesis.canonical import Canonical, canonical
from loopwright.sparse.synthesis.stages import Stage
from loopwright.sparse.uf import Linear, Var

__all__ = ["InShares", "in_shares", "run_in_shares"]

Array = NDArray[Any]


@dataclass(frozen=True)
class InShares:
    """A stage for several threads, or why it is run by one."""

    sharing: Sharing | str

    @remembered
    def code(self) -> tuple[CompiledComputation, Canonical]:
        """The callable, under plain names."""
        assert isinstance(self.sharing, Sharing)
        found = canonical(self.sharing.computation)
        return compile_computation(found.computation), found

    def __str__(self) -> str:
        if isinstance(self.sharing, str):
            return f"by one thread: {self.sharing}"
        if self.sharing.longest == Linear.of(0):
            return f"in shares: {self.sharing}"
        return f"in shares, where entries outnumber {self.sharing.longest}: {self.sharing}"


def in_shares(stages: Sequence[Stage], results: Iterable[str]) -> tuple[InShares, ...]:
    """All stages of a conversion in shares; `results` are the arrays that it gives."""
    kept = frozenset(results)
    tallies: list[Tally] = []
    ranked: dict[str, Tally] = {}
    by_array: dict[str, Tally] = {}
    found: list[InShares] = []
    cursors = [_cursors(stage) for stage in stages]
    for number, stage in enumerate(stages):
        live = kept | _live_after(stages, number)
        names = {space.name for space in stage.computation.spaces}
        around = Around(
            dead=frozenset(names - live),
            apart=stage.apart,
            together=stage.together,
            inner=stage.inner,
            tallies=tuple(tallies),
            ranked=dict(ranked),
            counted=_counted(stage, [c for later in cursors[number + 1 :] for c in later]),
        )
        made = share(stage.computation, around)
        found.append(InShares(made))
        written = {stmt.target for stmt in stage.computation.statements}
        ranked = {name: tally for name, tally in ranked.items() if name not in written}
        if isinstance(made, Sharing):
            gone = {*made.used, *(t for t in tallies for new in made.made if t.row == new.row)}
            tallies = [t for t in tallies if t not in gone] + list(made.made)
            by_array |= {t.array: t for t in made.made}
        ranked |= _ranked(stage, by_array)
        by_array = {a: t for a, t in by_array.items() if a not in written or t in _made(made)}
    return tuple(found)


def _made(sharing: Sharing | str) -> tuple[Tally, ...]:
    return sharing.made if isinstance(sharing, Sharing) else ()


def _live_after(stages: Sequence[Stage], number: int) -> set[str]:
    """The arrays that are read after a stage."""
    found = {learnt.array for learnt in stages[number].learnt}
    for stage in stages[number + 1 :]:
        found |= {space.name for space in stage.computation.spaces}
        found |= {learnt.array for learnt in stage.learnt}
        found |= {old for _, old in (stage.same.arrays if stage.same is not None else ())}
    return found


def _loop(stage: Stage) -> Region | None:
    looped = [r for r in regions_of(stage.computation) if r.variable]
    return looped[0] if len(looped) == 1 else None


def _cursors(stage: Stage) -> list[Cursor]:
    region = _loop(stage)
    names = {stmt.target for stmt in region.statements} if region is not None else ()
    found = [cursor_of(region, stage.computation, name) for name in names if region is not None]
    return [cursor for cursor in found if cursor is not None]


def _counted(stage: Stage, later: Sequence[Cursor]) -> frozenset[str]:
    """Arrays of zeros in which a stage counts the entries that a later one moves cursors by."""
    zeros = {made.space.name for made in stage.fresh if made.fill == 0}
    found = set()
    for stmt in stage.computation.statements:
        if stmt.target in zeros and adds_one(stmt) and len(stmt.index) == 1:
            for cursor in later:
                is_same = (cursor.take.domain, cursor.take.guard) == (stmt.domain, stmt.guard)
                if is_same and (stmt.index[0] - cursor.index[0]).is_constant:
                    found.add(stmt.target)
    return frozenset(found)


def _ranked(stage: Stage, by_array: Mapping[str, Tally]) -> dict[str, Tally]:
    """The running sums of counts that a stage leaves behind: where each number begins."""
    region = _loop(stage)
    scan = scan_of(region, stage.computation) if region is not None else None
    if region is None or scan is None or scan.op != "add" or region.low != Linear.of(0):
        return {}
    v = Linear.of(Var(region.variable))
    own, after = (element(scan.array, (at,), stage.computation.by_name) for at in (v, v + 1))
    if scan.step != after or scan.array not in by_array:
        return {}
    tally = by_array[scan.array]
    names = [scan.array]
    for copy in scan.copies:
        value = copy.value.x if isinstance(copy.value, Cast) else copy.value
        names += [copy.target] if value == own else []
    return dict.fromkeys(names, tally)


def run_in_shares(
    stage: InShares, held: dict[str, Array], known: Mapping[str, int], threads: int
) -> bool:
    """Run a stage in shares on arrays by name; False where that does not pay.

    The rows of a stage that counts are kept among the arrays, for the stage that uses them.
    """
    sharing = stage.sharing
    if isinstance(sharing, str):
        return False
    if sharing.used:
        counted = [held.get(tally.row) for tally in sharing.used]
        count = min(0 if row is None else len(row) for row in counted)
    else:
        count = shares_of(sharing, held, known, threads)
    if count < 2:
        return False
    values = {**known, sharing.shares: count}
    rows = new_rows(sharing, values)
    rows[sharing.cut] = cuts(sharing, held, known, count)
    held |= {tally.row: rows[tally.row] for tally in sharing.made}
    code, names = stage.code
    arrays = held | rows
    own = {plain: arrays[name] for name, plain in names.arrays.items() if name in arrays}
    code.run(own, {plain: values[name] for name, plain in names.symbols.items()}, threads)
    return True
