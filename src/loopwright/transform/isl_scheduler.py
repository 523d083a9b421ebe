"""Orders found by isl's scheduler: permutable nests and bands for planners.

A loop of 1200 iterations lets the scheduler find orders that hold for 1200 iterations only, with
coefficients of that size; it works long, and what it finds is of no use. So `c + k`, for a constant
c of some size and a small k, becomes `p + k` with a parameter p (SizeParameters). At p = c the sets
are the same: a schedule that is legal for all p is legal for them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from loopwright.analysis.legality import inside_loop
from loopwright.analysis.relations import maps_of
from loopwright.ir.islkit import (
    context,
    functions_in,
    isl,
    isl_integer,
    nodes_in,
    pieces_in,
    sets_in,
    with_option,
)
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import (
    Band,
    Filter,
    Leaf,
    Node,
    bands,
    directions,
    followed_name,
    map_bands,
    nodes_of,
    path_to,
    sequence,
)
from loopwright.ir.visit import fresh_name
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.band_dependences import instances_of
from loopwright.transform.reschedule import Reschedule, named_tree, tree_text
from loopwright.transform.schedule_legality import privatized_dependences, validity_dependences

__all__ = [
    "SizeParameters",
    "coincident_tree",
    "is_schedulable",
    "permutable_nest",
    "scheduled_band",
    "size_parameters",
]


_Kind = isl.schedule_node_type

# The scheduler's unknowns are those of all dependences, which no quota counts: 31 iterators take
# four seconds, 24 a tenth of one.
_MOST_STATEMENTS = 8
_MOST_ITERATORS = 24


def is_schedulable(program: Program, names: Collection[str]) -> bool:
    """Whether isl's scheduler orders statements that depend on each other in reasonable time."""
    if len(names) > _MOST_STATEMENTS:
        return False
    return sum(len(program.statement(name).iterators) for name in names) <= _MOST_ITERATORS


def permutable_nest(schedule: Schedule, loop: str, statement: str) -> Reschedule | None:
    """The step that gives a statement a permutable nest, with one loop for each of its iterators.

    isl's scheduler orders everything inside the outermost loop `loop`: statements that depend on
    each other share the loops of the nest, others run before or after it. None when isl finds no
    such nest.
    """
    root = nodes_of(schedule)
    path = path_to(root, loop)
    if len(path) > 1:
        return None
    numbers, tree = _scheduled(schedule, path[0])
    iterators = schedule.program.statement(statement).iterators
    if not _is_permutable(tree.get_root(), statement, len(iterators)):
        return None
    node = _read(tree.get_root().child(0), numbers)
    own = [b for b in bands(node) if statement in b.statements]
    if any(directions(b).get(statement, (0, 0))[1] != 1 for b in own):
        return None
    changed = map_bands(root, lambda b: node if b.loop == loop else b)
    named = named_tree(changed, schedule.program)
    return Reschedule(tree_text(schedule.tree.get_domain(), named))


def _scheduled(schedule: Schedule, band: Band) -> tuple[SizeParameters, isl.Schedule]:
    """The statements of a loop as ordered by isl's scheduler, and the sizes made parameters."""
    relaxed = schedule.analyses.derive(validity_dependences)
    found = privatized_dependences(relaxed, schedule, free_reductions=True)
    pairs = inside_loop(found.all_, schedule.tree, band.loop)
    domain = schedule.tree.get_domain().intersect(band.partial.domain().universe())
    domain = domain.intersect_params(schedule.program.context)
    numbers = size_parameters(domain)
    pairs = numbers.pairs(pairs)
    constraints = isl.ScheduleConstraints.on_domain(numbers.domain(domain)).set_validity(pairs)
    constraints = constraints.set_proximity(pairs)
    name = "schedule_maximize_band_depth"
    return numbers, with_option(name, 1, constraints.compute_schedule)


def scheduled_band(
    program: Program, names: Collection[str], pairs: isl.UnionMap, source: Node
) -> Band | None:
    """The outermost band that isl's scheduler finds for some statements, around `source`.

    Its loops are permutable; None when they are fewer than two.
    """
    instances = instances_of(program, names)
    numbers = size_parameters(instances)
    pairs = numbers.pairs(pairs)
    constraints = isl.ScheduleConstraints.on_domain(numbers.domain(instances))
    constraints = constraints.set_validity(pairs).set_proximity(pairs)
    # Of the schedules that isl may give, the same one for the same input.
    context().set_schedule_serialize_sccs(0)
    node = constraints.compute_schedule().get_root().child(0)
    if isl.schedule_node_type(node.get_type()) != isl.schedule_node_type.band:
        return None
    partial = node.band_get_partial_schedule()
    count = node.band_n_member()
    if count < 2 or not node.band_get_permutable():
        return None
    found = source
    taken = {band.loop for band in bands(source)}
    for member in reversed(range(count)):
        function = numbers.back(partial.get_union_pw_aff(member))
        one = isl.MultiUnionPwAff.from_union_pw_aff(function)
        name = fresh_name(followed_name(Band("", one, found), program), taken)
        taken.add(name)
        found = Band(name, one.set_tuple_name(isl.dim_type.set, name), found)
    assert isinstance(found, Band)
    return found


def coincident_tree(
    program: Program, names: Collection[str], pairs: isl.UnionMap, conflicting: isl.UnionMap
) -> Node:
    """The order of some statements that isl's scheduler finds, with parallel loops outermost.

    It keeps the order of `pairs`; instances that are `conflicting` are not of one parallel loop.

    Loops that may be interchanged, none of them parallel, go in wavefronts: those of the first two
    that have an equal sum follow one another, and inside of them the second is parallel.
    """
    instances = instances_of(program, names)
    numbers = size_parameters(instances)
    pairs = numbers.pairs(pairs)
    constraints = isl.ScheduleConstraints.on_domain(numbers.domain(instances))
    constraints = constraints.set_validity(pairs).set_proximity(pairs)
    constraints = constraints.set_coincidence(numbers.pairs(conflicting))
    option = "schedule_outer_coincidence"
    tree = with_option(option, 1, constraints.compute_schedule)
    return _read_waves(tree.get_root().child(0), numbers)


def _read_waves(node: isl.ScheduleNode, numbers: SizeParameters) -> Node:
    """As `_read`, with wavefronts for bands of several loops none of which is parallel."""
    kind = _Kind(node.get_type())
    if kind == _Kind.leaf:
        return Leaf()
    if kind != _Kind.band:
        parts = [node.child(k) for k in range(node.n_children())]
        return sequence(
            Filter(
                numbers.universe(p.filter_get_filter()),
                _read_waves(p.child(0), numbers),
            )
            for p in parts
        )
    count, partial = node.band_n_member(), node.band_get_partial_schedule()
    members = [
        isl.MultiUnionPwAff.from_union_pw_aff(numbers.back(partial.get_union_pw_aff(member)))
        for member in range(count)
    ]
    is_free = any(node.band_member_get_coincident(member) for member in range(count))
    if count > 1 and node.band_get_permutable() and not is_free:
        members[0] = members[0].add(members[1])
    inner = _read_waves(node.child(0), numbers)
    for one in reversed(members):
        inner = Band("", one, inner)
    return inner


def _is_permutable(root: isl.ScheduleNode, statement: str, depth: int) -> bool:
    """Whether all loops around a statement are one permutable band of the given depth."""
    found: list[bool] = []
    for node in nodes_in(root):
        if _Kind(node.get_type()) != _Kind.band:
            continue
        if any(part.get_tuple_name() == statement for part in sets_in(node.get_domain())):
            is_innermost = _Kind(node.child(0).get_type()) == _Kind.leaf
            is_whole = node.band_n_member() == depth and bool(node.band_get_permutable())
            found.append(is_innermost and is_whole)
    return found == [True]


def _read(node: isl.ScheduleNode, numbers: SizeParameters) -> Node:
    """A node of isl's result as a value; its loops have no names yet."""
    kind = _Kind(node.get_type())
    if kind == _Kind.leaf:
        return Leaf()
    if kind == _Kind.band:
        inner = _read(node.child(0), numbers)
        partial = node.band_get_partial_schedule()
        for member in reversed(range(node.band_n_member())):
            function = numbers.back(partial.get_union_pw_aff(member))
            one = isl.MultiUnionPwAff.from_union_pw_aff(function)
            inner = Band("", one, inner)
        return inner
    parts = [node.child(k) for k in range(node.n_children())]
    return sequence(
        Filter(numbers.universe(p.filter_get_filter()), _read(p.child(0), numbers)) for p in parts
    )


_LEAST = 16  # numbers below are no sizes
_NEAR = 8  # numbers no further apart are one size, and something small


@dataclass(frozen=True, slots=True)
class SizeParameters:
    """The constants that are replaced by parameters; no two of them are close to each other."""

    values: tuple[int, ...]

    def domain(self, instances: isl.UnionSet) -> isl.UnionSet:
        """`{ S[i] }` with parameters for the constants, each parameter at least `_LEAST`."""
        if not self.values:
            return instances
        found = isl.UnionSet.empty(self._space(instances.get_space()))
        for part in sets_in(instances):
            changed = self._map(isl.Map.from_range(part)).range()
            found = found.union(isl.UnionSet.from_set(changed))
        return found.intersect_params(self._large())

    def pairs(self, pairs: isl.UnionMap) -> isl.UnionMap:
        """`{ S[i] -> T[j] }` with parameters for the constants, each at least `_LEAST`."""
        if not self.values:
            return pairs
        found = isl.UnionMap.empty(self._space(pairs.get_space()))
        for part in maps_of(pairs):
            found = found.union(isl.UnionMap.from_map(self._map(part)))
        return found.intersect_params(self._large())

    def back(self, function: isl.UnionPwAff) -> isl.UnionPwAff:
        """A function of instances with the constants put back for the parameters."""
        if not self.values:
            return function
        found = isl.UnionPwAff.empty(self._without(function.get_space()))
        for part in functions_in(function):
            found = found.union_add(isl.UnionPwAff.from_pw_aff(self._number_function(part)))
        return found

    def universe(self, instances: isl.UnionSet) -> isl.UnionSet:
        """The universe of the statements that have instances, without the parameters."""
        if not self.values:
            return instances.universe()
        found = isl.UnionSet.empty(self._without(instances.get_space()))
        for part in sets_in(instances):
            whole = isl.Set.universe(self._without(part.get_space()))
            found = found.union(isl.UnionSet.from_set(whole))
        return found

    # -- spaces -----------------------------------------------------------------------------------

    def _names(self) -> tuple[str, ...]:
        return tuple(f"lw_number_{value}" for value in self.values)

    def _space(self, space: isl.Space) -> isl.Space:
        """A space with the parameters added."""
        for name in self._names():
            at = space.dim(isl.dim_type.param)
            space = space.add_dims(isl.dim_type.param, 1)
            space = space.set_dim_name(isl.dim_type.param, at, name)
        return space

    def _without(self, space: isl.Space) -> isl.Space:
        """A space with the parameters dropped."""
        for name in self._names():
            space = space.drop_dims(isl.dim_type.param, _place(space, name), 1)
        return space

    def _large(self) -> isl.Set:
        text = " and ".join(f"{name} >= {_LEAST}" for name in self._names())
        return isl.Set.read_from_str(context(), f"[{', '.join(self._names())}] -> {{ : {text} }}")

    # -- from numbers to parameters and back ------------------------------------------------------

    def _map(self, relation: isl.Map) -> isl.Map:
        wide = relation.compute_divs().align_params(self._space(relation.get_space().params()))
        found = isl.Map.empty(wide.get_space())
        for part in wide.get_basic_maps():
            changed = isl.BasicMap.universe(wide.get_space())
            for constraint in part.get_constraints():
                changed = changed.add_constraint(self._constraint(constraint))
            found = found.union(isl.Map.from_basic_map(changed))
        return found

    def _constraint(self, constraint: isl.Constraint) -> isl.Constraint:
        number = constraint.get_constant_val().to_python()
        for value, name in zip(self.values, self._names(), strict=True):
            if abs(abs(number) - value) <= _NEAR:
                sign = 1 if number > 0 else -1
                at = _place(constraint.get_space(), name)
                one = isl_integer(sign)
                rest = isl_integer(number - sign * value)
                constraint = constraint.set_coefficient_val(isl.dim_type.param, at, one)
                return constraint.set_constant_val(rest)
        return constraint

    def _number_function(self, function: isl.PwAff) -> isl.PwAff:
        zero = isl.Val.zero(context())
        found: isl.PwAff | None = None
        for where, what in pieces_in(function):
            for value, name in zip(self.values, self._names(), strict=True):
                at = _place(where.get_space(), name)
                number = isl_integer(value)
                where = where.fix_val(isl.dim_type.param, at, number)
                where = where.project_out(isl.dim_type.param, at, 1)
                factor = what.get_coefficient_val(isl.dim_type.param, at)
                what = what.set_coefficient_val(isl.dim_type.param, at, zero)
                what = what.add_constant_val(factor.mul(number))
                what = what.drop_dims(isl.dim_type.param, at, 1)
            piece = isl.PwAff.alloc(where, what)
            found = piece if found is None else found.union_add(piece)
        assert found is not None
        return found


def size_parameters(instances: isl.UnionSet) -> SizeParameters:
    """The large constants in the constraints of instances."""
    found: set[int] = set()
    for part in sets_in(instances):
        for basic in part.get_basic_sets():
            numbers = (c.get_constant_val().to_python() for c in basic.get_constraints())
            found.update(abs(number) for number in numbers)
    return SizeParameters(tuple(_apart(n for n in sorted(found) if n >= _LEAST)))


def _apart(numbers: Iterable[int]) -> list[int]:
    """Of increasing numbers, the largest of each group of close ones."""
    found: list[int] = []
    first = 0
    for number in numbers:
        if found and number - first <= _NEAR:
            found[-1] = number
        else:
            found.append(number)
            first = number
    return found


def _place(space: isl.Space, name: str) -> int:
    return int(space.find_dim_by_name(isl.dim_type.param, name))
