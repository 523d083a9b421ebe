"""What is wrong with a loop tree: accesses outside of arrays, types, names, memory, marks.

Code of a tree tests nothing while it runs. A tree is made by actions from nests that are right, but
one that somebody wrote may be anything; so its statements are looked at before code is made, and
its marks where a text is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from loopwright.diagnostics import UsageError
from loopwright.ir.check_expr import InvalidExpr, Scope, check_expr, require_index
from loopwright.ir.dtypes import INT64
from loopwright.ir.expr import Expr, Load
from loopwright.ir.islkit import context, isl
from loopwright.ir.loops import Mark
from loopwright.ir.program import Access, Role
from loopwright.ir.text import access_text, expr_text
from loopwright.lazy_dataclass import dataclass
from loopwright.memo import BoundedCache
from loopwright.tuning.access_moves import affine_form, linear_form
from loopwright.tuning.actions import MOST_UNROLLED
from loopwright.tuning.loop_tree import LoopTree, TreeNest, TreeStatement, shape_of
from loopwright.tuning.tree_legality import (
    carries_dependence,
    is_reorderable_nest,
    order_violation,
)

__all__ = ["TreeFault", "mark_faults", "require_sound", "statement_faults"]

_MOST_BYTES = 1 << 47  # of an array: no processor addresses more
_MOST_POINTS = 1 << 62
_MOST_ACCUMULATORS = 64
_SET = isl.dim_type.set
_SLACK = 4  # splits with tails may add iterations to loops that were marked before


@dataclass(frozen=True, slots=True)
class TreeFault:
    """Something wrong with one nest of a tree."""

    nest: int
    message: str
    found: str = ""
    hint: str = ""
    depth: int | None = None  # of the loop at fault
    expr: Expr | Access | None = None  # the part of the statement at fault


def require_sound(tree: LoopTree) -> None:
    """Raise UsageError unless code of a tree stays inside its arrays and can be made."""
    key = id(tree.arrays), *(id(nest.statement) for nest in tree.nests)
    if key in _sound:
        return
    for fault in statement_faults(tree):
        raise UsageError(f"nest {fault.nest + 1} of a loop tree: {fault.message}", fault.found)
    # Edits keep statements and arrays: what a key is made of must not be forgotten.
    _sound[key] = tree


_sound: BoundedCache[tuple[int, ...], LoopTree] = BoundedCache(4096)


def statement_faults(tree: LoopTree) -> Iterator[TreeFault]:
    """What is wrong with the statements of a tree: a sound one has no such fault."""
    found = list(_faults_of_nests(tree))
    yield from found or _undefined_reads(tree)


def _faults_of_nests(tree: LoopTree) -> Iterator[TreeFault]:
    written: set[str] = set()
    if not tree.nests:
        yield TreeFault(0, "a tree has a nest at least", hint="a loop and a statement in it")
    for number, nest in enumerate(tree.nests):
        yield from _sizes(tree, number, nest)
        yield from _types(tree, number, nest.statement)
        yield from _places(tree, number, nest.statement, written)
        written.add(nest.statement.write.array)


def _sizes(tree: LoopTree, number: int, nest: TreeNest) -> Iterator[TreeFault]:
    for array in tree.arrays:
        size = prod(shape_of(array)) * array.dtype.bytes
        if size >= _MOST_BYTES and number == 0:
            yield TreeFault(number, f"array {array.name} takes {size} bytes")
    if prod(extent for _, extent in nest.statement.dims) >= _MOST_POINTS:
        yield TreeFault(number, "its loops have more points than 64 bits count", depth=0)


def _types(tree: LoopTree, number: int, statement: TreeStatement) -> Iterator[TreeFault]:
    arrays = {a.name: (a.dtype, a.rank) for a in tree.arrays}
    scope = Scope({name: INT64 for name, _ in statement.dims}, arrays)
    write = statement.write
    try:
        for entry in write.index:
            check_expr(entry, scope)
        check_expr(statement.value, scope)
    except InvalidExpr as fault:
        shown = "" if fault.expr is None else expr_text(fault.expr)
        yield TreeFault(number, fault.rule, shown, expr=fault.expr)
        return
    try:
        if write.array in arrays:
            require_index(write.index, arrays[write.array][1])
    except InvalidExpr as fault:
        yield TreeFault(number, fault.rule, access_text(write), expr=write)
        return
    if write.array not in arrays:
        yield TreeFault(number, f"array {write.array} is not declared", expr=write)
    elif statement.value.dtype != write.dtype:
        yield TreeFault(
            number,
            f"the value is {statement.value.dtype}, array {write.array} holds {write.dtype}",
            expr_text(statement.value),
            f"convert it: {write.dtype}(...)",
            expr=statement.value,
        )


def _places(
    tree: LoopTree, number: int, statement: TreeStatement, written: set[str]
) -> Iterator[TreeFault]:
    by_name = {array.name: array for array in tree.arrays}
    extents = dict(statement.dims)
    write = statement.write
    if write.array in by_name and by_name[write.array].role is Role.IN:
        yield TreeFault(
            number, f"array {write.array} is an input", hint="declare it as out", expr=write
        )
    accesses: tuple[Access | Load, ...] = (write, *statement.operands)
    for access in accesses:
        array = by_name.get(access.array)
        if array is None or array.rank != len(access.index):
            continue  # a fault of types
        is_set = array.role is not Role.LOCAL or array.name in written
        if isinstance(access, Load) and not is_set:
            yield TreeFault(
                number,
                f"local array {array.name} is read before a nest has written it",
                hint="a nest before this one that writes it",
                expr=access,
            )
        for dimension, (entry, extent) in enumerate(
            zip(access.index, shape_of(array), strict=True)
        ):
            yield from _outside(number, access, dimension, entry, extent, extents)


def _outside(
    number: int,
    access: Access | Load,
    dimension: int,
    entry: Expr,
    extent: int,
    extents: dict[str, int],
) -> Iterator[TreeFault]:
    """A subscript that is not affine, or leaves its dimension."""
    form = affine_form(entry)
    if form is None or not form.keys() - {""} <= extents.keys():
        yield TreeFault(
            number,
            f"a subscript of {access.array} is not affine in the dimensions of the nest",
            expr_text(entry),
            "sums of dimensions times constants",
            expr=access,
        )
        return
    ends = [(factor, factor * (extents[name] - 1)) for name, factor in form.items() if name]
    start = form.get("", 0)
    low = start + sum(min(end, 0) for _, end in ends)
    high = start + sum(max(end, 0) for _, end in ends)
    if low < 0 or high >= extent:
        shown = ", ".join(f"{name} = {extents[name]}" for name in form if name)
        inside = f"0 to {extent - 1} are inside" if extent else "it is empty"
        yield TreeFault(
            number,
            f"subscript {dimension + 1} of {access.array} is {low} to {high}, {inside}",
            f"loops that cover {shown}" if shown else expr_text(entry),
            "fewer iterations, or a tail: `for i in 3, tail 12` around `for i in 16` covers 60",
            expr=access,
        )


def _undefined_reads(tree: LoopTree) -> Iterator[TreeFault]:
    """An element of a local array that is read before it is written; all subscripts are affine."""
    written = {
        a.name: isl.Set.empty(isl.Space.set_alloc(context(), 0, a.rank))
        for a in tree.arrays
        if a.role is Role.LOCAL
    }
    for number, nest in enumerate(tree.nests):
        statement, name = nest.statement, nest.statement.write.array
        if name not in written and all(x.array not in written for x in statement.operands):
            continue
        stored = _elements(statement, statement.write)
        if statement.plus is not None and name in written:  # its elements have a first value
            written[name] = written[name].union(stored.range())
        # { point -> an element that a point before it has written }
        before = isl.Map.lex_gt(stored.domain().get_space()).apply_range(stored)
        for load in statement.operands:
            if load.array not in written:
                continue
            unset = _elements(statement, load).subtract_range(written[load.array])
            unset = unset.subtract(before) if load.array == name else unset
            if not unset.is_empty():
                yield _undefined(number, load, unset.range())
        if name in written:
            written[name] = written[name].union(stored.range()).coalesce()


def _elements(statement: TreeStatement, access: Access | Load) -> isl.Map:
    """`{ [point] -> [element] }` of an access."""
    at = {name: f"i{k}" for k, (name, _) in enumerate(statement.dims)}
    bounds = " and ".join(f"0 <= {at[name]} < {extent}" for name, extent in statement.dims)
    forms = [linear_form(entry) for entry in access.index]
    sums = [" + ".join(f"{x}{at.get(name, '')}" for name, x in form.items()) for form in forms]
    points = f"[{', '.join(at.values())}]"
    text = f"{{ {points} -> [{', '.join(x or '0' for x in sums)}] : {bounds} }}"
    return isl.Map(text, context=context())


def _undefined(number: int, load: Load, elements: isl.Set) -> TreeFault:
    point = elements.lexmin().sample_point()
    places = [point.get_coordinate_val(_SET, k).to_python() for k in range(len(load.index))]
    return TreeFault(
        number,
        f"{load.array}[{', '.join(map(str, places))}] is read before it is written",
        hint=f"loops before that write all elements of {load.array} that are read",
        expr=load,
    )


def mark_faults(tree: LoopTree) -> Iterator[TreeFault]:
    """What is wrong with the order of loops, their marks, packed operands and accumulators.

    The statements of the tree are sound. The rules are those of the actions that make marks.
    """
    for number, nest in enumerate(tree.nests):
        witness = order_violation(tree, nest)
        if witness is not None:
            yield TreeFault(
                number, str(witness), hint="another order of the loops, or `dims` first", depth=0
            )
        if nest.accumulators > _MOST_ACCUMULATORS:
            yield TreeFault(number, f"more than {_MOST_ACCUMULATORS} accumulators")
        elif nest.accumulators and (
            nest.statement.plus is None or not is_reorderable_nest(tree, nest)
        ):
            yield TreeFault(number, "the order of the accumulation is given, or there is none")
        yield from _loop_faults(tree, number, nest)


def _loop_faults(tree: LoopTree, number: int, nest: TreeNest) -> Iterator[TreeFault]:
    is_inside_vector, packed = False, set[int]()
    operands = nest.statement.operands
    for depth, loop in enumerate(nest.loops):
        points = prod(inner.trips for inner in nest.loops[depth:])
        reason = ""
        if loop.mark is Mark.PARALLEL and depth:
            reason = "a parallel loop is the outermost one"
        elif loop.mark is Mark.PARALLEL and carries_dependence(tree, nest, depth):
            reason = "iterations of a parallel loop may not depend on each other"
        elif loop.mark in (Mark.VECTOR, Mark.UNROLL) and points > _SLACK * MOST_UNROLLED:
            reason = f"{points} points would be straight-line code"
        elif loop.mark is Mark.VECTOR and is_inside_vector:
            reason = "a loop around is vectorised already"
        elif loop.mark is Mark.VECTOR and carries_dependence(tree, nest, depth, relaxed=True):
            reason = "its iterations depend on each other in a given order"
        elif loop.packs and (loop.mark is Mark.PARALLEL or is_inside_vector):
            reason = "no operand is packed before a parallel loop or inside a vectorised one"
        elif any(operand >= len(operands) or operand in packed for operand in loop.packs):
            reason = "there is no such operand, or it is packed already"
        elif any(operands[k].array == nest.statement.write.array for k in loop.packs):
            reason = "the nest writes the operand that is packed"
        if reason:
            yield TreeFault(number, reason, depth=depth)
        is_inside_vector |= loop.mark is Mark.VECTOR
        packed.update(loop.packs)
