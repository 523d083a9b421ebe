"""Marks for loops in their final order: independent iterations, elements in registers."""

from __future__ import annotations

from loopwright.analysis.size_estimates import references
from loopwright.ir.loops import Mark
from loopwright.ir.schedule_tree import Band, bands, directions, nodes_of, path_to
from loopwright.planner.draft import Draft
from loopwright.transform.loop_marks import Simd
from loopwright.transform.register_promotion import PromoteToRegisters
from loopwright.transform.schedule_legality import open_bands

__all__ = ["mark_simd", "promote_to_registers"]


def mark_simd(draft: Draft) -> None:
    """Mark every innermost loop whose iterations are independent."""
    for band in list(open_bands(draft.schedule)):
        if _is_innermost(draft, band):
            draft.take(*draft.copies(band), Simd(band.loop))


def promote_to_registers(draft: Draft) -> None:
    """Promote to registers the elements that statements of innermost loops access alone."""
    for band in list(open_bands(draft.schedule)):
        is_first_copy = _is_unrolled(draft, band) and not _is_unrolled(draft, _around(draft, band))
        if is_first_copy or _is_innermost(draft, band):
            for statement in sorted(band.statements):
                if _has_still(draft, band, statement):
                    draft.take(PromoteToRegisters(statement, band.loop))


def _has_still(draft: Draft, band: Band, name: str) -> bool:
    """Whether a statement touches elements again that backends cannot keep without our proof.

    Those it writes in several iterations, and those of arrays that are written in the loop.
    """
    program = draft.schedule.program
    written = {program.statement(other).write.array for other in band.statements}
    loops = [band, *(b for b in bands(band.child) if _is_unrolled(draft, b))]
    moving = [directions(loop).get(name) for loop in loops]
    iterators = program.statement(name).iterators
    for reference in references(program.statement(name)):
        if reference.array in written:
            strides = [reference.stride(iterators[at[0]]) for at in moving if at is not None]
            if 0 in strides or len(strides) < len(loops):
                return True
    return False


def _is_unrolled(draft: Draft, band: Band | None) -> bool:
    return band is not None and draft.schedule.mark(band.loop) is Mark.UNROLL


def _is_innermost(draft: Draft, band: Band) -> bool:
    """Whether a loop holds no loops but unrolled ones."""
    inner = bands(band.child)
    return not _is_unrolled(draft, band) and all(_is_unrolled(draft, other) for other in inner)


def _around(draft: Draft, band: Band) -> Band | None:
    """The loop that stands directly around another one."""
    path = path_to(nodes_of(draft.schedule), band.loop)
    return path[-2] if len(path) > 1 else None
