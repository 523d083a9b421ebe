"""How a matrix goes through the scratchpads of a mesh in one pass: sizes by the DMA model.

A pass runs nests of two loops that use elements A[r][c] and vectors of r or of c:

    rows     cores take blocks of rows: for r_t (a core's): for c_t: for r_s: nests of one box of A
    columns  cores take blocks of columns: for c_t (a core's): for r_t: for r_s: the same

Boxes of matrices are moved for each r_s, vectors of the loop that cores take for each of its
blocks, others for each tile of the second loop. Rows of a whole matrix lie one behind another, so a
box of them is one block. The queue of requests serves all cores: while some of them compute others
are served, and what a core waits for matters only where its own chain is longer than the queue's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import ceil

from loopwright.ir.mesh_machine import MeshMachine
from loopwright.lazy_dataclass import dataclass
from loopwright.machines.dma_model import DmaRequest, request_service_cycles
from loopwright.planner.mesh_plans.mesh_tiles import box_bytes

__all__ = ["PassSizes", "PassWork", "pass_sizes"]

_GAP = 4096  # bytes between blocks: any
_LINE = 16  # elements: tiles of a part of a row are multiples
_PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64)  # of a row or of a column
_UNKNOWN_ROWS = (32, 64)  # of a block, where nobody knows how many there are
_UNKNOWN_COLUMNS = (256, 512, 1024)
_STRIPS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)  # rows of a box
_TURN_CYCLES = 60.0  # of a core for a request, its wait and the loops around them


@dataclass(frozen=True, slots=True)
class PassWork:
    """What the nests of a pass do; for each array 1: it is brought in or put back, 2: both."""

    rows: int  # of the matrices, at likely sizes
    columns: int
    element: int  # bytes
    matrices: tuple[int, ...]
    row_vectors: tuple[int, ...]
    column_vectors: tuple[int, ...]
    partial_vectors: int  # of sums that blocks of rows gather apart
    cycles: float  # of a core for one element of the matrices, in all nests
    is_known: bool  # whether rows and columns are more than a guess
    is_whole: bool  # whether rows of the matrices lie one behind another


@dataclass(frozen=True, slots=True)
class PassSizes:
    """Loops of a pass: the blocks of each, 0 for a loop that is not cut."""

    is_by_rows: bool
    row_block: int
    column_block: int
    strip: int  # rows of a box
    buffers: int  # of matrices
    cycles: float
    part: int = 0  # columns of the parts of sums that cores hand on; 0: they do not

    @property
    def shape(self) -> tuple[bool, bool]:
        """What legality depends on: the loop that cores take, and whether the other one is cut."""
        other = self.column_block if self.is_by_rows else self.row_block
        return self.is_by_rows, other > 0


def pass_sizes(
    work: PassWork, machine: MeshMachine, cores: int, room: int, by_rows: Iterable[bool]
) -> list[PassSizes]:
    """The best sizes of every shape, the fastest shape first; `by_rows` are those to try."""
    best: dict[tuple[bool, bool], PassSizes] = {}
    for is_by_rows in by_rows:
        for rows, columns in _blocks(work, cores, is_by_rows=is_by_rows):
            for strip in _STRIPS:
                if strip > (rows or work.rows) or (rows and rows % strip):
                    continue
                for buffers in (2, 1):
                    found = _sizes(work, machine, cores, room, (is_by_rows, rows, columns, strip),
                                   buffers)  # fmt: skip
                    if found is None:
                        continue
                    known = best.get(found.shape)
                    if known is None or found.cycles < known.cycles:
                        best[found.shape] = found
    return sorted(best.values(), key=lambda found: found.cycles)


def _blocks(work: PassWork, cores: int, *, is_by_rows: bool) -> Iterator[tuple[int, int]]:
    """Rows and columns of a block to try; 0 for all of the loop that is not dealt out."""
    if is_by_rows:
        least = ceil(work.rows / cores)
        rows = sorted({least, -(-least // 2) * 2, -(-least // 4) * 4, 2 * least})
        columns: Iterable[int] = {_part(work.columns, parts) for parts in _PARTS[1:]}
        columns = sorted(size for size in columns if size < work.columns)
        if not work.is_known:
            rows, columns = list(_UNKNOWN_ROWS), list(_UNKNOWN_COLUMNS)
        for one in rows:
            if work.is_known:
                yield one, 0
            yield from ((one, other) for other in columns)
        return
    columns = sorted({_part(work.columns, parts) for parts in _PARTS})
    rows = sorted({ceil(work.rows / parts) for parts in _PARTS[1:]})
    if not work.is_known:
        rows, columns = [*_UNKNOWN_ROWS, 256], list(_UNKNOWN_COLUMNS)
    for other in columns:
        if work.is_known:
            yield 0, other
        yield from ((one, other) for one in rows)


def _part(extent: int, parts: int) -> int:
    """Elements of one of some parts, a multiple of a line."""
    return -(-ceil(extent / parts) // _LINE) * _LINE


def _sizes(
    work: PassWork,
    machine: MeshMachine,
    cores: int,
    room: int,
    blocks: tuple[bool, int, int, int],
    buffers: int,
) -> PassSizes | None:
    """The time of a pass; None where its boxes do not fit."""
    is_by_rows, rows, columns, strip = blocks
    height, width = rows or work.rows, columns or work.columns
    is_written = max(work.matrices) > 1
    if buffers > 1 and is_written:
        return None
    size = work.element
    vectors = [(height, len(work.row_vectors))]
    vectors.append((width, len(work.column_vectors) + work.partial_vectors))
    used = sum(count * box_bytes(extent, size, 1) for extent, count in vectors)
    used += len(work.matrices) * box_bytes(strip * width, size, buffers)
    if used > room:
        return None
    down, across = ceil(work.rows / height), ceil(work.columns / width)
    strips = ceil(work.rows / strip) * across
    is_one_block = work.is_whole and not columns
    box = (1, strip * width * size) if is_one_block else (strip, width * size)
    queue = strips * sum(work.matrices) * _request(machine, *box)
    tiles = down * across
    row_turns, column_turns = (down, tiles) if is_by_rows else (tiles, across)
    queue += row_turns * sum(work.row_vectors) * _request(machine, 1, height * size)
    queue += column_turns * sum(work.column_vectors) * _request(machine, 1, width * size)
    if work.partial_vectors:
        # They are put once, and brought in by those that add them up.
        part = down * _request(machine, 1, width * size) * across
        block = max(16, min(256, ceil(work.columns / 8)))
        again = ceil(work.columns / block) * _request(machine, down, block * size)
        queue += work.partial_vectors * (part + again)
    turns = ceil((down if is_by_rows else across) / cores)
    active = min(cores, down if is_by_rows else across)
    share = turns * (height * work.columns if is_by_rows else width * work.rows)
    busy = share * work.cycles
    requests = strips * sum(work.matrices) / active
    latency = _TURN_CYCLES + (machine.dma_latency or 0.0) * (buffers == 1)
    own = queue / active if buffers == 1 else 0.0
    return PassSizes(
        is_by_rows, rows, columns, strip, buffers, max(queue, busy + own + requests * latency)
    )


def _request(machine: MeshMachine, blocks: int, width: int) -> float:
    return request_service_cycles(machine, DmaRequest(blocks, width, _GAP if blocks > 1 else 0))
