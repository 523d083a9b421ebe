"""Nests in turn that hand values on: their tiles run together, and the values stay in the LDM.

    for r: for q: for p:        line[r, q, p] = 0
    for r: for q: for p: for s: line[r, q, p] += A[r, q, s] * C[s, p]
    for r: for q: for p:        A[r, q, p] = line[r, q, p]
->  for r_t: for q_t:  on cores
        A_box = A[r_t, q_t : q_t + 18, :]
        line_box = 0;  for s_t: for p_t: line_box += A_box * C_box;  A_box = line_box
        A[r_t, q_t : q_t + 18, :] = A_box

A local array that several nests use in the same tiles of the mapped loops is never moved, but where
somebody reads it later (`transform/stage_box`). Other arrays that several nests use have one box,
too; dimensions of both that no mapped loop moves along are there as a whole. Tiles are those of the
nest with most instances; where boxes of the others do not fit beside, these go by strips of rows.
Of whole rows that are moved, the next ones come and the last ones go while some are used, and what
all cores have in common (`C`) stays in their scratchpads, a part in each, from the first tile to
the last one, where there is room and that takes less time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import ceil, prod
from typing import TypeVar

from loopwright.analysis.scratchpad_boxes import accesses_in
from loopwright.analysis.size_estimates import band_trips, coefficients
from loopwright.ir.access_names import NamedAccess
from loopwright.ir.expr import Const
from loopwright.ir.mesh_machine import MeshMachine
from loopwright.ir.program import Role
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import Band, Node, bands, nodes_of, perfect_nest
from loopwright.lazy_dataclass import dataclass
from loopwright.machines.dma_model import DmaRequest, request_service_cycles
from loopwright.planner.draft import Draft
from loopwright.planner.mesh_plans.mesh_tiles import TileSizes, box_bytes
from loopwright.transform.interchange import Interchange
from loopwright.transform.loop_fusion import Fuse
from loopwright.transform.share_box import ShareBox
from loopwright.transform.stage_box import StageBox
from loopwright.transform.step import Step
from loopwright.transform.tiling import Tile

__all__ = ["ChainTools", "plan_chain"]

_Group = tuple[NamedAccess, ...]
_Boxes = list[StageBox | ShareBox]
_Number = TypeVar("_Number", int, float)
_MAPPED = 2  # loops of a nest that are dealt out
_STRIPS = (0, 8, 4)  # rows of a tile that a light nest takes at a time; 0: all
_ROWS = (1, 2, 4)  # of the first mapped loop in a tile
_STEPS = (16, 32, 48, 64)  # of a loop of sums
_WIDTHS = (32, 48, 64, 96, 128, 192, 256)  # of a loop along kept elements
_MOST_TURNS = 12  # that cores take tiles of the second mapped loop
_LANES = 4
_VECTOR_CYCLES = 0.27  # of a core for an instance
_TILE_CYCLES = 40 / 64  # of a core for an element of a tile, for each box of factors
_GIVE_CYCLES = 2.25  # of a core for a vector that goes along a row or a column
_MEET_CYCLES = 40.0  # of a core for each part that goes along one
_PANEL_CYCLES = 600.0  # of a core for a panel: requests and waits
_CHAIN = 7  # cycles of a sum: what fewer than so many vectors take for each step
_GAP = 4096


@dataclass(frozen=True, slots=True)
class ChainTools:
    """What the planner of nests knows and does."""

    draft: Draft
    machine: MeshMachine
    shape: tuple[int, int]
    trips: Mapping[str, Mapping[str, float]]
    room: int  # bytes of a scratchpad
    may_share: bool  # cores reach others of their row and column
    parallel: Callable[[Band], tuple[tuple[str, ...], list[Step]]]
    loops: Callable[[Band, str], dict[str, str]]  # of the iterators of a statement
    groups: Callable[[Band], Iterator[_Group]]
    instances: Callable[[Band, str], float]
    sizes: Callable[[Band, tuple[str, ...], list[_Group]], TileSizes | None]
    cuts: Callable[[Band, TileSizes], list[Step]]
    maps: Callable[[Sequence[str]], list[Step]]
    boxes: Callable[
        [list[Step], Sequence[_Group], str, Mapping[str, str]], tuple[_Boxes, list[_Group]]
    ]
    strips: Callable[[Schedule, Schedule, Sequence[str]], dict[str, str]]
    used: Callable[[Schedule], int]  # bytes of a scratchpad that boxes take


def plan_chain(nodes: Sequence[Node], tools: ChainTools) -> tuple[int, Sequence[Step]]:
    """How many of some nests run together, and the steps for it; none where no values stay."""
    nests: list[Band] = []
    heads: list[tuple[str, ...]] = []
    for node in nodes:
        if not isinstance(node, Band) or len(perfect_nest(node)) < _MAPPED:
            break
        nests.append(node)
    if len(nests) < _MAPPED or not _local_of_several(nests, tools):
        return 0, ()
    for band in nests:
        mapped, copies = tools.parallel(band)
        if len(mapped) != _MAPPED or copies:
            break
        heads.append(mapped)
    for count in range(len(heads), 1, -1):
        chain = _Chain(tools, nests[:count], heads[:count])
        if chain.is_linked() and (steps := chain.steps()):
            return count, steps
    return 0, ()


def _local_of_several(nests: Sequence[Band], tools: ChainTools) -> bool:
    program = tools.draft.schedule.program
    return any(
        sum(bool(accesses_in(program, band, array.name)) for band in nests) > 1
        for array in program.arrays
        if array.role is Role.LOCAL and array.rank >= _MAPPED
    )


@dataclass(frozen=True, slots=True)
class _ChainBox:
    """A box of an array: for each side the loops whose tiles it has, or its extent."""

    sides: tuple[tuple[str, ...] | int, ...]
    size: int  # of an element, in bytes
    is_moved: bool  # by DMA

    def extents(self, tile: Mapping[str, _Number]) -> list[_Number]:
        return [
            side if isinstance(side, int) else max([tile.get(loop, 1) for loop in side] or [1])
            for side in self.sides
        ]


@dataclass(frozen=True, slots=True)
class _Moves:
    """How boxes come."""

    is_ring: bool  # kept ones while others are used
    stays: bool  # what all cores have in common, once


_MOVES = (_Moves(is_ring=True, stays=True), _Moves(is_ring=False, stays=True),
          _Moves(is_ring=False, stays=False))  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Chain:
    tools: ChainTools
    nests: Sequence[Band]
    heads: Sequence[tuple[str, ...]]

    def is_linked(self) -> bool:
        """Whether every nest uses a local array of the one before it, in the same tiles."""
        program = self.tools.draft.schedule.program
        local = [a.name for a in program.arrays if a.role is Role.LOCAL and a.rank >= _MAPPED]
        kept = [name for name in local if self._layout(name) is not None]
        for one, other in zip(self.nests, self.nests[1:], strict=False):
            if not any(
                accesses_in(program, one, name) and accesses_in(program, other, name)
                for name in kept
            ):
                return False
        return True

    def _layout(self, array: str) -> tuple[int, ...] | None:
        """Which mapped loop moves along each dimension of an array, -1 for none.

        None where accesses of the nests differ in it, or some mapped loop is not there.
        """
        program = self.tools.draft.schedule.program
        found: set[tuple[int, ...]] = set()
        for band, mapped in zip(self.nests, self.heads, strict=True):
            for one in accesses_in(program, band, array):
                loops = self.tools.loops(band, one.statement)
                dims = []
                for entry in one.access.index:
                    names = [loops.get(name, "") for name, _ in coefficients(entry)]
                    at = [mapped.index(name) for name in names if name in mapped]
                    if at and len(names) > 1:
                        return None
                    dims.append(at[0] if at else -1)
                found.add(tuple(dims))
        if len(found) != 1:
            return None
        (only,) = found
        return only if {0, 1} <= set(only) else None

    @property
    def _heavy(self) -> int:
        counts = [
            sum(self.tools.instances(band, name) for name in band.statements) for band in self.nests
        ]
        return counts.index(max(counts))

    def _whole(self) -> list[str]:
        """Arrays that several nests use in the same tiles: one box of each."""
        program = self.tools.draft.schedule.program
        found = []
        for array in program.arrays:
            users = [bool(accesses_in(program, band, array.name)) for band in self.nests]
            if array.rank and sum(users) > 1 and self._layout(array.name) is not None:
                found.append(array.name)
        return found

    def steps(self) -> Sequence[Step]:
        """Tiles of all nests together, mapped, with their boxes; none where some find none."""
        tools, heavy = self.tools, self._heavy
        whole = self._whole()
        order: tuple[str, ...] = ()
        if not all(self._has_known_rows(name) for name in whole):
            return ()
        if any(-1 in (self._layout(name) or ()) for name in whole):
            order, tried = self._sizes_of_whole(whole)
        else:
            groups = list(tools.groups(self.nests[heavy]))
            sizes = tools.sizes(self.nests[heavy], self.heads[heavy], groups)
            tried = [] if sizes is None else [(sizes, _MOVES[-1])]
        for sizes, moves in tried:
            kept = whole if order else self._that_fit(whole, sizes)
            for strip in _STRIPS:
                if not order and not self._may_fit(strip, kept, sizes):
                    continue
                found = self._attempt(strip, kept, order, sizes, moves)
                if found is None:
                    return ()
                if found:
                    return found
        return ()

    def _that_fit(self, whole: list[str], sizes: TileSizes) -> list[str]:
        """The arrays with one box: with several nests of sums, which need room, local ones only."""
        program = self.tools.draft.schedule.program
        sums = [at for at in range(len(self.nests)) if self._own_sizes(at, sizes) is not None]
        if len(sums) == 1:
            return whole
        return [name for name in whole if program.array(name).role is Role.LOCAL]

    def _may_fit(self, strip: int, whole: Sequence[str], sizes: TileSizes) -> bool:
        """Whether boxes of nests that go by strips have room beside those that stay."""
        program, heavy = self.tools.draft.schedule.program, self._heavy
        rows, columns = (sizes.tiles[loop] for loop in self.heads[heavy])
        kept = sum(box_bytes(rows * columns, program.array(name).dtype.bytes, 1) for name in whole)
        for at, band in enumerate(self.nests):
            if self._own_sizes(at, sizes) is not None:
                continue
            beside = kept
            for group in self.tools.groups(band):
                access = group[0].access
                if access.array not in whole and self._moving(group, at) >= set(self.heads[at]):
                    beside += box_bytes(min(strip or rows, rows) * columns, access.dtype.bytes, 1)
            if beside > self.tools.room:
                return False
        return True

    def _own_sizes(self, at: int, sizes: TileSizes) -> TileSizes | None:
        """The sizes of the heavy nest for one of as many loops; None for nests of fewer."""
        nests = [[b.loop for b in perfect_nest(self.nests[k])] for k in (self._heavy, at)]
        if at == self._heavy:
            return sizes
        if len(nests[0]) != len(nests[1]) or set(nests[0]) != set(sizes.tiles):
            return None
        same = dict(zip(*nests, strict=True))
        parts = (sizes.tiles, sizes.windows, sizes.strips)
        tiles, windows, strips = ({same[k]: v for k, v in part.items()} for part in parts)
        return TileSizes(tiles, windows, sizes.cycles, strips)

    def _has_known_rows(self, array: str) -> bool:
        """Whether dimensions that no mapped loop moves along are bounded by constants."""
        program, layout = self.tools.draft.schedule.program, self._layout(array)
        assert layout is not None
        for dim, (at, extent) in enumerate(zip(layout, program.array(array).shape, strict=True)):
            if at >= 0 or isinstance(extent, Const):
                continue
            for band in self.nests:
                for one in accesses_in(program, band, array):
                    statement = program.statement(one.statement)
                    for name, _ in coefficients(one.access.index[dim]):
                        where = (
                            statement.iterators.index(name) if name in statement.iterators else -1
                        )
                        if where < 0 or not statement.domain.dim_max_val(where).is_int():
                            return False
        return True

    def _attempt(
        self, strip: int, whole: Sequence[str], order: tuple[str, ...], sizes: TileSizes,
        moves: _Moves,
    ) -> Sequence[Step] | None:  # fmt: skip
        """The steps with some sizes; none where boxes do not fit, None where no size helps."""
        tools, heavy = self.tools, self._heavy
        tile = [sizes.tiles[loop] for loop in self.heads[heavy]]
        steps: list[Step] = []
        strips: dict[str, str] = {}
        for at, (band, mapped) in enumerate(zip(self.nests, self.heads, strict=True)):
            its = self._own_sizes(at, sizes)
            if its is None or (order and at != heavy):
                own: list[Step] = [Tile(mapped, tuple(tile))]
                if strip and strip < tile[0]:
                    own.append(Tile(mapped, (strip, tile[1])))
            elif order:
                nest = tuple(b.loop for b in perfect_nest(band))
                own = [] if nest == order else [Interchange(order)]
                own.append(Tile(order, tuple(sizes.tiles[loop] for loop in order)))
            else:
                own = tools.cuts(band, its)
            before = tools.draft.reach(*steps)
            after = tools.draft.reach(*steps, *own)
            if before is None or after is None:
                return ()
            cut = list(mapped) if its is None or (order and at != heavy) else list(its.tiles)
            strips |= tools.strips(before, after, cut)
            steps += own
        first = self.heads[0]
        for mapped in self.heads[1:]:
            steps += [Fuse(strips[a], strips[b]) for a, b in zip(first, mapped, strict=True)]
        steps += tools.maps([strips[loop] for loop in first])
        if tools.draft.reach(*steps) is None:
            return ()
        kept = self._kept(whole, strips, moves)
        if tools.draft.reach(*steps, *kept) is None:
            return None
        boxes = self._boxes(steps, whole, strips, order, moves)
        return () if boxes is None else (*steps, *boxes)

    def _kept(self, whole: Sequence[str], strips: Mapping[str, str], moves: _Moves) -> _Boxes:
        """The boxes of arrays that several nests use."""
        program = self.tools.draft.schedule.program
        found: _Boxes = []
        for array in whole:
            users = [one for band in self.nests for one in accesses_in(program, band, array)]
            is_moved = program.array(array).role is not Role.LOCAL
            is_written = any(one.is_write for one in users)
            count = 2 if moves.is_ring and is_moved and is_written else 1
            names = tuple(one.name for one in users)
            found.append(StageBox(array, strips[self.heads[0][1]], names, count))
        return found

    def _boxes(
        self,
        steps: list[Step],
        whole: Sequence[str],
        strips: Mapping[str, str],
        order: Sequence[str],
        moves: _Moves,
    ) -> _Boxes | None:
        """The boxes of all accesses; None where some has none that fits."""
        tools = self.tools
        innermost = strips[self.heads[0][1]]
        found = self._kept(whole, strips, moves)
        if not self._fits([*steps, *found]):
            return None
        for at, band in enumerate(self.nests):
            for group in tools.groups(band):
                if group[0].access.array in whole:
                    continue
                shared = self._of_all(group, at, strips, order)
                if shared is not None and moves.stays:
                    shared = replace(shared, loop=innermost)
                if shared is not None and self._fits([*steps, *found, shared]):
                    found.append(shared)
                    continue
                more, left = tools.boxes([*steps, *found], [group], innermost, strips)
                if left or any(box.loop not in self._tiled(steps) for box in more):
                    return None
                found += more
        return found

    def _tiled(self, steps: Sequence[Step]) -> set[str]:
        """Loops over tiles: a box of any other one is moved for a few elements."""
        after = self.tools.draft.reach(*steps)
        assert after is not None
        return {band.loop for band in bands(nodes_of(after)) if "_t" in band.loop}

    def _fits(self, steps: Sequence[Step]) -> bool:
        after = self.tools.draft.reach(*steps)
        return after is not None and self.tools.used(after) <= self.tools.room

    def _of_all(
        self, group: _Group, at: int, strips: Mapping[str, str], order: Sequence[str]
    ) -> ShareBox | None:
        """A box that no mapped loop changes, which all cores have in common."""
        moving = self._moving(group, at)
        inner = [loop for loop in order if loop in moving]
        if at != self._heavy or not inner or moving & set(self.heads[at]):
            return None
        if not self.tools.may_share or any(one.is_write for one in group):
            return None
        loop = strips[inner[-1]]
        names = tuple(one.name for one in group)
        return ShareBox(group[0].access.array, loop, loop, names, "mesh")

    def _moving(self, group: _Group, at: int) -> set[str]:
        loops = self.tools.loops(self.nests[at], group[0].statement)
        return {
            loops.get(name, "")
            for entry in group[0].access.index
            for name, _ in coefficients(entry)
        }

    # -- sizes where whole rows stay --------------------------------------------------------------

    def _sizes_of_whole(
        self, whole: Sequence[str]
    ) -> tuple[tuple[str, ...], list[tuple[TileSizes, _Moves]]]:
        """The loops of the heavy nest, sums before kept elements, and the sizes of its tiles.

        Of each way in which boxes come the best ones, those with the least time first.
        """
        tools, at = self.tools, self._heavy
        band, mapped = self.nests[at], self.heads[at]
        program = tools.draft.schedule.program
        nest = perfect_nest(band)
        if len(nest) < len(list(bands(band))):
            return (), []
        written = {one.access.array for array in whole for one in accesses_in(program, band, array)
                   if one.is_write}  # fmt: skip
        along: set[str] = set()
        for group in tools.groups(band):
            if group[0].access.array in written:
                along |= self._moving(group, at)
        inner = [b.loop for b in nest if b.loop not in mapped]
        sums = [loop for loop in inner if loop not in along]
        kept = [loop for loop in inner if loop in along]
        order = (*mapped, *sums, *kept)
        trips = {b.loop: band_trips(b, program, tools.trips) for b in nest}
        boxes, others = self._kept_boxes(whole, trips), self._other_boxes(whole, inner)
        if others is None:
            return order, []
        found: list[tuple[TileSizes, _Moves]] = []
        for moves in _MOVES if tools.may_share else _MOVES[-1:]:
            best: TileSizes | None = None
            for chosen in product(*self._offered(order, sums, trips, moves)):
                tile = dict(zip(order, chosen, strict=True))
                cycles = self._cycles(boxes, others, tile, order, trips, moves)
                if cycles is not None and (best is None or cycles < best.cycles):
                    best = TileSizes(tile, {}, cycles)
            if best is not None:
                found.append((best, moves))
        return order, sorted(found, key=lambda pair: pair[0].cycles)

    def _offered(
        self, order: Sequence[str], sums: Sequence[str], trips: Mapping[str, float], moves: _Moves
    ) -> list[Sequence[int]]:
        """The sizes that are tried, of each loop.

        Of what stays, a window has the rows of one or two columns of cores.
        """
        rows, columns = self.tools.shape
        many = sorted({ceil(trips[order[1]] / (columns * k)) for k in range(1, _MOST_TURNS)})
        found: list[Sequence[int]] = [_ROWS, sorted({*many, *(4 * ceil(m / 4) for m in many)})]
        for loop in order[_MAPPED:]:
            if loop not in sums:
                sizes: Sequence[int] = _WIDTHS
            elif moves.stays:
                each = rows * ceil(trips[loop] / (rows * columns))
                sizes = (each, 2 * each)
            else:
                sizes = _STEPS
            found.append([s for s in sizes if s < 2 * trips[loop]] or [sizes[0]])
        return found

    def _kept_boxes(self, whole: Sequence[str], trips: Mapping[str, float]) -> list[_ChainBox]:
        """Boxes of arrays that stay over all nests: loops or extents of their sides."""
        program, at = self.tools.draft.schedule.program, self._heavy
        found: list[_ChainBox] = []
        for name in whole:
            array, layout = program.array(name), self._layout(name)
            assert layout is not None
            sides = tuple(
                (self.heads[at][k],) if k >= 0 else self._extent(name, dim, trips)
                for dim, k in enumerate(layout)
            )
            found.append(_ChainBox(sides, array.dtype.bytes, array.role is not Role.LOCAL))
        return found

    def _other_boxes(self, whole: Sequence[str], inner: Sequence[str]) -> list[_ChainBox] | None:
        """Boxes of all other accesses of the heavy nest; None where one does not move in it."""
        at = self._heavy
        found: list[_ChainBox] = []
        for group in self.tools.groups(self.nests[at]):
            access = group[0].access
            if access.array in whole:
                continue
            if not self._moving(group, at) & set(inner):
                return None
            sides = tuple(tuple(self._of_entry(entry, group, at)) for entry in access.index)
            found.append(_ChainBox(sides, access.dtype.bytes, is_moved=True))
        return found

    def _cycles(
        self, boxes: Sequence[_ChainBox], others: Sequence[_ChainBox], tile: Mapping[str, int],
        order: Sequence[str], trips: Mapping[str, float], moves: _Moves,
    ) -> float | None:  # fmt: skip
        """About the cycles of the heavy nest; None where its boxes do not fit."""
        tools = self.tools
        rows, columns = tools.shape
        cores = rows * columns
        used = 0
        moved = 0.0
        for box in boxes:
            sides = box.extents(tile)
            used += box_bytes(prod(sides), box.size, 1 + (moves.is_ring and box.is_moved))
            if box.is_moved:
                moved += 2 * cores * self._request(prod(sides[:-1]), sides[-1] * box.size)
        counts = {loop: ceil(trips[loop] / tile[loop]) for loop in order[_MAPPED:]}
        # The last tile of a loop is what is left: of all tiles the mean.
        mean = {**tile, **{loop: trips[loop] / count for loop, count in counts.items()}}
        work = _rows_done(tile[order[0]], tile[order[1]]) * (
            prod(mean[loop] for loop in order[_MAPPED:]) * _VECTOR_CYCLES
            + mean[order[-1]] * _TILE_CYCLES
        )
        panel = 0.0
        for box in others:
            sides = box.extents(tile)
            width = sides[-1] * box.size
            given = box.extents(mean)
            vectors = prod(given[:-1]) * ceil(given[-1] / _LANES)
            if moves.stays:
                extents = [max([ceil(trips.get(loop, 1.0)) for loop in side] or [1])
                           for side in box.sides if not isinstance(side, int)]  # fmt: skip
                part = -(-extents[0] // cores)
                used += box_bytes(part * prod(extents[1:]), box.size, 1)
                used += box_bytes(part * prod(sides[1:]), box.size, 1)
                work += ceil(sides[0] / (part * rows)) * (1 + rows) * _MEET_CYCLES
            else:
                part = -(-sides[0] // cores)
                # Parts of two panels, and what goes on from a row to the columns.
                used += box_bytes(part * prod(sides[1:]), box.size, 3)
                panel += min(cores, sides[0]) * self._request(part * prod(sides[1:-1]), width)
                work += _PANEL_CYCLES + min(columns, sides[0]) * (1 + rows) * _MEET_CYCLES
            used += box_bytes(prod(sides), box.size, 1)
            work += vectors * _GIVE_CYCLES * (1 + 1 / rows)
        if used > tools.room:
            return None
        turns = prod(
            ceil(trips[loop] / (tile[loop] * along))
            for loop, along in zip(order[:_MAPPED], tools.shape, strict=True)
        )
        each = prod(counts.values()) * max(work, panel)
        return turns * (max(each, moved) if moves.is_ring else each + moved)

    def _of_entry(self, entry: object, group: _Group, at: int) -> list[str]:
        loops = self.tools.loops(self.nests[at], group[0].statement)
        return [loops.get(name, "") for name, _ in coefficients(entry)]  # type: ignore[arg-type]

    def _extent(self, array: str, dim: int, trips: Mapping[str, float]) -> int:
        """Elements of a dimension that no mapped loop moves along."""
        program, at = self.tools.draft.schedule.program, self._heavy
        most = 1.0
        for one in accesses_in(program, self.nests[at], array):
            for loop in self._of_entry(one.access.index[dim], (one,), at):
                most = max(most, trips.get(loop, 1.0))
        return ceil(most)

    def _request(self, rows: int, width: int) -> float:
        return request_service_cycles(
            self.tools.machine, DmaRequest(rows, width, _GAP if rows > 1 else 0)
        )


def _rows_done(outer: int, rows: int) -> float:
    """Rows of a tile; four of them are done at once, and each of the last ones takes longer."""
    single = rows % _LANES
    return outer * (rows - single + single * _CHAIN / _LANES)
