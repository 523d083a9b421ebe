"""Who sets an element last, and which values the loops around statements take."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import islpy as isl

from loopwright.analysis.dependences import access_map
from loopwright.analysis.relations import affine_expr, function_exprs, union
from loopwright.ir.expr import Expr
from loopwright.ir.islkit import context
from loopwright.ir.islparts import functions_in, maps_in, pieces_in
from loopwright.ir.program import Program, Statement

__all__ = ["last_writer", "loop_value", "value_range"]


def loop_value(statement: Statement, loop: isl.MultiUnionPwAff) -> Expr | None:
    """The value of a loop `{ S[i] -> [f(i)] }` in terms of a statement's iterators, if affine."""
    found = functions_in(loop.get_union_pw_aff(0))
    own = [f for f in found if f.get_tuple_id(isl.dim_type.in_).get_name() == statement.name]
    pieces = [piece for f in own for _, piece in pieces_in(f)]
    if len(pieces) != 1 or pieces[0].involves_locals():
        return None
    return affine_expr(pieces[0], statement.iterators)


def value_range(
    program: Program, statements: Collection[str], loop: isl.MultiUnionPwAff
) -> tuple[Expr, Expr] | None:
    """The least value that a loop takes in some statements and the one past its greatest.

    None where they are no single affine functions of the parameters.
    """
    instances = isl.UnionSet.empty(program.context.get_space())
    for name in statements:
        domain = program.statement(name).domain.intersect_params(program.context)
        instances = instances.union(isl.UnionSet.from_set(domain))
    values = isl.UnionMap.from_multi_union_pw_aff(loop).intersect_domain(instances).range()
    taken = isl.Set.from_union_set(values)
    one = isl.Val.one(context())
    first, end = _single(taken.dim_min(0)), _single(taken.dim_max(0).add_constant_val(one))
    return None if first is None or end is None else (first, end)


def _single(function: isl.PwAff) -> Expr | None:
    pieces = [piece for _, piece in pieces_in(function.coalesce())]
    if len(pieces) != 1 or pieces[0].involves_locals():
        return None
    return affine_expr(pieces[0], ())


def last_writer(
    program: Program,
    copies: str,
    rank: int,
    loops: Sequence[isl.MultiUnionPwAff],
    names: Sequence[str],
) -> tuple[isl.Set, tuple[Expr, ...]] | None:
    """The elements of an array with copies that are set, and where their last values are set.

    `copies` is the array with one copy per iteration of `loops` before its own `rank` dimensions,
    called `names` here. Gives `{ [names] }` and the values of the loops at the last write of each
    element, in the program's order; None where these are not affine.
    """
    writers = [s for s in program.statements if s.write.array == copies]
    space = program.context.get_space()
    writes = union(space, (access_map(program, s, s.write) for s in writers))
    first = len(loops)
    setters = isl.UnionMap.empty(space)
    for part in maps_in(writes):
        element = part.project_out(isl.dim_type.out, 0, first)
        element = element.set_tuple_name(isl.dim_type.out, "element")
        setters = setters.union(isl.UnionMap.from_map(element.reverse()))
    time = program.schedule.get_map()
    latest = setters.apply_range(time).lexmax()
    last = latest.apply_range(time.reverse()).intersect(setters)
    value = loops[0].reset_tuple_id(isl.dim_type.set)
    for loop in loops[1:]:
        value = value.flat_range_product(loop.reset_tuple_id(isl.dim_type.set))
    where = isl.Map.from_union_map(last.apply_range(isl.UnionMap.from_multi_union_pw_aff(value)))
    for position, name in enumerate(names):
        where = where.set_dim_name(isl.dim_type.in_, position, name)
    found = function_exprs(where, names)
    if found is None or where.dim(isl.dim_type.in_) != rank:
        return None
    return where.domain(), found
