"""Steps that map a loop to the machine: threads, vectors, unrolling, alignment, prefetching."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from loopwright.diagnostics import UsageError
from loopwright.ir.loops import Mark
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import Band, bands, directions, nodes_of, path_to
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.schedule_legality import find_band, open_bands, with_mark
from loopwright.transform.step import Step, refuse

__all__ = [
    "Align",
    "Parallel",
    "ParallelChunks",
    "PrefetchRows",
    "ShareFrom",
    "Simd",
    "Unroll",
    "Vectorize",
]


# What `candidates` offers; `apply` takes any number from 2.
LANES = (4, 8)
COPIES = (2, 4, 8)
PARTS = 4
ENOUGH = 4096


@dataclass(frozen=True, slots=True)
class Parallel(Step):
    """Distribute the iterations of a loop over threads.

    rewrite:  for i: S(i)
              ->  parallel for i: S(i)
    needs:    no dependence between different iterations; no parallel loop around or inside
    refuses:  IllegalStep with the dependence the loop carries
    """

    kind: ClassVar[str] = "parallel"

    loop: str

    def apply(self, schedule: Schedule) -> Schedule:
        _require_once(self, schedule, self.loop)
        return with_mark(self, schedule, self.loop, Mark.PARALLEL)

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[Parallel]:
        for band in open_bands(schedule):
            if schedule.mark(band.loop) is Mark.SERIAL:
                yield cls(band.loop)


def _require_once(step: Step, schedule: Schedule, loop: str) -> None:
    """Refuse nested parallel loops."""
    root = nodes_of(schedule)
    inside = {band.loop for band in bands(find_band(step, schedule, root, loop))}
    for scheduled in schedule.contractions:
        if scheduled.shares > 1 and inside & set(scheduled.loops):
            refuse(step, f"{scheduled} is parallel; threads are shared out once")
    around = {band.loop for band in path_to(root, loop)}
    for other, mark in schedule.marks:
        if mark is Mark.PARALLEL and other in inside | around and other != loop:
            refuse(step, f"loop '{other}' is parallel already; threads are shared out once")


@dataclass(frozen=True, slots=True)
class ParallelChunks(Step):
    """Distribute the strips of a loop over threads, the strips of one chunk fused into one.

    rewrite:  for t in range(a, b, F): for i: for j in range(t, min(t + F, b)): S(i, j)
              ->  parallel for t in range(a, b, W): for i: for j in range(t, min(t + W, b)): S(i, j)
                  with W = F * ceil((b - a) / (F * parts))
    needs:    no dependence between different iterations; no parallel loop around or inside
    refuses:  IllegalStep with the dependence the loop carries

    Where the body uses the strip loop in other ways, the strips are distributed unchanged.
    """

    kind: ClassVar[str] = "parallel_chunks"

    loop: str  # over strips
    parts: int  # number of chunks, at most

    def __post_init__(self) -> None:
        if self.parts < 2:
            raise UsageError("parallel_chunks takes two or more parts", str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        _require_once(self, schedule, self.loop)
        return with_mark(self, schedule, self.loop, Mark.PARALLEL, self.parts)

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[ParallelChunks]:
        for band in open_bands(schedule):
            # A loop over strips follows no iterator by itself.
            is_cut = any(True for _ in bands(band.child)) and not directions(band)
            if is_cut and schedule.mark(band.loop) is Mark.SERIAL:
                yield cls(band.loop, PARTS)


@dataclass(frozen=True, slots=True)
class ShareFrom(Step):
    """Leave parallel loops inside a loop to one thread where a run of them has little to do.

    rewrite:  for t: parallel for i: S(t, i)
              ->  if n >= least: for t: parallel for i: S(t, i)
                  else: for t: for i: S(t, i)
              with n the statements that run between two meetings of threads, in the mean
    needs:    an outermost loop with parallel ones inside
    refuses:  IllegalStep when the loop is another one, or has such a number already

    Sizes that only a call knows decide: threads meet in every iteration of t.
    """

    kind: ClassVar[str] = "share_from"

    loop: str
    least: int  # statements

    def __post_init__(self) -> None:
        if self.least < 1:
            raise UsageError("share_from takes one or more statements", str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        root = nodes_of(schedule)
        band = find_band(self, schedule, root, self.loop)
        if len(path_to(root, self.loop)) > 1 or not _holds_parallel(schedule, band):
            refuse(self, f"loop '{self.loop}' is no outermost one with parallel loops inside")
        if self.loop in dict(schedule.shared_from):
            refuse(self, f"loop '{self.loop}' says already from where on threads share")
        return replace(schedule, shared_from=(*schedule.shared_from, (self.loop, self.least)))

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[ShareFrom]:
        known = dict(schedule.shared_from)
        root = nodes_of(schedule)
        for band in open_bands(schedule):
            is_outermost = band.loop not in known and len(path_to(root, band.loop)) == 1
            if is_outermost and _holds_parallel(schedule, band):
                yield cls(band.loop, ENOUGH)


def _holds_parallel(schedule: Schedule, band: Band) -> bool:
    """Whether threads share a loop inside a loop, and not the loop itself."""
    inside = (schedule.mark(other.loop) for other in bands(band.child))
    is_parallel = schedule.mark(band.loop) is Mark.PARALLEL
    return not is_parallel and any(mark is Mark.PARALLEL for mark in inside)


@dataclass(frozen=True, slots=True)
class Vectorize(Step):
    """Execute an innermost loop in vectors of a given number of lanes, with a scalar remainder.

    rewrite:  for i in [a, b): S(i)
              ->  for i in [a, b - (L - 1)) step L: vector for i_v in [0, L): S(i + i_v)
                  for i in [a + (b - a) // L * L, b): S(i)
    needs:    an innermost loop; no dependence between different iterations
    refuses:  IllegalStep with the dependence the loop carries
    """

    kind: ClassVar[str] = "vectorize"

    loop: str
    lanes: int

    def __post_init__(self) -> None:
        if self.lanes < 2:
            raise UsageError("vectorize takes two or more lanes", str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        return with_mark(self, schedule, self.loop, Mark.VECTOR, self.lanes)

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[Vectorize]:
        for band in open_bands(schedule):
            is_innermost = not any(True for _ in bands(band.child))
            if is_innermost and schedule.mark(band.loop) is Mark.SERIAL:
                yield from (cls(band.loop, lanes) for lanes in LANES)


@dataclass(frozen=True, slots=True)
class Simd(Step):
    """Tell the backend that the iterations of an innermost loop are independent of each other.

    rewrite:  for i: S(i)
              ->  simd for i: S(i)
    needs:    an innermost loop; no dependence between different iterations
    refuses:  IllegalStep with the dependence the loop carries
    """

    kind: ClassVar[str] = "simd"

    loop: str

    def apply(self, schedule: Schedule) -> Schedule:
        return with_mark(self, schedule, self.loop, Mark.SIMD)

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[Simd]:
        for band in open_bands(schedule):
            is_innermost = not any(True for _ in bands(band.child))
            if is_innermost and schedule.mark(band.loop) is Mark.SERIAL:
                yield cls(band.loop)


@dataclass(frozen=True, slots=True)
class Unroll(Step):
    """Unroll a loop by a factor, with a remainder loop.

    rewrite:  for i in [a, b): S(i)
              ->  for i in [a, b - (F - 1)) step F: S(i); S(i + 1); ... S(i + F - 1)
                  for i in [a + (b - a) // F * F, b): S(i)
    needs:    nothing; the order stays the same
    refuses:  IllegalStep when there is no such loop or it is marked already
    """

    kind: ClassVar[str] = "unroll"

    loop: str
    factor: int  # copies of the body

    def __post_init__(self) -> None:
        if self.factor < 2:
            raise UsageError("unroll takes a factor of at least 2", str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        return with_mark(self, schedule, self.loop, Mark.UNROLL, self.factor)

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[Unroll]:
        for band in open_bands(schedule):
            if schedule.mark(band.loop) is Mark.SERIAL:
                yield from (cls(band.loop, factor) for factor in COPIES)


_ALIGNED_LANES = (2, 4)  # what `candidates` offers; `apply` takes any number from 2


@dataclass(frozen=True, slots=True)
class Align(Step):
    """Peel a simd loop so that its vector stores are aligned.

    rewrite:  simd for j in [a, b): A[i, j] = ...
              ->  for j in [a, c): A[i, j] = ...
                  simd for j in [c, b): A[i, j] = ...
                  where c is the first j >= a with &A[i, j] - &A[0, 0] a multiple of the lanes
    needs:    a simd loop; the order stays the same
    refuses:  IllegalStep when the loop is not simd or aligned already

    Processors are slower to store a vector that crosses an alignment boundary. Arrays begin at
    multiples of 16 bytes: for longer vectors the count says little (ADR 68).
    """

    kind: ClassVar[str] = "align"

    loop: str
    lanes: int

    def __post_init__(self) -> None:
        if self.lanes < 2:
            raise UsageError("align takes two or more lanes", str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        find_band(self, schedule, nodes_of(schedule), self.loop)
        if schedule.mark(self.loop) is not Mark.SIMD:
            refuse(self, f"loop '{self.loop}' is not simd")
        if self.loop in dict(schedule.factors):
            refuse(self, f"loop '{self.loop}' is aligned already")
        return replace(schedule, factors=(*schedule.factors, (self.loop, self.lanes)))

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[Align]:
        aligned = dict(schedule.factors)
        for band in open_bands(schedule):
            if schedule.mark(band.loop) is Mark.SIMD and band.loop not in aligned:
                yield from (cls(band.loop, lanes) for lanes in _ALIGNED_LANES)


AHEAD = (8, 16)  # what `candidates` offers; `apply` takes any number from 1


@dataclass(frozen=True, slots=True)
class PrefetchRows(Step):
    """Prefetch the rows that a loop accesses `ahead` iterations later.

    rewrite:  for j: ... u[j, i] ...
              ->  for j: prefetch u[j + ahead, i]; ... u[j, i] ...
              for arrays whose first subscript alone moves with the loop
    needs:    a loop that is not marked and holds no loops but unrolled ones
    refuses:  IllegalStep when the loop is another one, or is prefetched already

    The loop uses one cache line of every row, and the next row lies pages away: hardware
    prefetchers do not follow that. No result changes, and any address may be prefetched.
    """

    kind: ClassVar[str] = "prefetch_rows"

    loop: str
    ahead: int  # prefetch distance in iterations

    def __post_init__(self) -> None:
        if self.ahead < 1:
            raise UsageError("prefetch_rows takes one or more iterations", str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        band = find_band(self, schedule, nodes_of(schedule), self.loop)
        if not _is_serial_innermost(schedule, band):
            refuse(self, f"loop '{self.loop}' is marked or holds other loops")
        if self.loop in dict(schedule.prefetched):
            refuse(self, f"loop '{self.loop}' is prefetched already")
        return replace(schedule, prefetched=(*schedule.prefetched, (self.loop, self.ahead)))

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[PrefetchRows]:
        known = dict(schedule.prefetched)
        for band in open_bands(schedule):
            if band.loop not in known and _is_serial_innermost(schedule, band):
                yield from (cls(band.loop, ahead) for ahead in AHEAD)


def _is_serial_innermost(schedule: Schedule, band: Band) -> bool:
    """Whether a loop is serial and holds no loops but unrolled ones."""
    inner = (schedule.mark(other.loop) for other in bands(band.child))
    is_innermost = all(mark is Mark.UNROLL for mark in inner)
    return is_innermost and schedule.mark(band.loop) is Mark.SERIAL
