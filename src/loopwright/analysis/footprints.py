"""The elements of an array that one iteration of a loop accesses in one block of threads.

With the loops around it that are not mapped to threads, the values of a loop L are a point [v]. One
iteration of L in one block, all of its threads and the loops inside of L together, accesses

    F = { [v] -> A[e] : some instance with these values accesses A[e] }

exactly. Whoever copies F takes its strided box hull: in every dimension a first element that is an
affine function of [v] and the parameters, and a constant number of elements a stride apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from loopwright.analysis.dependences import access_map
from loopwright.analysis.relations import affine_expr, affine_sum
from loopwright.ir.expr import Const, Expr
from loopwright.ir.islkit import affine, context, isl
from loopwright.ir.loops import Mark
from loopwright.ir.program import Access, Program, Statement
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import Band, instances_reaching, nodes_of, path_to
from loopwright.ir.visit import fresh_name
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "BoxHull",
    "Footprint",
    "box_hull",
    "box_sides",
    "elements_by_loops",
    "find_footprint",
    "instance_values",
]

_IN, _OUT, _PARAM, _SET = isl.dim_type.in_, isl.dim_type.out, isl.dim_type.param, isl.dim_type.set


@dataclass(frozen=True, slots=True)
class Footprint:
    """What one iteration of a loop reads and writes of an array, in one block."""

    array: str
    loops: tuple[str, ...]  # of the host, of blocks, serial ones and the loop, outermost first
    variables: tuple[str, ...]  # the names of their values, none of them a parameter
    reads: isl.Map  # [params] -> { [values of the loops] -> A[e] }
    writes: isl.Map


def find_footprint(schedule: Schedule, array: str, loop: str) -> Footprint:
    """The exact footprint of an iteration of a loop of the schedule."""
    program = schedule.program
    path = path_to(nodes_of(schedule), loop)
    kept = [band for band in path if schedule.mark(band.loop) is not Mark.THREAD]
    taken = set(program.params)
    variables: list[str] = []
    for band in kept:
        variables.append(fresh_name(band.loop, taken))
        taken.add(variables[-1])

    def elements(*, is_write: bool) -> isl.Map:
        found = elements_by_loops(schedule, array, loop, kept, is_write=is_write)
        for at, name in enumerate(variables):
            found = found.set_dim_name(_IN, at, name)
        return found

    loops = tuple(band.loop for band in kept)
    return Footprint(
        array, loops, tuple(variables), elements(is_write=False), elements(is_write=True)
    )


def elements_by_loops(
    schedule: Schedule, array: str, loop: str, by: Sequence[Band], *, is_write: bool
) -> isl.Map:
    """`{ [values of the loops `by`] -> A[e] }`: what instances inside of a loop read, or write."""
    program = schedule.program
    values = instance_values(schedule, loop, by)
    rank = program.array(array).rank
    space = program.context.get_space().add_unnamed_tuple_ui(rank).set_tuple_name(_SET, array)
    found = isl.Map.empty(isl.Space.map_from_domain_and_range(_line(program, len(by)), space))
    for statement, access in _accesses(program.statements, array, is_write=is_write):
        reached = isl.UnionMap.from_map(access_map(program, statement, access))
        part = values.reverse().apply_range(reached)
        if not part.is_empty():
            found = found.union(isl.Map.from_union_map(part))
    return found.coalesce()


def instance_values(schedule: Schedule, loop: str, by: Sequence[Band]) -> isl.UnionMap:
    """`{ S[i] -> [values of the loops `by`] }`, of the instances inside of a loop."""
    inside = instances_reaching(nodes_of(schedule), loop, schedule.tree.get_domain())
    return _values(by, inside.intersect_params(schedule.program.context))


def _values(by: Iterable[Band], instances: isl.UnionSet) -> isl.UnionMap:
    """`{ S[i] -> [values of some loops] }`."""
    nowhere = isl.Set.universe(isl.Space.set_alloc(context(), 0, 0))
    found = isl.UnionMap.from_domain_and_range(instances, isl.UnionSet.from_set(nowhere))
    for band in by:
        function = isl.UnionMap.from_multi_union_pw_aff(band.partial.reset_tuple_id(_SET))
        found = found.flat_range_product(function.intersect_domain(instances))
    return found


def _line(program: Program, count: int) -> isl.Space:
    return program.context.get_space().add_unnamed_tuple_ui(count)


def _accesses(
    statements: Iterable[Statement], array: str, *, is_write: bool
) -> Iterable[tuple[Statement, Access]]:
    for statement in statements:
        for access in (statement.write,) if is_write else dict.fromkeys(statement.reads):
            if access.array == array:
                yield statement, access


# -- boxes ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BoxHull:
    """The smallest strided box of constant extents that is found around a footprint."""

    lower: tuple[Expr, ...]  # its first element, over the variables of loops and the parameters
    extents: tuple[int, ...]  # elements in each dimension
    strides: tuple[int, ...]  # from one of them to the next
    elements: isl.Map  # { [values of the loops] -> A[e] : in the box }
    footprint: isl.Map  # { [values of the loops] -> A[e] }

    @property
    def is_exact(self) -> bool:
        """Whether the footprint is the whole box."""
        return bool(self.elements.is_subset(self.footprint))


def box_hull(elements: isl.Map, variables: Sequence[str]) -> BoxHull | None:
    """The strided box hull of `{ [variables] -> A[e] }`; None where an extent has no bound."""
    known = box_sides(elements, variables)
    if known is None:
        return None
    lower = tuple(first for first, _, _ in known)
    extents = tuple(extent for _, extent, _ in known)
    strides = tuple(stride for _, _, stride in known)
    box = isl.Map.universe(elements.get_space()).intersect_domain(elements.domain())
    for at, (first, extent, stride) in enumerate(known):
        box = box.intersect(_within(elements, at, first, extent, stride))
    return BoxHull(lower, extents, strides, box, elements)


def box_sides(elements: isl.Map, variables: Sequence[str]) -> list[tuple[Expr, int, int]] | None:
    """First element, number of elements and stride of a strided box hull in every dimension."""
    if elements.is_empty():
        return None
    known: list[tuple[Expr, int, int]] = []
    for at in range(elements.dim(_OUT)):
        side = _side(elements, at, variables)
        if side is None:
            return None
        known.append(side)
    return known


def _side(elements: isl.Map, at: int, variables: Sequence[str]) -> tuple[Expr, int, int] | None:
    """First element, number of elements and stride along one dimension."""
    single = elements.project_out(_OUT, at + 1, elements.dim(_OUT) - at - 1)
    single = single.project_out(_OUT, 0, at).reset_tuple_id(_OUT).coalesce()
    info = elements.get_range_stride_info(at)
    stride, offset = info.get_stride().to_python(), affine_expr(info.get_offset(), variables)
    if stride < 1 or offset is None:
        stride, offset = 1, Const(0)
    if stride > 1:
        single = _counted(single, offset, stride)
    best: tuple[Expr, int] | None = None
    values = single.wrap()
    for low, above in _lower_bounds(single, variables):
        most = values.max_val(above)
        if most.is_int() and (best is None or most.to_python() + 1 < best[1]):
            best = low, most.to_python() + 1
    if best is None:
        return None
    first, count = best
    return (offset + Const(stride) * first if stride > 1 else first), count, stride


def _lower_bounds(single: isl.Map, variables: Sequence[str]) -> list[tuple[Expr, isl.Aff]]:
    """Affine functions of the loops that are nowhere above the values of `{ [v] -> [e] }`.

    With each comes `{ [[v] -> [e]] -> [e - low(v)] }`.
    """
    found: dict[Expr, isl.Aff] = {}
    for hull in (single.unshifted_simple_hull(), single.simple_hull()):
        plain = hull.remove_divs().wrap()
        last = plain.dim(_SET) - 1
        for row in plain.get_constraints():
            factor = row.get_coefficient_val(_SET, last)
            if not (factor.is_one() or (row.is_equality() and factor.is_negone())):
                continue
            sign = -1 if factor.is_one() else 1
            params = [row.get_dim_name(_PARAM, k) or "" for k in range(row.dim(_PARAM))]
            terms = [
                (name, sign * row.get_coefficient_val(kind, k).to_python())
                for kind, names in ((_SET, variables), (_PARAM, params))
                for k, name in enumerate(names)
            ]
            constant = sign * row.get_constant_val().to_python()
            above = row.get_aff() if sign < 0 else row.get_aff().neg()
            found.setdefault(affine_sum(terms, constant), above)
    return list(found.items())


def _shifted(single: isl.Map, low: Expr) -> isl.Map:
    """`{ [v] -> [e - low(v)] }`."""
    return single.sum(_function(single, low).neg())


def _function(single: isl.Map, value: Expr) -> isl.Map:
    """`{ [v] -> [value(v)] }`."""
    function = affine(value, single.domain().get_space())
    return isl.Map.from_pw_aff(function)


def _counted(single: isl.Map, offset: Expr, stride: int) -> isl.Map:
    """`{ [v] -> [(e - offset(v)) / stride] }`, where that is a whole number."""
    times = isl.Map.read_from_str(context(), f"{{ [k] -> [{stride} * k] }}")
    return _shifted(single, offset).apply_range(times.reverse())


def _within(elements: isl.Map, at: int, first: Expr, extent: int, stride: int) -> isl.Map:
    """`{ [v] -> A[e] : e_at = first(v) + stride * k, 0 <= k < extent }`."""
    steps = isl.Map.read_from_str(
        context(), f"{{ [x] -> [y] : exists k : y = x + {stride} k and 0 <= k < {extent} }}"
    )
    domain = isl.Map.universe(elements.get_space())
    single = domain.project_out(_OUT, at + 1, elements.dim(_OUT) - at - 1)
    single = single.project_out(_OUT, 0, at).reset_tuple_id(_OUT)
    side = _function(single, first).apply_range(steps)
    whole = side.insert_dims(_OUT, 0, at).add_dims(_OUT, elements.dim(_OUT) - at - 1)
    return whole.set_tuple_name(_OUT, elements.get_tuple_name(_OUT))
