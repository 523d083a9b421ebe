"""What an isl object consists of, as Python lists: the only place that hands a function to isl.

Python handles a signal between two instructions of Python, and Ctrl-C raises from there. islpy
prints and ignores what a function called by isl raises, and frees the arguments twice that isl only
lent. So isl gets none but methods of list and dict, which run no instruction of Python, or no
function at all: trees are walked from here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, overload

import islpy as isl

__all__ = [
    "functions_in",
    "map_nodes",
    "maps_in",
    "nodes_in",
    "pieces_in",
    "points_in",
    "sets_in",
]


def sets_in(union: isl.UnionSet) -> list[isl.Set]:
    """The sets of a union set, one per space."""
    found: list[isl.Set] = []
    union.foreach_set(found.append)
    return found


def maps_in(union: isl.UnionMap) -> list[isl.Map]:
    """The maps of a union map, one per pair of spaces."""
    found: list[isl.Map] = []
    union.foreach_map(found.append)
    return found


def functions_in(union: isl.UnionPwAff) -> list[isl.PwAff]:
    """The functions of a union, one per space."""
    found: list[isl.PwAff] = []
    union.foreach_pw_aff(found.append)
    return found


def points_in(finite: isl.Set) -> list[isl.Point]:
    """The points of a set without parameters that has finitely many."""
    found: list[isl.Point] = []
    finite.foreach_point(found.append)
    return found


@overload
def pieces_in(function: isl.PwAff) -> list[tuple[isl.Set, isl.Aff]]: ...
@overload
def pieces_in(function: isl.PwMultiAff) -> list[tuple[isl.Set, isl.MultiAff]]: ...
def pieces_in(function: isl.PwAff | isl.PwMultiAff) -> list[tuple[isl.Set, Any]]:
    """The pieces of a function, each with the points where it holds."""
    found: dict[isl.Set, Any] = {}  # no two pieces hold at the same points
    function.foreach_piece(found.__setitem__)
    return list(found.items())


def nodes_in(tree: isl.Schedule | isl.ScheduleNode) -> Iterator[isl.ScheduleNode]:
    """A node, or the root of a tree, and all nodes below it; parents first, in order."""
    waiting = [tree.get_root() if isinstance(tree, isl.Schedule) else tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += (node.child(k) for k in reversed(range(node.n_children())))


def map_nodes(
    tree: isl.Schedule, change: Callable[[isl.ScheduleNode], isl.ScheduleNode]
) -> isl.Schedule:
    """`tree` with every node passed through `change`, children first."""

    def changed(node: isl.ScheduleNode) -> isl.ScheduleNode:
        for k in range(node.n_children()):
            node = changed(node.child(k)).parent()
        return change(node)

    return changed(tree.get_root()).get_schedule()
