"""Which threads of a block use the same array elements: exact sets, classes and witnesses.

With the block coordinates as parameters, the accesses of an array in one block give the relation

    rel = { A[e] -> [t] : thread t of the block accesses A[e] }

An element is private where rel has one value, and may live in a register of that thread. Along an
axis d it is shared where rel has two values that differ in coordinate d:

    shared_d = { A[e] : there are t, t' in rel(A[e]) with t_d < t'_d }

Theorems 1 and 2 of `sharing_conditions` are tried first; what they cannot tell is decided here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from enum import Enum
from functools import reduce

from loopwright.analysis.legality import Instance
from loopwright.analysis.relations import smallest_point
from loopwright.analysis.sharing_conditions import (
    Answer,
    BlockAccess,
    block_accesses,
    has_one_thread,
    is_private,
)
from loopwright.analysis.thread_mapping import ThreadMapping
from loopwright.ir.islkit import isl, isl_integer
from loopwright.ir.loops import Mark
from loopwright.ir.program import Access, Program
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import bands, nodes_of, path_to
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "ElementSharing",
    "SharedElement",
    "Sharing",
    "copies_of_threads",
    "find_sharing",
    "shared_element",
]

_OUT, _PARAM, _SET = isl.dim_type.out, isl.dim_type.param, isl.dim_type.set
_MOST_DIVISIONS = 4  # in a piece of a set whose first point is looked for


class Sharing(Enum):
    """The axes along which threads that use one element differ."""

    PRIVATE = "private"  # none: a register
    ROW = "row-shared"  # x: lanes of a warp; a broadcast, or along a row of cores
    COLUMN = "column-shared"  # y: shared memory used by several warps, or a column of cores
    LAYER = "layer-shared"  # z
    ALL = "all-shared"  # several


_BY_AXES = {(): Sharing.PRIVATE, ("x",): Sharing.ROW, ("y",): Sharing.COLUMN, ("z",): Sharing.LAYER}


@dataclass(frozen=True, slots=True)
class ElementSharing:
    """How the threads of a block share the elements that one access reaches."""

    access: BlockAccess
    axes: tuple[str, ...]  # along which threads differ that use one of them, through any access
    alone: tuple[str, ...]  # the same, through this access only: Theorem 1's question
    shared: isl.Set  # [params, block] -> { A[e] : reached by the access, used by several threads }
    rule: str  # what decided: "Theorem 2", "Remark 2", "private copies" or "exact"

    @property
    def kind(self) -> Sharing:
        return _BY_AXES.get(self.axes, Sharing.ALL)

    @property
    def kind_alone(self) -> Sharing:
        return _BY_AXES.get(self.alone, Sharing.ALL)

    @property
    def guard(self) -> isl.Set:
        """`[params, block] -> { : the block has the access, none of its elements is shared }`."""
        existing = self.access.elements.domain().params()
        return existing if self.is_private else existing.subtract(self.shared.params()).coalesce()

    @property
    def is_private(self) -> bool:
        """Whether every element is used by one thread of its block, in all blocks."""
        return not self.axes


def copies_of_threads(schedule: Schedule) -> dict[str, str]:
    """The arrays of which every thread has copies, by the loop whose iterations have one each.

    Copies of a loop with loops of threads inside belong to a block: its threads share them.
    """
    root = nodes_of(schedule)
    found: dict[str, str] = {}
    for array, loop in schedule.private:
        inside = [inner for band in path_to(root, loop)[-1:] for inner in bands(band.child)]
        if not any(schedule.mark(inner.loop) is Mark.THREAD for inner in inside):
            found[array] = loop
    return found


def find_sharing(
    program: Program,
    mapping: ThreadMapping,
    where: isl.Set | None = None,
    *,
    copied: Collection[str] = (),
    exact_only: bool = False,
) -> tuple[ElementSharing, ...]:
    """The sharing of the elements of every access of a kernel, in the order of block_accesses.

    `where` restricts parameters and block coordinates. Every thread has copies of its own of the
    arrays that are `copied` (`copies_of_threads`). With `exact_only` the conditions are not tried.
    All accesses of an array in the block count, reads and writes alike: of an array that is only
    read, these are its reads. Whoever calls this bounds the work by a quota (ADR 8).
    """
    accesses = block_accesses(program, mapping, where)
    by_array: dict[str, tuple[isl.Set, ...]] = {}
    by_access: dict[tuple[str, Access], ElementSharing] = {}  # a write often has a read like it

    def decide(access: BlockAccess) -> ElementSharing:
        reached = access.elements.range()
        if access.array in copied:
            nothing = isl.Set.empty(reached.get_space())
            return ElementSharing(access, (), (), nothing, "private copies")
        if not exact_only:
            verdict = is_private(access, accesses)
            if verdict.answer is Answer.YES:
                nothing = isl.Set.empty(reached.get_space())
                return ElementSharing(access, (), (), nothing, verdict.rule)
        if access.array not in by_array:
            same = [other for other in accesses if other.array == access.array]
            by_array[access.array] = _shared_by_axis(same)
        axes, shared = _along(by_array[access.array], reached, mapping.axes)
        alone = _alone(access, accesses, axes, mapping.axes, exact_only=exact_only)
        return ElementSharing(access, axes, alone, shared, "exact")

    for access in accesses:
        key = access.statement.name, access.access
        if key not in by_access:
            by_access[key] = decide(access)
    return tuple(replace(by_access[x.statement.name, x.access], access=x) for x in accesses)


def _alone(
    access: BlockAccess,
    accesses: Iterable[BlockAccess],
    axes: tuple[str, ...],
    names: Sequence[str],
    *,
    exact_only: bool,
) -> tuple[str, ...]:
    others = [x for x in accesses if x.array == access.array and x is not access]
    if not axes or not others:
        return axes
    if not exact_only and has_one_thread(access).answer is Answer.YES:
        return ()
    return _along(_shared_by_axis([access]), access.elements.range(), names)[0]


def _shared_by_axis(accesses: Sequence[BlockAccess]) -> tuple[isl.Set, ...]:
    """shared_d for each thread coordinate d, of accesses of one array."""
    users = list({(x.statement.name, x.access): x for x in accesses}.values())
    rel = reduce(
        isl.Map.union, (x.elements.reverse().apply_range(x.threads) for x in users)
    ).coalesce()
    rank = rel.dim(_OUT)
    pairs = rel.flat_range_product(rel)
    return tuple(pairs.order_lt(_OUT, d, _OUT, rank + d).domain().coalesce() for d in range(rank))


def _along(
    by_axis: Sequence[isl.Set], reached: isl.Set, names: Sequence[str]
) -> tuple[tuple[str, ...], isl.Set]:
    """The axes along which elements of a set are shared, and those elements."""
    shared = isl.Set.empty(reached.get_space())
    axes: list[str] = []
    for name, elements in zip(names, by_axis, strict=True):
        inside = elements.intersect(reached)
        if not inside.is_empty():
            axes.append(name)
            shared = shared.union(inside)
    return tuple(axes), shared.coalesce()


# -- witnesses ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SharedElement:
    """An element that two threads of one block use, each in an instance of its own."""

    array: str
    index: tuple[int, ...]
    first: Instance
    first_thread: tuple[int, ...]  # coordinates along the axes of the mapping
    second: Instance
    second_thread: tuple[int, ...]
    values: tuple[tuple[str, int], ...]  # parameters and block coordinates

    def __str__(self) -> str:
        element = f"{self.array}[{', '.join(map(str, self.index))}]"
        uses = ((self.first, self.first_thread), (self.second, self.second_thread))
        said = (f"{who} in thread ({', '.join(map(str, thread))})" for who, thread in uses)
        where = ", ".join(f"{name} = {value}" for name, value in self.values)
        return f"{element}: {' and '.join(said)}" + (f", for {where}" if where else "")


def shared_element(found: ElementSharing, accesses: Iterable[BlockAccess]) -> SharedElement | None:
    """The first shared element that an access reaches, with two of its users; None if private.

    Where subscripts have many divisions, some element: isl's search for the first has no bound.
    The first instance is one of the access itself, the second one of any access of the array.
    """
    if found.is_private:
        return None
    count = found.shared.dim(_PARAM)
    point = smallest_point(found.shared, most_divisions=_MOST_DIVISIONS)
    values, index = point[:count], tuple(value for _, value in point[count:])
    first, thread = next(iter(_users(found.access, values, index, ())))
    for other in accesses:
        if other.array == found.access.array:
            for second, its_thread in _users(other, values, index, thread):
                return SharedElement(other.array, index, first, thread, second, its_thread, values)
    raise AssertionError(f"{found.access.array}{index} has one user only")


def _users(
    access: BlockAccess,
    values: Sequence[tuple[str, int]],
    index: Sequence[int],
    thread: Sequence[int],
) -> list[tuple[Instance, tuple[int, ...]]]:
    """The first instance that accesses an element in another thread than `thread`, with its own."""
    users = access.elements
    for name, value in values:
        at = users.find_dim_by_name(_PARAM, name)
        if at >= 0:
            users = users.fix_val(_PARAM, at, isl_integer(value))
    for at, value in enumerate(index):
        users = users.fix_val(_OUT, at, isl_integer(value))
    threads = access.threads.intersect_domain(users.domain())
    if thread:
        same = isl.Set.universe(threads.range().get_space())
        for at, value in enumerate(thread):
            same = same.fix_val(_SET, at, isl_integer(value))
        threads = threads.intersect_range(same.complement())
    if threads.is_empty():
        return []
    found = [
        value
        for _, value in smallest_point(
            threads.wrap().project_out_all_params(), most_divisions=_MOST_DIVISIONS
        )
    ]
    cut = len(access.statement.iterators)
    statement = access.statement
    return [(Instance(statement.name, tuple(found[:cut]), statement.span), tuple(found[cut:]))]
