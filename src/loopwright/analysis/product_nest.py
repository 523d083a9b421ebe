"""Product nests: three nested loops of a larger program around statements that add products.

The values o of the loops around the three are fixed during one execution of them. Everything here
is a function of o and of the loops x = (i, j, p):

    time    { S[iterators] -> [o, x] }
    ranges  the box that contains all x, its bounds affine in o and the parameters
    guards  the further conditions that select points of the box: on i and j, or on i and p
    point   the iterators as affine functions of o and x

A statement updates `out = out plus left times right`, or adds several such products at once where
the program allows reassociation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from loopwright.analysis.loop_ranges import rectangular_ranges
from loopwright.analysis.relations import affine_expr, affine_sum, function_exprs, maps_of
from loopwright.analysis.update_statements import (
    FactoredProduct,
    factored_product,
    is_reorderable,
    operator_and_term,
    update_of,
)
from loopwright.ir.contraction import LOOPS, AffineSubscripts, ElementIndex, Guard, LoopRange
from loopwright.ir.expr import Binary, Expr, Load, Unary
from loopwright.ir.islkit import affine, affine_map, context, isl, pieces_in
from loopwright.ir.program import Access, Program, Statement
from loopwright.ir.schedule_tree import band_name, band_nodes, bands_around
from loopwright.ir.visit import names as names_in
from loopwright.ir.visit import substitute
from loopwright.lazy_dataclass import dataclass
from loopwright.semirings import identity

__all__ = [
    "NestStatement",
    "NestTimes",
    "ProductNest",
    "SumOfProducts",
    "accessed_elements",
    "affine_subscripts",
    "element_index",
    "element_map",
    "is_banded",
    "is_inside",
    "is_same_nest",
    "nest_times",
    "product_nest",
    "reordering_conflict",
    "sum_of_products",
]

_OUTER = "core.o"


@dataclass(frozen=True, slots=True)
class NestStatement:
    """A statement inside a product nest."""

    name: str
    point: Mapping[str, Expr]  # iterator -> its value, over the names of [o, x] and the parameters
    time: isl.Map  # { S[iterators] -> [o, x] }

    @property
    def moving(self) -> tuple[str, ...]:
        """The iterators that vary with the loops x."""
        return tuple(x for x, at in self.point.items() if names_in(at) & set(LOOPS))


@dataclass(frozen=True, slots=True)
class ProductNest:
    """Three nested loops around statements that execute disjoint sets of points."""

    outer: tuple[str, ...]  # names that stand for the loops around, outermost first
    ranges: tuple[LoopRange, ...]  # of LOOPS, over `outer` and the parameters; all values occur
    guards: tuple[Guard, ...]  # further conditions on the points that are executed
    order: tuple[int, ...]  # positions in LOOPS, from the outermost loop to the innermost
    statements: tuple[NestStatement, ...]  # the one with most iterators first
    points: isl.Set  # { [o, x] } that are executed


@dataclass(frozen=True, slots=True)
class SumOfProducts:
    """`x = x plus product plus product ...`."""

    plus: str | Expr
    zero: bool | int | float | complex  # identity of plus
    products: tuple[FactoredProduct, ...]  # each with two factors


def product_nest(program: Program, tree: isl.Schedule, loops: Sequence[str]) -> ProductNest | str:
    """The product nest of the loops i, j, p of a schedule tree, or why they are none."""
    times = nest_times(tree, loops)
    if isinstance(times, str):
        return times
    found = [part.intersect_params(program.context) for part in maps_of(times.inside)]
    outer = tuple(f"{_OUTER}{k}" for k in range(found[0].dim(isl.dim_type.out) - len(loops)))
    names = (*outer, *LOOPS)
    statements: list[NestStatement] = []
    points: isl.Set | None = None
    for time in found:
        for position, name in enumerate(names):
            time = time.set_dim_name(isl.dim_type.out, position, name)
        if points is not None and not points.is_disjoint(time.range()):
            return "two statements run at one point"
        points = time.range() if points is None else points.union(time.range())
        point = function_exprs(time.reverse(), names)
        if point is None:
            return "the iterators are no affine functions of the loops"
        statement = program.statement(time.get_tuple_name(isl.dim_type.in_) or "")
        at = dict(zip(statement.iterators, point, strict=True))
        statements.append(NestStatement(statement.name, at, time))
    assert points is not None
    statements.sort(key=lambda member: -len(member.point))
    shape = _shape(points.coalesce(), len(outer), program)
    if isinstance(shape, str):
        return shape
    return ProductNest(outer, *shape, times.order, tuple(statements), points)


@dataclass(frozen=True, slots=True)
class NestTimes:
    """The values of nested loops x and of the loops o around them."""

    function: isl.MultiUnionPwAff  # { S[iterators] -> [o, x] }
    order: tuple[int, ...]  # positions in x, from the outermost loop to the innermost
    reached: isl.UnionSet  # { S[iterators] }, the chosen instances that the loops run
    everything: isl.UnionSet  # { S[iterators] }, all instances that the outermost of them runs

    @property
    def inside(self) -> isl.UnionMap:
        """`{ S[iterators] -> [o, x] }` for the instances that the loops run."""
        return self.among(self.reached)

    def among(self, instances: isl.UnionSet) -> isl.UnionMap:
        """`{ S[iterators] -> [o, x] }` for any instances."""
        return isl.UnionMap.from_multi_union_pw_aff(self.function).intersect_domain(instances)


def nest_times(
    tree: isl.Schedule, loops: Sequence[str], chosen: isl.UnionSet | None = None
) -> NestTimes | str:
    """The values of nested loops, in the order given, and of the loops around them.

    The loops must be perfectly nested around the statements, or around the `chosen` instances.
    """
    found = [node for node in band_nodes(tree) if band_name(node) in loops]
    if len(found) != len(loops):
        return f"there are no loops {', '.join(loops)}"
    partial = _partials(found[0], chosen)
    if partial is None or set(partial) != set(loops):
        return f"loops {', '.join(loops)} are not directly nested around statements"
    functions = [partial[loop] for loop in loops]
    # Not isl's own prefix: that one is restricted to what the filters on the way let through.
    functions = [*reversed([_function(band) for band in bands_around(found[0])]), *functions]
    time = functions[0]
    for function in functions[1:]:
        time = time.flat_range_product(function)
    reached = everything = found[0].get_domain()
    if chosen is not None:
        reached, time = reached.intersect(chosen), time.intersect_domain(chosen)
    return NestTimes(time, tuple(loops.index(loop) for loop in partial), reached, everything)


def _partials(
    node: isl.ScheduleNode, chosen: isl.UnionSet | None
) -> dict[str, isl.MultiUnionPwAff] | None:
    """The loops from a node down to the statements; None where a sequence stands between."""
    kinds = isl.schedule_node_type
    partial: dict[str, isl.MultiUnionPwAff] = {}
    while kinds(node.get_type()) != kinds.leaf:
        if name := band_name(node):
            partial[name] = _function(node)
            node = node.child(0)
            continue
        if chosen is None:
            return None
        parts = [node.child(k) for k in range(node.n_children())]
        own = [p for p in parts if not p.filter_get_filter().is_disjoint(chosen)]
        if len(own) != 1:
            return None
        node = own[0].child(0)
    return partial


def is_same_nest(one: isl.Schedule, other: isl.Schedule, loops: Sequence[str]) -> bool:
    """Whether nested loops execute the same instances in both trees, inside equal outer loops."""
    before, after = nest_times(one, loops), nest_times(other, loops)
    if isinstance(before, str) or isinstance(after, str) or before.order != after.order:
        return False
    same = before.function.plain_is_equal(after.function)
    return bool(same) and bool(before.reached.is_equal(after.reached))


def _function(band: isl.ScheduleNode) -> isl.MultiUnionPwAff:
    return band.band_get_partial_schedule().reset_tuple_id(isl.dim_type.set)


def _shape(
    times: isl.Set, outer: int, program: Program
) -> tuple[tuple[LoopRange, ...], tuple[Guard, ...]] | str:
    """Ranges and guards of `{ [o, x] }`, for o and parameters for which there are any x."""
    kinds = isl.dim_type
    inner = times.move_dims(kinds.param, times.dim(kinds.param), kinds.set, 0, outer)
    known = inner.params()
    context_ = program.context.align_params(known.get_space()).intersect(known)
    inner = inner.gist_params(known).coalesce()
    parts = inner.get_basic_sets()
    if len(parts) != 1 or parts[0].dim(kinds.div):
        return "the loops run over no single convex set of points"
    guards = []
    for constraint in parts[0].remove_redundancies().get_constraints():
        i, j, p = (
            constraint.get_coefficient_val(kinds.set, k).to_python() for k in range(len(LOOPS))
        )
        if (i != 0) + (j != 0) + (p != 0) < 2:
            continue
        if constraint.is_equality() or (p and (j or abs(p) != 1)):
            return "the loops j and p do not run over a box"
        guards.append(Guard(i, j, p, _rest(constraint)))
    ranges: list[LoopRange] = []
    for position, name in enumerate(LOOPS):
        alone = inner
        for other in reversed(range(len(LOOPS))):
            alone = alone if other == position else alone.project_out(kinds.set, other, 1)
        found = rectangular_ranges(alone, (name,), context_)
        if isinstance(found, str):
            return found
        ranges += found
    return tuple(ranges), tuple(guards)


def _rest(constraint: isl.Constraint) -> Expr:
    """The terms of a constraint without the loops x: parameters and a constant."""
    kind = isl.dim_type.param
    terms = [
        (
            constraint.get_dim_name(kind, k) or "",
            constraint.get_coefficient_val(kind, k).to_python(),
        )
        for k in range(constraint.dim(kind))
    ]
    return affine_sum(terms, constraint.get_constant_val().to_python())


def is_banded(statement: Statement, iterators: Collection[str]) -> bool:
    """Whether a parameter bounds the difference of two iterators of a statement.

    A banded domain may be narrow, however large the extents of its loops are.
    """
    places = [statement.iterators.index(name) for name in iterators]
    for part in statement.domain.get_basic_sets():
        for constraint in part.get_constraints():
            kinds = isl.dim_type
            tied = [k for k in places if not constraint.get_coefficient_val(kinds.set, k).is_zero()]
            params = range(constraint.dim(kinds.param))
            known = (constraint.get_coefficient_val(kinds.param, k) for k in params)
            if len(tied) > 1 and not all(factor.is_zero() for factor in known):
                return True
    return False


def sum_of_products(
    program: Program, statement: Statement, loops: Iterable[str]
) -> SumOfProducts | str:
    """The sum of products that a statement adds to its element, or why it is none.

    `loops` are the iterators that the factors vary with; all other loads are scalars. Several
    products are one sum only where additions may be reassociated.
    """
    update = update_of(program, statement)
    if update is None:
        return "not of the form x = x op e with an associative operator"
    plus, term = operator_and_term(update)
    parts: list[Expr] = [term]
    if update.op == "add" and is_reorderable("add", statement.write.dtype, program):
        parts = _summands(update.value)
    found: list[FactoredProduct] = []
    for part in parts:
        product = factored_product(program, part, tuple(loops))
        if isinstance(product, str):
            return product
        if product.right is None:
            return "one array element only is accumulated"
        found.append(product)
    return SumOfProducts(plus, identity(update.op, statement.write.dtype), tuple(found))


def _summands(value: Expr) -> list[Expr]:
    match value:
        case Binary(op="add", x=x, y=y):
            return _summands(x) + _summands(y)
        case Binary(op="sub", x=x, y=y):
            return _summands(x) + [Unary("neg", part) for part in _summands(y)]
    return [value]


# -- array elements accessed at the points of a product nest: subscripts, conflicts, bounds -------
# Points are `[o, x]`: the values of the outer loops and of the loops i, j, p; see product_nest.


def reordering_conflict(
    nest: ProductNest,
    out: ElementIndex,
    reads: Iterable[ElementIndex],
    rights: Iterable[ElementIndex] = (),
) -> str | None:
    """Why the instances of one execution of the nest may not run in a macro-kernel's order.

    They may if instances that write one element agree in i and j, and if no instance reads an
    element that another one writes, except as the element it updates. `reads` are all other reads
    but `rights`. A macro-kernel packs the right operand for a block of p before any instance of
    that block writes: its elements may be written by later instances of the same j and the same or
    a larger p.
    """
    written = element_map(nest, out)
    space, outer = nest.points.get_space(), len(nest.outer)
    same = _same(space, range(outer))
    both = written.apply_range(written.reverse()).intersect(same)
    if not both.is_subset(_same(space, range(outer + 2))):
        return f"several results are stored to one element of '{out.array}'"
    is_late = _later(space, [outer + k for k in nest.order])
    is_late = is_late.intersect(_same(space, [outer + 1])).intersect(_from(space, outer + 2))
    for is_right, elements in ((False, reads), (True, rights)):
        for read in (x for x in elements if x.array == out.array):
            pairs = element_map(nest, read).apply_range(written.reverse()).intersect(same)
            if not (pairs.is_subset(is_late) if is_right else pairs.is_empty()):
                return f"it reads elements of '{read.array}' that it also writes"
    return None


def element_index(member: NestStatement, access: Access | Load) -> ElementIndex:
    """The element of an access as a function of the loops [o, x]."""
    return ElementIndex(access.array, tuple(substitute(x, member.point) for x in access.index))


def element_map(nest: ProductNest, element: ElementIndex) -> isl.Map:
    """`{ [o, x] -> A[index] }` for all points of a nest."""
    return affine_map(nest.points, element.array, element.index)


def is_inside(nest: ProductNest, element: ElementIndex) -> bool:
    """Whether an element lies inside its array for all values of i, j and p, guards aside.

    The elements of executed points do, and so do the subscripts between two of theirs.
    """
    first = len(nest.outer)
    whole = _free(nest.points, {first}, first)
    for position in (first + 1, first + 2):
        whole = whole.intersect(_free(nest.points, {position}, first))
    for position, name in enumerate((*nest.outer, *LOOPS)):
        whole = whole.set_dim_name(isl.dim_type.set, position, name)
    for entry in element.index:
        read, known = (affine_map(points, "", (entry,)).range() for points in (whole, nest.points))
        space = read.get_space()
        below, above = isl.Map.lex_ge(space), isl.Map.lex_le(space)
        if not read.is_subset(known.apply(below).intersect(known.apply(above))):
            return False
    return True


def _free(points: isl.Set, kept: set[int], first: int) -> isl.Set:
    """`points` with the dimensions from `first` on that are not kept set free."""
    for position in range(first, points.dim(isl.dim_type.set)):
        if position not in kept:
            points = points.project_out(isl.dim_type.set, position, 1)
            points = points.insert_dims(isl.dim_type.set, position, 1)
    return points


def accessed_elements(program: Program, member: NestStatement, access: Access | Load) -> isl.Map:
    """`{ [o, x] -> A[index] }` for the points of one statement, by its own subscripts."""
    domain = program.statement(member.name).domain
    return member.time.reverse().apply_range(affine_map(domain, access.array, access.index))


def _same(space: isl.Space, positions: Iterable[int]) -> isl.Map:
    """`{ [x] -> [y] : the entries at some positions are equal }`."""
    same = isl.Map.universe(space.map_from_set())
    for position in positions:
        same = same.equate(isl.dim_type.in_, position, isl.dim_type.out, position)
    return same


def _from(space: isl.Space, position: int) -> isl.Map:
    """`{ [x] -> [y] : x <= y at a position }`."""
    every = isl.Map.universe(space.map_from_set())
    return every.order_le(isl.dim_type.in_, position, isl.dim_type.out, position)


def _later(space: isl.Space, positions: Sequence[int]) -> isl.Map:
    """`{ [x] -> [y] : x comes before y in the lexicographic order of some positions }`."""
    found = isl.Map.empty(space.map_from_set())
    for count, position in enumerate(positions):
        smaller = _same(space, positions[:count])
        found = found.union(
            smaller.order_lt(isl.dim_type.in_, position, isl.dim_type.out, position)
        )
    return found


def affine_subscripts(nest: ProductNest, element: ElementIndex) -> AffineSubscripts | str:
    """The subscripts as affine functions of the loops x, or why they are none."""
    uneven = f"the subscripts of '{element.array}' do not grow evenly with the loops"
    first, kind, zero = len(nest.outer), isl.dim_type.in_, isl.Val.zero(context())
    base: list[Expr] = []
    steps: list[list[int]] = [[] for _ in LOOPS]
    for entry in element.index:
        pieces = [piece for _, piece in pieces_in(affine(entry, nest.points.get_space()))]
        if len(pieces) != 1 or pieces[0].involves_locals():
            return uneven
        function = pieces[0]
        for k, growth in enumerate(steps):
            growth.append(function.get_coefficient_val(kind, first + k).to_python())
            function = function.set_coefficient_val(kind, first + k, zero)
        found = affine_expr(function, (*nest.outer, *LOOPS))
        if found is None:
            return uneven
        base.append(found)
    return AffineSubscripts(tuple(base), dict(zip(LOOPS, map(tuple, steps), strict=True)))
