"""Blocks and threads for the outermost parallel loops of every nest of an affine program.

Of the loops of a nest that carry nothing, the one whose neighbours lie beside each other in memory
for the most accesses becomes the lanes of warps (x); up to two others become y and z. Loops around
them run on the host, loops inside of them in each thread. Of the shapes that a block may have, the
one is taken that moves the fewest bytes for each iteration (grid_plans/block_shapes). Threads take
several points of a stencil each (planner/grid_plans/thread_tiles).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from loopwright.analysis.size_estimates import band_trips, likely_trips, references
from loopwright.ir.gpu_machine import GpuMachine
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import (
    Band,
    Leaf,
    Node,
    bands,
    moved_by,
    nodes_of,
    perfect_nest,
)
from loopwright.ir.schedule_tree import Sequence as InOrder
from loopwright.lazy_dataclass import dataclass
from loopwright.log import log
from loopwright.planner.draft import Draft
from loopwright.planner.grid_plans.block_shapes import rank_block_shapes
from loopwright.planner.grid_plans.grid_staging import rows_of_lanes
from loopwright.planner.grid_plans.thread_tiles import points_of_thread
from loopwright.transform.grid_mapping import AXES, MapToBlocks, MapToThreads
from loopwright.transform.interchange import Interchange
from loopwright.transform.loop_marks import Unroll
from loopwright.transform.privatize import Privatize
from loopwright.transform.step import Step
from loopwright.transform.tiling import StripMine, Tile

__all__ = ["plan_grid_layout"]

_LEAST_THREADS = 128  # of a block, where each does little
_MOST_THREADS = 256  # of a block, where nothing else decides
_MOST_ROWS = 64  # threads of a block whose lanes walk rows: boxes of all of them are in memory
_ROWS = 8  # threads along y
_WIDE = 128, 2  # threads along x and y that take several points of y each (measured, H200)


def plan_grid_layout(schedule: Schedule, machine: GpuMachine) -> tuple[Step, ...]:
    """Steps that map every nest with a parallel loop to a grid."""
    draft = Draft(schedule)
    mapping = _Mapping(draft, machine)
    mapping.node(nodes_of(schedule))
    return tuple(draft.steps)


@dataclass(slots=True)
class _Mapping:
    draft: Draft
    machine: GpuMachine
    trips: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.trips = self.draft.schedule.analyses.get(likely_trips)

    def node(self, node: Node) -> None:
        match node:
            case Leaf():
                return
            case InOrder(filters=filters):
                for branch in filters:
                    self.node(branch.child)
            case Band():
                if self._is_product(node):
                    return
                if any(map(self._is_product, bands(node))) or not self._kernel(node):
                    self.node(node.child)

    def _is_product(self, band: Band) -> bool:
        """Whether a loop belongs to a product that has a kernel of its own."""
        return any(band.loop in made.loops for made in self.draft.schedule.contractions)

    def _kernel(self, band: Band) -> bool:
        """Map the parallel loops at the head of a nest; False where the first one is not."""
        free, copies = self._parallel(band)
        if not free:
            return False
        lanes = max(free, key=lambda inner: (self._neighbours(inner), free.index(inner)))
        others = [b for b in free if b is not lanes]
        if not others:
            return self._along_x(lanes, copies)
        # The innermost one that fills the rows of a block: neighbours along it are near in memory.
        rows = max(others, key=lambda b: (min(self._count(b), _ROWS), free.index(b)))
        planes = [b for b in others if b is not rows]
        schedule, free_loops = self.draft.schedule, (lanes, rows, *planes)
        shapes = rank_block_shapes(schedule, free_loops, self.trips, self.machine)
        x, y, *z = shapes[0].threads
        log("plan", lambda: f"blocks of {lanes.loop}, {rows.loop}: {', '.join(map(str, shapes))}")
        order = (*(b.loop for b in planes), rows.loop, lanes.loop)
        moves: list[Step] = []
        if order != tuple(b.loop for b in free):
            moves.append(Interchange(order))
        tall = (*planes, rows)[0]
        points = points_of_thread(schedule, free_loops, tall)
        if points > 1 and not planes and self._count(lanes) >= _WIDE[0]:
            x, y = _WIDE
        sizes = {lanes.loop: x, rows.loop: y, **dict(zip((b.loop for b in planes), z, strict=True))}
        ordered = [*planes, rows, lanes]
        for count in dict.fromkeys((points, 1)):
            if self._take([*copies, *moves], ordered, sizes, tall.loop, count):
                return True
        return self._along_x(lanes, copies) if lanes is band else False

    def _take(
        self, before: list[Step], loops: list[Band], sizes: dict[str, int], tall: str, points: int
    ) -> bool:
        """Blocks of `sizes` threads along z, y and x, each with `points` iterations of a loop."""
        # Planes of which a block has one each are not cut.
        cut = [b.loop for b in loops if sizes[b.loop] > 1 or b in loops[-2:]]
        if points > 1 and tall not in cut:
            cut.insert(0, tall)
        heights = {name: sizes[name] * (points if name == tall else 1) for name in cut}
        tile = Tile(tuple(cut), tuple(heights.values()))
        strips = self._new_loops(*before, tile)
        if strips is None:
            return False
        axes = dict(zip((b.loop for b in reversed(loops)), AXES, strict=False))
        around = dict(zip(cut, strips, strict=True))
        maps: list[Step] = [MapToBlocks(around.get(b.loop, b.loop), axes[b.loop]) for b in loops]
        if points == 1:
            maps += [MapToThreads(name, axes[name], sizes[name]) for name in cut]
            return self.draft.take(*before, tile, *maps)
        steps = [*before, tile]
        threads = {name: name for name in cut if name != tall}
        if sizes[tall] > 1:
            steps.append(StripMine(tall, points))
            strips = self._new_loops(*steps)
            if strips is None:
                return False
            threads = {tall: strips[0], **threads}
        inward = Interchange((*(name for name in cut if name != tall), tall))
        maps += [MapToThreads(loop, axes[name], sizes[name]) for name, loop in threads.items()]
        return self.draft.take(*steps, inward, *maps, Unroll(tall, points))

    def _parallel(self, band: Band) -> tuple[list[Band], list[Step]]:
        """Up to three parallel loops at the head of a nest, as many as there are.

        With the steps by which every iteration of the innermost one gets its own local scalars.
        """
        nest = perfect_nest(band)[: len(AXES)]
        for count in range(len(nest), 0, -1):
            copies = self._copies(nest[count - 1])
            maps = [
                MapToBlocks(inner.loop, axis)
                for inner, axis in zip(nest[:count], AXES, strict=False)
            ]
            if self.draft.reach(*copies, *maps) is not None:
                return list(nest[:count]), copies
        return [], []

    def _along_x(self, band: Band, copies: list[Step]) -> bool:
        """One loop as blocks of threads along x."""
        share = self._count(band) / self.machine.multiprocessors
        # Threads of one instance do too little to be spread over all multiprocessors.
        size = self.machine.warp if any(True for _ in bands(band.child)) else _LEAST_THREADS
        most = _MOST_ROWS if self._walks_rows(band) else _MOST_THREADS
        while size * 2 <= min(share, most):
            size *= 2
        cut = StripMine(band.loop, size)
        strips = self._new_loops(*copies, cut)
        if strips is None:
            return False
        maps = (MapToBlocks(strips[0], "x"), MapToThreads(band.loop, "x", size))
        return self.draft.take(*copies, cut, *maps)

    def _walks_rows(self, band: Band) -> bool:
        """Whether iterations of a loop read rows of their own in loops inside."""
        program = self.draft.schedule.program
        inner = bands(band.child)
        return any(rows_of_lanes(program, band, other, self.machine) for other in inner)

    def _copies(self, band: Band) -> list[Step]:
        """Local scalars of which every iteration of the nest's innermost mapped loop has a copy."""
        program = self.draft.schedule.program
        offered = self.draft.copies(band)
        return [s for s in offered if isinstance(s, Privatize) and not program.array(s.array).rank]

    # -- numbers ----------------------------------------------------------------------------------

    def _neighbours(self, band: Band) -> float:
        """Accesses for which neighbouring iterations use neighbouring elements, or the same one."""
        program = self.draft.schedule.program
        total = 0.0
        for name, iterator in moved_by(band, program).items():
            for reference in references(program.statement(name)):
                count = reference.reads + reference.is_written
                stride = abs(reference.stride(iterator))
                total += count * (2.0 if stride == 1 else 1.0 if stride == 0 else 0.0)
        return total

    def _count(self, band: Band) -> float:
        return band_trips(band, self.draft.schedule.program, self.trips)

    def _new_loops(self, *steps: Step) -> list[str] | None:
        """The loops that the last step makes, outermost first; None where a step is illegal."""
        before, after = self.draft.reach(*steps[:-1]), self.draft.reach(*steps)
        if before is None or after is None:
            return None
        known = {band.loop for band in bands(nodes_of(before))}
        return [band.loop for band in bands(nodes_of(after)) if band.loop not in known]
