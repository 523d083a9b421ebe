"""Boxes that cores in a circle hand on: who brings them in, takes, sends and puts them back."""

from __future__ import annotations

from loopwright.diagnostics import InternalError, UsageError
from loopwright.ir.expr import Binary, Const, Expr, Var
from loopwright.ir.islkit import isl
from loopwright.ir.loops import Copy, If, MeshMessage, Stmt
from loopwright.ir.schedule import Schedule, StagedBox
from loopwright.lower.mesh_nests.box_bounds import bound_of

__all__ = ["is_at_end", "require_handed_on", "require_in_turn", "taken_or_sent"]

_PARAM, _SET = isl.dim_type.param, isl.dim_type.set


def require_handed_on(schedule: Schedule) -> None:
    """Raise UsageError where a vector that cores hand on has no boxes for it."""
    have = {(box.array, box.loop, box.handed_on) for box in schedule.boxes}
    for array, loop, mapped in schedule.handed_on:
        if (array, loop, mapped) not in have:
            raise UsageError(
                f"'{array}' is handed on along '{mapped}', and has no boxes",
                hint=f"stage_box(array='{array}', loop='{loop}')",
            )


def require_in_turn(schedule: Schedule, loop: str, step: Expr) -> None:
    """Raise InternalError unless neighbours of a loop that hand boxes on follow each other."""
    for box in schedule.boxes:
        if box.handed_on == loop:
            at = [name for _, name in box.variables].index(loop)
            stride = box.reached.get_stride(at).to_python()
            if step != Const(max(1, stride)):
                raise InternalError(f"loop '{loop}' has other steps than {stride}", str(step))


def is_at_end(staged: StagedBox) -> tuple[Expr, Expr]:
    """Whether an iteration of the mapped loop is the first one, and the last one.

    Over the names of the variables of the box.
    """
    at = [loop for _, loop in staged.variables].index(staged.handed_on)
    reached = staged.reached
    for k, (name, _) in enumerate(staged.variables):
        reached = reached.set_dim_name(_SET, k, name)
    reached = reached.project_out(_SET, at + 1, reached.dim(_SET) - at - 1)
    known = reached.move_dims(_PARAM, reached.dim(_PARAM), _SET, 0, at).coalesce()
    own = Var(staged.variables[at][0])
    ends = (bound_of(end, known.params()) for end in (known.dim_min(0), known.dim_max(0)))
    first, last = (Binary("eq", own, end) for end in ends)
    return first, last


def taken_or_sent(copy: Copy, box: str, is_end: Expr, mesh: tuple[int, int]) -> Stmt:
    """A copy to or from a box at one end of the circle's iterations, elsewhere a message."""
    is_sent = copy.source == box
    start = copy.source_start if is_sent else copy.target_start
    return If(is_end, copy, MeshMessage(box, start, copy.shape[-1:], mesh, is_sent=is_sent))
