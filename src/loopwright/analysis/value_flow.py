"""The flow of values through memory: scalar forwarding, and who writes an element last.

Scalar forwarding puts the value that a local scalar names back where it is used:

    r = A[i, k]                               C[i, j] = C[i, j] + A[i, k] * B[k, j]
    C[i, j] = C[i, j] + r * B[k, j]     ->

A scalar is forwarded when one statement T sets it, one statement R reads it, every instance of R
reads the value of one instance of T, an affine function of its own, `{ R[i] -> T[f(i)] }`, and
T reads only arrays the program never writes: its value is then the same at any time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from loopwright.analysis.dependences import access_map, flow_through
from loopwright.analysis.relations import affine_expr, function_exprs, maps_of, union
from loopwright.ir.expr import Expr, Load
from loopwright.ir.islkit import context, functions_in, isl, maps_in, pieces_in
from loopwright.ir.program import Program, Role, Statement
from loopwright.ir.visit import rewrite, substitute
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "ForwardedProgram",
    "forward_scalars",
    "last_writer",
    "loop_value",
    "value_range",
]


@dataclass(frozen=True, slots=True)
class ForwardedProgram:
    """A program without the statements whose values were forwarded."""

    program: Program
    absorbed: dict[str, tuple[str, ...]]  # statement -> those whose values now stand in it


def forward_scalars(program: Program) -> ForwardedProgram:
    """`program` with its local scalars forwarded; itself when there are none to forward."""
    found = ForwardedProgram(program, {})
    for name in [array.name for array in program.arrays if _is_local_scalar(program, array.name)]:
        found = _forward(found, name)
    return found


def _is_local_scalar(program: Program, name: str) -> bool:
    array = program.array(name)
    return array.rank == 0 and array.role is Role.LOCAL


def _forward(found: ForwardedProgram, scalar: str) -> ForwardedProgram:
    """The program without `scalar`, where it can be forwarded."""
    program = found.program
    setters = [s for s in program.statements if s.write.array == scalar]
    readers = [s for s in program.statements if scalar in _arrays_read(s)]
    if len(setters) != 1 or len(readers) != 1 or setters == readers:
        return found
    (setter,), (reader,) = setters, readers
    written = {statement.write.array for statement in program.statements}
    if written & set(_arrays_read(setter)):
        return found
    flow = maps_of(flow_through(program, scalar))
    domain = reader.domain.intersect_params(program.context)
    if len(flow) != 1 or not domain.is_subset(flow[0].range()):
        return found
    point = function_exprs(flow[0].reverse(), reader.iterators)
    if point is None:
        return found
    value = substitute(setter.value, dict(zip(setter.iterators, point, strict=True)))
    changed = replace(reader, value=_with(reader.value, scalar, value))
    absorbed = dict(found.absorbed)
    names = (*absorbed.pop(setter.name, ()), setter.name)
    absorbed[reader.name] = (*absorbed.get(reader.name, ()), *names)
    return ForwardedProgram(_without(program, setter, changed), absorbed)


def _arrays_read(statement: Statement) -> Iterator[str]:
    return (access.array for access in statement.reads)


def _with(expr: Expr, scalar: str, value: Expr) -> Expr:
    def change(node: Expr) -> Expr:
        return value if isinstance(node, Load) and node.array == scalar else node

    return rewrite(expr, change)


def _without(program: Program, gone: Statement, changed: Statement) -> Program:
    """`program` without one statement and with another one changed."""
    statements = tuple(
        changed if statement.name == changed.name else statement
        for statement in program.statements
        if statement.name != gone.name
    )
    domain = program.schedule.get_domain().subtract(isl.UnionSet.from_set(gone.domain))
    return replace(
        program, statements=statements, schedule=program.schedule.intersect_domain(domain)
    )


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
    """The smallest value of a loop in some statements, and one past the largest.

    None unless both are single affine functions of the parameters.
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
    """The written elements of an expanded array, and the loop values at their last write.

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
