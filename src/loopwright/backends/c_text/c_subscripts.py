"""Subscripts in loops of C text: how they move, and whether a loop reads only ahead of its stores.

    for (i...) v[i] = p * v[i + 1] + q * v[i];

No iteration reads what an earlier one has written: compilers find that and take such a loop in
vectors, though its iterations are not independent of each other.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from loopwright.ir.expr import Binary, Call, Const, Expr, Load, Select, Unary, Var
from loopwright.ir.loops import For, Mark, Store
from loopwright.ir.visit import (
    children,
    constant_trips,
    expressions,
    linear_terms,
    loads,
    names,
    statements,
    walk,
)

__all__ = ["lanes_lie_apart", "leave_to_estimate", "reads_ahead", "step_of"]

_ONE = Const(1)
_NEAR = 4  # elements: so many rows lie interleaved where processors load them together
_MOST = 4  # times as many far elements as near ones
_WORTH = 8  # operations for each element that is gathered, from which vectors pay all the same
_DEAR = 8  # operations that a quotient, a root or a function counts for
_FEW = 8  # iterations at most that compilers write out
_VECTOR_BITS = 128  # of the shortest vectors
_Element = tuple[str, tuple[Expr, ...]]  # an array and subscripts


def step_of(expr: Expr, name: str) -> int | None:
    """The coefficient of a variable in a sum; None where `expr` is not linear in it."""
    terms = linear_terms(expr, 1)
    if any(atom is not None and name in names(atom) and atom != Var(name) for atom in terms):
        return None
    return terms[Var(name)]


def leave_to_estimate(loop: For) -> bool:
    """Whether compilers are to judge by themselves whether a loop of vectors pays.

    `omp simd` makes them take vectors against their own estimate, of a loop that they would write
    out otherwise, with vectors of its straight lines. That takes longer where lanes lie apart, and
    where so few iterations as make a vector or two leave some over (points of three coordinates),
    or have an element that the next iteration does not find beside it (columns of small matrices).
    """
    return lanes_lie_apart(loop) or _is_badly_short(loop)


def _is_badly_short(loop: For) -> bool:
    """Whether a few iterations, a constant number, are no whole vectors of neighbours."""
    trips = constant_trips(loop)
    if loop.mark is not Mark.SIMD or trips is None or trips > _FEW:
        return False
    values = [expr for stmt in statements(loop.body) for expr in expressions(stmt)]
    choices = (x for expr in values for x in walk(expr) if isinstance(x, Select))
    if any(loads(x.cond) or children(x.x) or children(x.y) for x in choices):
        return False  # compilers make branches of choices by data, or of what is to be computed
    stored = [s.value.dtype.bits for s in statements(loop.body) if isinstance(s, Store)]
    if trips.bit_count() > 1 or any(trips * bits < _VECTOR_BITS for bits in stored):
        return True
    elements, _ = _elements_and_work(loop)
    return any(not _is_next(index, loop.var) for _, index in elements)


def _is_next(index: tuple[Expr, ...], var: str) -> bool:
    """Whether an element stays, or the next iteration's one is its neighbour."""
    if any(var in names(row) for row in index[:-1]):
        return False
    return not index or step_of(index[-1], var) in (-1, 0, 1)


def lanes_lie_apart(loop: For) -> bool:
    """Whether most elements that a loop moves to lie far from those before, and little is done.

    Vectors are then gathered lane by lane, which takes about as long as what they save. Records of
    a few numbers are no such case: processors load them together.
    """
    elements, work = _elements_and_work(loop)
    moving = [x for x in elements if any(loop.var in names(index) for index in x[1])]
    far = sum(_is_far(x, [y for y in moving if y[0] == x[0]], loop.var) for x in moving)
    return far > _MOST * (len(moving) - far) and work < _WORTH * far


def _elements_and_work(loop: For) -> tuple[set[_Element], int]:
    """What the body of a loop loads and stores, and its operations."""
    elements: set[_Element] = set()
    work = 0
    for stmt in statements(loop.body):
        if isinstance(stmt, Store):
            elements.add((stmt.buffer, stmt.index))
        for expr in expressions(stmt):
            elements.update((load.array, load.index) for load in loads(expr))
            work += sum(map(_operations, walk(expr)))
    return elements, work


def _is_far(element: _Element, others: Sequence[_Element], var: str) -> bool:
    """Whether the next iteration's element is further than rows that lie interleaved."""
    *rows, last = element[1]
    if var not in {name for row in rows for name in names(row)}:
        step = step_of(last, var)
        return step is None or abs(step) > _NEAR
    if all(isinstance(index[-1], Const) for _, index in others):
        return len({index[-1] for _, index in others}) > _NEAR or len(rows) > 1
    return True


def _operations(expr: Expr) -> int:
    match expr:
        case Call() | Binary(op="div" | "mod"):
            return _DEAR
        case Binary() | Unary() | Select():
            return 1
    return 0


def reads_ahead(loop: For, gathered: Collection[str] = ()) -> bool:
    """Whether iterations read elements of what they write, none of an earlier iteration.

    What they gather in variables is left out of account.

    Every array that is written is so in one place, by subscripts that tell iterations apart, and
    elements of later iterations are read before it: the lanes of a vector go through the
    statements together.
    """
    stores: dict[str, Store] = {}
    read: list[tuple[Load, bool]] = []  # and whether their array was stored to before
    for stmt in statements(loop.body):
        read += ((x, x.array in stores) for expr in expressions(stmt) for x in loads(expr))
        if isinstance(stmt, Store) and stmt.buffer not in gathered:
            if stmt.buffer in stores:
                return False
            stores[stmt.buffer] = stmt
    own = [(x, is_late) for x, is_late in read if x.array in stores]
    return (
        loop.step == _ONE
        and bool(own)
        and all(_is_ahead(x, stores[x.array], loop.var, is_late) for x, is_late in own)
    )


def _is_ahead(load: Load, store: Store, var: str, is_late: bool) -> bool:
    """Whether an element that an iteration loads is stored by itself, by a later one or by none.

    By itself only, or by none, where the load comes after the store.
    """
    steps, ways = [], []
    for read, written in zip(load.index, store.index, strict=True):
        gap = linear_terms(read, 1)
        gap.subtract(linear_terms(written, 1))
        step, constant = step_of(written, var), gap.pop(None, 0)
        if step is None or any(gap.values()):
            return False
        steps.append(step)
        ways.append(constant)
    moved = [(step, way) for step, way in zip(steps, ways, strict=True) if step]
    if len(moved) != 1:
        return False
    if any(way for step, way in zip(steps, ways, strict=True) if not step):
        return True  # another row
    (step, way), *_ = moved
    return way == 0 if is_late else way * step >= 0
