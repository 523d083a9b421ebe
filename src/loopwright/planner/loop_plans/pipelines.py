"""Pipelines: nests that hand rows of arrays on run together, with windows that slide over them.

    for y: blur[y] = f(img[y])                     for w: blur[w] = f(img[w])
    for z: out[z] = g(blur[z - 1 .. z + 1])   ->          out[w - 1] = g(blur[w - 2 .. w])

Stage s of a pipeline runs its row r in iteration w = scale_s * r + shift_s of one loop, stages of
an iteration in the order of the source. A dependence from row r of stage s to row q of stage t is
kept where shift_t - shift_s >= scale_s * r - scale_t * q: the least shifts are the maxima of these
differences, which isl knows exactly. Scales other than 1 are those of pictures of half the size.

Rows are read while they are in a cache near to the core. That pays where the arrays are larger than
the second cache and the rows in use are not. Of the bytes that move between memory and that cache,
by stages apart and together, is counted

    read                                  1
    written, lines are read before        2   caches that allocate on writes
    written alone, line after line        1   cores that notice it and write whole lines
    written and used again nearby         2   on these too: the lines stay

Stages are nests that run once: in a loop of passes arrays stay in the last cache from pass to pass
(cloth-springs, Neoverse N1: 0.93 times as fast with rows handed on in every pass).

Threads take nests apart from each other: strips of a pipeline, in which rows wait for the strip
before, took longer (laplacian-level, Neoverse N1, two threads: 23 ms, apart 18 ms).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from loopwright.analysis.relations import ends, maps_of
from loopwright.analysis.size_estimates import (
    band_trips,
    bytes_of,
    likely_sizes,
    row_bytes,
    trips_at,
)
from loopwright.ir.islkit import context, isl, isl_integer
from loopwright.ir.machine import Machine
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import (
    Band,
    Filter,
    bands,
    directions,
    nodes_of,
    sequence,
    statements_in,
)
from loopwright.ir.schedule_tree import Sequence as InOrder
from loopwright.lazy_dataclass import dataclass
from loopwright.planner.cost.streams import WRITES_WHOLE_LINES
from loopwright.planner.draft import Draft
from loopwright.transform.band_dependences import among, edges
from loopwright.transform.reschedule import Reschedule, tree_text
from loopwright.transform.schedule_legality import validity_dependences
from loopwright.transform.step import Step

__all__ = ["plan_pipelines"]

Pairs = Any  # isl.UnionMap, { S[i] -> T[j] }

_SCALES = ((1, 1), (1, 2), (2, 1), (1, 3), (3, 1), (1, 4), (4, 1))  # of stages before, of the next
_MOST_STAGES = 12
_LEAST_ROWS = 64  # of a stage that is worth a pipeline
_WORTH = 0.9  # of the bytes that the stages move apart: what they may move together


@dataclass(frozen=True, slots=True)
class _Stage:
    """A nest whose outermost loop counts rows, and where it runs: w = scale * row + shift."""

    part: Filter  # its child is the loop over rows
    band: Band
    names: frozenset[str]
    scale: int
    shift: int
    reach: tuple[tuple[frozenset[str], int], ...]  # iterations back to what it needs, by stage

    def slower(self, factor: int) -> _Stage:
        """The same in a loop with more iterations between two rows."""
        reach = tuple((names, factor * back) for names, back in self.reach)
        scale, shift = factor * self.scale, factor * self.shift
        return _Stage(self.part, self.band, self.names, scale, shift, reach)


def plan_pipelines(schedule: Schedule, machine: Machine, *, parallel: bool) -> tuple[Step, ...]:
    """One step that runs the nests of every pipeline together; none where none pays."""
    root = nodes_of(schedule)
    if parallel or not isinstance(root, InOrder):
        return ()
    draft = Draft(schedule)
    pairs = schedule.analyses.derive(validity_dependences).all_
    parts = _Pipelines(schedule, machine).together(list(root.filters), pairs)
    if parts is not None:
        draft.take(Reschedule(tree_text(schedule.tree.get_domain(), sequence(parts))))
    return tuple(draft.steps)


class _Pipelines:
    """The search for pipelines in the tree of one schedule."""

    def __init__(self, schedule: Schedule, machine: Machine) -> None:
        self.program = schedule.program
        self.machine = machine
        self.sizes = likely_sizes(self.program)
        self.trips = trips_at(schedule.analyses, self.sizes)
        kernels = {loop for made in schedule.contractions for loop in made.loops}
        vectors = {loop for loop, _, _ in schedule.outer_vectors}
        self.closed = {loop for loop, _ in schedule.marks} | kernels | vectors

    def together(self, waiting: list[Filter], pairs: Pairs) -> list[Filter] | None:
        """The parts of a program with its pipelines as one part each; None where there are none."""
        done: list[Filter] = []
        is_changed = False
        while waiting:
            stages, others = self._pipeline(waiting, pairs)
            if len(stages) > 1 and self._pays(stages):
                done.append(_together(stages))
                is_changed = True
                waiting = others
            else:
                done.append(waiting.pop(0))
        return done if is_changed else None

    # -- stages -----------------------------------------------------------------------------------

    def _pipeline(self, parts: Sequence[Filter], pairs: Pairs) -> tuple[list[_Stage], list[Filter]]:
        """The first part with all later ones that can join it, and those that come behind them."""
        first = self._rows(parts[0])
        if first is None:
            return [], list(parts)
        stages = [_Stage(parts[0], first, statements_in(parts[0].instances), 1, 0, ())]
        behind: list[Filter] = []
        late: set[str] = set()
        known = edges(pairs)
        for part in parts[1:]:
            own = statements_in(part.instances)
            waits = any((name, other) in known for name in late for other in own)
            band = None if waits or len(stages) == _MOST_STAGES else self._rows(part)
            joined = None if band is None else self._joined(stages, part, band, pairs)
            if joined is None:
                behind.append(part)
                late |= own
            else:
                stages = joined
        return stages, behind

    def _rows(self, part: Filter) -> Band | None:
        """The loop over rows of a nest that nobody has taken yet."""
        band = part.child
        if not isinstance(band, Band) or directions(band).keys() != band.statements:
            return None
        if any(sign != 1 for _, sign in directions(band).values()):
            return None
        if not any(True for _ in bands(band.child)) or self.closed & {b.loop for b in bands(band)}:
            return None
        return band if band_trips(band, self.program, self.trips) >= _LEAST_ROWS else None

    def _joined(
        self, stages: list[_Stage], part: Filter, band: Band, pairs: Pairs
    ) -> list[_Stage] | None:
        """The stages with one more; None where no row of it is near those that it needs."""
        names = statements_in(part.instances)
        needed = []  # stages that the new one depends on, and by which rows
        for stage in stages:
            rows = self._row_pairs(stage.band, band, among(pairs, stage.names | names))
            if rows is not None:
                needed.append((stage, rows))
        if not needed:
            beside = next((s for s in stages if self._arrays(s.names) & self._arrays(names)), None)
            if beside is None:
                return None
            return [*stages, _Stage(part, band, names, beside.scale, beside.shift, ())]
        for before, own in _SCALES:
            limits = [_differences(rows, before * s.scale, own) for s, rows in needed]
            if all(limit is not None for limit in limits):
                break
        else:
            return None
        stages = [stage.slower(before) for stage in stages]
        at = {stage.names: stage for stage in stages}
        found = [
            (at[stage.names], *limit)
            for (stage, _), limit in zip(needed, limits, strict=True)
            if limit is not None
        ]
        shift = max(stage.shift + most for stage, _, most in found)
        reach = tuple((stage.names, shift - stage.shift - least) for stage, least, _ in found)
        return [*stages, _Stage(part, band, names, own, shift, reach)]

    def _row_pairs(self, first: Band, second: Band, pairs: Pairs) -> isl.Set | None:
        """The rows of one nest and of a later one with a dependence: { [r, q] }; None: none."""
        one, other = (isl.UnionMap.from_multi_union_pw_aff(b.partial) for b in (first, second))
        rows = pairs.apply_domain(one).apply_range(other).intersect_params(self.program.context)
        if rows.is_empty() or first.loop == second.loop:
            return None
        for part in maps_of(rows):
            if ends(part) == (first.loop, second.loop):
                return part.wrap().flatten()
        return None

    def _arrays(self, names: Collection[str]) -> set[str]:
        """The arrays, of more than one dimension, that statements use."""
        found = {
            access.array
            for name in names
            for access in (self.program.statement(name).write, *self.program.statement(name).reads)
        }
        return {name for name in found if self.program.array(name).rank > 1}

    # -- cost -------------------------------------------------------------------------------------

    def _pays(self, stages: Sequence[_Stage]) -> bool:
        """Whether enough bytes stay near to the core."""
        users = {array for stage in stages for array in self._arrays(stage.names)}
        sizes = {name: bytes_of(self.program.array(name), self.sizes) for name in users}
        near = self.machine.cache(2).size
        if sum(sizes.values()) <= near:
            return False
        if self._bytes_in_use(stages, users) > near * 3 // 4:
            return False
        apart, together = self._moved(stages, sizes)
        return together < _WORTH * apart

    def _moved(self, stages: Sequence[_Stage], sizes: Mapping[str, int]) -> tuple[int, int]:
        """Bytes that stages move apart and together."""
        allocates = self.machine.isa not in WRITES_WHOLE_LINES
        apart = together = 0
        for array, size in sizes.items():
            uses = [self._uses(stage.names, array) for stage in stages]
            used = [(reads, writes) for reads, writes in uses if reads or writes]
            apart += sum(
                size * (2 if writes and (reads or allocates) else 1) for reads, writes in used
            )
            is_written = any(writes for _, writes in used)
            is_kept = len(used) > 1 or any(reads for reads, _ in used)
            together += size * (2 if is_written and (is_kept or allocates) else 1)
        return apart, together

    def _uses(self, names: Collection[str], array: str) -> tuple[bool, bool]:
        """Whether statements read an array, and whether they write it."""
        statements = [self.program.statement(name) for name in names]
        reads = any(access.array == array for s in statements for access in s.reads)
        return reads, any(s.write.array == array for s in statements)

    def _bytes_in_use(self, stages: Sequence[_Stage], arrays: Collection[str]) -> int:
        """Bytes of the rows that are used again in later iterations, and of those in work."""
        total = 0
        for array in arrays:
            users = [stage for stage in stages if array in self._arrays(stage.names)]
            shifts = [stage.shift for stage in users]
            span = max(shifts) - min(shifts)
            known = {stage.names for stage in users}
            for stage in users:
                span = max(span, *(back for names, back in stage.reach if names in known), 0)
            rows = math.ceil(span / min(stage.scale for stage in users)) + 1
            total += rows * row_bytes(self.program.array(array), self.sizes)
        return total


def _differences(rows: isl.Set, before: int, own: int) -> tuple[int, int] | None:
    """The least and the greatest before * r - own * q over { [r, q] }; None without limits."""
    text = f"{{ [r, q] -> [{before} r - {own} q] }}"
    values = rows.apply(isl.Map.read_from_str(context(), text))
    least, most = values.dim_min_val(0), values.dim_max_val(0)
    if not (least.is_int() and most.is_int()):
        return None
    return int(least.to_python()), int(most.to_python())


def _shifted(stage: _Stage, loop: str) -> isl.MultiUnionPwAff:
    """The iteration w = scale * row + shift of every instance of a stage."""
    rows = stage.band.partial.get_union_pw_aff(0)
    scaled = rows.scale_val(isl_integer(stage.scale))
    shift = isl_integer(stage.shift)
    constant = isl.UnionPwAff.val_on_domain(scaled.domain(), shift)
    total = isl.MultiUnionPwAff.from_union_pw_aff(scaled.add(constant))
    return total.set_tuple_name(isl.dim_type.set, loop)


def _together(stages: Sequence[_Stage]) -> Filter:
    """One loop over the rows of all stages."""
    loop = stages[0].band.loop
    partial = _shifted(stages[0], loop)
    whole = stages[0].part.instances
    for stage in stages[1:]:
        partial = partial.union_add(_shifted(stage, loop))
        whole = whole.union(stage.part.instances)
    inner = [Filter(stage.part.instances, stage.band.child) for stage in stages]
    return Filter(whole, Band(loop, partial, sequence(inner)))
