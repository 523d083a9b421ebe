"""Tiles for nests whose innermost loops walk down columns.

    for j: for i: for k: ... a[i][k] ... b[k][j] ...

A column of b is used again for every i, but takes a line of the cache for each of its elements. In
tiles of i and j neighbouring columns, which lie in the same lines, are used together.
"""

from __future__ import annotations

from loopwright.analysis.size_estimates import average_trips, likely_sizes, references
from loopwright.ir.program import Program
from loopwright.ir.schedule_tree import Band, bands, moved_by, perfect_nest
from loopwright.planner.draft import Draft
from loopwright.transform.schedule_legality import open_bands
from loopwright.transform.tiling import Tile

__all__ = ["tile_columns"]

# Iterations of both loops of a tile; measured on nussinov (N1): 16 x 64, 32 x 32 and 64 x 64 are
# alike, a sixth faster than no tiles.
_TILE = 64
_LEAST = 4 * _TILE  # iterations of loops that are worth tiles


def tile_columns(draft: Draft) -> None:
    """Tile the two outermost loops of every nest that uses columns again and again."""
    program = draft.schedule.program
    covered: set[str] = set()
    for band in list(open_bands(draft.schedule)):
        if band.loop in covered:
            continue
        covered.update(inner.loop for inner in bands(band))
        run = perfect_nest(band)
        if len(run) == 2 and _walks_columns(program, *run):
            draft.take(Tile((run[0].loop, run[1].loop), (_TILE, _TILE)))


def _walks_columns(program: Program, outer: Band, inner: Band) -> bool:
    """Whether a loop inside two others walks down columns.

    They are neighbours for the outer loop, and the same ones for all iterations of the inner one.
    """
    trips = average_trips(program, likely_sizes(program))
    around = moved_by(outer, program), moved_by(inner, program)
    for band in bands(inner.child):
        if any(True for _ in bands(band.child)):
            continue
        for name, walking in moved_by(band, program).items():
            first, second = (found.get(name, "") for found in around)
            if min(trips[name].get(x, 0.0) for x in (first, second)) < _LEAST:
                continue
            for reference in references(program.statement(name)):
                steps = [abs(reference.stride(x)) for x in (walking, first, second)]
                if steps[0] > 1 and steps[1:] == [1, 0]:
                    return True
    return False
