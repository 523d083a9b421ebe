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

Boxes that cores give to each other (mesh_nests/shared_boxes) are of panels whose parts come so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod

from loopwright.ir.access_names import named_access
from loopwright.ir.dtypes import BOOL
from loopwright.ir.expr import Binary, Const, Expr, Load, Var
from loopwright.ir.islkit import NotAffine, bounded, condition, context, isl
from loopwright.ir.loops import (
    Alloc,
    Axis,
    Buffer,
    Commit,
    Copy,
    For,
    If,
    Let,
    Mark,
    Space,
    Stmt,
    Store,
    Wait,
)
from loopwright.ir.program import Array, Statement
from loopwright.ir.schedule import Schedule, StagedBox
from loopwright.ir.schedule_tree import bands, nodes_of
from loopwright.ir.visit import fresh_name, names, rebuild, rewrite, substitute
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.ast_expressions import parameter_condition
from loopwright.lower.build import lets, seq
from loopwright.lower.linear_forms import linear, normal
from loopwright.lower.mesh_nests.box_bounds import bound_of, distance
from loopwright.lower.mesh_nests.handed_boxes import (
    is_at_end,
    require_handed_on,
    require_in_turn,
    taken_or_sent,
)
from loopwright.lower.mesh_nests.put_order import comes_after_puts, is_read_directly
from loopwright.lower.mesh_nests.shared_boxes import given_by_all, given_by_mesh, own_part

__all__ = ["BoxStaging"]

_IN, _PARAM, _SET = isl.dim_type.in_, isl.dim_type.param, isl.dim_type.set
_TRUE = Const(True, BOOL)
_QUOTA = 200_000  # elementary isl operations for what is known in an iteration
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
    used: isl.Set  # iterations that access anything, their values as parameters
    shared: Expr  # whether an iteration does, of all cores that take part in a broadcast
    after_puts: bool = False  # of elements that the core may have put before
    lands: bool = False  # what is put back is read from main memory, too
    slot: str = ""
    panel: _Box | None = None  # whose parts cores give to each other
    # Of one that is handed on: whether an iteration is the first one, and the last one.
    ends: tuple[Expr, ...] = ()
    mesh: tuple[int, int] = (1, 1)


class BoxStaging:
    """The boxes of a schedule, for the reader of its loops."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.boxes: list[_Box] = []
        self.panels: list[_Box] = []
        program = schedule.program
        taken = {array.name for array in program.arrays} | set(program.params)
        taken |= {band.loop for band in bands(nodes_of(schedule))} if schedule.boxes else set()
        require_handed_on(schedule)
        for staged in schedule.boxes:
            box = self._made(staged, "box", taken)
            self.boxes.append(box)
            if staged.panel is not None:
                box.panel = self._made(staged.panel, "part", taken)
                for other in self.panels:  # of one loop they take turns together
                    if other.staged.loop == staged.panel.loop:
                        box.panel.slot = other.slot
                self.panels.append(box.panel)

    def _made(self, staged: StagedBox, word: str, taken: set[str]) -> _Box:
        """A box with names that are not `taken`."""
        array = self.schedule.program.array(staged.array)
        name = fresh_name(f"{staged.array}_{word}", taken)
        taken.add(name)
        wishes = [f"{name}_{word}{k}" for word in ("at", "by") for k in range(array.rank)]
        words = tuple(fresh_name(wish, taken) for wish in (*wishes, f"{name}_slot"))
        taken.update(words)
        place = _place(staged, self.schedule)
        late = comes_after_puts(self.schedule, staged)
        lands = staged.is_put_back and is_read_directly(self.schedule, staged)
        made = _Box(staged, array, name, words[:-1], *place, slot=words[-1])
        ends = is_at_end(staged) if staged.handed_on else ()
        mesh = self.schedule.mesh or made.mesh
        return replace(made, after_puts=late, lands=lands, ends=ends, mesh=mesh)

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

    def concerns(self, loop: str) -> bool:
        """Whether a loop is one whose value some box depends on."""
        boxes = (*self.boxes, *self.panels)
        return any(loop == name for box in boxes for _, name in box.staged.variables)

    def inside(
        self, loop: str, body: Stmt, places: _Places, known: Sequence[Expr], made: For | None
    ) -> Stmt:
        """A loop, or the one iteration that stands for it, with the boxes that it stages.

        `known` are conditions that hold in the iteration.
        """
        own = [box for box in self.boxes if box.staged.loop == loop]
        panels = [box for box in self.panels if box.staged.loop == loop]
        ahead = [
            box
            for box in own
            if box.staged.buffers > 1 and not self._is_ring(box) and made is not None
        ]
        plain = [box for box in own if box not in ahead]
        for box in reversed(plain):
            if box.panel is None:
                ways = self._guard(box, places, known), self._put_guard(box, places, known)
                body = _in_turns(box, body, places, ways, is_ring=self._is_ring(box))
            else:
                body = _filled(box, body, places)
        if panels and (made is None or panels[0].staged.buffers == 1):
            body, panels = _at_once(panels, body, places), []
        if made is None:
            return body
        require_in_turn(self.schedule, loop, made.step)
        if panels:
            made = self._from_first(panels[0], replace(made, body=body), places)
            body = made.body
        ahead = [*panels, *ahead]
        made = replace(made, body=body)
        guards = [_TRUE if box in panels else self._guard(box, places, known) for box in ahead]
        return _ahead(ahead, guards, made, loop, places) if ahead else made

    @property
    def rings(self) -> tuple[str, ...]:
        """Memory of two boxes for the iterations of a core of a loop that is dealt out.

        Accesses are to the first one until `lower/mesh_nests/overlap_boxes` lets both take turns.
        """
        return tuple(box.name for box in self.boxes if self._is_ring(box))

    def _is_ring(self, box: _Box) -> bool:
        staged = box.staged
        return staged.buffers > 1 and self.schedule.mark(staged.loop) is Mark.THREAD

    def _guard(self, box: _Box, places: _Places, known: Sequence[Expr]) -> Expr:
        """Whether the iteration accesses anything of the box, over the variables of the box.

        isl leaves conditions of a loop to the loops inside, and runs through the hull of several
        polyhedra, so there are iterations in which nothing is done: of these, first elements and
        extents of a box mean nothing.
        """
        return self._condition(box.used, box, places, known)

    def _put_guard(self, box: _Box, places: _Places, known: Sequence[Expr]) -> Expr:
        """Whether what the iteration has written is put back, over the variables of the box."""
        kept = box.staged.kept
        if kept is None:
            return self._guard(box, places, known)
        for at, (name, _) in enumerate(box.staged.variables):
            kept = kept.set_dim_name(_SET, at, name)
        kept = kept.move_dims(_PARAM, kept.dim(_PARAM), _SET, 0, len(box.staged.variables))
        return self._condition(kept.params(), box, places, known)

    def _condition(self, where: isl.Set, box: _Box, places: _Places, known: Sequence[Expr]) -> Expr:
        """Whether an iteration is one of some, whose values are parameters."""
        context = self.schedule.program.context
        work = partial(_given, box, places, known, context)
        given = bounded(work, lambda _: context, _QUOTA)
        if given.is_subset(where):
            return _TRUE
        guard = normal(parameter_condition(where.gist(given).coalesce(), given))
        # isl writes true and false as 1 and 0
        return guard if guard.dtype == BOOL else Const(guard != Const(0), BOOL)

    def _turn(self, reached: isl.Set, at: int, loop: str) -> int:
        """How far the tiles of all cores reach, in one turn; 0 where turns do not begin there."""
        assert self.schedule.mesh is not None
        along = {Axis.ROW: 0, Axis.COLUMN: 1}.get(self.schedule.axis(loop) or Axis.MESH)
        stride = reached.get_stride(at).to_python()
        if along is None or stride < 1:
            return 0
        length: int = stride * self.schedule.mesh[along]
        outer = reached.project_out(_SET, at + 1, reached.dim(_SET) - at - 1)
        if at:
            outer = outer.move_dims(_PARAM, outer.dim(_PARAM), _SET, 0, at)
        if not outer.dim_min_val(0).is_int():
            return 0
        first = bound_of(outer.dim_min(0), outer.params())
        is_there = isinstance(first, Const) and int(first.value.real) % length == 0
        return length if is_there else 0

    def _from_first(self, panel: _Box, made: For, places: _Places) -> For:
        """A loop of panels that begins at the same iteration on all cores.

        Those before its own first one a core runs for others.
        """
        mapped = {
            place.name
            for loop, place in places.items()
            if self.schedule.mark(loop) is Mark.THREAD and isinstance(place, Var)
        }
        if not mapped & names(made.start):
            return made
        reached, variables = panel.staged.reached, panel.staged.variables
        numbers: dict[str, Expr] = {}
        for at, (name, loop) in enumerate(variables):
            if self.schedule.mark(loop) is not Mark.THREAD:
                continue
            length = self._turn(reached, at, loop)
            if length and isinstance(places.get(loop), Var):
                # Tiles of a turn: their number in place of where a tile begins.
                reached = reached.apply(_turn_of(reached, at, length))
                numbers[name] = places[loop] // length
            else:
                reached = reached.project_out(_SET, at, 1).insert_dims(_SET, at, 1)
        for at, (name, _) in enumerate(variables):
            reached = reached.set_dim_name(_SET, at, name)
        known = reached.move_dims(_PARAM, reached.dim(_PARAM), _SET, 0, len(variables) - 1)
        for at, (name, _) in enumerate(variables[:-1]):
            known = known.set_dim_name(_PARAM, known.dim(_PARAM) - len(variables) + 1 + at, name)
        found = bound_of(known.dim_min(0), known.params())
        first = _here(panel, normal(substitute(found, numbers)), places)
        own = Binary("ge", Var(made.var), made.start)
        return replace(made, start=first, body=If(own, made.body))


def _turn_of(reached: isl.Set, at: int, length: int) -> isl.Map:
    """`{ [.., x, ..] -> [.., x // length, ..] }`."""
    count = reached.dim(_SET)
    names_in = [f"x{k}" for k in range(count)]
    names_out = [f"x{k}" if k != at else "t" for k in range(count)]
    where = f"{length} t <= x{at} < {length} t + {length}"
    text = f"{{ [{', '.join(names_in)}] -> [{', '.join(names_out)}] : {where} }}"
    return isl.Map.read_from_str(context(), text)


def _in_place_of(load: Load, name: str, value: Expr) -> Expr:
    """`value` with another array in a load."""
    return rewrite(value, lambda node: replace(load, array=name) if node == load else node)


def _given(box: _Box, places: _Places, conditions: Sequence[Expr], context_: isl.Set) -> isl.Set:
    """What conditions over the variables of loops say of the values of a box, as parameters."""
    apart = {name: Var(f"loop {name}") for cond in conditions for name in names(cond)}
    apart |= {name: Var(f"loop {name}") for value in places.values() for name in names(value)}
    params = [context_.get_dim_name(_PARAM, at) for at in range(context_.dim(_PARAM))]
    apart = {name: var for name, var in apart.items() if name not in params}
    space = context_.get_space()
    for name in (*(name for name, _ in box.staged.variables), *(v.name for v in apart.values())):
        space = space.add_dims(_PARAM, 1).set_dim_name(_PARAM, space.dim(_PARAM), name)
    found = context_.align_params(space)
    conditions = [substitute(cond, apart) for cond in conditions]
    for name, loop in box.staged.variables:
        if loop in places:
            conditions.append(Binary("eq", Var(name), substitute(places[loop], apart)))
    for cond in conditions:
        try:
            found = found.intersect(condition(cond, space).params())
        except NotAffine:
            continue  # less is known
    first = found.find_dim_by_name(_PARAM, next(iter(apart.values())).name) if apart else 0
    return found.project_out(_PARAM, first, len(apart)).coalesce()


def _place(
    staged: StagedBox, schedule: Schedule
) -> tuple[tuple[Expr, ...], tuple[Expr, ...], isl.Set, Expr]:
    """First elements and extents of a box over its variables, and the iterations that use it."""
    program = schedule.program
    elements = staged.elements
    for at, (name, _) in enumerate(staged.variables):
        elements = elements.set_dim_name(_IN, at, name)
    count = len(staged.variables)
    start = elements.dim(_PARAM)
    inside = elements.move_dims(_PARAM, start, _IN, 0, count).range()
    known = inside.params().intersect_params(program.context)
    first: list[Expr] = []
    extents: list[Expr] = []
    for at, whole in enumerate(program.array(staged.array).shape):
        low = bound_of(inside.dim_min(at), known)
        if staged.is_full_width and at == len(staged.extents) - 1:
            extent = staged.extents[-1]
            first.append(normal(low.min(whole - extent).max(0)))
            extents.append(normal(whole.min(extent)))
            continue
        high = bound_of(inside.dim_max(at), known)
        first.append(low)
        extents.append(distance(low, high))
    return tuple(first), tuple(extents), known, _shared_guard(staged, schedule, known)


def _shared_guard(staged: StagedBox, schedule: Schedule, known: isl.Set) -> Expr:
    """Whether the iteration of a core uses a box that it shares.

    Cores take part that have no such iteration: nothing is known of the mapped loops here but that
    tiles begin at multiples of their size.
    """
    if staged.axis is None:
        return _TRUE
    context = schedule.program.context
    reached = staged.reached.intersect_params(context)
    count = len(staged.variables)
    for at, (name, _) in enumerate(staged.variables):
        reached = reached.set_dim_name(_SET, at, name)
    strides = isl.Set.from_basic_set(reached.affine_hull())
    before = reached
    for at, (name, loop) in enumerate(staged.variables):
        if schedule.mark(loop) is Mark.THREAD:
            reached = reached.project_out(_SET, at, 1).insert_dims(_SET, at, 1)
            reached = reached.set_dim_name(_SET, at, name)
    # Loops that end elsewhere on each core go on to the last end of all.
    ends = before.project_out(_SET, 0, 0)
    for at, (_, loop) in enumerate(staged.variables):
        if schedule.mark(loop) is not Mark.THREAD:
            ends = ends.project_out(_SET, at, 1).insert_dims(_SET, at, 1)
    is_known = reached.intersect(ends).is_subset(before)
    reached = reached.intersect(strides) if is_known else strides
    start = reached.dim(_PARAM)
    loops = reached.move_dims(_PARAM, start, _SET, 0, count).params().coalesce()
    # Loops run through all points of one polyhedron, and perhaps beyond those of several.
    given = loops if loops.n_basic_set() == 1 else context
    guard = normal(parameter_condition(known.gist(given).coalesce(), given))
    # isl writes true and false as 1 and 0
    return guard if guard.dtype == BOOL else Const(guard != Const(0), BOOL)


def _in_turns(
    box: _Box, body: Stmt, places: _Places, guards: tuple[Expr, Expr], *, is_ring: bool
) -> Stmt:
    """The box is brought in, used, and put back, both where a condition holds."""
    bound, first, count = _bound(box, places)
    slot = (Const(0),) if is_ring else ()
    inner = _with_box(body, box, first, slot)
    shape = count[box.staged.fixed :]
    moved = (box.staged.array, first, shape)
    coming, going = (_here(box, guard, places) for guard in guards)
    zero = (*slot, *(Const(0) for _ in box.staged.sides))
    parts = [inner]
    if box.staged.is_brought_in:
        brought = Copy(box.name, zero, *moved, after_puts=box.after_puts)
        parts.insert(0, _guarded(coming, _handed_on(box, brought, places)))
    if box.staged.is_put_back:
        back = Copy(box.staged.array, first, box.name, zero, shape, lands=box.lands)
        parts.append(_guarded(going, _handed_on(box, back, places)))
    memory, room = _memory(box, count[-1]), tuple(map(Const, box.staged.sides))
    if is_ring:
        one = Const(prod(box.staged.sides))
        memory, room = replace(memory, strides=(one, *memory.strides)), (Const(2), *room)
    return lets(bound, Alloc(memory, room, seq(*parts)))


def _handed_on(box: _Box, copy: Copy, places: _Places) -> Stmt:
    """A copy to or from a box, which the first and the last iteration of a circle do."""
    if not box.ends:
        return copy
    first, last = (_here(box, end, places) for end in box.ends)
    return taken_or_sent(copy, box.name, first if copy.target == box.name else last, box.mesh)


def _filled(box: _Box, body: Stmt, places: _Places) -> Stmt:
    """The box is filled by all cores of a row or column, then used."""
    panel = box.panel
    assert panel is not None
    assert box.staged.axis is not None
    bound, first, count = _bound(box, places)
    inner = _with_box(body, box, first, ())
    begin = (_here(panel, expr, places) for expr in panel.first)
    offset = tuple(normal(at - low) for at, low in zip(first, begin, strict=True))
    offset, count = offset[box.staged.fixed :], count[box.staged.fixed :]
    parts, axis = (panel.staged.cores, panel.staged.memory[0]), box.staged.axis
    guard = _here(box, box.shared, places)
    slot = Var(panel.slot)
    if axis is Axis.MESH:
        sides = (panel.staged.memory[0], *box.staged.sides[1:])
        strides = tuple(Const(prod(sides[at + 1 :])) for at in range(len(sides)))
        relay = Buffer(
            f"{box.name}_relay", box.array.dtype, strides, Space.SCRATCHPAD, writable=True
        )
        filled = given_by_mesh(
            box.name, panel.name, slot, parts, offset, count, guard, relay, tuple(map(Const, sides))
        )
    else:
        filled = given_by_all(box.name, panel.name, slot, axis, parts, offset, count, guard)
    shape = tuple(map(Const, box.staged.sides))
    return lets(bound, Alloc(_memory(box, shape[-1]), shape, seq(filled, inner)))


def _at_once(panels: Sequence[_Box], body: Stmt, places: _Places) -> Stmt:
    """Parts of panels, for a loop of one iteration."""
    slot = Const(0)
    body = seq(*(_part(panel, places, slot, is_async=False) for panel in panels), body)
    body = Let(panels[0].slot, slot, body)
    for panel in reversed(panels):
        body = _ring(panel, places, body)
    return body


def _part(panel: _Box, places: _Places, slot: Expr, *, is_async: bool) -> Stmt:
    """A core brings in its part of a panel."""
    staged = panel.staged
    assert staged.axis is not None
    first, count = (
        tuple(_here(panel, expr, places) for expr in exprs) for exprs in (panel.first, panel.count)
    )
    guard = _here(panel, panel.shared, places)
    outer, parts = first[: staged.fixed], (staged.cores, staged.memory[0])
    first, count = own_part(staged.axis, parts, first[staged.fixed :], count[staged.fixed :], guard)
    to = (slot, *(Const(0) for _ in count))
    return Copy(panel.name, to, staged.array, (*outer, *first), count, is_async=is_async)


def _ring(box: _Box, places: _Places, body: Stmt) -> Stmt:
    """The memory of two boxes, or parts of them, whose rows are equally long."""
    width = _here(box, box.count[-1], places) if box.staged.is_full_width else Const(1)
    extents = box.staged.memory
    memory = _memory(box, width)
    ring = replace(memory, strides=(Const(prod(extents)), *memory.strides))
    return Alloc(ring, tuple(map(Const, (box.staged.buffers, *extents))), body)


def _ahead(
    boxes: Sequence[_Box], guards: Sequence[Expr], made: For, loop: str, places: _Places
) -> Stmt:
    """Two boxes of each array, one of them on its way."""
    var = Var(made.var)

    def brought(value: Expr, slot: Expr) -> Stmt:
        here = {**places, loop: value}
        copies: list[Stmt] = []
        for box, guard in zip(boxes, guards, strict=True):
            if box.staged.parts > 1:
                copies.append(_part(box, here, slot, is_async=True))
                continue
            first, count = (
                tuple(_here(box, expr, here) for expr in exprs) for exprs in (box.first, box.count)
            )
            zero = (slot, *(Const(0) for _ in box.staged.sides))
            shape = count[box.staged.fixed :]
            moved = Copy(box.name, zero, box.staged.array, first, shape, is_async=True)
            copies.append(_guarded(_here(box, guard, here), moved))
        return If(Binary("lt", value, made.stop), seq(*copies))

    slot = Var(boxes[0].slot)
    turn = normal((var - made.start) // made.step % 2)
    body = made.body
    bound: list[tuple[Var, Expr]] = [(slot, turn)]
    for box in boxes:
        if box.staged.parts > 1:
            continue
        own, first, _ = _bound(box, places, is_first_only=True)
        bound += own
        body = _with_box(body, box, first, (slot,))
    coming = brought(normal(var + made.step), normal(1 - slot))
    inner = seq(Wait(0), coming, Commit(), lets(bound[1:], body))
    head = seq(brought(made.start, Const(0)), Commit())
    whole = seq(head, replace(made, body=lets(bound[:1], inner)))
    for box in reversed(boxes):
        whole = _ring(box, places, whole)
    return whole


def _memory(box: _Box, width: Expr) -> Buffer:
    """The memory of one box: rows of `width` elements, one behind another."""
    extents = box.staged.sides
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
    return bound_of(value, known.params())


def _with_box(body: Stmt, box: _Box, first: Sequence[Expr], slot: tuple[Expr, ...]) -> Stmt:
    """`body` with subscripts of the box in place of those of the array."""

    def moved(index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        inside = list(zip(index, first, strict=True))[box.staged.fixed :]
        return (*slot, *(normal(at - low) for at, low in inside))

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
