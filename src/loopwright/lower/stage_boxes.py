"""Boxes of arrays in scratchpads: the copies around an iteration, and the accesses that use them.

    for k_t in range(0, m, 32): S(A[i, k])
->  for k_t in range(0, m, 32):
        let A_box_rows = min(32, n - i_t), A_box_width = min(32, m - k_t)
        alloc scratchpad A_box[32, 32] with rows of A_box_width:
            copy A_box[0, 0] = A[i_t, k_t], A_box_rows x A_box_width
            S(A_box[i - i_t, k - k_t])

A box is as large as what its iteration accesses. DMA packs the rows of a request, so rows in the
scratchpad are as long as those that are moved. With two boxes at a time these are equally long for
all iterations, and the next box is on its way while one is used:

    alloc scratchpad A_box[2, 32, 32] with rows of min(32, m):
        start copy A_box[0] of the first iteration
        for k_t in range(0, m, 32):
            wait; start copy A_box[1 - slot] of the next iteration; S(A_box[slot, ...])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from loopwright.ir.access_names import named_access
from loopwright.ir.dtypes import BOOL
from loopwright.ir.expr import Binary, Const, Expr, Load, Select, Var
from loopwright.ir.islkit import isl
from loopwright.ir.loops import Alloc, Buffer, Commit, Copy, For, If, Space, Stmt, Store, Wait
from loopwright.ir.program import Array, Statement
from loopwright.ir.schedule import Schedule, StagedBox
from loopwright.ir.schedule_tree import bands, nodes_of
from loopwright.ir.visit import fresh_name, names, rebuild, rewrite, substitute
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.ast_expressions import parameter_condition, parameter_expr
from loopwright.lower.build import lets, seq
from loopwright.lower.linear_forms import linear, nonnegative_form, normal

__all__ = ["BoxStaging"]

_IN, _PARAM, _SET = isl.dim_type.in_, isl.dim_type.param, isl.dim_type.set
_TRUE = Const(True, BOOL)
_Places = Mapping[str, Expr]  # the values of loops, by name


@dataclass(slots=True)
class _Box:
    """A staged box, its memory, and where it lies, over the values of loops."""

    staged: StagedBox
    array: Array
    name: str  # of the memory
    words: tuple[str, ...]  # names for the first elements, then for the extents
    first: tuple[Expr, ...]  # the least subscripts, over the variables of `staged`
    count: tuple[Expr, ...]  # elements in each dimension
    guard: Expr  # whether the iteration accesses anything
    slot: str = ""


class BoxStaging:
    """The boxes of a schedule, for the reader of its loops."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.boxes: list[_Box] = []
        program = schedule.program
        taken = {array.name for array in program.arrays} | set(program.params)
        taken |= {band.loop for band in bands(nodes_of(schedule))} if schedule.boxes else set()
        for staged in schedule.boxes:
            array = program.array(staged.array)
            name = fresh_name(f"{staged.array}_box", taken)
            taken.add(name)
            wishes = [f"{name}_{word}{k}" for word in ("at", "by") for k in range(array.rank)]
            words = tuple(fresh_name(wish, taken) for wish in (*wishes, f"{name}_slot"))
            taken.update(words)
            place = _place(staged, schedule)
            self.boxes.append(_Box(staged, array, name, words[:-1], *place, slot=words[-1]))

    def renamed(self, store: Store, statement: Statement, point: Sequence[Expr]) -> Store:
        """An instance whose staged accesses name the boxes, with the subscripts of the arrays."""
        program = self.schedule.program
        values = dict(zip(statement.iterators, point, strict=True))
        for box in self.boxes:
            for name in box.staged.accesses:
                found = named_access(program, name)
                if found.statement != statement.name:
                    continue
                if found.is_write:
                    store = replace(store, buffer=box.name)
                    continue
                index = tuple(substitute(entry, values) for entry in found.access.index)
                load = Load(found.access.array, index, found.access.dtype)
                store = replace(store, value=_in_place_of(load, box.name, store.value))
        return store

    def inside(self, loop: str, body: Stmt, places: _Places, made: For | None) -> Stmt:
        """A loop, or the one iteration that stands for it, with the boxes that it stages."""
        own = [box for box in self.boxes if box.staged.loop == loop]
        ahead = [box for box in own if box.staged.buffers > 1 and made is not None]
        plain = [box for box in own if box not in ahead]
        for box in reversed(plain):
            body = _in_turns(box, body, places)
        if made is None:
            return body
        made = replace(made, body=body)
        return _ahead(ahead, made, loop, places) if ahead else made


def _in_place_of(load: Load, name: str, value: Expr) -> Expr:
    """`value` with another array in a load."""
    return rewrite(value, lambda node: replace(load, array=name) if node == load else node)


def _place(
    staged: StagedBox, schedule: Schedule
) -> tuple[tuple[Expr, ...], tuple[Expr, ...], Expr]:
    """First elements, extents and guard of a box, over its variables and the parameters."""
    program = schedule.program
    elements, reached = staged.elements, staged.reached.intersect_params(program.context)
    for at, (name, _) in enumerate(staged.variables):
        elements = elements.set_dim_name(_IN, at, name)
        reached = reached.set_dim_name(_SET, at, name)
    count = len(staged.variables)
    start = elements.dim(_PARAM)
    inside = elements.move_dims(_PARAM, start, _IN, 0, count).range()
    known = inside.params().intersect_params(program.context)
    start = reached.dim(_PARAM)
    loops = reached.move_dims(_PARAM, start, _SET, 0, count).params().coalesce()
    first: list[Expr] = []
    extents: list[Expr] = []
    for at, whole in enumerate(program.array(staged.array).shape):
        low = _bound_of(inside.dim_min(at), known)
        if staged.is_full_width and at == len(staged.extents) - 1:
            extent = staged.extents[-1]
            first.append(normal(low.min(whole - extent).max(0)))
            extents.append(normal(whole.min(extent)))
            continue
        high = _bound_of(inside.dim_max(at), known)
        first.append(low)
        extents.append(_distance(low, high))
    # Loops run through all points of one polyhedron, and perhaps beyond those of several.
    is_plain = loops.n_basic_set() == 1
    given = loops if is_plain else program.context
    guard = normal(parameter_condition(known.gist(given).coalesce(), given))
    if guard.dtype != BOOL:  # isl writes true and false as 1 and 0
        guard = Const(guard != Const(0), BOOL)
    return tuple(first), tuple(extents), guard


def _bound_of(function: isl.PwAff, known: isl.Set) -> Expr:
    """A function of parameters, with minima and maxima for the selections that are some."""
    return normal(rewrite(parameter_expr(function.gist(known), known), _as_extremum))


def _as_extremum(node: Expr) -> Expr:
    """`x if d >= 0 else y` as min(x, y) where y - x is d or d + 1, as max(x, y) where x - y is."""
    if not isinstance(node, Select):
        return node
    form = nonnegative_form(normal(node.cond))
    if form is None:
        return node
    gap = linear(node.y) - linear(node.x)
    for op, distance in (("min", gap), ("max", gap * -1)):
        rest = distance - form
        if not rest.terms and rest.constant in (0, 1):
            return Binary(op, node.x, node.y)
    return node


def _distance(low: Expr, high: Expr) -> Expr:
    """high - low + 1, inside of a minimum where `high` is one."""
    match high:
        case Binary(op="min", x=x, y=y):
            return normal(_distance(low, x).min(_distance(low, y)))
    return normal(high - low + 1)


def _in_turns(box: _Box, body: Stmt, places: _Places) -> Stmt:
    """The box is brought in, used, and put back."""
    bound, first, count = _bound(box, places)
    inner = _with_box(body, box, first, ())
    moved = (box.staged.array, first, count)
    guard = _here(box, box.guard, places)
    zero = tuple(Const(0) for _ in first)
    parts = [inner]
    if box.staged.is_brought_in:
        parts.insert(0, _guarded(guard, Copy(box.name, zero, *moved)))
    if box.staged.is_put_back:
        back = Copy(box.staged.array, first, box.name, zero, count)
        parts.append(_guarded(guard, back))
    shape = tuple(map(Const, box.staged.extents))
    alloc = Alloc(_memory(box, count[-1]), shape, seq(*parts))
    return lets(bound, alloc)


def _ahead(boxes: Sequence[_Box], made: For, loop: str, places: _Places) -> Stmt:
    """Two boxes of each array, one of them on its way."""
    var = Var(made.var)

    def brought(value: Expr, slot: Expr) -> Stmt:
        here = {**places, loop: value}
        copies: list[Stmt] = []
        for box in boxes:
            first, count = (
                tuple(_here(box, expr, here) for expr in exprs) for exprs in (box.first, box.count)
            )
            zero = (slot, *(Const(0) for _ in first))
            moved = Copy(box.name, zero, box.staged.array, first, count, is_async=True)
            copies.append(_guarded(_here(box, box.guard, here), moved))
        return If(Binary("lt", value, made.stop), seq(*copies))

    slot = Var(boxes[0].slot)
    turn = normal((var - made.start) // made.step % 2)
    body = made.body
    bound: list[tuple[Var, Expr]] = [(slot, turn)]
    for box in boxes:
        own, first, _ = _bound(box, places, is_first_only=True)
        bound += own
        body = _with_box(body, box, first, (slot,))
    coming = brought(normal(var + made.step), normal(1 - slot))
    inner = seq(Wait(0), coming, Commit(), lets(bound[1:], body))
    head = seq(brought(made.start, Const(0)), Commit())
    whole = seq(head, replace(made, body=lets(bound[:1], inner)))
    for box in reversed(boxes):
        width = _here(box, box.count[-1], places) if box.staged.is_full_width else Const(1)
        shape = tuple(map(Const, (2, *box.staged.extents)))
        memory = _memory(box, width)
        size = prod(box.staged.extents)
        ring = replace(memory, strides=(Const(size), *memory.strides))
        whole = Alloc(ring, shape, whole)
    return whole


def _memory(box: _Box, width: Expr) -> Buffer:
    """The memory of one box: rows of `width` elements, one behind another."""
    extents = box.staged.extents
    strides: list[Expr] = [Const(1)]
    if len(extents) > 1:
        strides.insert(0, width)
    # Of more than two dimensions the outer ones have room for as many rows as there can be.
    for extent in reversed(extents[1:-1]):
        strides.insert(0, normal(strides[0] * extent))
    return Buffer(box.name, box.array.dtype, tuple(strides), Space.SCRATCHPAD, writable=True)


def _bound(
    box: _Box, places: _Places, *, is_first_only: bool = False
) -> tuple[list[tuple[Var, Expr]], tuple[Expr, ...], tuple[Expr, ...]]:
    """Names for what is more than a sum, then first elements and extents by these names."""
    bound: list[tuple[Var, Expr]] = []
    found: list[Expr] = []
    rank = len(box.first)
    exprs = box.first if is_first_only else (*box.first, *box.count)
    for word, expr in zip(box.words, exprs, strict=False):
        value = _here(box, expr, places)
        if all(isinstance(atom, Var) for atom, _ in linear(value).terms) and len(names(value)) < 2:
            found.append(value)
        else:
            bound.append((Var(word), value))
            found.append(Var(word))
    return bound, tuple(found[:rank]), tuple(found[rank:])


def _here(box: _Box, expr: Expr, places: _Places) -> Expr:
    values: dict[str, Expr] = {}
    for at, (name, loop) in enumerate(box.staged.variables):
        if loop in places:
            values[name] = places[loop]
        elif name in names(expr):
            values[name] = substitute(_only_value(box.staged, at), values)
    return normal(substitute(expr, values))


def _only_value(staged: StagedBox, at: int) -> Expr:
    """The value of a loop that isl has left out, over those of the loops around it."""
    reached = staged.reached
    for k, (name, _) in enumerate(staged.variables):
        reached = reached.set_dim_name(_SET, k, name)
    reached = reached.project_out(_SET, at + 1, reached.dim(_SET) - at - 1)
    known = reached.move_dims(_PARAM, reached.dim(_PARAM), _SET, 0, at)
    value = known.dim_min(0)
    return _bound_of(value, known.params())


def _with_box(body: Stmt, box: _Box, first: Sequence[Expr], slot: tuple[Expr, ...]) -> Stmt:
    """`body` with subscripts of the box in place of those of the array."""

    def moved(index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return (*slot, *(normal(at - low) for at, low in zip(index, first, strict=True)))

    def change(node: Expr) -> Expr:
        if isinstance(node, Load) and node.array == box.name:
            return replace(node, index=moved(node.index))
        return node

    def visit(node: Stmt) -> Stmt:
        if isinstance(node, Store) and node.buffer == box.name:
            return replace(node, index=moved(node.index))
        return node

    return rebuild(body, visit, lambda expr: rewrite(expr, change))


def _guarded(cond: Expr, body: Stmt) -> Stmt:
    return body if cond == _TRUE else If(cond, body)
