"""Extremes of floating numbers in lanes, with the bits that the order of the source gives.

    for j in range(n): m = a[j] if a[j] > m else m

->  if n > 8:                                    with one vector of 4 lanes; it has four
        e = (n - 1) // 4 * 4
        vector l: v[l] = m
        for j in range(0, e, 4): vector l: v[l] = a[j + l] if a[j + l] > v[l] else v[l]
        t = the greatest of v[0], v[1], v[2], v[3]
        if t < 0 or t > 0: m = t
        else: for j in range(e): as before
        for j in range(e, n): as before
    else: as before

A comparison with NaN is false, so that elements which are NaN change no lane, as they change no m;
where m is NaN at first, all lanes are. The greatest number is the same whoever finds it, but for
zeros: 0.0 and -0.0 are equal, and the first one stays. Where it is zero or NaN, the loop runs in
order once more: it has changed nothing but m. With `m if m > a[j] else a[j]` an element that is NaN
takes the place of m until the next one; lanes then note whether any was.

A chain of such selections takes four cycles an element, lanes the time of the loads. What the
iterations set for themselves (d = |a[j] - b[j]|) is computed in place; at least one iteration is
left to the loop in order, so that it has its last value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import reduce

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Binary, Call, Const, Expr, Load, Select, Unary, Var
from loopwright.ir.loops import (
    Alloc,
    Block,
    Buffer,
    For,
    If,
    Let,
    LoopNest,
    Mark,
    Space,
    Stmt,
    Store,
)
from loopwright.ir.visit import (
    constant_trips,
    fresh_name,
    loads,
    names,
    rebuild,
    rewrite,
    statements,
    substitute,
    walk,
)
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.build import bound_names, seq, vector
from loopwright.lower.linear_forms import normal

__all__ = ["extremes_in_lanes", "takes_extremes"]

_VECTORS = 4  # of lanes: as many chains hide the four cycles of a selection
_MOST_EXTREMES = 4  # of one loop
_MOST_NODES = 24  # of what an extreme is taken of: it is written for every vector
_BITS = (32, 64)
_GREATER = {"gt": "gt", "ge": "gt", "lt": "lt", "le": "lt"}  # comparisons that keep the first
_TURNED = {"gt": "lt", "ge": "le", "lt": "gt", "le": "ge"}
_FUNCTIONS = {"max_number": "gt", "min_number": "lt"}
_PLAIN = ("add", "sub", "mul")  # operations that every lane has


@dataclass(frozen=True, slots=True)
class _Extreme:
    """element = value if value `by` element else element, `by` being gt or lt."""

    element: Load
    value: Expr
    by: str
    is_ended_by_nan: bool  # a NaN takes the place of the element until the next value

    def chosen(self, value: Expr, held: Expr) -> Expr:
        """What a lane holds after a value."""
        return Select(Binary(self.by, value, held), value, held)


def extremes_in_lanes(
    nest: LoopNest, lanes: Callable[[int], int], *, is_row_major: bool = False
) -> LoopNest:
    """The nest with the extremes of its innermost loops in vectors of `lanes` by bits of a number.

    Elements are neighbours along the last subscript where strides say so, or all `is_row_major`.
    """
    every = (*nest.buffers, *(s.buffer for s in statements(nest.body) if isinstance(s, Alloc)))
    near = {x.name for x in every if is_row_major or x.strides[-1:] == (Const(1),)}
    taken = bound_names(nest)

    def visit(stmt: Stmt) -> Stmt:
        found = _extremes(stmt, near)
        if not found or not isinstance(stmt, For):
            return stmt
        width = lanes(max(x.value.dtype.bits for x in found))
        return _in_lanes(stmt, found, width, taken) if width > 1 else stmt

    return replace(nest, body=rebuild(nest.body, visit))


def takes_extremes(loop: For) -> bool:
    """Whether a loop takes extremes of neighbours, as people write them."""
    return bool(_extremes(loop, None))


# -- what a loop does ----------------------------------------------------------------------------


def _extremes(loop: Stmt, near: Collection[str] | None) -> list[_Extreme]:
    """The extremes that a serial loop takes, where it does nothing else; `near`: None for all."""
    if not isinstance(loop, For) or loop.mark is not Mark.SERIAL or loop.until is not None:
        return []
    if loop.step != Const(1) or constant_trips(loop) is not None:
        return []
    stores = loop.body.body if isinstance(loop.body, Block) else (loop.body,)
    own: dict[str, Expr] = {}
    found: list[_Extreme] = []
    for store in stores:
        if not isinstance(store, Store) or store.is_atomic:
            return []
        value = _with_own(store.value, own)
        extreme = _matched(store, value, loop.var)
        if extreme is not None:
            found.append(extreme)
        elif not store.index and not any(x.array == store.buffer for x in loads(value)):
            own[store.buffer] = value
        else:
            return []
    written = {x.element.array for x in found}
    if not 0 < len(found) <= _MOST_EXTREMES or written & own.keys():
        return []
    if len({x.element for x in found}) < len(found) or len({x.value.dtype for x in found}) > 1:
        return []
    used = {load.array for x in found for load in loads(x.value)}
    if used & (written | own.keys()) or not all(_has_lanes(x.value, loop.var, near) for x in found):
        return []
    return found


def _with_own(value: Expr, own: dict[str, Expr]) -> Expr:
    """A value with what the iteration has set before in the place of its variables."""

    def visit(expr: Expr) -> Expr:
        return own.get(expr.array, expr) if isinstance(expr, Load) and not expr.index else expr

    return rewrite(value, visit) if own else value


def _matched(store: Store, value: Expr, var: str) -> _Extreme | None:
    """The extreme that a store takes; None where it does something else."""
    dtype = value.dtype
    if not dtype.is_float or dtype.bits not in _BITS or any(var in names(i) for i in store.index):
        return None
    own = Load(store.buffer, store.index, dtype)
    match value:
        case Select(cond=Binary(op=op, x=x, y=y), x=new, y=old) if op in _GREATER and old == own:
            by = _chosen(op, x, y, new, own)
            is_ended_by_nan = False
        case Select(cond=Binary(op=op, x=x, y=y), x=old, y=new) if op in _GREATER and old == own:
            by = _chosen(op, y, x, new, own)
            is_ended_by_nan = True
        case Call(function=function, args=(old, new)) if function in _FUNCTIONS and old == own:
            by, is_ended_by_nan = _FUNCTIONS[function], False
        case Call(function=function, args=(new, old)) if function in _FUNCTIONS and old == own:
            by, is_ended_by_nan = _FUNCTIONS[function], False
        case _:
            return None
    return None if by is None else _Extreme(own, new, by, is_ended_by_nan)


def _chosen(op: str, x: Expr, y: Expr, new: Expr, own: Load) -> str | None:
    """How `new` compares with the element it replaces, where `x op y` decides it."""
    if (x, y) == (new, own):
        return _GREATER[op]
    if (x, y) == (own, new):
        return _GREATER[_TURNED[op]]
    return None


def _has_lanes(value: Expr, var: str, near: Collection[str] | None) -> bool:
    """Whether a value is made of neighbours in memory, and of what is the same for all."""
    nodes = list(walk(value))
    if len(nodes) > _MOST_NODES or var not in names(value):
        return False
    return all(_is_lane(node, value.dtype, var, near) for node in nodes if var in names(node))


def _is_lane(node: Expr, dtype: DType, var: str, near: Collection[str] | None) -> bool:
    match node:
        case Load(array=array, index=(*outer, last)):
            is_row = near is None or array in near
            is_next = normal(substitute(last, {var: Var(var) + 1}) - last) == Const(1)
            return node.dtype == dtype and is_row and is_next and not any(map(_names(var), outer))
        case Unary(op="neg" | "abs"):
            return True
        case Binary(op=op):
            return op in _PLAIN or not node.dtype.is_float
        case Var():
            return node.name == var
    return False


def _names(var: str) -> Callable[[Expr], bool]:
    return lambda expr: var in names(expr)


# -- the loop in lanes ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Lanes:
    """What stands for the element of an extreme in the loop: vectors, and their extreme."""

    extreme: _Extreme
    vectors: Buffer  # [copies, width]
    last: Buffer  # the extreme of all lanes
    notes: Buffer | None  # [width]: 1 where a lane has met NaN
    lane: Var
    copies: int
    width: int

    def begin(self) -> list[Stmt]:
        """Every lane begins with the element."""
        element = self.extreme.element
        found = [self._each(self._store(at, element)) for at in range(self.copies)]
        if self.notes is not None:
            zero = Const(0.0, element.dtype)
            found.append(self._each(Store(self.notes.name, (self.lane,), zero)))
        return found

    def body(self, var: str) -> list[Stmt]:
        """One step of the loop: a vector of each copy."""
        found = []
        for at in range(self.copies):
            place = Var(var) + (at * self.width) + self.lane
            value = substitute(self.extreme.value, {var: normal(place)})
            held = self._load(at, self.lane)
            found.append(self._each(self._store(at, self.extreme.chosen(value, held))))
            if self.notes is not None:
                note = Load(self.notes.name, (self.lane,), value.dtype)
                kept = Select(Binary("eq", value, value), note, Const(1.0, value.dtype))
                found.append(self._each(Store(self.notes.name, (self.lane,), kept)))
        return found

    def join(self) -> list[Stmt]:
        """The extreme of all lanes."""
        chosen, first = self.extreme.chosen, self._load(0, self.lane)
        found = [
            self._each(self._store(0, chosen(self._load(at, self.lane), first)))
            for at in range(1, self.copies)
        ]
        every = [self._load(0, Const(at)) for at in range(self.width)]
        while len(every) > 2:  # by halves, as long as a chain is not all that is left
            pairs = zip(every[::2], every[1::2], strict=True)
            found += [Store(x.array, x.index, chosen(y, x)) for x, y in pairs]
            every = every[::2]
        found.append(Store(self.last.name, (), chosen(every[1], every[0])))
        return found

    def is_known(self) -> Expr:
        """Whether the extreme has the bits that the order of the source gives."""
        last, zero = self._last(), Const(0.0, self.last.dtype)
        found: Expr = Binary("or", Binary("lt", last, zero), Binary("gt", last, zero))
        if self.notes is not None:
            notes = (Load(self.notes.name, (Const(at),), zero.dtype) for at in range(self.width))
            for note in notes:
                found = Binary("and", found, Binary("eq", note, zero))
        return found

    def end(self) -> Stmt:
        element = self.extreme.element
        return Store(element.array, element.index, self._last())

    def inside(self, body: Stmt) -> Stmt:
        """The statement with the memory that it needs."""
        shape: tuple[Expr, ...] = (Const(self.copies), Const(self.width))
        body = Alloc(self.vectors, shape, Alloc(self.last, (), body))
        return body if self.notes is None else Alloc(self.notes, shape[1:], body)

    def _last(self) -> Load:
        return Load(self.last.name, (), self.last.dtype)

    def _load(self, at: int, lane: Expr) -> Load:
        return Load(self.vectors.name, (Const(at), lane), self.vectors.dtype)

    def _store(self, at: int, value: Expr) -> Store:
        return Store(self.vectors.name, (Const(at), self.lane), value)

    def _each(self, store: Store) -> Stmt:
        return vector(self.lane, self.width, store)


def _in_lanes(loop: For, extremes: list[_Extreme], width: int, taken: set[str]) -> Stmt:
    """A loop with its extremes in vectors where it is long enough, as it is where it is not."""
    copies = max(1, _VECTORS // len(extremes))

    def fresh(wish: str) -> str:
        name = fresh_name(wish, taken)
        taken.add(name)
        return name

    lane, end = Var(fresh(f"{loop.var}_l")), Var(fresh(f"{loop.var}_e"))

    def lanes_of(extreme: _Extreme) -> _Lanes:
        name, dtype = extreme.element.array, extreme.element.dtype
        vectors = Buffer(fresh(f"{name}_v"), dtype, (Const(width), Const(1)), Space.STACK)
        last = Buffer(fresh(f"{name}_t"), dtype, (), Space.STACK)
        notes = None
        if extreme.is_ended_by_nan:
            notes = Buffer(fresh(f"{name}_n"), dtype, (Const(1),), Space.STACK)
        return _Lanes(extreme, vectors, last, notes, lane, copies, width)

    every = [lanes_of(extreme) for extreme in extremes]
    step = copies * width
    trips = loop.stop - loop.start
    last = normal(loop.start + (trips - 1) // step * step)
    body = seq(*(part for x in every for part in x.body(loop.var)))
    is_known = reduce(lambda x, y: Binary("and", x, y), (x.is_known() for x in every))
    found: Stmt = seq(
        *(part for x in every for part in x.begin()),
        replace(loop, stop=end, body=body, step=Const(step)),
        *(part for x in every for part in x.join()),
        If(is_known, seq(*(x.end() for x in every)), replace(loop, stop=end)),
    )
    for x in every:
        found = x.inside(found)
    whole = Let(end.name, last, seq(found, replace(loop, start=end)))
    return If(Binary("gt", trips, Const(2 * step)), whole, loop)
