"""SourceTree to Program: loops become sets, their order becomes a schedule tree.

Of the front ends only this file and `piecewise_subscripts` make isl objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from loopwright import options
from loopwright.frontends.fresh_names import FreshNames
from loopwright.frontends.piecewise_subscripts import split_piecewise
from loopwright.frontends.source_tree import (
    ArrayParam,
    Assign,
    ForLoop,
    IfElse,
    IntParam,
    Node,
    ScalarParam,
    SourceTree,
)
from loopwright.frontends.tree_rewrites import assignments
from loopwright.ir.check import check_program
from loopwright.ir.expr import Expr, Var
from loopwright.ir.islkit import (
    NotAffine,
    affine,
    bounded,
    condition,
    context,
    is_intricate,
    isl,
    isl_integer,
)
from loopwright.ir.program import Array, Program, Role, Statement
from loopwright.ir.visit import names as names_in

__all__ = ["extract", "implies", "program_of"]

_PROOF_QUOTA = 200_000  # isl operations for one proof


def program_of(tree: SourceTree, *, reassoc: bool) -> Program:
    """The checked Program of a source tree; `reassoc` allows floating sums in another order."""
    program = replace(extract(tree), reassoc=reassoc)
    if options.current().check:
        check_program(program)
    return program


def extract(tree: SourceTree) -> Program:
    """The polyhedral representation of a source tree.

    Parameters are the sizes of the arrays and the integer arguments. Each loop is a band of one
    member named after it, whose value grows as the loop runs: `i`, or `-i` for a negative step.
    Statements that never run are left out.
    """
    params = (*tree.sizes, *(p.name for p in tree.params if isinstance(p, IntParam)))
    known = _known(params, tree.sizes)
    names = FreshNames({*params, *(p.name for p in tree.params), *(v.name for v in tree.locals)})
    builder = _Builder(known, names)
    schedule = builder.block(tree.body, isl.Set.universe(_point(known)), ())
    if schedule is None:
        schedule = isl.Schedule.from_domain(isl.UnionSet.empty(known.get_space()))
    return Program(tree.name, params, _arrays(tree), tuple(builder.statements), schedule, known)


def implies(given: Sequence[Expr], wanted: Expr) -> bool:
    """Whether affine conditions imply another one, for all integers; False when isl gives up."""
    variables = sorted(set().union(*map(names_in, (*given, wanted))))

    def proof() -> bool:
        point = _point(_known(variables, ()))
        where = condition(wanted, point).complement()
        for cond in given:
            where = where.intersect(condition(cond, point))
        return where.is_empty()

    try:
        return bounded(proof, lambda _: False, _PROOF_QUOTA)
    except NotAffine:
        return False


def _known(params: Sequence[str], sizes: Sequence[str]) -> isl.Set:
    """`[params] -> { : sizes >= 0 }`."""
    space = isl.Space.params_alloc(context(), len(params))
    for at, name in enumerate(params):
        space = space.set_dim_name(isl.dim_type.param, at, name)
    known = isl.Set.universe(space)
    for size in sizes:
        at = space.find_dim_by_name(isl.dim_type.param, size)
        known = known.lower_bound_val(isl.dim_type.param, at, isl.Val.zero(context()))
    return known


def _point(known: isl.Set) -> isl.Space:
    """The space `[params] -> { [] }`, outside all loops."""
    return known.get_space().add_unnamed_tuple_ui(0)


def _arrays(tree: SourceTree) -> tuple[Array, ...]:
    """Arrays and floating arguments in call order, then the locals."""
    written = {assign.target.array for assign in assignments(tree.body)}
    returned = tree.result.names if tree.result is not None else ()
    arrays: list[Array] = []
    for param in tree.params:
        match param:
            case ArrayParam(name=name, dtype=dtype, shape=shape):
                role = Role.INOUT if name in written else Role.IN
                arrays.append(Array(name, dtype, shape, role))
            case ScalarParam(name=name, dtype=dtype):
                arrays.append(Array(name, dtype, (), Role.IN))
            case IntParam():
                pass
            case _:
                assert_never(param)
    for local in tree.locals:
        role = Role.OUT if local.name in returned else Role.LOCAL
        arrays.append(Array(local.name, local.dtype, local.shape, role))
    return tuple(arrays)


class _Builder:
    """Builds the statements, and the schedule tree from the innermost blocks outwards."""

    def __init__(self, known: isl.Set, names: FreshNames) -> None:
        self._known = known
        self._names = names
        self.statements: list[Statement] = []

    def block(
        self, nodes: Sequence[Node], domain: isl.Set, iterators: tuple[str, ...]
    ) -> isl.Schedule | None:
        """The schedule of consecutive nodes, run for each point of `domain`; None if none runs."""
        parts = [self._node(node, domain, iterators) for node in nodes]
        return _in_sequence([part for part in parts if part is not None])

    def _node(self, node: Node, domain: isl.Set, iterators: tuple[str, ...]) -> isl.Schedule | None:
        match node:
            case Assign():
                return self._assign(node, domain, iterators)
            case ForLoop():
                return self._loop(node, domain, iterators)
            case IfElse(cond=cond, body=body, orelse=orelse):
                where = condition(cond, domain.get_space())
                then = self.block(body, _coalesced(domain.intersect(where)), iterators)
                left = _coalesced(domain.subtract(where)) if orelse else domain
                other = self.block(orelse, left, iterators)
                return _in_sequence([part for part in (then, other) if part is not None])
            case _:
                assert_never(node)

    def _assign(
        self, node: Assign, domain: isl.Set, iterators: tuple[str, ...]
    ) -> isl.Schedule | None:
        if not is_intricate(domain) and domain.intersect_params(self._known).is_empty():
            return None
        parts: list[isl.Schedule] = []
        for piece, where in split_piecewise(node, domain, self._known):
            name = self._names.fresh(f"S{len(self.statements)}")
            named = where.set_tuple_name(name)
            statement = Statement(
                name, iterators, named, piece.target, piece.value, node.span, node.declared
            )
            self.statements.append(statement)
            parts.append(isl.Schedule.from_domain(isl.UnionSet.from_set(named)))
        return _in_sequence(parts)

    def _loop(
        self, node: ForLoop, domain: isl.Set, iterators: tuple[str, ...]
    ) -> isl.Schedule | None:
        depth, first = len(iterators), len(self.statements)
        inner = domain.add_dims(isl.dim_type.set, 1)
        inner = inner.set_dim_name(isl.dim_type.set, depth, node.var)
        inner = inner.intersect(_iterations(node, inner.get_space())).coalesce()
        schedule = self.block(node.body, inner, (*iterators, node.var))
        if schedule is None:
            return None
        inside = self.statements[first:]
        return schedule.insert_partial_schedule(_band(node, depth, inside))


def _coalesced(points: isl.Set) -> isl.Set:
    """The set in fewer pieces, but for those over which isl may take for ever."""
    return points if is_intricate(points) else points.coalesce()


def _in_sequence(parts: Sequence[isl.Schedule]) -> isl.Schedule | None:
    """The sequence of schedules, built by halves: isl copies both operands of each sequence."""
    if len(parts) <= 1:
        return parts[0] if parts else None
    middle = len(parts) // 2
    first, second = _in_sequence(parts[:middle]), _in_sequence(parts[middle:])
    assert first is not None
    assert second is not None
    return first.sequence(second)


def _iterations(loop: ForLoop, space: isl.Space) -> isl.Set:
    """The iterations of a loop in `space`: within its bounds, whole steps from its start."""
    at, start, stop = (affine(x, space) for x in (Var(loop.var), loop.start, loop.stop))
    if loop.step > 0:
        visited = at.ge_set(start).intersect(at.lt_set(stop))
    else:
        visited = at.le_set(start).intersect(at.gt_set(stop))
    if abs(loop.step) == 1:
        return visited
    step = isl_integer(abs(loop.step))
    return visited.intersect(at.sub(start).mod_val(step).zero_set())


def _band(loop: ForLoop, depth: int, statements: Sequence[Statement]) -> isl.MultiUnionPwAff:
    """`loop[{ S[..., i, ...] -> [(i)] }]`, with -i where the loop runs downwards."""
    total = isl.UnionPwAff.empty_ctx(context())
    for statement in statements:
        local = isl.LocalSpace.from_space(statement.domain.get_space())
        value = isl.Aff.var_on_domain(local, isl.dim_type.set, depth)
        if loop.step < 0:
            value = value.neg()
        total = total.union_add(isl.UnionPwAff.from_aff(value))
    band = isl.MultiUnionPwAff.from_union_pw_aff(total)
    return band.set_tuple_name(isl.dim_type.set, loop.var)
