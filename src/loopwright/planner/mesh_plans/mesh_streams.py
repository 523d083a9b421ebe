"""Stencils whose planes stream through scratchpads: tiles on offer, and their time by a model.

A tile is two-dimensional in space and as long as the stream along the first dimension, where only
the first and the last planes are computed twice. Windows of planes take the place of boxes:

    cycles of a step = about max(planes in and out of all tiles, chain of one core) / steps
    chain of a core  = its tiles * positions * max(work of a position, latency and own requests)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import ceil, prod

from loopwright.ir.expr import Binary, Call, Load, Unary
from loopwright.ir.mesh_machine import MeshMachine
from loopwright.ir.plane_stream import PlaneStream
from loopwright.ir.program import Program
from loopwright.ir.time_stencil import StencilStatement, TimeStencil, TimeTiles
from loopwright.ir.visit import walk
from loopwright.lazy_dataclass import dataclass
from loopwright.machines.dma_model import DmaRequest, request_service_cycles
from loopwright.planner.mesh_plans.mesh_tiles import box_bytes

__all__ = ["StreamModel", "in_pieces", "largest_fitting", "offered_streams", "stream_scratchpad"]

_STEPS = (1, 2, 3, 4, 6, 8, 12, 16)
_ROWS = (2, 3, 4, 5, 6, 8, 10, 12, 15, 16, 20, 24, 30, 32, 40, 48, 64)
_WIDTHS = (8, 16, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 384, 512, 768, 1024, 1536, 2048)
_MOST_WIDTHS = 5  # that are tried for rows and steps, the largest that fit
_PIECES = (1, 2, 3, 4, 6, 8, 12, 16)  # of the first dimension
_LANES = 32  # bytes of a vector in generated code
_ROW_SLOTS = 12.0  # of a row of a plane, beside its elements (dry runs)
_POSITION_SLOTS = 120.0  # of a position: which planes it is about, requests, waits (dry runs)


def offered_streams(
    found: TimeStencil,
    stream: PlaneStream,
    program: Program,
    grid: Sequence[int],
    room: int,
    cores: int,
    *,
    is_known: bool,
) -> Iterator[TimeTiles]:
    """Tiles whose windows fit into `room` bytes; `grid`: its extents, a guess unless `is_known`.

    The first dimension is cut into as many pieces as give each core a tile.
    """
    widths = sorted({w for w in _WIDTHS if w < grid[-1]} | {_whole(grid[-1], is_known)})
    rows = [r for r in _ROWS if r < grid[1]] if len(grid) > 2 else [0]
    if len(grid) > 2 and is_known:
        # Tiles that fill the extent evenly leave no thin one at its end.
        rows = sorted({ceil(grid[1] / ceil(grid[1] / r)) for r in rows} | {grid[1]})
        widths = sorted({ceil(grid[-1] / ceil(grid[-1] / w)) for w in widths})
    for steps in _STEPS:
        for row in rows:

            def tile(width: int, row: int = row, steps: int = steps) -> TimeTiles:
                inner = (row, width) if row else (width,)
                return TimeTiles(found, steps, (grid[0], *inner), stream=stream)

            fitting = largest_fitting(
                widths, lambda width: stream_scratchpad(tile(width), program) <= room, _MOST_WIDTHS
            )
            if not fitting:
                break
            for tiles in map(tile, fitting):
                inner = tiles.sizes[1:]
                count = prod(ceil(n / size) for n, size in zip(grid[1:], inner, strict=True))
                pieces = max(1, cores // count)
                yield replace(tiles, sizes=(max(1, ceil(grid[0] / pieces)), *inner))


def largest_fitting(widths: Sequence[int], fits: Callable[[int], bool], most: int) -> Sequence[int]:
    """Up to `most` of the widths, the largest that fit; those that are smaller fit as well."""
    low, high = 0, len(widths)
    while low < high:
        middle = (low + high) // 2
        if fits(widths[middle]):
            low = middle + 1
        else:
            high = middle
    return list(reversed(widths[max(0, low - most) : low]))


def in_pieces(tiles: TimeTiles, extent: int) -> Iterator[TimeTiles]:
    """The same tiles with other numbers of planes."""
    for many in sorted({ceil(extent / pieces) for pieces in _PIECES}):
        yield replace(tiles, sizes=(many, *tiles.sizes[1:]))


def _whole(extent: int, is_known: bool) -> int:
    return extent if is_known else -(-extent // 64) * 64


def stream_scratchpad(tiles: TimeTiles, program: Program) -> int:
    """Bytes of a scratchpad that a tile takes (lower/tiles/stream_time_tiles)."""
    found, stream = tiles.stencil, tiles.stream
    assert stream is not None
    total = 0
    for name, _ in found.boxes:
        size = program.array(name).dtype.bytes
        extents = tiles.extents(name)
        total += box_bytes(prod(extents), size, 1)
        if name in found.carried and len(extents) > 2:
            total += box_bytes(prod(tiles.sizes[1:]), size, 1)
        edges = stream.grid(name).edges
        if edges is not None:
            if len(extents) > 2:
                total += sum(box_bytes(many * extents[-1], size, 1) for many in edges[0])
            total += box_bytes(prod(extents[1:-1]) * sum(edges[-1]), size, 1)
    for name in found.lines:
        total += box_bytes(tiles.steps, program.array(name).dtype.bytes, 1)
    return total


@dataclass(frozen=True, slots=True)
class StreamModel:
    """What steps of a stencil cost with planes that stream, on a grid of these extents."""

    program: Program
    machine: MeshMachine
    cores: int
    grid: tuple[int, ...]

    def step_cycles(self, tiles: TimeTiles) -> float:
        """Cycles of a time step with these tiles."""
        counts = [ceil(n / size) for n, size in zip(self.grid, tiles.sizes, strict=True)]
        every = prod(counts)
        moved = self._moved(tiles, counts)
        stream = tiles.stream
        assert stream is not None
        late = max(grid.last for grid in stream.grids) + stream.rate * (tiles.steps - 1)
        positions = min(tiles.sizes[0], self.grid[0]) + late
        latency = self.machine.dma_latency or 0.0
        work = self._work(tiles)
        waits = positions * (latency + _POSITION_SLOTS) + moved
        chain = ceil(every / self.cores) * max(work + positions * _POSITION_SLOTS, waits)
        barrier = (self.machine.barrier_cycles or 0.0) + latency
        return (max(moved * every, chain) + waits + barrier) / tiles.steps

    def _moved(self, tiles: TimeTiles, counts: Sequence[int]) -> float:
        """Cycles of the queue for all planes of a tile."""
        found, stream = tiles.stencil, tiles.stream
        assert stream is not None
        total = 0.0
        for name, growth in found.boxes:
            size = self.program.array(name).dtype.bytes
            extents = tiles.extents(name)
            more = growth.low[0][0] + growth.high[0][0]
            more += (growth.low[0][1] + growth.high[0][1]) * tiles.steps
            planes = min(tiles.sizes[0] + max(more, 0), self.grid[0])
            if (edges := stream.grid(name).edges) is None:
                total += planes * self._plane(extents[1:], size, is_put=False)
            else:
                if many := sum(edges[-1]):
                    part = DmaRequest(1, prod(extents[1:-1]) * many * size)
                    touching = min(1.0, 2 / counts[-1])
                    total += planes * touching * request_service_cycles(self.machine, part)
                if len(extents) > 2 and any(edges[0]):
                    part = DmaRequest(1, extents[-1] * size)
                    touching = 2 / counts[1]
                    total += planes * touching * request_service_cycles(self.machine, part)
            if name in found.carried:
                own = min(tiles.sizes[0], self.grid[0])
                total += own * self._plane(tiles.sizes[1:], size, is_put=True)
        return total

    def _plane(self, extents: Sequence[int], size: int, *, is_put: bool) -> float:
        """Cycles of the queue for one plane; of whole rows it is one block."""
        inside = [min(n, extent) for n, extent in zip(self.grid[1:], extents, strict=True)]
        rows, width = prod(inside[:-1]), inside[-1] * size
        gap = (self.grid[-1] - inside[-1]) * size
        if not gap:
            rows, width = 1, rows * width
        request = DmaRequest(rows, width, gap, is_put, size)
        return request_service_cycles(self.machine, request)

    def _work(self, tiles: TimeTiles) -> float:
        """Cycles of a core for one tile."""
        planes = min(tiles.sizes[0], self.grid[0])
        total = 0.0
        if len(tiles.sizes) > 2:
            for name in tiles.stencil.carried:  # packed before they go
                size = self.program.array(name).dtype.bytes
                total += planes * self._rows(tiles.sizes[1:], size, 3.0)
        for own in tiles.stencil.statements:
            size = self.program.array(own.array).dtype.bytes
            slots = self._slots(own)
            for left in range(tiles.steps):
                region = zip(tiles.sizes, own.beyond(left), strict=True)
                points = [size + more for size, more in region]
                if not own.iterators[0]:
                    points[0] = 1
                total += points[0] * self._rows(points[1:], size, slots)
        return total

    def _rows(self, extents: Sequence[int], size: int, slots: float) -> float:
        """Cycles for a plane of elements, row by row: vectors, then single elements."""
        lanes = max(1, _LANES // size)
        inside = [min(n, extent) for n, extent in zip(self.grid[1:], extents, strict=True)]
        width = inside[-1]
        return prod(inside[:-1]) * (slots * (width // lanes + width % lanes) + _ROW_SLOTS)

    def _slots(self, own: StencilStatement) -> float:
        """Of one vector or element of a statement, in the fuller pipeline."""
        nodes = list(walk(self.program.statement(own.name).value))
        memory = 2 + len({node for node in nodes if isinstance(node, Load)})
        return float(max(memory, sum(isinstance(n, Binary | Unary | Call) for n in nodes)))
