"""The loops inside of a panel: steps that cut tiles into windows and strips, and who uses which.

i_t, j_t, k_t          tiles; panels of A and B come at k_t
k_t_2                  windows of some steps: A is given from core to core here
j_t_3                  strips of columns: B is given here, once for each strip
i, j, k
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import bands, nodes_of, path_to
from loopwright.planner.mesh_plans.mesh_tiles import TileSizes
from loopwright.transform.step import Step
from loopwright.transform.tiling import Tile, TileWithin

__all__ = ["tile_steps", "window_loop"]


def tile_steps(names: tuple[str, ...], found: TileSizes) -> list[Step]:
    """Steps that cut loops into tiles, those of panels into windows, and windows into strips."""
    sizes = dict(found.tiles)
    steps: list[Step] = [Tile(names, tuple(sizes[name] for name in names))]
    for cuts in (found.windows, found.strips):
        inside = {name: min(cuts.get(name, sizes[name]), sizes[name]) for name in names}
        if any(inside[name] < sizes[name] for name in names):
            cut = tuple(inside[name] for name in names)
            around = tuple(sizes[name] for name in names)
            is_even = all(whole % part == 0 for whole, part in zip(around, cut, strict=True))
            steps.append(Tile(names, cut) if is_even else TileWithin(names, cut, around))
            sizes |= inside
    return steps


def window_loop(
    before: Schedule,
    steps: Sequence[Step],
    loop: str,
    strips: Mapping[str, str],
    moving: Collection[str | None],
) -> str:
    """The innermost loop in `loop` that cuts a box; the loop itself where none does.

    `strips` are the outermost loops of tiles, by the loops that they are of, and `moving` those of
    them that move the box.
    """
    inside = [
        band.loop
        for band in bands(nodes_of(before))
        if band.loop != loop and loop in {b.loop for b in path_to(nodes_of(before), band.loop)}
    ]
    found = loop
    for name, strip in strips.items():
        if strip not in moving:
            continue
        cuts = [step for step in steps if isinstance(step, Tile | TileWithin)]
        sizes = [step.sizes[step.loops.index(name)] for step in cuts if name in step.loops]
        levels = [each for each in inside if each.startswith(f"{strip}_")]
        for inner, (outer_size, size) in zip(levels, pairwise(sizes), strict=False):
            is_deeper = found == loop or inside.index(inner) > inside.index(found)
            if size < outer_size and is_deeper:
                found = inner
    return found
