"""How a matrix goes through a mesh once while sums of its columns go from core to core: sizes.

Cores in a circle take strips of rows in turn. A core adds up its rows, then it takes the sums of
columns from the core before, part by part, adds its rows to them and hands them on (`hand_on`):

    for c_t: for r_t (a core's, one strip): nests of A[r_t : r_t + r][c_t : c_t + w]
                                            for c_p: sums of columns [c_p : c_p + p], handed on

The order of all sums is that of the source. Vectors of columns stay in the scratchpad from strip to
strip. There are less parts than cores, or all of them would wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from loopwright.ir.mesh_machine import MeshMachine
from loopwright.machines.dma_model import DmaRequest, request_service_cycles
from loopwright.planner.mesh_plans.mesh_pass_sizes import PassSizes, PassWork
from loopwright.planner.mesh_plans.mesh_tiles import box_bytes

__all__ = ["handed_sizes", "may_hand_on"]

_GAP = 4096  # bytes between blocks: any
_LINE = 16  # elements: parts of a row are multiples
_CUTS = (1, 2, 3, 4, 6, 8, 12, 16)  # of a row
_UNKNOWN_COLUMNS = (512, 1024)  # of a block, where nobody knows how many there are
_STRIPS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)  # rows
# Of a row, that are handed on. Of many, a core waits until as many others have their strips.
_PARTS = (1, 2, 4, 8)
_TURN_CYCLES = 60.0  # of a core for a request, its wait and the loops around them
# Of a core: for an element that it takes and hands on, and for a part; a sum along a vector.
_ELEMENT_CYCLES, _PART_CYCLES, _SUM_CYCLES = 1.2, 60.0, 1.0


def may_hand_on(machine: MeshMachine, shape: tuple[int, int]) -> bool:
    """Whether cores stand in a circle, each beside the next one, and pass registers."""
    rows, columns = shape
    is_row = rows == 1 and 1 < columns <= machine.columns
    is_even = rows > 1 and rows % 2 == 0 and columns == machine.columns
    return (is_row or is_even) and not machine.has_remote_access


def handed_sizes(work: PassWork, machine: MeshMachine, cores: int, room: int) -> list[PassSizes]:
    """The best sizes for whole rows and for rows in blocks, the faster ones first."""
    best: dict[bool, PassSizes] = {}
    for width in _widths(work):
        for parts in _PARTS:
            part = -(-ceil((width or work.columns) / parts) // _LINE) * _LINE
            block = -(-width // part) * part if width < work.columns else width
            if work.partial_vectors * ceil((block or work.columns) / part) >= cores:
                continue
            for strip in _STRIPS:
                found = _sizes(work, machine, cores, room, (strip, block, part))
                is_cut = block > 0
                if found is not None and (is_cut not in best or found.cycles < best[is_cut].cycles):
                    best[is_cut] = found
    return sorted(best.values(), key=lambda found: found.cycles)


def _widths(work: PassWork) -> Iterator[int]:
    """Columns of a block to try; 0 for all."""
    if not work.is_known:
        yield from _UNKNOWN_COLUMNS
        return
    yield 0
    for cuts in _CUTS[1:]:
        width = -(-ceil(work.columns / cuts) // _LINE) * _LINE
        if width < work.columns:
            yield width


def _sizes(
    work: PassWork, machine: MeshMachine, cores: int, room: int, sizes: tuple[int, int, int]
) -> PassSizes | None:
    """The time of a pass; None where its boxes do not fit."""
    strip, block, part = sizes
    if strip > work.rows:
        return None
    width, size = block or work.columns, work.element
    handed = work.partial_vectors
    used = len(work.row_vectors) * box_bytes(strip, size, 1)
    used += len(work.column_vectors) * box_bytes(width, size, 1)
    used += handed * box_bytes(part, size, 1)
    used += len(work.matrices) * box_bytes(strip * width, size, 1)
    if used > room:
        return None
    across, strips = ceil(work.columns / width), ceil(work.rows / strip)
    is_one_block = work.is_whole and not block
    box = (1, strip * width * size) if is_one_block else (strip, width * size)
    queue = sum(work.matrices) * _request(machine, *box)
    queue += sum(work.row_vectors) * _request(machine, 1, strip * size)
    requests = sum(work.matrices) + sum(work.row_vectors)
    latency = _TURN_CYCLES + (machine.dma_latency or 0.0)
    parts = handed * ceil(width / part)
    own = strip * width * work.cycles + parts * (part * _ELEMENT_CYCLES + 2 * _PART_CYCLES)
    own += queue + requests * latency
    first = min(cores, strips) * sum(work.column_vectors) * _request(machine, 1, width * size)
    # A core has handed on its last part when as many others are at parts before.
    busy = ceil(strips / cores) * own * cores / (cores - parts)
    fill = min(cores, strips) * (part * (strip * _SUM_CYCLES + _ELEMENT_CYCLES) + _PART_CYCLES)
    # At the end of a block of columns all wait for the last strip.
    end = strip * width * work.cycles + requests * latency
    cycles = across * (max(strips * queue, busy) + first + fill + end)
    return PassSizes(True, strip, block, strip, 1, cycles, part)


def _request(machine: MeshMachine, blocks: int, width: int) -> float:
    return request_service_cycles(machine, DmaRequest(blocks, width, _GAP if blocks > 1 else 0))
