"""Schedule trees as plain values: read from isl, edited as Python data, written back.

Editing isl's tree in place means walking cursors; a tree of four nouns is edited by construction.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias, assert_never

import islpy as isl

from loopwright.diagnostics import InternalError
from loopwright.ir.islkit import context
from loopwright.ir.islparts import functions_in, nodes_in, pieces_in, sets_in
from loopwright.ir.program import Program

__all__ = [
    "Band",
    "Branch",
    "Leaf",
    "Node",
    "Sequence",
    "bands",
    "chain",
    "directions",
    "followed_name",
    "fresh_name",
    "map_bands",
    "moved_by",
    "read_tree",
    "rename_band",
    "sequence",
    "time_inside",
    "unchanged_loops",
    "unique_names",
    "write_tree",
]


_MOST_TREES = 4

_local = threading.local()


@dataclass(frozen=True, slots=True)
class Leaf:
    """The statement instances that reach this place, one at a time."""


@dataclass(frozen=True, slots=True)
class Band:
    """A loop: the instances that reach it, ordered by one function."""

    loop: str
    partial: isl.MultiUnionPwAff  # loop[{ S[i] -> [(f(i))]; ... }]
    child: Node

    @property
    def statements(self) -> frozenset[str]:
        """Names of the statements inside the loop."""
        return frozenset(part.get_tuple_name() for part in sets_in(self.partial.domain()))


@dataclass(frozen=True, slots=True)
class Branch:
    """One part of a sequence: the instances of `filter`."""

    filter: isl.UnionSet  # { S[i] : ... }
    child: Node


@dataclass(frozen=True, slots=True)
class Sequence:
    """Branches executed one after the other."""

    branches: tuple[Branch, ...]


Node: TypeAlias = Leaf | Band | Sequence


def sequence(branches: Iterable[Branch]) -> Node:
    """A sequence of the branches, with sequences directly inside it laid open."""
    flat: list[Branch] = []
    for branch in branches:
        match branch.child:
            case Sequence(branches=inner):
                flat += [replace(b, filter=b.filter.intersect(branch.filter)) for b in inner]
            case _:
                flat.append(branch)
    return flat[0].child if len(flat) == 1 else Sequence(tuple(flat))


def read_tree(tree: isl.Schedule) -> Node:
    """The nodes below the domain of an isl schedule tree.

    Steps that are tried one after the other read the same tree: the last few are remembered.
    """
    kept: list[tuple[isl.Schedule, Node]] = getattr(_local, "trees", [])
    found = next((node for one, node in kept if one is tree), None)
    if found is None:
        found = _read(tree.get_root().child(0), tree)
        _local.trees = [(tree, found), *kept[: _MOST_TREES - 1]]
    return found


def _read(node: isl.ScheduleNode, tree: isl.Schedule) -> Node:
    kinds = isl.schedule_node_type
    kind = kinds(node.get_type())
    if kind == kinds.leaf:
        return Leaf()
    if kind == kinds.band and node.band_n_member() == 1:
        partial = node.band_get_partial_schedule()
        name = partial.get_tuple_name(isl.dim_type.set)
        if name:
            return Band(name, partial, _read(node.child(0), tree))
    if kind in (kinds.sequence, kinds.set):
        filters = [node.child(k) for k in range(node.n_children())]
        return sequence(Branch(f.filter_get_filter(), _read(f.child(0), tree)) for f in filters)
    expected = "a schedule tree has named bands of one member and sequences only"
    raise InternalError(expected, str(tree))


def unchanged_loops(before: Node, after: Node) -> frozenset[str]:
    """The loops that stand at the same place of two trees, with the same loops inside."""
    found: set[str] = set()

    def is_same(one: Node, other: Node) -> bool:
        match one, other:
            case Leaf(), Leaf():
                return True
            case Band(), Band():
                if one.loop != other.loop or not one.partial.plain_is_equal(other.partial):
                    return False
                if not is_same(one.child, other.child):
                    return False
                found.add(one.loop)
                return True
            case Sequence(branches=left), Sequence(branches=right) if len(left) == len(right):
                pairs = list(zip(left, right, strict=True))
                if not all(a.filter.is_equal(b.filter) for a, b in pairs):
                    return False
                same = [is_same(a.child, b.child) for a, b in pairs]
                return all(same)
        return False

    is_same(before, after)
    return frozenset(found)


def write_tree(domain: isl.UnionSet, node: Node) -> isl.Schedule:
    """The isl schedule tree over `domain`; the inverse of read_tree."""
    root = isl.Schedule.from_domain(domain).get_root()
    return _write(root.child(0), node).get_schedule()


def _write(place: isl.ScheduleNode, node: Node) -> isl.ScheduleNode:
    """`place` with `node` inserted there."""
    match node:
        case Leaf():
            return place
        case Band(partial=partial, child=child):
            return _write(place.insert_partial_schedule(partial).child(0), child).parent()
        case Sequence(branches=branches):
            filters = isl.UnionSetList.alloc(context(), len(branches))
            for branch in branches:
                filters = filters.add(branch.filter)
            place = place.insert_sequence(filters)
            for k, branch in enumerate(branches):
                place = _write(place.child(k).child(0), branch.child).parent().parent()
            return place
        case _:
            assert_never(node)


def bands(node: Node) -> Iterator[Band]:
    """Every band of a tree, parents first, in source order."""
    match node:
        case Leaf():
            return
        case Band(child=child):
            yield node
            yield from bands(child)
        case Sequence(branches=branches):
            for branch in branches:
                yield from bands(branch.child)
        case _:
            assert_never(node)


def chain(band: Band) -> tuple[Band, ...]:
    """`band` and the bands nested perfectly inside it, outermost first."""
    found = [band]
    while isinstance(found[-1].child, Band):
        found.append(found[-1].child)
    return tuple(found)


def map_bands(node: Node, change: Callable[[Band], Node]) -> Node:
    """`node` with every band passed through `change`, parents first.

    The result of `change` is not visited again when it is another node than the one given.
    """
    match node:
        case Leaf():
            return node
        case Band():
            changed = change(node)
            if changed is not node:
                return changed
            child = map_bands(node.child, change)
            return node if child is node.child else replace(node, child=child)
        case Sequence(branches=branches):
            parts = tuple(replace(b, child=map_bands(b.child, change)) for b in branches)
            return sequence(parts)
        case _:
            assert_never(node)


def rename_band(band: Band, loop: str) -> Band:
    """`band` under another name."""
    partial = band.partial.set_tuple_name(isl.dim_type.set, loop)
    return Band(loop, partial, band.child)


def fresh_name(wish: str, taken: Iterable[str]) -> str:
    """`wish`, or `wish_2`, `wish_3`, ... when it is taken."""
    used = set(taken)
    name, count = wish, 1
    while name in used:
        count += 1
        name = f"{wish}_{count}"
    return name


def unique_names(node: Node) -> Node:
    """`node` with every band named once: later loops of the same name become `i_2`, `i_3`, ..."""
    names = [band.loop for band in bands(node)]
    if len(set(names)) == len(names):
        return node
    seen: set[str] = set()

    def change(current: Node) -> Node:
        match current:
            case Leaf():
                return current
            case Band():
                # A name that stands later in the tree unchanged is not given away before.
                wish = current.loop
                name = wish if wish not in seen else fresh_name(wish, seen | set(names))
                seen.add(name)
                return replace(rename_band(current, name), child=change(current.child))
            case Sequence(branches=branches):
                return Sequence(tuple(replace(b, child=change(b.child)) for b in branches))
            case _:
                assert_never(current)

    return change(node)


def time_inside(tree: isl.Schedule, loop: str) -> isl.MultiUnionPwAff:
    """The values of `loop` and of all loops around it: `{ S[i] -> [outer..., loop] }`."""
    return _band_node(tree, loop).child(0).get_prefix_schedule_multi_union_pw_aff()


def _band_node(tree: isl.Schedule, loop: str) -> isl.ScheduleNode:
    found: list[isl.ScheduleNode] = []
    for node in nodes_in(tree):
        if isl.schedule_node_type(node.get_type()) == isl.schedule_node_type.band:
            name = node.band_get_partial_schedule().get_tuple_name(isl.dim_type.set)
            if name == loop:
                found.append(node)
    return found[0]


def directions(band: Band) -> dict[str, tuple[int, int]]:
    """For each statement whose order in the band is plus or minus one iterator: which one.

    Statement name -> (position of the iterator, 1 or -1); other statements are left out.
    """
    found: dict[str, tuple[int, int]] = {}
    for function in functions_in(band.partial.get_union_pw_aff(0)):
        pieces = [piece for _, piece in pieces_in(function)]
        if len(pieces) != 1 or pieces[0].involves_locals():
            continue
        count = function.dim(isl.dim_type.in_)
        factors = [pieces[0].get_coefficient_val(isl.dim_type.in_, k) for k in range(count)]
        used = [(k, f.to_python()) for k, f in enumerate(factors) if not f.is_zero()]
        if len(used) == 1 and used[0][1] in (1, -1):
            found[function.get_tuple_id(isl.dim_type.in_).get_name()] = used[0]
    return found


def moved_by(band: Band, program: Program) -> dict[str, str]:
    """The one iterator of each statement that a loop depends on, if only through blocks of it."""
    found: dict[str, str] = {}
    for function in functions_in(band.partial.get_union_pw_aff(0)):
        name = function.get_tuple_id(isl.dim_type.in_).get_name()
        iterators = program.statement(name).iterators
        used = [
            x for k, x in enumerate(iterators) if function.involves_dims(isl.dim_type.in_, k, 1)
        ]
        if len(used) == 1:
            found[name] = used[0]
    return found


def followed_name(band: Band, program: Program) -> str:
    """The iterator that most statements of a loop follow; `t` where there is none."""
    order = directions(band)
    names = [
        statement.iterators[order[statement.name][0]]
        for statement in program.statements
        if statement.name in order
    ]
    return max(names, key=names.count, default="t")
