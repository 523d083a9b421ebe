"""The loops of a stage: collapsed for one thread, chunked for several.

A pass over entries that uses nothing but their numbers needs no loop over rows:

    for x in 0 .. N: for k in ptr(x) .. ptr(x+1): S(k)   ->   for k in 0 .. M: S(k)

where k numbers the entries: both visit 0 .. M-1 in order. The outer loop costs as much as an entry
or two for each of its iterations, and rows are short.

For several threads, a stage that counts entries and a later one whose cursors give them their
places go together: the histogram of each chunk in the first tells where the cursors of each chunk
start in the second, so that every entry gets the place that it has with one thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from loopwright.ir.expr import Cast, Expr
from loopwright.ir.expr import Var as ExprVar
from loopwright.ir.visit import substitute as substitute_expr
from loopwright.ir.visit import walk
from loopwright.lazy_dataclass import dataclass
from loopwright.memo import computed_once
from loopwright.sparse.spf.chunk_loops import chunk_computation
from loopwright.sparse.spf.chunk_plan import (
    ChunkContext,
    ChunkedComputation,
    Histogram,
    allocate_rows,
    chunk_bounds,
    chunk_count,
)
from loopwright.sparse.spf.compile_computation import CompiledComputation, compile_computation
from loopwright.sparse.spf.computation import Computation, Stmt
from loopwright.sparse.spf.regions import (
    InsertionCursor,
    Region,
    adds_constant_one,
    cursor_of,
    regions_of,
    scan_of,
)
from loopwright.sparse.spf.term_exprs import as_expr, element
from loopwright.sparse.synthesis.entry_iterator import EntryIterator, defined_by, over
from loopwright.sparse.synthesis.renaming import Canonical, canonical
from loopwright.sparse.synthesis.stages import Stage
from loopwright.sparse.uf import Atom, IntegerSet, Term, TupleVar, substitute, variables

__all__ = ["ChunkedStage", "chunk_stages", "collapse_loops", "run_chunked"]


def collapse_loops(stage: Stage, iterator: EntryIterator) -> Stage:
    """A stage with another computation for one thread, if it visits the entries of an iterator."""
    numbering = iterator.numbering
    number = None if numbering is None else numbering.number.atom
    if not isinstance(number, TupleVar) or len(iterator.domain.variables) < 2:
        return stage
    assert numbering is not None
    known = defined_by(number.name, iterator.domain)
    domain = over(number.name, numbering.total)
    computation = stage.computation
    made: list[Stmt] = []
    for stmt in computation.statements:
        if not stmt.loops:
            made.append(stmt)
            continue
        if stmt.domain != iterator.domain:
            return stage
        own = _collapsed(stmt, number.name, known, domain, computation)
        if own is None:
            return stage
        made.append(own)
    if made == [*computation.statements]:
        return stage
    return replace(stage, collapsed=computation.with_statements(made))


def _collapsed(
    stmt: Stmt,
    number: str,
    known: Mapping[Atom, Term],
    domain: IntegerSet,
    computation: Computation,
) -> Stmt | None:
    """The statement for each number; None where it asks for more than these tell."""
    given = {
        a.name: as_expr(t, computation.by_name) for a, t in known.items() if isinstance(a, TupleVar)
    }
    index = tuple(substitute(entry, known) for entry in stmt.index)
    value = substitute_expr(stmt.value, given)
    guard = None if stmt.guard is None else substitute_expr(stmt.guard, given)
    others = {*stmt.variables} - {number}
    used = {name for entry in index for name in variables(entry)}
    used |= {name for part in (value, guard) if part is not None for name in _names(part)}
    if used & others:
        return None
    # Other variables of the schedule are constant or ascend as the number does.
    schedule = tuple(entry for entry in stmt.schedule if not variables(entry) & others)
    return replace(stmt, domain=domain, schedule=schedule, index=index, value=value, guard=guard)


def _names(expr: Expr) -> set[str]:
    return {part.name for part in walk(expr) if isinstance(part, ExprVar)}


Array = NDArray[Any]


@dataclass(frozen=True)
class ChunkedStage:
    """A stage for several threads, or why it is run by one."""

    chunked: ChunkedComputation | str

    @computed_once
    def code(self) -> tuple[CompiledComputation, Canonical]:
        """The callable, under canonical names."""
        assert isinstance(self.chunked, ChunkedComputation)
        found = canonical(self.chunked.computation)
        return compile_computation(found.computation), found

    def __str__(self) -> str:
        if isinstance(self.chunked, str):
            return f"by one thread: {self.chunked}"
        if self.chunked.longest == Term.of(0):
            return f"in chunks: {self.chunked}"
        return f"in chunks, where entries outnumber {self.chunked.longest}: {self.chunked}"


def chunk_stages(stages: Sequence[Stage], results: Iterable[str]) -> tuple[ChunkedStage, ...]:
    """All stages of a conversion in chunks; `results` are the arrays that it returns."""
    kept = frozenset(results)
    histograms: list[Histogram] = []
    scanned: dict[str, Histogram] = {}
    by_array: dict[str, Histogram] = {}
    found: list[ChunkedStage] = []
    cursors = [_cursors(stage) for stage in stages]
    for number, stage in enumerate(stages):
        live = kept | _live_after(stages, number)
        names = {space.name for space in stage.computation.spaces}
        context = ChunkContext(
            dead=frozenset(names - live),
            disjoint_writes=stage.disjoint_writes,
            atomic_group=stage.atomic_group,
            iteration_private=stage.iteration_private,
            histograms=tuple(histograms),
            scanned=dict(scanned),
            counted=_counted(stage, [c for later in cursors[number + 1 :] for c in later]),
        )
        made = chunk_computation(stage.computation, context)
        found.append(ChunkedStage(made))
        written = {stmt.target for stmt in stage.computation.statements}
        scanned = {name: histogram for name, histogram in scanned.items() if name not in written}
        if isinstance(made, ChunkedComputation):
            gone = {*made.used, *(t for t in histograms for new in made.made if t.row == new.row)}
            histograms = [t for t in histograms if t not in gone] + list(made.made)
            by_array |= {t.array: t for t in made.made}
        scanned |= _scanned(stage, by_array)
        by_array = {a: t for a, t in by_array.items() if a not in written or t in _made(made)}
    return tuple(found)


def _made(chunked: ChunkedComputation | str) -> tuple[Histogram, ...]:
    return chunked.made if isinstance(chunked, ChunkedComputation) else ()


def _live_after(stages: Sequence[Stage], number: int) -> set[str]:
    """The arrays that are read after a stage."""
    live = {found.array for found in stages[number].runtime_symbols}
    for stage in stages[number + 1 :]:
        live |= {space.name for space in stage.computation.spaces}
        live |= {found.array for found in stage.runtime_symbols}
        live |= {old for _, old in (stage.reuse.arrays if stage.reuse is not None else ())}
    return live


def _loop(stage: Stage) -> Region | None:
    looped = [r for r in regions_of(stage.computation) if r.variable]
    return looped[0] if len(looped) == 1 else None


def _cursors(stage: Stage) -> list[InsertionCursor]:
    region = _loop(stage)
    names = {stmt.target for stmt in region.statements} if region is not None else ()
    found = [cursor_of(region, stage.computation, name) for name in names if region is not None]
    return [cursor for cursor in found if cursor is not None]


def _counted(stage: Stage, later: Sequence[InsertionCursor]) -> frozenset[str]:
    """Arrays of zeros in which a stage counts the entries that a later one moves cursors by."""
    zeros = {made.space.name for made in stage.fresh if made.fill == 0}
    found = set()
    for stmt in stage.computation.statements:
        if stmt.target in zeros and adds_constant_one(stmt) and len(stmt.index) == 1:
            for cursor in later:
                is_same = (cursor.take.domain, cursor.take.guard) == (stmt.domain, stmt.guard)
                if is_same and (stmt.index[0] - cursor.index[0]).is_constant:
                    found.add(stmt.target)
    return frozenset(found)


def _scanned(stage: Stage, by_array: Mapping[str, Histogram]) -> dict[str, Histogram]:
    """The prefix sums of histograms that a stage computes: where each bin begins."""
    region = _loop(stage)
    scan = scan_of(region, stage.computation) if region is not None else None
    if region is None or scan is None or scan.op != "add" or region.low != Term.of(0):
        return {}
    v = Term.of(TupleVar(region.variable))
    own, after = (element(scan.array, (at,), stage.computation.by_name) for at in (v, v + 1))
    if scan.step != after or scan.array not in by_array:
        return {}
    histogram = by_array[scan.array]
    names = [scan.array]
    for copy in scan.copies:
        value = copy.value.x if isinstance(copy.value, Cast) else copy.value
        names += [copy.target] if value == own else []
    return dict.fromkeys(names, histogram)


def run_chunked(
    stage: ChunkedStage, held: dict[str, Array], known: Mapping[str, int], threads: int
) -> bool:
    """Run a stage in chunks on arrays by name; False where that does not pay.

    The rows of a stage that counts are kept among the arrays, for the stage that uses them.
    """
    chunked = stage.chunked
    if isinstance(chunked, str):
        return False
    if chunked.used:
        counted = [held.get(histogram.row) for histogram in chunked.used]
        count = min(0 if row is None else len(row) for row in counted)
    else:
        count = chunk_count(chunked, held, known, threads)
    if count < 2:
        return False
    values = {**known, chunked.chunks: count}
    rows = allocate_rows(chunked, values)
    rows[chunked.cut] = chunk_bounds(chunked, held, known, count)
    held |= {histogram.row: rows[histogram.row] for histogram in chunked.made}
    code, names = stage.code
    arrays = held | rows
    own = {plain: arrays[name] for name, plain in names.arrays.items() if name in arrays}
    code.run(own, {plain: values[name] for name, plain in names.symbols.items()}, threads)
    return True
