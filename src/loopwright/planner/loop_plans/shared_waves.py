"""Waves over passes for threads: each takes some passes, some rows at a time, a tile apart.

A skewed loop of passes t rolls a wave w over the rows (`transform/skew`), and no instance depends
on a later wave or on a later pass. So tiles of R waves and C passes may run one after the other,
and those of equal w / R + t / C side by side:

    for tiles of waves: parallel for tiles of passes: for w, R waves: for t, C passes: its row

Threads meet once for R rows, and the passes of a tile follow each other as closely as on one
thread. Passes that are shared out one by one meet at every row, and lie further apart.
"""

from __future__ import annotations

from dataclasses import replace

from loopwright.analysis.size_estimates import all_row_bytes
from loopwright.ir.program import Program
from loopwright.ir.schedule_tree import Band, bands, map_bands, nodes_of, wavefront
from loopwright.ir.visit import fresh_name
from loopwright.planner.draft import Draft
from loopwright.transform.loop_marks import Parallel
from loopwright.transform.reschedule import Reschedule, tree_text
from loopwright.transform.skew import Skew
from loopwright.transform.tiling import Tile

__all__ = ["take_shared_waves"]

# Passes of a tile: few, since nobody knows how many passes there are to share out (measured,
# Sapphire Rapids, six programs of 6 to 16 passes on two threads: 1 and 4 are slower than 2).
_PASSES = 2
_BYTES = 64 * 1024  # of rows between two meetings of threads: some microseconds of work
_LEAST_ROWS, _MOST_ROWS = 4, 32


def take_shared_waves(draft: Draft, skew: Skew, passes: int = 0) -> bool:
    """Skew a loop of passes and give tiles of its waves and passes to threads, if legal.

    With `passes` tiles have as many of them, and as many waves.
    """
    waves = passes or _rows(draft.schedule.program)
    passes = passes or _PASSES
    if skew.block < passes:
        return False
    skew = replace(skew, block=skew.block // passes * passes)
    rows = waves * skew.width
    skewed = draft.reach(skew)
    if skewed is None:
        return False
    known = {band.loop: band for band in bands(nodes_of(skewed))}
    (wave,) = (name for name, band in known.items() if _is_around(band, skew.loop))
    tile = Tile((wave, skew.loop), (rows, passes))
    tiled = draft.reach(skew, tile)
    if tiled is None:
        return False
    root = nodes_of(tiled)
    of_waves, of_passes = (band for band in bands(root) if band.loop not in known)
    name = fresh_name(f"{of_waves.loop}_w", {band.loop for band in bands(root)})
    inside = replace(of_waves, child=of_passes.child)
    diagonal = wavefront(of_passes, inside, name, factor=rows // passes)
    changed = map_bands(root, lambda band: diagonal if band.loop == of_waves.loop else band)
    order = Reschedule(tree_text(tiled.tree.get_domain(), changed))
    return draft.take(skew, tile, order, Parallel(of_passes.loop))


def _is_around(band: Band, loop: str) -> bool:
    return isinstance(band.child, Band) and band.child.loop == loop


def _rows(program: Program) -> int:
    """Rows of a wave between two meetings, a multiple of the passes of a tile."""
    fitting = _BYTES // all_row_bytes(program)
    return max(_LEAST_ROWS, min(_MOST_ROWS, fitting)) // _PASSES * _PASSES
