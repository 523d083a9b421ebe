"""What loops of a schedule run through: iterators one by one, tiles of them, or sums of several."""

from __future__ import annotations

from collections.abc import Collection

from loopwright.ir.islkit import functions_in, isl, pieces_in
from loopwright.ir.schedule_tree import Band
from loopwright.lazy_dataclass import dataclass

__all__ = ["LoopStep", "element_distance", "loop_steps"]

_APART = 1 << 13  # elements from row to row of an operand


@dataclass(frozen=True, slots=True)
class LoopStep:
    """What a loop runs through, of one statement."""

    positions: tuple[int, ...]  # of the iterators that its order depends on
    size: int  # points of an iteration: a loop over tiles is a function of floor(i / T)
    factors: tuple[int, ...]  # of these iterators, in the sum that is cut into tiles


def loop_steps(band: Band) -> dict[str, LoopStep]:
    """What a loop runs through, by statement."""
    found: dict[str, LoopStep] = {}
    for function in functions_in(band.partial.get_union_pw_aff(0)):
        count = function.dim(isl.dim_type.in_)
        used = tuple(k for k in range(count) if function.involves_dims(isl.dim_type.in_, k, 1))
        size = 1
        factors = dict.fromkeys(used, 1)
        for _, piece in pieces_in(function):
            if len(used) > 1:
                factors |= _factors(piece, used)
            for k in range(piece.dim(isl.dim_type.div)):
                div = piece.get_div(k)
                divisor = div.get_denominator_val()
                if divisor.is_int():
                    size = max(size, divisor.to_python())
                if len(used) > 1:
                    factors |= _factors(div.scale_val(divisor), used)
        name = function.get_tuple_id(isl.dim_type.in_).get_name()
        found[name] = LoopStep(used, size, tuple(factors.values()))
    return found


def _factors(aff: isl.Aff, used: tuple[int, ...]) -> dict[int, int]:
    """The coefficients of a sum that are integers and not 0, by position."""
    values = {k: aff.get_coefficient_val(isl.dim_type.in_, k) for k in used}
    return {k: v.to_python() for k, v in values.items() if v.is_int() and not v.is_zero()}


def element_distance(steps: Collection[int]) -> int:
    """Elements from one iteration to the next, in an array stored row by row."""
    total = 0
    for step in steps:
        total = total * _APART + step
    return total
