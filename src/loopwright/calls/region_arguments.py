"""The arguments of one region in a call: the variables of C in the order of its tree's parameters.

Flat arrays that the tree has as rows are passed as views of their memory with these extents.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from loopwright.diagnostics import UsageError
from loopwright.frontends.c import CRegion, CVariable, VariableKind
from loopwright.ir.expr import Expr
from loopwright.ir.visit import names
from loopwright.planner.contraction_plans.call_shape import value_of
from loopwright.runtime.array_arguments import Array

__all__ = ["RegionArguments"]


class RegionArguments:
    """How a region's arguments follow from the values of variables by their names in C."""

    def __init__(self, region: CRegion) -> None:
        by_tree = {v.tree_name: v for v in region.variables if v.tree_name}
        given = [by_tree[param.name] for param in region.tree.params]
        self.names = tuple(v.name for v in given)
        self._flat = tuple((at, v) for at, v in enumerate(given) if v.rows)
        counted = (VariableKind.INTEGER, VariableKind.ITERATOR)
        self._integers = {t: v.name for t, v in by_tree.items() if v.kind in counted}

    @property
    def are_plain(self) -> bool:
        """Whether arrays are passed as they are given."""
        return not self._flat

    def __call__(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        args = [values[name] for name in self.names]
        if self._flat:
            params = {tree: values[name] for tree, name in self._integers.items()}
            for at, variable in self._flat:
                args[at] = _as_rows(variable, args[at], params)
        return tuple(args)


def _as_rows(variable: CVariable, array: Array, params: Mapping[str, int]) -> Array:
    """A view of a flat array: as many whole rows as it is known to have, or as it holds.

    Elements behind the last whole row are left out: an access of one is refused as outside.
    """
    known = [_number(extent, params) for extent in variable.rows]
    sizes = [size or 0 for size in known[1:]]
    if any(size is not None and size < 0 for size in known):
        told = "".join("[]" if n is None else f"[{n}]" for n in known)
        raise UsageError(f"the rows of argument '{variable.name}' have negative extents", told)
    width = prod(sizes)
    count = known[0] if known[0] is not None else array.shape[0] // width if width else 0
    view: Array = array[: count * width].reshape(count, *sizes)
    return view


def _number(extent: Expr, params: Mapping[str, int]) -> int | None:
    """The value of an extent; None where it is unknown."""
    return value_of(extent, params) if names(extent) <= params.keys() else None
