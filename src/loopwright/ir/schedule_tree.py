"""Schedule trees: isl's own, and as plain values that are edited by construction.

    Sequence    filters executed one after the other
    Filter      the statement instances that its subtree executes
    Band        a loop: a function of the instances that reach it; we use bands of one member
    Leaf        the statement instances that reach it, one at a time

`read_tree` and `write_tree` convert between isl's trees and values of these four types. The second
half of the module answers what is asked of isl's tree itself: its bands, their names, the bands
around one, its text. This is the only place that reads the name of a band.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias, assert_never

from loopwright.diagnostics import InternalError, UsageError
from loopwright.ir.islkit import (
    context,
    functions_in,
    inside,
    isl,
    isl_integer,
    nodes_in,
    pieces_in,
    sets_in,
)
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.ir.visit import fresh_name
from loopwright.lazy_dataclass import dataclass
from loopwright.memo import computed_once

__all__ = [
    "Band",
    "Filter",
    "Leaf",
    "Node",
    "Sequence",
    "band_name",
    "band_node",
    "band_nodes",
    "bands",
    "bands_around",
    "directions",
    "followed_name",
    "fused",
    "in_sequence",
    "instances_reaching",
    "is_band",
    "loop_names",
    "map_bands",
    "moved_by",
    "nodes_of",
    "path_to",
    "perfect_nest",
    "prefix_schedule",
    "read_tree",
    "rename_band",
    "renamed",
    "restricted",
    "reversed_band",
    "sequence",
    "split_nest",
    "statements_in",
    "tree_lines",
    "unchanged_loops",
    "unique_names",
    "universe_of",
    "wavefront",
    "without_loop",
    "write_tree",
]

_Kind = isl.schedule_node_type


@dataclass(frozen=True, slots=True)
class Leaf:
    """The statement instances that reach this place, one at a time."""


@dataclass(frozen=True)
class Band:
    """A loop: the instances that reach it, ordered by one function."""

    loop: str
    partial: isl.MultiUnionPwAff  # loop[{ S[i] -> [(f(i))]; ... }]
    child: Node

    @computed_once
    def statements(self) -> frozenset[str]:
        """Names of the statements inside the loop."""
        return statements_in(self.partial.domain())

    @computed_once
    def directions(self) -> Mapping[str, tuple[int, int]]:
        """For each statement whose order in the band is plus or minus one iterator: which one.

        Statement name -> (position of the iterator, 1 or -1); other statements are left out.
        """
        found: dict[str, tuple[int, int]] = {}
        for function in functions_in(self.partial.get_union_pw_aff(0)):
            pieces = [piece for _, piece in pieces_in(function)]
            if len(pieces) != 1 or pieces[0].involves_locals():
                continue
            count = function.dim(isl.dim_type.in_)
            factors = [pieces[0].get_coefficient_val(isl.dim_type.in_, k) for k in range(count)]
            used = [(k, f.to_python()) for k, f in enumerate(factors) if not f.is_zero()]
            if len(used) == 1 and used[0][1] in (1, -1):
                found[function.get_tuple_id(isl.dim_type.in_).get_name()] = used[0]
        return found


@dataclass(frozen=True, slots=True)
class Filter:
    """One part of a sequence: the subtree of some statement instances."""

    instances: isl.UnionSet  # { S[i] : ... }
    child: Node


@dataclass(frozen=True, slots=True)
class Sequence:
    """Filters executed one after the other."""

    filters: tuple[Filter, ...]


Node: TypeAlias = Leaf | Band | Sequence


def sequence(filters: Iterable[Filter]) -> Node:
    """A sequence of filters; sequences directly inside it are flattened."""
    flat: list[Filter] = []
    for branch in filters:
        match branch.child:
            case Sequence(filters=inner):
                flat += [
                    replace(b, instances=b.instances.intersect(branch.instances)) for b in inner
                ]
            case _:
                flat.append(branch)
    return flat[0].child if len(flat) == 1 else Sequence(tuple(flat))


def read_tree(tree: isl.Schedule) -> Node:
    """The nodes below the domain of an isl schedule tree."""
    return _read(tree.get_root().child(0), tree)


def nodes_of(schedule: Schedule) -> Node:
    """The nodes below the domain of a schedule's tree, read once for each tree."""
    return schedule.tree_results.get(read_tree)


def _read(node: isl.ScheduleNode, tree: isl.Schedule) -> Node:
    kind = _Kind(node.get_type())
    if kind == _Kind.leaf:
        return Leaf()
    if (name := band_name(node)) and node.band_n_member() == 1:
        return Band(name, node.band_get_partial_schedule(), _read(node.child(0), tree))
    if kind in (_Kind.sequence, _Kind.set):
        filters = [node.child(k) for k in range(node.n_children())]
        return sequence(Filter(f.filter_get_filter(), _read(f.child(0), tree)) for f in filters)
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
            case Sequence(filters=left), Sequence(filters=right) if len(left) == len(right):
                pairs = list(zip(left, right, strict=True))
                if not all(a.instances.is_equal(b.instances) for a, b in pairs):
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
        case Sequence(filters=filters):
            chosen = isl.UnionSetList.alloc(context(), len(filters))
            for branch in filters:
                chosen = chosen.add(branch.instances)
            place = place.insert_sequence(chosen)
            for k, branch in enumerate(filters):
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
        case Sequence(filters=filters):
            for branch in filters:
                yield from bands(branch.child)
        case _:
            assert_never(node)


def path_to(node: Node, loop: str) -> tuple[Band, ...]:
    """The bands from the root to the band `loop`, itself included; empty if there is none."""
    match node:
        case Leaf():
            return ()
        case Band(child=child):
            inner = path_to(child, loop)
            return (node, *inner) if inner or node.loop == loop else ()
        case Sequence(filters=filters):
            paths = (path_to(part.child, loop) for part in filters)
            return next((path for path in paths if path), ())
        case _:
            assert_never(node)


def instances_reaching(node: Node, loop: str, instances: isl.UnionSet) -> isl.UnionSet:
    """Those of `instances`, which reach `node`, that reach the band `loop`."""
    match node:
        case Leaf():
            return isl.UnionSet.empty(instances.get_space())
        case Band(child=child):
            return instances if node.loop == loop else instances_reaching(child, loop, instances)
        case Sequence(filters=filters):
            for part in filters:
                if path_to(part.child, loop):
                    chosen = instances.intersect(part.instances)
                    return instances_reaching(part.child, loop, chosen)
            return isl.UnionSet.empty(instances.get_space())
        case _:
            assert_never(node)


def perfect_nest(band: Band) -> tuple[Band, ...]:
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
        case Sequence(filters=filters):
            parts = tuple(replace(b, child=map_bands(b.child, change)) for b in filters)
            return sequence(parts)
        case _:
            assert_never(node)


def rename_band(band: Band, loop: str) -> Band:
    """`band` under another name."""
    partial = band.partial.set_tuple_name(isl.dim_type.set, loop)
    return Band(loop, partial, band.child)


def reversed_band(band: Band) -> Band:
    """`band` with its iterations from the last to the first."""
    return replace(band, partial=band.partial.neg())


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
            case Sequence(filters=filters):
                return Sequence(tuple(replace(b, child=change(b.child)) for b in filters))
            case _:
                assert_never(current)

    return change(node)


def statements_in(instances: isl.UnionSet) -> frozenset[str]:
    """The names of the statements that have instances in a set."""
    return frozenset(part.get_tuple_name() for part in sets_in(instances))


def in_sequence(program: Program, parts: Iterable[tuple[Collection[str], Node]]) -> Node:
    """The parts one after the other, each with the statements it is made of."""
    return sequence(Filter(universe_of(program, names), node) for names, node in parts)


def universe_of(program: Program, names: Collection[str]) -> isl.UnionSet:
    """All instances of some statements, inside their domains or not."""
    found = isl.UnionSet.empty(program.context.get_space())
    for statement in program.statements:
        if statement.name in names:
            whole = isl.Set.universe(statement.domain.get_space())
            found = found.union(isl.UnionSet.from_set(whole))
    return found


def restricted(node: Node, names: Collection[str]) -> Node:
    """`node` restricted to some of its statements."""
    match node:
        case Leaf():
            return node
        case Band(loop=loop, partial=partial, child=child):
            kept = _universe_of(partial.domain(), names)
            return Band(loop, partial.intersect_domain(kept), restricted(child, names))
        case Sequence(filters=filters):
            parts = []
            for branch in filters:
                kept = _universe_of(branch.instances, names)
                if not kept.is_empty():
                    inside = branch.instances.intersect(kept)
                    parts.append(Filter(inside, restricted(branch.child, names)))
            return sequence(parts) if parts else Leaf()
        case _:
            assert_never(node)


def _universe_of(instances: isl.UnionSet, names: Collection[str]) -> isl.UnionSet:
    """The universe of the spaces of those statements of `names` that have instances here."""
    kept = isl.UnionSet.empty(instances.get_space())
    for part in sets_in(instances):
        if part.get_tuple_name() in names:
            kept = kept.union(isl.UnionSet.from_set(isl.Set.universe(part.get_space())))
    return kept


def without_loop(node: Node, loop: str) -> Node:
    """`node` without the band `loop`, its child in its place."""
    match node:
        case Leaf():
            return node
        case Band(child=child):
            if node.loop == loop:
                return child
            return replace(node, child=without_loop(child, loop))
        case Sequence(filters=filters):
            return sequence(replace(b, child=without_loop(b.child, loop)) for b in filters)
        case _:
            assert_never(node)


def split_nest(
    root: Node, nest: Band, first: isl.UnionSet, second: isl.UnionSet, *, new_names: int = 1
) -> Node:
    """`root` with a nest executed for the instances of `first`, then for those of `second`.

    The loops of the copy with number `new_names` (0 or 1) get new names.
    """
    taken = {band.loop for band in bands(root)}
    new: dict[str, str] = {}
    for loop in (band.loop for band in bands(nest)):
        new[loop] = fresh_name(loop, taken)
        taken.add(new[loop])
    parts = []
    for number, instances in enumerate((first, second)):
        part = restricted(nest, statements_in(instances))
        parts.append(Filter(instances, renamed(part, new) if number == new_names else part))
    apart = Sequence(tuple(parts))
    return map_bands(root, lambda band: apart if band.loop == nest.loop else band)


def renamed(node: Node, names: Mapping[str, str]) -> Node:
    """`node` with loops renamed by a mapping from old to new names."""
    match node:
        case Leaf():
            return node
        case Band(loop=loop):
            inner = replace(node, child=renamed(node.child, names))
            return rename_band(inner, names.get(loop, loop))
        case Sequence(filters=filters):
            return Sequence(tuple(replace(b, child=renamed(b.child, names)) for b in filters))
        case _:
            assert_never(node)


def fused(first: Band, second: Band, body: Node) -> Band:
    """One loop over the iterations of two, with the given body and the name of the first."""
    other = second.partial.set_tuple_name(isl.dim_type.set, first.loop)
    return Band(first.loop, first.partial.union_add(other), body)


def wavefront(first: Band, second: Band, name: str, factor: int = 1) -> Band:
    """The wavefronts of two perfectly nested loops: points of equal `factor * first + second`.

    Within a wavefront the value of the first loop determines the value of the second. The factor is
    how many times as far the second loop moves in an iteration.
    """
    plain = [band.partial.set_tuple_name(isl.dim_type.set, name) for band in (first, second)]
    wider = plain[0].scale_val(isl_integer(factor))
    return Band(name, wider.add(plain[1]), replace(first, child=second.child))


def directions(band: Band) -> Mapping[str, tuple[int, int]]:
    """The iterator that each statement follows in a band, see `Band.directions`."""
    return band.directions


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


# -- isl's tree itself ----------------------------------------------------------------------------


def is_band(node: isl.ScheduleNode) -> bool:
    """Whether a node of isl's tree is a band."""
    return _Kind(node.get_type()) == _Kind.band


def band_name(node: isl.ScheduleNode) -> str:
    """The name of a band, that of its loop; "" for a band without one and for other nodes."""
    if not is_band(node):
        return ""
    return node.band_get_space().get_tuple_name(isl.dim_type.set) or ""


def band_nodes(tree: isl.Schedule | isl.ScheduleNode) -> Iterator[isl.ScheduleNode]:
    """Every band of a tree or subtree, parents first, in source order."""
    return filter(is_band, nodes_in(tree))


def loop_names(tree: isl.Schedule) -> tuple[str, ...]:
    """The names of all bands, parents first, in source order."""
    return tuple(map(band_name, band_nodes(tree)))


def band_node(tree: isl.Schedule, loop: str) -> isl.ScheduleNode:
    """The band called `loop`."""
    found = next((node for node in band_nodes(tree) if band_name(node) == loop), None)
    if found is None:
        names = ", ".join(loop_names(tree))
        raise UsageError("no such loop in the schedule", found=loop, hint=names)
    return found


def bands_around(node: isl.ScheduleNode) -> Iterator[isl.ScheduleNode]:
    """The bands on the path from a node, itself excluded, to the root: innermost first."""
    while node.has_parent():
        node = node.parent()
        if is_band(node):
            yield node


def prefix_schedule(tree: isl.Schedule, loop: str) -> isl.MultiUnionPwAff:
    """The values of `loop` and of all loops around it: `{ S[i] -> [outer..., loop] }`."""
    return band_node(tree, loop).child(0).get_prefix_schedule_multi_union_pw_aff()


def tree_lines(tree: isl.Schedule, marks: Mapping[str, str]) -> Iterator[str]:
    """The schedule tree, one line per node below the domain, indented by four columns per level.

    `marks` gives the word to print before the band of that name.
    """
    yield from _node_lines(tree.get_root().child(0), marks, "")


def _node_lines(node: isl.ScheduleNode, marks: Mapping[str, str], margin: str) -> Iterator[str]:
    kind = _Kind(node.get_type())
    if kind == _Kind.leaf:
        return
    inner = margin + "    "
    if kind == _Kind.band:
        name = band_name(node)
        head = f"{marks[name]} for" if name in marks else "for"
        yield f"{margin}{head} {name}: {_band_text(node)}"
    elif kind == _Kind.filter:
        end = "" if _Kind(node.child(0).get_type()) == _Kind.leaf else ":"
        yield f"{margin}{_filter_text(node.filter_get_filter())}{end}"
    elif kind in (_Kind.sequence, _Kind.set):
        yield f"{margin}{'in order' if kind == _Kind.sequence else 'in any order'}:"
    elif kind == _Kind.mark:
        yield f"{margin}mark {node.mark_get_id().get_name()}:"
    else:
        yield f"{margin}{kind.name}:"
    for at in range(node.n_children()):
        yield from _node_lines(node.child(at), marks, inner)


def _band_text(node: isl.ScheduleNode) -> str:
    partial = node.band_get_partial_schedule()
    members = [partial.get_union_pw_aff(at) for at in range(node.band_n_member())]
    return "; ".join(sorted(inside(piece) for member in members for piece in functions_in(member)))


def _filter_text(chosen: isl.UnionSet) -> str:
    return "; ".join(sorted(inside(piece) for piece in sets_in(chosen)))
