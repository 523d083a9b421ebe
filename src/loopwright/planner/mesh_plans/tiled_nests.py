"""Nests of loops for a mesh: tiles, the cores that run them, and boxes in scratchpads.

Two neighbours that use the same boxes run their tiles together. Where some access finds no box,
serial loops are tried with tiles of one iteration: rows that are written and rows that are read
then lie apart.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from math import prod

from loopwright.analysis.across_lanes import is_across_lanes
from loopwright.analysis.scratchpad_boxes import accesses_in
from loopwright.analysis.size_estimates import (
    band_trips,
    bounded_sizes,
    coefficients,
    likely_trips,
)
from loopwright.ir.access_names import NamedAccess
from loopwright.ir.islkit import bounded
from loopwright.ir.loops import Mark
from loopwright.ir.mesh_machine import MeshMachine
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import (
    Band,
    Leaf,
    Node,
    bands,
    moved_by,
    nodes_of,
    path_to,
    perfect_nest,
)
from loopwright.ir.schedule_tree import Sequence as InOrder
from loopwright.lazy_dataclass import dataclass
from loopwright.planner.draft import Draft
from loopwright.planner.guard import guarded
from loopwright.planner.mesh_plans.mesh_chains import ChainTools, plan_chain
from loopwright.planner.mesh_plans.mesh_loops import constant_of, outside_tiles, strips_of
from loopwright.planner.mesh_plans.mesh_nest_work import nest_work
from loopwright.planner.mesh_plans.mesh_outer_loops import joined_body, outer_loops
from loopwright.planner.mesh_plans.mesh_product_tiles import product_sizes
from loopwright.planner.mesh_plans.mesh_room import scratchpad_bytes, scratchpad_room
from loopwright.planner.mesh_plans.mesh_tiles import (
    MovedBox,
    NestWork,
    TiledLoop,
    TileSizes,
    best_sizes,
    far_cycles,
)
from loopwright.planner.mesh_plans.mesh_vectors import phases_of, spilled_bytes
from loopwright.planner.mesh_plans.mesh_windows import tile_steps, window_loop
from loopwright.transform.loop_fusion import Fuse
from loopwright.transform.mesh_mapping import MapToMesh
from loopwright.transform.privatize import Privatize
from loopwright.transform.share_box import ShareBox
from loopwright.transform.stage_box import StageBox
from loopwright.transform.step import Step
from loopwright.transform.tiling import StripMine, Tile

__all__ = ["NEST_QUOTA", "Nests"]

NEST_QUOTA = 8_000_000  # elementary isl operations for a nest
_VECTOR = 32  # bytes


@dataclass(frozen=True, slots=True)
class _Variant:
    """One way to take a nest: its steps up to the mapping, then boxes, and about its cycles."""

    steps: tuple[Step, ...]
    boxes: tuple[StageBox | ShareBox, ...]
    cycles: float
    left_out: int  # accesses that find no box of a whole tile


@dataclass(slots=True)
class Nests:
    """The search for the tiles and boxes of every nest of a draft."""

    draft: Draft
    machine: MeshMachine
    shape: tuple[int, int]
    boxes: list[StageBox | ShareBox] = field(default_factory=list)
    trips: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    is_known: bool = False  # whether they are more than a guess
    room: int = 0  # bytes of a scratchpad for boxes
    phases: tuple[frozenset[str], ...] = ()  # statements of each part of the region
    is_given: bool = False  # the order of all loops is given, and so are the tiles that they have

    def __post_init__(self) -> None:
        program = self.draft.schedule.program
        self.trips = likely_trips(program)
        self.is_known = set(program.params) == set(bounded_sizes(program))
        self.phases = phases_of(nodes_of(self.draft.schedule))

    def _make_room(self, *nodes: Node) -> None:
        """Let boxes have what stacks leave, where these nodes are in one function."""
        spilled = spilled_bytes(self.draft.schedule.program, self.phases, nodes)
        self.room = scratchpad_room(self.machine) - spilled

    def node(self, node: Node) -> None:
        match node:
            case Leaf():
                return
            case InOrder(filters=filters):
                waiting = [branch.child for branch in filters]
                while self.is_given and waiting:
                    self._make_room(*waiting)
                    self.node(waiting.pop(0))
                while waiting:
                    self._make_room(*waiting)
                    if taken := self._chain(waiting):
                        waiting = waiting[taken:]
                        continue
                    head, *waiting = waiting
                    self._make_room(head, *waiting[:1])
                    if waiting and (joined := self._joined(head, waiting[0])):
                        waiting = waiting[1:]
                        self.node(joined)
                    elif waiting and self._take(
                        partial(self._fused, head, waiting[0]), "fused nests"
                    ):
                        waiting = waiting[1:]
                    else:
                        self.node(head)
            case Band():
                if self.draft.schedule.mark(node.loop) is Mark.THREAD:
                    return  # a pass
                self._make_room(node)
                is_tiled = self.is_given and self._is_tiled(node)
                steps = partial(self._steps_as_tiled if is_tiled else self._steps, node)
                around = not is_tiled and self._outer_loops(node)
                if around or not self._take(steps, f"the nest of {node.loop}"):
                    self.node(node.child)

    def _take(self, find: Callable[[], Sequence[Step]], what: str) -> bool:
        """Take the steps that are found, boxes later; False where there are none."""
        program = self.draft.schedule.program
        steps: Sequence[Step] = guarded(find, lambda: (), what, program, NEST_QUOTA)
        self.draft.take(*(s for s in steps if not isinstance(s, StageBox | ShareBox)))
        self.boxes += [s for s in steps if isinstance(s, StageBox | ShareBox)]
        return bool(steps)

    def stage(self) -> None:
        """Take the boxes, now that all loops have their order and marks."""
        for step in self.boxes:
            bounded(partial(self.draft.take, step), lambda _: False, NEST_QUOTA)

    def _steps(self, band: Band) -> Sequence[Step]:
        """The steps of the best variant of a nest; none where its first loop is not parallel."""
        mapped, copies = self._parallel(band)
        if not mapped:
            return ()
        nest = [b for b in perfect_nest(band) if b.loop not in mapped]
        best = self._variant(band, mapped, copies, frozenset())
        for at in range(len(nest)):
            if best is not None and not best.left_out:
                break
            single = frozenset(b.loop for b in nest[: at + 1])
            other = self._variant(band, mapped, copies, single)
            if other is not None and (best is None or other.cycles < best.cycles):
                best = other
        return () if best is None else (*best.steps, *best.boxes)

    # -- nests in given tiles ----------------------------------------------------------------------

    def _is_tiled(self, band: Band) -> bool:
        """Whether two loops of a nest follow one iterator: one over tiles, one inside them."""
        return any(loop != strip for loop, strip in self._given_strips(band).items())

    def _given_strips(self, band: Band) -> dict[str, str]:
        """The outermost loop of a nest that follows the iterator of each of its loops."""
        program = self.draft.schedule.program
        found: dict[str, str] = {}
        for inner in bands(band):
            outer = (self._loops(band, s)[x] for s, x in moved_by(inner, program).items())
            found[inner.loop] = next(outer, inner.loop)
        return found

    def _steps_as_tiled(self, band: Band) -> Sequence[Step]:
        """Cores for the tiles of a nest, and boxes; none where its first loop is not parallel."""
        mapped, copies = self._parallel(band)
        if not mapped:
            return ()
        steps = [*copies, *self._maps(mapped)]
        groups = list(self._groups(band))
        boxes, _ = self._boxes(steps, groups, mapped[-1], self._given_strips(band))
        return (*steps, *boxes)

    # -- products inside of other parallel loops -------------------------------------------------

    def _outer_loops(self, band: Band) -> int:
        many = partial(band_trips, program=self.draft.schedule.program, trips=self.trips)
        find = partial(outer_loops, band, self._cycles, many, self.machine.barrier_cycles or 0.0)
        return bounded(find, lambda _: 0, NEST_QUOTA)

    def _cycles(self, band: Band) -> float | None:
        """About the cycles of a nest whose first two loops are dealt out; None if they are not."""
        mapped, copies = self._parallel(band)
        if not self._may_share(mapped) or copies:
            return None
        found = self._sizes(band, mapped, copies, frozenset(), list(self._groups(band)))
        return None if found is None else found.cycles

    def _joined(self, first: Node, second: Node) -> Node | None:
        if not isinstance(first, Band) or not isinstance(second, Band):
            return None
        outer = max(self._outer_loops(first), self._outer_loops(second))
        return joined_body(self.draft, first, second, outer)

    def _parallel(self, band: Band) -> tuple[tuple[str, ...], list[Step]]:
        """One or two parallel loops at the head of a nest, with copies of local scalars."""
        nest = perfect_nest(band)
        rows, columns = self.shape
        most = 2 if min(rows, columns) > 1 else 1
        for count in range(min(most, len(nest)), 0, -1):
            copies = self._copies(nest[count - 1])
            axes = ("row", "column") if count == 2 else ("mesh",)
            maps = [
                MapToMesh(b.loop, axis, rows, columns) for b, axis in zip(nest, axes, strict=False)
            ]
            if self.draft.reach(*copies, *maps) is not None:
                return tuple(b.loop for b in nest[:count]), copies
        return (), []

    def _copies(self, band: Band) -> list[Step]:
        """Local scalars of which every iteration of a loop has a copy."""
        program = self.draft.schedule.program
        offered = self.draft.copies(band)
        return [s for s in offered if isinstance(s, Privatize) and not program.array(s.array).rank]

    def _chain(self, nodes: Sequence[Node]) -> int:
        """How many nests run together, their values in scratchpads; their steps are taken."""
        counts = [0]

        def find() -> Sequence[Step]:
            counts[0], steps = plan_chain(nodes, self._tools)
            return steps

        return counts[0] if len(nodes) > 1 and self._take(find, "a chain of nests") else 0

    @property
    def _tools(self) -> ChainTools:
        mapped = ("",) * min(2, min(self.shape))
        return ChainTools(
            self.draft, self.machine, self.shape, self.trips, scratchpad_room(self.machine),
            self._may_share(mapped), self._parallel, self._loops, self._groups, self._instances,
            lambda band, mapped, groups: self._sizes(band, mapped, [], frozenset(), groups),
            lambda band, found: self._cuts(band, [], found),
            self._maps, self._boxes, strips_of, scratchpad_bytes,
        )  # fmt: skip

    # -- two nests that use the same tiles of an array -------------------------------------------

    def _fused(self, first: Node, second: Node) -> Sequence[Step]:
        """The steps that run the tiles of two nests together; none where that does not help.

        Tiles of the mapped loops are those of the nest with more instances. All accesses of both
        find boxes, and some box is used by both: it is moved once.
        """
        if not isinstance(first, Band) or not isinstance(second, Band):
            return ()
        nests = (first, second)
        heads = [self._parallel(band) for band in nests]
        (one, own), (other, others) = heads
        if not one or len(one) != len(other) or own or others:
            return ()
        groups = self._common_groups(first, second, dict(zip(other, one, strict=True)))
        if not any({"0", "1"} <= {word for word, _ in group} for group in groups):
            return ()
        sizes: list[TileSizes] = []
        for band, mapped in zip(nests, (one, other), strict=True):
            found = self._sizes(band, mapped, [], frozenset(), list(self._groups(band)))
            if found is None:
                return ()
            sizes.append(found)
        work = [sum(self._instances(b, name) for name in sorted(b.statements)) for b in nests]
        heavy = 0 if work[0] > work[1] else 1
        for a, b in zip(one, other, strict=True):
            sizes[0].tiles[a] = sizes[1].tiles[b] = sizes[heavy].tiles[(a, b)[heavy]]
        steps = [*self._cuts(first, [], sizes[0]), *self._cuts(second, [], sizes[1])]
        after = self.draft.reach(*steps)
        if after is None:
            return ()
        strips = strips_of(self.draft.schedule, after, [*sizes[0].tiles, *sizes[1].tiles])
        steps += [Fuse(strips[a], strips[b]) for a, b in zip(one, other, strict=True)]
        steps += self._maps([strips[loop] for loop in one])
        if self.draft.reach(*steps) is None:
            return ()
        plain = [tuple(access for _, access in group) for group in groups]
        boxes, left = self._boxes(steps, plain, strips[one[-1]], strips)
        return () if left else (*steps, *boxes)

    def _common_groups(
        self, first: Band, second: Band, same: Mapping[str, str]
    ) -> list[list[tuple[str, NamedAccess]]]:
        """The accesses of two nests that share a box, each with the nest that it is of.

        `same` are the loops of the second nest by those of the first that they are fused with.
        """
        program = self.draft.schedule.program
        found: dict[object, list[tuple[str, NamedAccess]]] = {}
        for word, band, names in (("0", first, {}), ("1", second, same)):
            for array in program.arrays:
                if not array.rank or array.name in dict(self.draft.schedule.private):
                    continue
                for one in accesses_in(program, band, array.name):
                    pattern = tuple(
                        tuple(sorted((names.get(loop, loop), c) for loop, c in side))
                        for side in self._pattern(band, one)
                    )
                    found.setdefault((array.name, pattern), []).append((word, one))
        return list(found.values())

    # -- one way to take a nest -------------------------------------------------------------------

    def _variant(
        self, band: Band, mapped: tuple[str, ...], copies: list[Step], single: frozenset[str]
    ) -> _Variant | None:
        """A nest with tiles; those of the loops in `single` have one iteration."""
        groups = list(self._groups(band))
        found = self._sizes(band, mapped, copies, single, groups)
        if found is None:
            return None
        sizes, cycles = found, found.cycles
        steps = [*copies, *self._cuts(band, copies, sizes)]
        after = self.draft.reach(*steps)
        if after is None:
            return None
        strips = strips_of(self.draft.schedule, after, list(sizes.tiles))
        steps += self._maps([strips[loop] for loop in mapped])
        if self.draft.reach(*steps) is None:
            return None
        boxes, left = self._boxes(steps, groups, strips[mapped[-1]], strips)
        for group in left:
            count = self._instances(band, group[0].statement)
            cycles += len(group) * far_cycles(count, self.machine)
        # The model has priced boxes of tiles: one inside of a tile is moved for a few elements.
        small = [box for box in boxes if box.loop not in strips.values()]
        for box in small:
            count = self._instances(band, box.accesses[0].rpartition("_")[0])
            cycles += far_cycles(count, self.machine)
        return _Variant(tuple(steps), tuple(boxes), cycles, len(left) + len(small))

    def _sizes(
        self,
        band: Band,
        mapped: tuple[str, ...],
        copies: list[Step],
        single: frozenset[str],
        groups: Sequence[tuple[NamedAccess, ...]],
    ) -> TileSizes | None:
        """The best tile sizes of all loops of a nest, and about its cycles."""
        program = self.draft.schedule.program
        nest = self._tileable(band, copies)
        inner = [b for b in bands(band) if b.loop not in {n.loop for n in nest}]
        axes = (0, 1) if len(mapped) == 2 else (2,)
        loops = [
            TiledLoop(
                b.loop,
                band_trips(b, program, self.trips),
                axes[mapped.index(b.loop)] if b.loop in mapped else -1,
                b.loop in single,
                is_known=self.is_known,
            )
            for b in (*nest, *inner)
        ]
        moved = [self._moved(group, (*nest, *inner), mapped) for group in groups]
        work = self._work(band, [b.loop for b in (*nest, *inner)], moved)
        asked = (loops, moved, work, self.machine, self.shape, self.room)
        return product_sizes(*asked) or best_sizes(*asked)

    def _work(self, band: Band, order: Sequence[str], boxes: Sequence[MovedBox]) -> NestWork:
        """What a nest does, by its statement of most instances."""
        program = self.draft.schedule.program
        counts = {name: self._instances(band, name) for name in sorted(band.statements)}
        total = sum(counts.values())
        heavy = max(counts, key=lambda name: counts[name])
        loop_of = self._loops(band, heavy)
        iterators = sorted(loop_of, key=lambda name: order.index(loop_of[name]))
        return nest_work(
            program, program.statement(heavy), total, loop_of, iterators, boxes, self.is_known
        )

    def _cuts(self, band: Band, copies: list[Step], found: TileSizes) -> list[Step]:
        """Steps that cut all loops of a nest into tiles, and those of panels into windows."""
        sizes = found.tiles
        nest = self._tileable(band, copies)
        inner = [b for b in bands(band) if b.loop not in {n.loop for n in nest}]
        return [
            *tile_steps(tuple(b.loop for b in nest), found),
            *(StripMine(b.loop, sizes[b.loop]) for b in inner if sizes[b.loop] > 1),
        ]

    def _maps(self, loops: Sequence[str]) -> list[Step]:
        names = ("row", "column") if len(loops) == 2 else ("mesh",)
        return [MapToMesh(loop, axis, *self.shape) for loop, axis in zip(loops, names, strict=True)]

    def _tileable(self, band: Band, copies: list[Step]) -> tuple[Band, ...]:
        """The longest part of a nest, from its head on, that may be tiled."""
        nest = perfect_nest(band)
        for count in range(len(nest), 1, -1):
            cut = Tile(tuple(b.loop for b in nest[:count]), (2,) * count)
            if self.draft.reach(*copies, cut) is not None:
                return nest[:count]
        return nest[:1]

    def _instances(self, band: Band, statement: str) -> float:
        """Instances of a statement in one run of a nest, at likely sizes."""
        trips = self.trips[statement]
        return prod(trips[iterator] for iterator in self._loops(band, statement))

    # -- accesses that share a box ----------------------------------------------------------------

    def _groups(self, band: Band) -> Iterator[tuple[NamedAccess, ...]]:
        """The accesses of a nest, together where they differ by constants only."""
        program = self.draft.schedule.program
        for array in program.arrays:
            if not array.rank or array.name in dict(self.draft.schedule.private):
                continue
            found: dict[object, list[NamedAccess]] = {}
            for one in accesses_in(program, band, array.name):
                found.setdefault(self._pattern(band, one), []).append(one)
            yield from map(tuple, found.values())

    def _pattern(self, band: Band, one: NamedAccess) -> tuple[tuple[tuple[str, int], ...], ...]:
        """The subscripts of an access as multiples of loops; constants do not count."""
        loops = self._loops(band, one.statement)
        return tuple(
            tuple(sorted((loops.get(name, name), c) for name, c in coefficients(entry)))
            for entry in one.access.index
        )

    def _loops(self, band: Band, statement: str) -> dict[str, str]:
        """The loop of a nest that each iterator of a statement follows."""
        program = self.draft.schedule.program
        found: dict[str, str] = {}
        for inner in bands(band):
            iterator = moved_by(inner, program).get(statement)
            if iterator is not None:
                found.setdefault(iterator, inner.loop)
        return found

    def _moved(
        self, group: tuple[NamedAccess, ...], loops: Sequence[Band], mapped: tuple[str, ...]
    ) -> MovedBox:
        """What a group of accesses moves, for the model."""
        program = self.draft.schedule.program
        first = group[0]
        known = self._loops(loops[0], first.statement)
        sides = []
        for at, entry in enumerate(first.access.index):
            shifts = [constant_of(one.access.index[at]) for one in group]
            terms = tuple((known.get(name, name), c) for name, c in coefficients(entry))
            sides.append((terms, max(shifts) - min(shifts)))
        names = {name for side, _ in sides for name, _ in side}
        # Memory of boxes leaves out outer dimensions in which loops around the nest move.
        own = {b.loop for b in loops}
        while (
            len(sides) > 2 and not sides[0][1] and own.isdisjoint(name for name, _ in sides[0][0])
        ):
            del sides[0]
        depth = max((k + 1 for k, b in enumerate(loops) if b.loop in names), default=0)
        depth = max(depth, len(mapped))
        is_written = any(one.is_write for one in group)
        is_read = any(not one.is_write for one in group)
        nobody_writes = not any(
            one.is_write for one in accesses_in(program, loops[0], first.access.array)
        )
        shared, unit = 1, 1
        if nobody_writes and depth > len(mapped):
            shared = self._sharing(names, mapped, len(sides))
        if shared > 1 and is_across_lanes(program, group):
            unit = max(1, _VECTOR // first.access.dtype.bytes)
        return MovedBox(
            first.access.dtype.bytes,
            tuple(sides),
            depth,
            is_written + is_read,
            is_ahead=nobody_writes and depth > len(mapped),
            shared=shared,
            window=loops[depth - 1].loop if depth > len(mapped) else "",
            unit=unit,
        )

    def _sharing(self, names: Collection[str], mapped: tuple[str, ...], rank: int) -> int:
        """How many cores have a box in common that moves with the loops `names`."""
        if not self._may_share(mapped) or rank > 2:
            return 1
        moving = [loop in names for loop in mapped]
        return {(True, False): self.shape[1], (False, True): self.shape[0]}.get(
            (moving[0], moving[1]), 1
        )

    def _may_share(self, mapped: tuple[str, ...]) -> bool:
        """Whether rows and columns are those of the machine, so that cores reach each other."""
        return len(mapped) == 2 and self.shape == (self.machine.rows, self.machine.columns)

    def _boxes(
        self,
        steps: list[Step],
        groups: Sequence[tuple[NamedAccess, ...]],
        innermost: str,
        strips: Mapping[str, str],
    ) -> tuple[list[StageBox | ShareBox], list[tuple[NamedAccess, ...]]]:
        """A box for each group of accesses where one is legal, and the groups that have none."""
        boxes: list[StageBox | ShareBox] = []
        left: list[tuple[NamedAccess, ...]] = []
        for group in groups:
            found = self._box([*steps, *boxes], group, innermost, strips)
            if found is None:
                left.append(group)
            else:
                boxes.append(found)
        return boxes, left

    def _box(
        self,
        steps: list[Step],
        group: tuple[NamedAccess, ...],
        innermost: str,
        strips: Mapping[str, str],
    ) -> StageBox | ShareBox | None:
        """The box at the outermost loop where it is legal and fits."""
        before = self.draft.reach(*steps)
        assert before is not None
        names = {one.statement for one in group}
        inside = [b for b in bands(nodes_of(before)) if names <= b.statements]
        start = next(k for k, b in enumerate(inside) if b.loop == innermost)
        wanted = tuple(one.name for one in group)
        array = group[0].access.array
        # Of the loops of tiles that move it; any other one would bring it in again.
        moving = {
            strips.get(loop)
            for one in group
            for band in bands(nodes_of(self.draft.schedule))
            if one.statement in band.statements
            for side in self._pattern(band, one)
            for loop, _ in side
        }
        tried: list[StageBox | ShareBox] = []
        for loop in outside_tiles(inside[start:], strips):
            if loop in moving:
                window = window_loop(before, steps, loop, strips, moving)
                axes = self._axes(before, loop, moving)
                tried += [ShareBox(array, loop, window, wanted, axis) for axis in axes]
        for band in inside[start:]:
            counts = (1,) if before.mark(band.loop) is Mark.THREAD else (2, 1)
            tried += [StageBox(array, band.loop, wanted, count) for count in counts]
        for step in tried:
            after = self.draft.reach(*steps, step)
            if after is None or after.boxes[-1].is_array_wide:
                continue  # boxes of inner loops leave room for others
            if scratchpad_bytes(after) <= self.room:
                return step
        return None

    def _axes(self, before: Schedule, loop: str, moving: Collection[str | None]) -> list[str]:
        """The axes along which cores have a box of a loop in common: `moving` is not of them."""
        path = [band.loop for band in path_to(nodes_of(before), loop)]
        mapped = tuple(name for name in path if before.mark(name) is Mark.THREAD)
        if not self._may_share(mapped) or before.mark(loop) is Mark.THREAD:
            return []
        others = {"row": mapped[1], "column": mapped[0]}
        return [axis for axis, other in others.items() if other not in moving]
