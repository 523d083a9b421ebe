"""Which arrays a device must be given before a program runs, and which rows of them it touches.

An array is brought in unless the program writes every element that is brought back, and reads
none before it is written: then what lay there before is never seen.
"""

from __future__ import annotations

from loopwright.analysis.dependences import access_map
from loopwright.analysis.relations import maps_of, union
from loopwright.analysis.subscript_bounds import unset_reads
from loopwright.ir.expr import Const
from loopwright.ir.islkit import affine, bounded, isl
from loopwright.ir.program import Array, Program, Role

__all__ = ["arrays_brought_in", "touched_rows"]


def arrays_brought_in(program: Program, *, touched_only: bool = False) -> frozenset[str]:
    """The arguments whose elements before the program matter to those who see them after it.

    With `touched_only` what is brought back are the rows of `touched_rows`, else whole arrays.
    Where isl gives up, they are all that are read or written.
    """
    arguments = [array for array in program.arrays if array.role is not Role.LOCAL]

    def found() -> frozenset[str]:
        names = {array.name for array in arguments if array.role is not Role.OUT}
        early = {read.array for read in unset_reads(program, names)}
        kept = {a.name for a in arguments if a.name in names and _keeps(program, a, touched_only)}
        return frozenset(early | kept)

    everything = frozenset(array.name for array in arguments if array.role is not Role.OUT)
    return bounded(found, lambda _: everything)


def touched_rows(program: Program, array: Array) -> tuple[isl.PwAff, isl.PwAff]:
    """The first row of an array that the program reads or writes, and one past the last one.

    Functions `[params] -> { [f] }` for all parameters; both are zero where no row is touched.
    """
    rows = _rows(program, array)
    origin = isl.Set.universe(rows.get_space()).fix_val(isl.dim_type.set, 0, _zero(rows))
    nowhere = program.context.subtract(rows.params())
    one = isl.Val.one(rows.get_ctx())
    first = rows.union(origin.intersect_params(nowhere)).dim_min(0)
    last = rows.dim_max(0).add_constant_val(one)
    ends = isl.Set.from_pw_aff(last).union(origin.intersect_params(program.context))
    return first.coalesce(), ends.dim_max(0).coalesce()


def _rows(program: Program, array: Array) -> isl.Set:
    """`[params] -> { [x] }`: the outermost subscripts of the accesses of an array."""
    found = isl.Set.empty(program.context.get_space().add_unnamed_tuple_ui(1))
    for statement in program.statements:
        for access in dict.fromkeys((statement.write, *statement.reads)):
            if access.array == array.name:
                part = access_map(program, statement, access).range().reset_tuple_id()
                part = part.project_out(isl.dim_type.set, 1, array.rank - 1)
                found = found.union(part.intersect_params(program.context))
    return found.coalesce()


def _keeps(program: Program, array: Array, touched_only: bool) -> bool:
    """Whether some element that is brought back keeps the value it had before the program."""
    space = program.context.get_space()
    writers = [s for s in program.statements if s.write.array == array.name]
    if not writers:
        return False
    written = union(space, (access_map(program, s, s.write) for s in writers)).range()
    if not array.rank:
        box = isl.Set.universe(maps_of(isl.UnionMap.from_range(written))[0].range().get_space())
        return not isl.UnionSet.from_set(box.intersect_params(program.context)).is_subset(written)
    first_free = 1 if touched_only else 0
    if touched_only:
        rows = _rows(program, array)
        order = rows.get_space()
        box = rows.apply(isl.Map.lex_le(order)).intersect(rows.apply(isl.Map.lex_ge(order)))
        box = box.add_dims(isl.dim_type.set, array.rank - 1)
    else:
        box = isl.Set.universe(space.add_unnamed_tuple_ui(array.rank))
    shape = box.get_space()
    zero = affine(Const(0), shape)
    for dimension in range(first_free, array.rank):
        local = isl.LocalSpace.from_space(shape)
        at = isl.PwAff.var_on_domain(local, isl.dim_type.set, dimension)
        extent = affine(array.shape[dimension], shape)
        box = box.intersect(at.ge_set(zero)).intersect(at.lt_set(extent))
    box = box.set_tuple_name(array.name).intersect_params(program.context)
    return not isl.UnionSet.from_set(box).is_subset(written)


def _zero(of: isl.Set) -> isl.Val:
    return isl.Val.zero(of.get_ctx())
