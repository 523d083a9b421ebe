"""Loops that carry a dependence over a distance that only a call knows: vectors where it is long.

    for c: for s in [c, n): t[s] = t[s] + t[s - c]
    ->  for c: if c >= D: for s_t in [c, n) step D: simd for s in the strip: t[s] = t[s] + t[s - c]
               else: for s in [c, n): t[s] = t[s] + t[s - c]

Where iterations depend on such as are D or more apart, D of them that follow each other are
independent. Partitions, change in coins, knapsacks, combs of filters and shifted sums of an array
with itself have such loops. LLVM keeps their order; gcc asks for the distance by itself.
"""

from __future__ import annotations

from loopwright.analysis.size_estimates import band_trips, likely_trips
from loopwright.ir.loops import Mark
from loopwright.ir.program import Program
from loopwright.ir.schedule_tree import Band, bands, moved_by, nodes_of, path_to
from loopwright.ir.visit import names
from loopwright.planner.draft import Draft
from loopwright.planner.loop_plans.pivots import expanded_scalars
from loopwright.transform.distance_splitting import SplitByDistance, has_far_and_near_runs
from loopwright.transform.loop_marks import Simd
from loopwright.transform.schedule_legality import open_bands

__all__ = ["split_by_distances"]

_LEAST = 64  # iterations of a loop that is worth a second version
# Iterations of a strip: two vectors of 512 bits or eight of 128, of 4-byte numbers. Strips of 16
# and 64 are as fast (measured, AVX-512); shorter distances have no vectors.
_STRIP = 32


def split_by_distances(draft: Draft) -> frozenset[str]:
    """Give innermost loops strips of vectors where distances are long; their statements."""
    done: set[str] = set()
    program = draft.schedule.program
    trips = draft.schedule.analyses.get(likely_trips)
    for band in list(open_bands(draft.schedule)):
        path = path_to(nodes_of(draft.schedule), band.loop)
        is_open = all(draft.schedule.mark(one.loop) is Mark.SERIAL for one in path)
        is_long = band_trips(band, program, trips) >= _LEAST
        if any(bands(band.child)) or not is_open or not is_long or _stays(program, band):
            continue
        # Most loops have no such distance, which subscripts tell without a dependence.
        if not has_far_and_near_runs(draft.schedule, band.loop, _STRIP):
            continue
        if draft.reach(*draft.copies(band), Simd(band.loop)) is not None:
            continue
        steps = *expanded_scalars(draft, band, (band,)), SplitByDistance(band.loop, _STRIP)
        if draft.reach(*steps, Simd(band.loop)) is not None and draft.take(*steps):
            done |= band.statements
    return frozenset(done)


def _stays(program: Program, band: Band) -> bool:
    """Whether all iterations of a loop write one element: neighbours depend on each other."""
    moving = moved_by(band, program)
    writes = {name: program.statement(name).write for name in band.statements}
    return any(
        write.index and name in moving and not any(moving[name] in names(x) for x in write.index)
        for name, write in writes.items()
    )
