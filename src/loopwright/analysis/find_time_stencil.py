"""Programs that are one time loop over grids, updated from near neighbours (ir/time_stencil).

What a tile needs is found by going back from its last step: a statement that is needed on a box
reads that box moved by its distances. The boxes grow by the same number of elements in every step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise

from loopwright.analysis.dependences import access_map
from loopwright.analysis.relations import affine_expr
from loopwright.ir.expr import Binary, Const, Expr, Var
from loopwright.ir.islkit import isl, pieces_in
from loopwright.ir.program import Access, Program, Role, Statement
from loopwright.ir.schedule_tree import Band, Leaf, Node, moved_by, read_tree, statements_in
from loopwright.ir.schedule_tree import Sequence as InOrder
from loopwright.ir.time_stencil import Growth, StencilStatement, TimeStencil

__all__ = ["MOST_STEPS", "find_time_stencil", "read_distance"]

MOST_STEPS = 32  # for which growth is proven
_Side = tuple[int, ...]
_Needed = dict[str, tuple[_Side, _Side]]  # elements beyond a tile, by array


def find_time_stencil(program: Program) -> TimeStencil | str:
    """The stencil that a program is, or why it is none."""
    root = read_tree(program.schedule)
    if not isinstance(root, Band) or len(program.statements) > _MOST_STATEMENTS:
        return "the program is not one loop over time"
    moved = moved_by(root, program)
    if len(moved) < len(program.statements):
        return f"loop '{root.loop}' does not count the steps of all statements"
    order = _order(root)
    if order is None and isinstance(root.child, InOrder):
        order = _order(root.child)
    if order is None:
        return f"the statements in loop '{root.loop}' are not nests one after another"
    written = [s.write.array for s in program.statements]
    grids = {name: program.array(name) for name in dict.fromkeys(written)}
    shape = next(iter(grids.values())).shape
    if not shape or any(grid.shape != shape for grid in grids.values()):
        return "the arrays that are written differ in their extents"
    fixed: dict[str, None] = {}
    lines: dict[str, None] = {}
    found: list[StencilStatement] = []
    limits: tuple[Expr, Expr] | None = None
    distances: dict[str, list[tuple[str, tuple[int, ...]]]] = {}
    for name in order:
        statement = program.statement(name)
        time = moved[name]
        made = _statement(program, statement, time)
        if isinstance(made, str):
            return f"{name}: {made}"
        own, steps = made
        if limits is not None and steps != limits:
            return f"{name} has other steps than the statements before it"
        limits = steps
        distances[name] = []
        for access in dict.fromkeys(statement.reads):
            if not access.index:
                if access.array in written:
                    return f"{name} reads '{access.array}', which is one element"
                continue
            array = program.array(access.array)
            if access.index == (Var(time),) and access.array not in grids:
                lines[access.array] = None
                continue
            if array.shape != shape:
                return f"{name} reads '{access.array}', which is no grid"
            offset = read_distance(own, access)
            if offset is None:
                return f"{name} reads '{access.array}' at no constant distance"
            if access.array == own.array and any(offset):
                return f"{name} reads what it writes in the same step"
            if access.array not in grids:
                fixed[access.array] = None
            distances[name].append((access.array, offset))
        found.append(own)
    assert limits is not None
    return _grown(program, moved[order[0]], limits, shape, found, distances, fixed, lines)


_MOST_STATEMENTS = 12


def _order(node: Node) -> list[str] | None:
    """The statements of nests that follow each other; None for other trees."""
    match node:
        case InOrder(filters=filters):
            parts = [_order(branch.child) for branch in filters]
            named = [
                found if found != [""] else sorted(statements_in(branch.instances))
                for found, branch in zip(parts, filters, strict=True)
            ]
            if any(part is None or len(part) != 1 for part in named):
                return None
            return [name for part in named for name in part or ()]
        case Band(child=child):
            inner = _order(child)
            if inner == [""]:
                return sorted(node.statements)
            return inner if inner is not None and len(inner) == 1 else None
        case Leaf():
            return [""]


def _statement(
    program: Program, statement: Statement, time: str
) -> tuple[StencilStatement, tuple[Expr, Expr]] | str:
    """A statement of a stencil, and the first step and one past the last; or why it is none."""
    bounds = _box(program, statement)
    if bounds is None:
        return "its iterations are no box"
    iterators: list[str] = []
    shifts: list[Expr] = []
    low: list[Expr] = []
    stop: list[Expr] = []
    for entry in statement.write.index:
        iterator, shift = _shifted(entry)
        if iterator == "":
            first, end = shift, shift + 1
        elif iterator in iterators or iterator not in bounds or iterator == time:
            return f"it writes '{statement.write.array}' along no loop of its own"
        else:
            first, end = (bound + shift for bound in bounds[iterator])
        iterators.append(iterator)
        shifts.append(shift)
        low.append(first)
        stop.append(end)
    if set(statement.iterators) != {time, *filter(None, iterators)}:
        return f"it writes elements of '{statement.write.array}' several times in a step"
    nothing = Growth((), ())
    own = StencilStatement(
        statement.name,
        statement.write.array,
        tuple(iterators),
        tuple(shifts),
        tuple(low),
        tuple(stop),
        nothing,
    )
    return own, bounds[time]


def _shifted(entry: Expr) -> tuple[str, Expr]:
    """The iterator and the number whose sum a subscript is; no iterator for a number."""
    match entry:
        case Var(name=name):
            return name, Const(0)
        case Const():
            return "", entry
        case Binary(op="add", x=Var(name=name), y=Const() as shift):
            return name, shift
        case Binary(op="add", x=Const() as shift, y=Var(name=name)):
            return name, shift
        case Binary(op="sub", x=Var(name=name), y=Const(value=int(shift))):
            return name, Const(-shift)
    return " ", Const(0)  # no iterator is called so


def _box(program: Program, statement: Statement) -> dict[str, tuple[Expr, Expr]] | None:
    """First values and one past the last of all iterators; None where these are not a box."""
    domain = statement.domain.intersect_params(program.context)
    space = domain.get_space()
    whole = isl.Set.universe(space).intersect_params(program.context)
    found: dict[str, tuple[Expr, Expr]] = {}
    for at, name in enumerate(statement.iterators):
        ends = [pieces_in(f(at)) for f in (domain.dim_min, domain.dim_max)]
        if any(len(pieces) != 1 for pieces in ends):
            return None
        (_, low), (_, high) = ends[0][0], ends[1][0]
        first, last = affine_expr(low, ()), affine_expr(high, ())
        if first is None or last is None:
            return None
        found[name] = first, last + 1
        local = isl.LocalSpace.from_space(space)
        value = isl.PwAff.from_aff(isl.Aff.var_on_domain(local, isl.dim_type.set, at))
        for bound, is_low in ((low, True), (high, False)):
            limit = isl.PwAff.from_aff(bound).insert_domain(space)
            whole = whole.intersect(value.ge_set(limit) if is_low else value.le_set(limit))
    return found if whole.is_subset(domain) else None


def read_distance(own: StencilStatement, access: Access) -> tuple[int, ...] | None:
    """How far from the element that a statement writes it reads; None where that varies."""
    found: list[int] = []
    for entry, iterator, shift in zip(access.index, own.iterators, own.shifts, strict=True):
        other, at = _shifted(entry)
        if other != iterator or not isinstance(at, Const) or not isinstance(shift, Const):
            return None
        found.append(int(at.value.real) - int(shift.value.real))
    return tuple(found)


def _grown(
    program: Program,
    time: str,
    limits: tuple[Expr, Expr],
    shape: tuple[Expr, ...],
    statements: Sequence[StencilStatement],
    distances: Mapping[str, Sequence[tuple[str, tuple[int, ...]]]],
    fixed: Mapping[str, None],
    lines: Mapping[str, None],
) -> TimeStencil | str:
    """The stencil with what its statements and grids need beyond a tile."""
    grids = list(dict.fromkeys(s.array for s in statements))
    rank = len(shape)
    core = ((0,) * rank, (0,) * rank)
    needed: _Needed = dict.fromkeys(grids, core)
    regions: list[dict[str, tuple[_Side, _Side]]] = []  # by statement, of each step from the end
    reaches: list[_Needed] = []  # of the box of each grid, for so many steps
    carried: set[str] = set()
    reach: _Needed = {}
    for _ in range(MOST_STEPS):
        here: dict[str, tuple[_Side, _Side]] = {}
        for own in reversed(statements):
            region = needed.get(own.array, core)
            here[own.name] = region
            _widen(reach, own.array, region)
            if [s.array for s in statements].count(own.array) == 1:
                needed.pop(own.array, None)
            for array, offset in distances[own.name]:
                moved = _moved(region, offset)
                _widen(reach, array, moved)
                if array not in fixed:
                    _widen(needed, array, moved)
        regions.append(here)
        reaches.append(dict(reach))
        carried = set(needed)
    grown: list[StencilStatement] = []
    for own in statements:
        growth = _growth([step[own.name] for step in regions])
        if growth is None:
            return f"what {own.name} needs does not grow evenly"
        grown.append(replace(own, region=growth))
    boxes = [(name, _limit([step[name] for step in reaches])) for name in (*grids, *fixed)]
    made = [name for name in grids if name not in carried]
    if any(program.array(name).role is Role.LOCAL for name in grids):
        return "a grid is local"
    return TimeStencil(
        time,
        *limits,
        *_span(program, shape, [*grids, *fixed]),
        tuple(grown),
        tuple(name for name in grids if name in carried),
        tuple(made),
        tuple(fixed),
        tuple(lines),
        tuple(boxes),
    )


def _span(
    program: Program, shape: tuple[Expr, ...], grids: Sequence[str]
) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """The first elements of grids that are accessed in each dimension, and one past the last."""
    elements: isl.Set | None = None
    for statement in program.statements:
        for access in (statement.write, *statement.reads):
            if access.array in grids:
                reached = access_map(program, statement, access).range().set_tuple_name("")
                elements = reached if elements is None else elements.union(reached)
    assert elements is not None
    starts: list[Expr] = []
    ends: list[Expr] = []
    for at, extent in enumerate(shape):
        low = [affine_expr(piece, ()) for _, piece in pieces_in(elements.dim_min(at))]
        high = [affine_expr(piece, ()) for _, piece in pieces_in(elements.dim_max(at))]
        if None in low or None in high:
            low, high = [Const(0)], [extent - 1]
        start = reduce(_least, [x for x in low if x is not None])
        end = reduce(_most, [x + 1 for x in high if x is not None])
        starts.append(start if isinstance(start, Const) else start.max(0))
        ends.append(_least(end, extent))
    return tuple(starts), tuple(ends)


def _least(x: Expr, y: Expr) -> Expr:
    return x if x == y else x.min(y)


def _most(x: Expr, y: Expr) -> Expr:
    return x if x == y else x.max(y)


def _widen(needed: _Needed, array: str, region: tuple[_Side, _Side]) -> None:
    low, high = needed.get(array, region)
    needed[array] = (
        tuple(map(max, low, region[0])),
        tuple(map(max, high, region[1])),
    )


def _moved(region: tuple[_Side, _Side], offset: tuple[int, ...]) -> tuple[_Side, _Side]:
    """A box moved by a distance; never less than the tile, so that boxes grow evenly."""
    low = tuple(max(x - d, 0) for x, d in zip(region[0], offset, strict=True))
    high = tuple(max(x + d, 0) for x, d in zip(region[1], offset, strict=True))
    return low, high


def _limit(steps: Sequence[tuple[_Side, _Side]]) -> Growth:
    """A growth from one step on that is nowhere less than the sides of some boxes."""
    found: list[tuple[tuple[int, int], ...]] = []
    for side in (0, 1):
        lines: list[tuple[int, int]] = []
        for dimension in range(len(steps[0][side])):
            values = [step[side][dimension] for step in steps]
            rate = max(after - before for before, after in pairwise(values))
            lines.append((max(v - rate * k for k, v in enumerate(values, 1)), rate))
        found.append(tuple(lines))
    return Growth(*found)


def _growth(steps: Sequence[tuple[_Side, _Side]]) -> Growth | None:
    """The sides at steps 0, 1, ... as base + rate * step; None for others."""
    found: list[tuple[tuple[int, int], ...]] = []
    for side in (0, 1):
        lines: list[tuple[int, int]] = []
        for dimension in range(len(steps[0][side])):
            values = [step[side][dimension] for step in steps]
            rate = values[1] - values[0]
            if values != [values[0] + rate * k for k in range(len(values))]:
                return None
            lines.append((values[0], rate))
        found.append(tuple(lines))
    return Growth(*found)
