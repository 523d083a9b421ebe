"""Which scalars and elements of a program may be read before they are set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import islpy as isl

from loopwright.ir.islkit import affine_map
from loopwright.ir.islparts import maps_in
from loopwright.ir.program import Program, Role, Statement

__all__ = ["Unset", "unset_locals", "unset_scalars"]


@dataclass(frozen=True, slots=True)
class Unset:
    """An array that some parameters leave without a value where it is needed."""

    array: str
    statement: Statement | None  # the reader; for a returned scalar the last writer, if any
    params: isl.Set  # [params] -> { : the value is missing }
    is_returned: bool


def unset_scalars(program: Program) -> Iterator[Unset]:
    """Every use of a local scalar, or return of one, that no assignment precedes."""
    scalars = [a for a in program.arrays if not a.shape and a.role in (Role.LOCAL, Role.OUT)]
    if not scalars:
        return
    yield from _unset_reads(program, {scalar.name for scalar in scalars})
    for scalar in scalars:
        if scalar.role is Role.OUT:
            yield from _unset_result(program, scalar.name)


def unset_locals(program: Program) -> isl.Set:
    """[params] -> { : some element of a local array is read that no statement has written }."""
    local = {array.name for array in program.arrays if array.role is Role.LOCAL}
    found = program.context.subtract(program.context)
    for unset in _unset_reads(program, local):
        found = found.union(unset.params)
    return found.coalesce()


def _unset_reads(program: Program, arrays: set[str]) -> Iterator[Unset]:
    empty = isl.UnionMap.empty(program.context.get_space())
    reads, writes = empty, empty
    for statement in program.statements:
        domain = statement.domain.intersect_params(program.context)
        if statement.write.array in arrays:
            written = affine_map(domain, statement.write.array, statement.write.index)
            writes = writes.union(isl.UnionMap.from_map(written))
        for access in statement.reads:
            if access.array in arrays:
                read = affine_map(domain, access.array, access.index)
                reads = reads.union(isl.UnionMap.from_map(read))
    # Not by isl's dataflow analysis: it fails on some domains with divisions (isl 0.28).
    time = program.schedule.get_map()
    later = time.intersect_domain(reads.domain()).lex_gt_union_map(
        time.intersect_domain(writes.domain())
    )
    missing = reads.subtract(later.apply_range(writes))
    for part in sorted(maps_in(missing), key=str):
        if not part.is_empty():
            reader = program.statement(part.get_tuple_name(isl.dim_type.in_))
            array = part.get_tuple_name(isl.dim_type.out)
            yield Unset(array, reader, part.domain().params(), is_returned=False)


def _unset_result(program: Program, scalar: str) -> Iterator[Unset]:
    missing = program.context
    last: Statement | None = None
    for statement in program.statements:
        if statement.write.array == scalar:
            missing = missing.subtract(statement.domain.params())
            last = statement
    if not missing.is_empty():
        yield Unset(scalar, last, missing, is_returned=True)
