"""What some accesses of the statements in a loop reach in one of its iterations, on one core.

An iteration of a loop of a core is known by the values [v] of the loops around it and of the loop
itself, those that are dealt out to cores included.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from math import gcd
from typing import Any, TypeVar

from loopwright.analysis.dependences import access_map, known_dependences
from loopwright.analysis.footprints import box_sides, instance_values
from loopwright.ir.access_names import NamedAccess, named_accesses
from loopwright.ir.expr import Const
from loopwright.ir.islkit import context, isl, maps_in
from loopwright.ir.loops import Mark
from loopwright.ir.program import Array, Program
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import Band, instances_reaching, nodes_of, path_to, prefix_schedule
from loopwright.ir.visit import fresh_name

__all__ = [
    "accesses_in",
    "are_apart",
    "begins_alike",
    "begins_together",
    "box_around",
    "box_extents",
    "elements_of",
    "has_one_value",
    "kernel_of_loop",
    "largest_extents",
    "loop_values",
    "merged_loop",
    "needs_old_values",
    "of_all_values",
    "read_later",
    "variables_of",
    "whole_rows",
]

T = TypeVar("T")
_IN, _OUT, _SET = isl.dim_type.in_, isl.dim_type.out, isl.dim_type.set


def accesses_in(program: Program, band: Band, array: str) -> tuple[NamedAccess, ...]:
    """The accesses to an array by the statements in a loop."""
    found = (
        one
        for statement in program.statements
        if statement.name in band.statements
        for one in named_accesses(statement)
    )
    return tuple(one for one in found if one.access.array == array)


def variables_of(schedule: Schedule, loop: str) -> tuple[tuple[str, str], ...]:
    """Names for the values of the loops around a loop and of itself, none of them a parameter."""
    taken = set(schedule.program.params)
    found: list[tuple[str, str]] = []
    for band in path_to(nodes_of(schedule), loop):
        found.append((fresh_name(band.loop, taken), band.loop))
        taken.add(found[-1][0])
    return tuple(found)


def kernel_of_loop(schedule: Schedule, loop: str) -> Band | None:
    """The outermost loop around a loop, or itself, that is dealt out to cores."""
    path = path_to(nodes_of(schedule), loop)
    return next((band for band in path if schedule.mark(band.loop) is Mark.THREAD), None)


def _once(schedule: Schedule, key: tuple[object, ...], compute: Callable[[], T]) -> T:
    """`compute()`, or what it was for the same key.

    Planners try a box in several ways, then once more in a tree whose other nests have changed.
    Keys hold texts of isl's objects, so that a result is about any tree that has them.
    """
    known = schedule.analyses.get(_results)
    if key not in known:
        known[key] = compute()
    found: T = known[key]
    return found


def _results(program: Program) -> dict[tuple[object, ...], Any]:
    """What is known of the boxes of a program."""
    return {}


def _texts(tree: isl.Schedule) -> dict[tuple[str, str], str]:
    """Texts of the loops of a tree, and of the instances that reach them."""
    return {}


def _text(schedule: Schedule, band: Band) -> str:
    texts = schedule.tree_results.get(_texts)
    key = ("band", band.loop)
    if key not in texts:
        texts[key] = str(band.partial)
    return texts[key]


def _text_inside(schedule: Schedule, loop: str) -> str:
    """The instances inside of a loop, as text."""
    texts = schedule.tree_results.get(_texts)
    key = ("inside", loop)
    if key not in texts:
        inside = instances_reaching(nodes_of(schedule), loop, schedule.tree.get_domain())
        texts[key] = str(inside)
    return texts[key]


def _key(schedule: Schedule, what: str, loop: str, by: Iterable[Band]) -> tuple[object, ...]:
    return what, _text_inside(schedule, loop), tuple(_text(schedule, band) for band in by)


def _instance_values(schedule: Schedule, loop: str, by: Sequence[Band]) -> isl.UnionMap:
    """`{ S[i] -> [values of the loops `by`] }`, of the instances inside of a loop."""
    key = _key(schedule, "instance values", loop, by)
    return _once(schedule, key, lambda: instance_values(schedule, loop, by))


def loop_values(schedule: Schedule, loop: str) -> isl.Set:
    """`{ [v] }`: the iterations of a loop, by the values of it and of the loops around it."""
    path = path_to(nodes_of(schedule), loop)

    def compute() -> isl.Set:
        values = _instance_values(schedule, loop, path).range()
        return isl.Set.from_union_set(values)

    return _once(schedule, _key(schedule, "values", loop, path), compute)


def merged_loop(schedule: Schedule, loop: str) -> str | None:
    """A loop around a loop, or itself, whose iterations isl may merge when it writes them down.

    Where statements run at every s-th iteration, some of them at others than the rest, isl shifts
    them to the same ones: an iteration of its loop is then several of ours.
    """
    path = path_to(nodes_of(schedule), loop)

    def compute() -> str | None:
        each = [one.range() for one in maps_in(_instance_values(schedule, loop, path))]
        if len(each) < 2:
            return None
        for at, band in enumerate(path):
            values = [one.project_out(_SET, at + 1, len(path) - at - 1) for one in each]
            stride = gcd(*(one.get_stride(at).to_python() for one in values))
            if stride > 1 and not _are_in_step(values, at, stride):
                return band.loop
        return None

    return _once(schedule, _key(schedule, "merged", loop, path), compute)


def _are_in_step(values: Sequence[isl.Set], at: int, stride: int) -> bool:
    """Whether last values are multiples of a stride apart where the others are equal."""
    inside = isl.Set.read_from_str(context(), f"{{ [d] : d mod {stride} = 0 }}")
    first, *others = (isl.Map.from_range(one).move_dims(_IN, 0, _OUT, 0, at) for one in values)
    apart = (first.reverse().apply_range(one).deltas() for one in others)
    return all(one.is_subset(inside) for one in apart)


def begins_together(schedule: Schedule, reached: isl.Set, at: int) -> bool:
    """Whether values of a loop are multiples of its step, whatever the loops around it are.

    `reached` is `{ [v] }`, of which the loop has the entry `at`.
    """

    def compute() -> bool:
        inner = reached.project_out(_SET, at + 1, reached.dim(_SET) - at - 1)
        alone = inner.project_out(_SET, 0, at)
        return bool(inner.get_stride(at).eq(alone.get_stride(0)))

    return _once(schedule, ("together", str(reached), at), compute)


def begins_alike(schedule: Schedule, reached: isl.Set, at: int, dims: tuple[int, ...]) -> bool:
    """Whether the first value of a loop does not depend on those of some loops around it, `dims`.

    `reached` is `{ [v] }`, of which the loop has the entry `at`.
    """

    def compute() -> bool:
        inner = reached.project_out(_SET, at + 1, reached.dim(_SET) - at - 1)
        first = isl.Map.from_range(inner).move_dims(_IN, 0, _OUT, 0, at).lexmin()
        for dim in sorted(dims, reverse=True):
            first = first.project_out(_IN, dim, 1)
        return bool(first.is_single_valued())

    return _once(schedule, ("alike", str(reached), at, dims), compute)


def has_one_value(schedule: Schedule, reached: isl.Set, at: int) -> bool:
    """Whether the loops around a loop say its value: then it may follow the one of each core."""

    def compute() -> bool:
        outer = reached.project_out(_SET, at + 1, reached.dim(_SET) - at - 1)
        value = isl.Map.from_range(outer).move_dims(_IN, 0, _OUT, 0, at)
        return bool(value.is_single_valued())

    return _once(schedule, ("one value", str(reached), at), compute)


def of_all_values(schedule: Schedule, elements: isl.Map, dims: tuple[int, ...]) -> isl.Map:
    """`{ [v] -> A[e] }` with what is reached for any values of some loops, whatever theirs are."""

    def compute() -> isl.Map:
        found = elements
        for at in dims:
            found = found.project_out(_IN, at, 1).insert_dims(_IN, at, 1)
        return found.coalesce()

    return _once(schedule, ("all values", str(elements), dims), compute)


def elements_of(
    schedule: Schedule, loop: str, by: Sequence[Band], accesses: Iterable[NamedAccess]
) -> isl.Map:
    """`{ [values of the loops `by`] -> A[e] }`: what some accesses in a loop reach.

    `accesses` are to one array, and not empty.
    """
    chosen = tuple(accesses)
    names = tuple(one.name for one in chosen)
    key = (*_key(schedule, "elements", loop, by), names)
    return _once(schedule, key, lambda: _elements_of(schedule, loop, by, chosen))


def _elements_of(
    schedule: Schedule, loop: str, by: Sequence[Band], accesses: Sequence[NamedAccess]
) -> isl.Map:
    program = schedule.program
    values = _instance_values(schedule, loop, by)
    found: isl.Map | None = None
    for one in accesses:
        space = program.context.get_space()
        rank = len(one.access.index)
        if found is None:
            ends = (
                space.add_unnamed_tuple_ui(len(by)),
                space.add_unnamed_tuple_ui(rank).set_tuple_name(_SET, one.access.array),
            )
            found = isl.Map.empty(isl.Space.map_from_domain_and_range(*ends))
        reached = access_map(program, program.statement(one.statement), one.access)
        part = values.reverse().apply_range(isl.UnionMap.from_map(reached))
        if not part.is_empty():
            found = found.union(isl.Map.from_union_map(part))
    assert found is not None
    return found.coalesce()


def box_extents(
    schedule: Schedule, elements: isl.Map, variables: Sequence[str]
) -> tuple[int, ...] | None:
    """Constants that no box around `{ [variables] -> A[e] }` exceeds; None where there are none."""

    def compute() -> tuple[int, ...] | None:
        named = elements
        for at, name in enumerate(variables):
            named = named.set_dim_name(_IN, at, name)
        sides = box_sides(named, variables)
        if sides is None:
            return None
        return tuple((extent - 1) * stride + 1 for _, extent, stride in sides)

    return _once(schedule, ("extents", str(elements), tuple(variables)), compute)


def box_around(schedule: Schedule, elements: isl.Map) -> isl.Map:
    """`{ [v] -> A[e] }`: from the least subscript to the largest one, in every dimension."""
    return _once(schedule, ("around", str(elements)), lambda: _box_around(elements))


def _box_around(elements: isl.Map) -> isl.Map:
    box = isl.Map.universe(elements.get_space()).intersect_domain(elements.domain())
    for at in range(elements.dim(_OUT)):
        single = elements.project_out(_OUT, at + 1, elements.dim(_OUT) - at - 1)
        single = single.project_out(_OUT, 0, at).reset_tuple_id(_OUT)
        # Not from the least and to the largest one of each piece: there may be many.
        above = single.apply_range(_compared("<=")).coalesce()
        below = single.apply_range(_compared(">=")).coalesce()
        side = above.intersect(below).coalesce()
        whole = side.insert_dims(_OUT, 0, at).add_dims(_OUT, elements.dim(_OUT) - at - 1)
        box = box.intersect(whole.set_tuple_name(_OUT, elements.get_tuple_name(_OUT)))
    return box.coalesce()


def _compared(sign: str) -> isl.Map:
    from_to = f"{{ [x] -> [y] : x {sign} y }}"
    return isl.Map.read_from_str(context(), from_to)


def whole_rows(box: isl.Map) -> isl.Map:
    """All elements of the rows of a box: equally long rows reach beyond what is accessed."""
    name, last = box.get_tuple_name(_OUT), box.dim(_OUT) - 1
    rows = box.reset_tuple_id(_OUT).project_out(_OUT, last, 1).add_dims(_OUT, 1)
    return rows if name is None else rows.set_tuple_name(_OUT, name)


def largest_extents(elements: isl.Map, array: Array) -> tuple[int, ...] | None:
    """From the least to the largest subscript of `{ [v] -> A[e] }` for one [v], at most.

    Accesses stay inside the array, so that its constant extents are bounds. None where there are
    no others and these do not do.
    """
    found: list[int] = []
    for at, extent in enumerate(array.shape):
        single = elements.project_out(_OUT, at + 1, elements.dim(_OUT) - at - 1)
        single = single.project_out(_OUT, 0, at).reset_tuple_id(_OUT)
        if isinstance(extent, Const):
            inside = f"{{ [e] : 0 <= e < {int(extent.value.real)} }}"
            single = single.intersect_range(isl.Set.read_from_str(context(), inside))
        most = single.reverse().apply_range(single).deltas().dim_max_val(0)
        if not most.is_int():
            return None
        found.append(most.to_python() + 1)
    return tuple(found)


def are_apart(schedule: Schedule, one: isl.Map, other: isl.Map, common: int) -> bool:
    """Whether no two different iterations reach the same element.

    `one` and `other` are `{ [v] -> A[e] }`; pairs of iterations count whose first `common` values
    are equal.
    """

    def is_so(left: isl.Map, right: isl.Map) -> bool:
        # `{ A[e] -> [[v] -> [w]] }`: isl takes long to do without the element where subscripts
        # have remainders, and need not.
        pairs = left.reverse().range_product(right.reverse())
        space = left.get_space().domain()
        different = isl.Map.lex_lt(space).union(isl.Map.lex_gt(space))
        for at in range(common):
            different = different.equate(_IN, at, _OUT, at)
        return bool(pairs.intersect_range(different.wrap()).is_empty())

    def compute() -> bool:
        # Of many pieces there are more pairs; one polyhedron around them often decides.
        hulls = [isl.Map.from_basic_map(each.unshifted_simple_hull()) for each in (one, other)]
        return is_so(*hulls) or is_so(one, other)

    return _once(schedule, ("apart", str(one), str(other), common), compute)


def needs_old_values(schedule: Schedule, loop: str, accesses: Sequence[NamedAccess]) -> bool:
    """Whether some of the accesses reads a value that no write of the same iteration has made."""
    path = path_to(nodes_of(schedule), loop)
    key = (*_key(schedule, "old values", loop, path), tuple(one.name for one in accesses))
    return _once(schedule, key, lambda: _needs_old_values(schedule, loop, accesses))


def _needs_old_values(schedule: Schedule, loop: str, accesses: Sequence[NamedAccess]) -> bool:
    reads = [one for one in accesses if not one.is_write]
    if not reads:
        return False
    writers = {one.statement for one in accesses if one.is_write}
    counts = [sum(other.statement == one.statement for other in reads) for one in reads]
    if not writers or max(counts) > 1:
        return True  # flow does not tell which access of a statement a value goes through
    program = schedule.program
    inside = instances_reaching(nodes_of(schedule), loop, schedule.tree.get_domain())
    readers = _domains(program, {one.statement for one in reads})
    written = _domains(program, writers)
    readers = readers.intersect(inside).intersect_params(program.context)
    flow = schedule.analyses.derive(known_dependences).flow.intersect_domain(written)
    here = flow.eq_at_multi_union_pw_aff(prefix_schedule(schedule.tree, loop))
    return not readers.is_subset(here.range())


def read_later(schedule: Schedule, loop: str, accesses: Sequence[NamedAccess]) -> isl.Set:
    """`{ [v] }`: the iterations of a loop that write what is read behind them.

    Of some accesses to a local array: what nobody reads nobody needs.
    """
    path = path_to(nodes_of(schedule), loop)
    writers = {one.statement for one in accesses if one.is_write}
    inside = instances_reaching(nodes_of(schedule), loop, schedule.tree.get_domain())
    written = _domains(schedule.program, writers).intersect(inside)
    array = next(one.access.array for one in accesses)
    readers = {
        statement.name
        for statement in schedule.program.statements
        if any(access.array == array for access in statement.reads)
    }
    flow = schedule.analyses.derive(known_dependences).flow.intersect_domain(written)
    flow = flow.intersect_range(_domains(schedule.program, readers))
    here = flow.eq_at_multi_union_pw_aff(prefix_schedule(schedule.tree, loop))
    needed = flow.subtract(here).domain().apply(_instance_values(schedule, loop, path))
    if needed.is_empty():
        space = schedule.program.context.get_space().add_unnamed_tuple_ui(len(path))
        return isl.Set.empty(space)
    return isl.Set.from_union_set(needed).coalesce()


def _domains(program: Program, names: Collection[str]) -> isl.UnionSet:
    """The instances of some statements."""
    found = isl.UnionSet.empty(program.context.get_space())
    for statement in program.statements:
        if statement.name in names:
            found = found.union(isl.UnionSet.from_set(statement.domain))
    return found
