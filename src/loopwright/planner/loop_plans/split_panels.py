"""The panels of factorisations: rows below the diagonal block, columns beside it.

What kernels leave of a strip of the reduction is a narrow panel. Only its diagonal block must run
in order: every row below needs that block and itself, and so does every column beside it.

    for k in strip: for i: for j          the panel
    ->  for k in strip: for i in strip: for j in strip
        parallel for j beyond the strip, in strips of its own: for k in strip: for i in strip
        parallel for i beyond the strip: for k in strip: for j in strip
"""

from __future__ import annotations

from collections.abc import Sequence

from loopwright.ir.schedule_tree import bands, nodes_of, path_to
from loopwright.planner.draft import Draft
from loopwright.transform.index_set_splitting import SplitIndexSet
from loopwright.transform.interchange import Interchange
from loopwright.transform.loop_marks import Parallel, ParallelChunks
from loopwright.transform.tiling import StripMine

__all__ = ["split_panel"]

_PANEL_STRIP = 16  # columns that stay together, as many as two lines hold
_PANEL_PARTS = 2  # that each thread gets of them
_LONG_STRIP = 256  # columns that stay together on one thread: a strip of rows fits into L1


def split_panel(draft: Draft, order: Sequence[str], width: int, shares: int) -> None:
    """Part the far ends of the loops `order`, a strip of the first one, from the panel.

    The strip has `width` iterations; `shares` says how many threads there are. Nothing changes
    where that is not legal.
    """
    around = [band.loop for band in path_to(nodes_of(draft.schedule), order[0])[:-1]]
    for loop in order[1:]:
        before = draft.schedule, list(draft.steps)
        known = set(_names(draft))
        if not around or not draft.take(SplitIndexSet(order[0], loop, around[-1], width)):
            continue
        far = [name for name in _names(draft) if name not in known]
        if not _arrange(draft, far, far[order.index(loop)], shares):
            draft.schedule, draft.steps = before


def _arrange(draft: Draft, far: Sequence[str], own: str, shares: int) -> bool:
    """Bring the loop that was parted, or strips of it, around the others."""
    if own != far[-1]:
        others = (name for name in far if name != own)
        return draft.take(Interchange((own, *others)), *([Parallel(own)] if shares > 1 else []))
    known = set(_names(draft))
    if not draft.take(StripMine(own, _PANEL_STRIP if shares > 1 else _LONG_STRIP)):
        return False
    (strips,) = (name for name in _names(draft) if name not in known)
    dealt = [ParallelChunks(strips, _PANEL_PARTS * shares)] if shares > 1 else []
    return draft.take(Interchange((strips, *far)), *dealt)


def _names(draft: Draft) -> list[str]:
    return [band.loop for band in bands(nodes_of(draft.schedule))]
