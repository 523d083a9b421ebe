"""Parallel, Share, Vectorize, Simd and Unroll: how loops are mapped to the machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from loopwright.diagnostics import UsageError
from loopwright.ir.loops import Mark
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import bands, directions, read_tree
from loopwright.transform.legal import find_band, open_bands, with_mark
from loopwright.transform.step import Step, refuse

__all__ = ["Parallel", "Share", "Simd", "Unroll", "Vectorize"]

# What `candidates` offers; `apply` takes any number from 2.
LANES = (4, 8)
COPIES = (2, 4, 8)
PARTS = 4


@dataclass(frozen=True, slots=True)
class Parallel(Step):
    """Share the iterations of a loop out to threads.

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
    """Refuse a parallel loop around or inside another one."""
    root = read_tree(schedule.tree)
    inside = {band.loop for band in bands(find_band(step, schedule, root, loop))}
    for core in schedule.loop_cores:
        if core.shares > 1 and inside & set(core.loops):
            refuse(step, f"{core} is parallel; threads are shared out once")
    around = {
        band.loop for band in bands(root) if loop in {inner.loop for inner in bands(band.child)}
    }
    for other, mark in schedule.marks:
        if mark is Mark.PARALLEL and other in inside | around and other != loop:
            refuse(step, f"loop '{other}' is parallel already; threads are shared out once")


@dataclass(frozen=True, slots=True)
class Share(Step):
    """Share the strips of a loop out to threads, those of a part joined to one.

    rewrite:  for t in range(a, b, F): for i: for j in range(t, min(t + F, b)): S(i, j)
              ->  parallel for t in range(a, b, W): for i: for j in range(t, min(t + W, b)): S(i, j)
                  with W = F * ceil((b - a) / (F * parts))
    needs:    no dependence between different iterations; no parallel loop around or inside
    refuses:  IllegalStep with the dependence the loop carries

    Where the body uses strips in other ways they are shared out as they stand.
    """

    kind: ClassVar[str] = "share"

    loop: str  # over strips
    parts: int  # into which it is cut at most

    def __post_init__(self) -> None:
        if self.parts < 2:
            raise UsageError("share takes two or more parts", str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        _require_once(self, schedule, self.loop)
        return with_mark(self, schedule, self.loop, Mark.PARALLEL, self.parts)

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[Share]:
        for band in open_bands(schedule):
            # A loop over strips follows no iterator by itself.
            is_cut = any(True for _ in bands(band.child)) and not directions(band)
            if is_cut and schedule.mark(band.loop) is Mark.SERIAL:
                yield cls(band.loop, PARTS)


@dataclass(frozen=True, slots=True)
class Vectorize(Step):
    """Run the iterations of an innermost loop as lanes of vectors, the rest one by one.

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
    """Repeat the body of a loop so that several iterations run between two tests.

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
