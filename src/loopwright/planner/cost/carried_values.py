"""How long one iteration of an innermost loop waits for the one before.

A statement waits for another one where it reads an array that the other writes: in the same
iteration if that stands before it and the element is the same, else in a later one. A circle of
such waits with a step into a later iteration is a chain, and its cycles are the sum of what its
statements take: a sum in order, a recurrence along a row, a running minimum. Subscripts are
compared as they are written; elements that are the same by other reasons are not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from loopwright.analysis.dependences import access_map, strongly_connected_components
from loopwright.analysis.size_estimates import coefficients
from loopwright.ir.expr import Binary, Const, Expr, Select
from loopwright.ir.islkit import isl
from loopwright.ir.machine import Machine
from loopwright.ir.program import Access, Program, Statement
from loopwright.planner.cost.extreme_loops import are_extremes
from loopwright.planner.cost.statement_work import is_extreme, latency

__all__ = ["carried_cycles", "may_meet", "sums_in_order"]

_STORED = 4.0  # cycles from a store to a load of it that is not the next iteration's


def carried_cycles(
    statements: Sequence[Statement], moving: Mapping[str, str], machine: Machine
) -> float:
    """Cycles of the longest chain through the iterations of a loop; 0 where there is none.

    `moving` has the iterator of each statement that the loop runs through, and statements stand in
    their order. Integer sums and extrema, which vectors may take in any order, are no chains; nor
    are extremes of floating numbers, where a loop takes nothing else.
    """
    if are_extremes(statements, moving):
        return 0.0
    edges: set[tuple[str, str]] = set()
    carried: set[tuple[str, str]] = set()
    through_memory: set[tuple[str, str]] = set()
    begun = _begun_anew(statements, moving)
    writers: dict[str, list[tuple[int, Statement, int]]] = {}
    form = _numbered(moving)
    for at, one in enumerate(statements):
        writers.setdefault(one.write.array, []).append((at, one, form(one.write, one)))
    known: dict[tuple[int, int], int] = {}
    for later, other in enumerate(statements):
        for read in other.reads:
            its, stays = form(read, other), _stays(read, moving, other)
            for at, one, mine in writers.get(read.array, ()):
                if (mine, its) not in known:
                    known[mine, its] = _steps_apart(one, read, other, moving)
                steps = known[mine, its]
                if steps == 0 and at < later:
                    edges.add((one.name, other.name))
                elif steps > 0 or (steps == 0 and stays):
                    if read.array in begun or (one is other and _is_any_order(one)):
                        continue
                    edges.add((one.name, other.name))
                    carried.add((one.name, other.name))
                    if steps > 1:
                        through_memory.add((one.name, other.name))
    longest = 0.0
    by_name = {s.name: s for s in statements}
    for group in strongly_connected_components(sorted(by_name), edges):
        own = {(a, b) for a, b in carried if a in group and b in group}
        if not own:
            continue
        written = {by_name[name].write.array for name in group}
        cycles = sum(latency(by_name[name], written, machine) for name in group)
        longest = max(longest, cycles + (_STORED if own & through_memory else 0.0))
    return longest


def sums_in_order(statements: Sequence[Statement]) -> int:
    """How many statements gather floating numbers, whose order is kept.

    gcc computes what these gather in vectors, other statements of the loop included, and adds the
    lanes one by one.
    """
    return sum(s.write.dtype.is_float and s.write in s.reads for s in statements)


def may_meet(
    program: Program,
    statements: Sequence[Statement],
    moving: Mapping[str, str],
    *,
    text: bool = False,
) -> bool:
    """Whether an iteration reads what another one writes, at a place that no compiler knows.

    So it is where the loop moves through the elements that are written and otherwise, or not at
    all, through those of the same array that are read, and both are the same somewhere: d[v] and
    d[u]. Compilers then keep its order, though few iterations depend on others. LLVM does so, too,
    where elements are apart by what only a call knows, t[s] and t[s - c]; gcc, which makes code of
    a `text`, asks for that distance before the loop.
    """
    form = _numbered(moving)
    writers: dict[str, list[tuple[Statement, int]]] = {}
    for one in statements:
        writers.setdefault(one.write.array, []).append((one, form(one.write, one)))
    is_unknown: dict[tuple[int, int], bool] = {}
    for other in statements:
        for read in other.reads:
            its = form(read, other)
            for one, mine in writers.get(read.array, ()):
                if (mine, its) not in is_unknown:
                    is_unknown[mine, its] = _moves_otherwise(one, read, other, moving) or (
                        not text and _is_apart_by_names(one, read, other, moving)
                    )
                if is_unknown[mine, its] and _do_meet(program, one, read, other, moving):
                    return True
    return False


def _numbered(moving: Mapping[str, str]) -> Callable[[Access, Statement], int]:
    """Numbers of accesses, the same for those that are alike: these are compared once."""
    forms: dict[Any, int] = {}

    def form(access: Access, statement: Statement) -> int:
        mover = moving.get(statement.name, "")
        return forms.setdefault((access.index, statement.iterators, mover), len(forms))

    return form


def _do_meet(
    program: Program,
    writer: Statement,
    read: Access,
    reader: Statement,
    moving: Mapping[str, str],
) -> bool:
    """Whether two iterations of a loop, all loops around it equal, access one element."""
    written = access_map(program, writer, writer.write)
    pairs = written.apply_range(access_map(program, reader, read).reverse())
    kinds = isl.dim_type.in_, isl.dim_type.out
    mine, its = moving.get(writer.name, ""), moving.get(reader.name, "")
    for at, iterator in enumerate(writer.iterators):
        if iterator != mine and iterator in reader.iterators and iterator != its:
            pairs = pairs.equate(kinds[0], at, kinds[1], reader.iterators.index(iterator))
    if mine in writer.iterators and its in reader.iterators:
        places = writer.iterators.index(mine), reader.iterators.index(its)
        pairs = pairs.subtract(pairs.equate(kinds[0], places[0], kinds[1], places[1]))
    return not pairs.is_empty()


def _moves_otherwise(
    writer: Statement, read: Access, reader: Statement, moving: Mapping[str, str]
) -> bool:
    """Whether a loop moves through reads of an array otherwise than through its writes."""
    pairs = [
        (dict(coefficients(ours)), dict(coefficients(theirs)), _constant(ours) - _constant(theirs))
        for ours, theirs in zip(writer.write.index, read.index, strict=True)
    ]
    if any(not own and not other and gap for own, other, gap in pairs):
        return False  # always different elements
    mine, its = moving.get(writer.name, ""), moving.get(reader.name, "")
    return any(own.get(mine, 0) != other.get(its, 0) for own, other, _ in pairs)


def _is_apart_by_names(
    writer: Statement, read: Access, reader: Statement, moving: Mapping[str, str]
) -> bool:
    """Whether a write and a read that a loop moves alike are apart by sizes or loops around it."""
    mine, its = moving.get(writer.name, ""), moving.get(reader.name, "")
    for ours, theirs in zip(writer.write.index, read.index, strict=True):
        own, other = dict(coefficients(ours)), dict(coefficients(theirs))
        if own.pop(mine, 0) and other.pop(its, 0) and own != other:
            return True
    return False


def _begun_anew(statements: Sequence[Statement], moving: Mapping[str, str]) -> frozenset[str]:
    """Arrays of which every iteration sets the element that it uses, before all else."""
    found: dict[str, bool] = {}
    for statement in statements:
        for read in statement.reads:
            found.setdefault(read.array, False)
        write = statement.write
        found.setdefault(write.array, _stays(write, moving, statement))
    return frozenset(name for name, is_anew in found.items() if is_anew)


def _stays(read: Access, moving: Mapping[str, str], statement: Statement) -> bool:
    """Whether all iterations read the same element."""
    iterator = moving.get(statement.name, "")
    return all(iterator not in dict(coefficients(entry)) for entry in read.index)


def _steps_apart(
    writer: Statement, read: Access, reader: Statement, moving: Mapping[str, str]
) -> int:
    """Iterations from the write of an element to its read.

    -1 where no later iteration reads it: neighbours across the loop, elements still to come, and
    such that are the same by chance.
    """
    iterators = moving.get(writer.name, ""), moving.get(reader.name, "")
    are_alike = writer.iterators == reader.iterators
    found = 0
    is_moved = False
    for ours, theirs in zip(writer.write.index, read.index, strict=True):
        own, other = dict(coefficients(ours)), dict(coefficients(theirs))
        step = own.pop(iterators[0], 0)
        is_same_step = step == other.pop(iterators[1], 0)
        if not is_same_step or len(own) != len(other) or (are_alike and own != other):
            return -1
        gap = _constant(ours) - _constant(theirs)
        if step == 0:
            if gap:
                return -1
            continue
        if gap % step or (is_moved and gap // step != found):
            return -1
        found, is_moved = gap // step, True
    return max(found, -1)


def _constant(expr: Expr) -> int:
    """The number in a sum of iterators and numbers."""
    match expr:
        case Const(value=int(value)):
            return value
        case Binary(op="add", x=x, y=y):
            return _constant(x) + _constant(y)
        case Binary(op="sub", x=x, y=y):
            return _constant(x) - _constant(y)
    return 0


def _is_any_order(statement: Statement) -> bool:
    """Whether a sum or an extreme of integers gathers into one element."""
    if not statement.write.dtype.is_integer:
        return False
    match statement.value:
        case Binary(op=op):
            return op in ("add", "sub", "min", "max", "and", "or", "xor", "mul")
        case Select() as chosen:
            return is_extreme(chosen)
    return False
