"""MapToBlocks and MapToThreads: the iterations of a loop become blocks or threads of a GPU.

A kernel is the outermost loop that is mapped to blocks and all that stands in it. Loops around it
run on the host, one launch for each of their iterations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from loopwright.diagnostics import UsageError
from loopwright.ir.loops import Axis, Mark
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import Band, bands, nodes_of, path_to
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.schedule_legality import find_band, open_bands, with_mark
from loopwright.transform.step import Step, refuse

__all__ = ["MapToBlocks", "MapToThreads"]

AXES = ("x", "y", "z")
# What `candidates` offers; `apply` takes any number.
THREADS = (32, 128)


@dataclass(frozen=True, slots=True)
class MapToBlocks(Step):
    """Lay the iterations of a loop along an axis of a grid of blocks.

    rewrite:  for i: S(i)
              ->  block x for i: S(i)
    needs:    no dependence between different iterations; no loop of threads around; loops of blocks
              stand directly inside each other: all blocks of a grid run at once
    refuses:  IllegalStep with the dependence the loop carries
    """

    kind: ClassVar[str] = "map_to_blocks"

    loop: str
    axis: str  # x, y or z

    def __post_init__(self) -> None:
        _require_axis(self, self.axis)

    def apply(self, schedule: Schedule) -> Schedule:
        _require_free_axis(self, schedule, self.loop, Mark.BLOCK, self.axis)
        for band in path_to(nodes_of(schedule), self.loop):
            if schedule.mark(band.loop) is Mark.THREAD:
                refuse(self, f"loop '{band.loop}' around it is mapped to threads")
        self._require_nested(schedule)
        found = with_mark(self, schedule, self.loop, Mark.BLOCK)
        return replace(found, axes=(*found.axes, (self.loop, Axis(self.axis))))

    def _require_nested(self, schedule: Schedule) -> None:
        """Refuse where loops or statements stand between this loop and other loops of blocks."""
        root = nodes_of(schedule)
        path = path_to(root, self.loop)
        if not path:
            return
        inside = [path_to(root, band.loop) for band in bands(path[-1].child)]
        for nest in (path, *inside):
            mapped = [
                k for k, b in enumerate(nest)
                if b.loop == self.loop or schedule.mark(b.loop) is Mark.BLOCK
            ]  # fmt: skip
            outer, inner = nest[mapped[0]], nest[mapped[-1]]
            for band in nest[mapped[0] : mapped[-1]]:
                if band.loop != self.loop and schedule.mark(band.loop) is not Mark.BLOCK:
                    refuse(self, f"loop '{band.loop}' stands between loops of blocks")
            if outer.statements != inner.statements:
                refuse(self, f"block '{outer.loop}' holds statements outside '{inner.loop}'")

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[MapToBlocks]:
        for band in open_bands(schedule):
            if schedule.mark(band.loop) is Mark.SERIAL:
                yield from (cls(band.loop, axis) for axis in AXES)


@dataclass(frozen=True, slots=True)
class MapToThreads(Step):
    """Lay the iterations of a loop along an axis of the threads of a block.

    rewrite:  block x for i_t: for i in [i_t, min(i_t + T, n)): S(i)
              ->  block x for i_t: thread x for i in [i_t, min(i_t + T, n)): S(i)
    needs:    no dependence between different iterations; loops of blocks and threads only, up to
              one of blocks, directly around it; the loop holds all statements of the block
    refuses:  IllegalStep with the dependence the loop carries
    """

    kind: ClassVar[str] = "map_to_threads"

    loop: str
    axis: str  # x, y or z
    threads: int  # of a block along the axis; with more iterations a thread takes several

    def __post_init__(self) -> None:
        _require_axis(self, self.axis)
        if self.threads < 1:
            raise UsageError("map_to_threads takes one or more threads", str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        _require_free_axis(self, schedule, self.loop, Mark.THREAD, self.axis)
        *around, band = path_to(nodes_of(schedule), self.loop) or (None,)
        if band is None:
            find_band(self, schedule, nodes_of(schedule), self.loop)
        self._require_block(schedule, [other for other in around if other is not None], band)
        found = with_mark(self, schedule, self.loop, Mark.THREAD, self.threads)
        return replace(found, axes=(*found.axes, (self.loop, Axis(self.axis))))

    def _require_block(self, schedule: Schedule, around: list[Band], band: Band | None) -> None:
        """Refuse a loop between which and its block other loops or statements stand."""
        assert band is not None
        for other in reversed(around):
            match schedule.mark(other.loop):
                case Mark.THREAD:
                    continue
                case Mark.BLOCK:
                    if other.statements != band.statements:
                        refuse(self, f"block '{other.loop}' holds statements outside the loop")
                    return
                case _:
                    refuse(self, f"loop '{other.loop}' stands between it and its block")
        refuse(self, "no loop around it is mapped to blocks")

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[MapToThreads]:
        root = nodes_of(schedule)
        for band in open_bands(schedule):
            around = [schedule.mark(other.loop) for other in path_to(root, band.loop)[:-1]]
            is_open = schedule.mark(band.loop) is Mark.SERIAL
            if is_open and around and around[-1] in (Mark.BLOCK, Mark.THREAD):
                yield from (cls(band.loop, axis, n) for axis in AXES for n in THREADS)


def _require_axis(step: Step, axis: str) -> None:
    if axis not in AXES:
        raise UsageError(f"{step.kind} takes an axis of x, y and z", str(step))


def _require_free_axis(step: Step, schedule: Schedule, loop: str, mark: Mark, axis: str) -> None:
    """Refuse where a loop around or inside is laid along the axis already."""
    root = nodes_of(schedule)
    band = find_band(step, schedule, root, loop)
    near = {other.loop for other in (*path_to(root, loop), *bands(band))}
    for other, taken in schedule.axes:
        if other in near and schedule.mark(other) is mark and taken is Axis(axis):
            refuse(step, f"loop '{other}' is laid along axis {axis} already")
