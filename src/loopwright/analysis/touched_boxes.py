"""The box of elements that a program touches of an array, its bounds as functions of parameters.

Each access touches a set of elements, exactly. Along a dimension its least and its greatest
subscript are functions of the parameters, wherever the access happens at all; the box of an array
is from the least of the ones to the greatest of the others. A function that another one replaces
wherever it counts is left out: of a[0] and a[1], ..., a[n - 1] the greatest subscript is n - 1,
though the second access does not happen for n = 1.
"""

from __future__ import annotations

from collections.abc import Callable

from loopwright.analysis.dependences import access_map
from loopwright.ir.islkit import isl
from loopwright.ir.program import Program
from loopwright.lazy_dataclass import dataclass

__all__ = ["TouchedSide", "touched_box"]


@dataclass(frozen=True, slots=True)
class TouchedSide:
    """The subscripts of an array along one dimension that a program touches.

    Where nothing is touched, the functions have any values.
    """

    lows: tuple[isl.PwAff, ...]  # [params] -> { [x] }, the least of them is the first subscript
    highs: tuple[isl.PwAff, ...]  # the greatest of them is the last one


def touched_box(program: Program, array: str) -> tuple[TouchedSide, ...] | None:
    """The sides of the box, one for each dimension; None where nothing is touched.

    isl fails where a subscript has no bound.
    """
    parts = _touched(program, array)
    if not parts:
        return None
    return tuple(
        TouchedSide(
            _extremes(parts, at, isl.Set.dim_min, isl.PwAff.le_set),
            _extremes(parts, at, isl.Set.dim_max, isl.PwAff.ge_set),
        )
        for at in range(program.array(array).rank)
    )


def _touched(program: Program, array: str) -> list[isl.Set]:
    """Sets `[params] -> { A[x] }` that together are the elements touched, none of them empty."""
    found: isl.Set | None = None
    for statement in program.statements:
        for access in dict.fromkeys((statement.write, *statement.reads)):
            if access.array == array:
                part = access_map(program, statement, access).range()
                found = part if found is None else found.union(part)
    if found is None:
        return []
    parts = map(isl.Set.from_basic_set, found.coalesce().get_basic_sets())
    return [part for part in parts if not part.is_empty()]


def _extremes(
    parts: list[isl.Set],
    at: int,
    extreme: Callable[[isl.Set, int], isl.PwAff],
    no_less: Callable[[isl.PwAff, isl.PwAff], isl.Set],
) -> tuple[isl.PwAff, ...]:
    """Functions of which one is the extreme of every part along a dimension, or beyond it.

    `no_less` are the parameters for which the first function is at least as extreme.
    """
    kept: dict[str, tuple[isl.PwAff, isl.Set]] = {}  # functions, and where each must be reached
    for part in parts:
        known = part.params()
        function = extreme(part, at).gist(known)
        same = kept.get(str(function))
        kept[str(function)] = (function, known if same is None else known.union(same[1]))
    for name in sorted(kept, key=len, reverse=True):
        function, known = kept[name]
        for other, (replacing, beside) in kept.items():
            if other != name and known.is_subset(no_less(replacing, function)):
                kept[other] = (replacing, beside.union(known))
                del kept[name]
                break
    return tuple(function for function, _ in kept.values())
