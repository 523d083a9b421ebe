"""Loops that take extremes of floating numbers, as people write them.

    for j: m = a[j] if a[j] > m else m                       if (a[j] > m) m = a[j]
    for j: m = max_number(m, abs(a[j]))                      m = fmax(m, fabs(a[j]))
    for j: d = a[j] - b[j]; m = m if m > d else d            m = MAX(m, d)
    for j: k = a[j] > m; m = a[j] if k else m; p = j if k else p

The last one notes what belongs to the extreme, by the same condition: its place, or elements of
other arrays there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Binary, Call, Const, Expr, Load, Select, Unary, Var
from loopwright.ir.loops import Block, For, Let, Mark, Stmt, Store
from loopwright.ir.visit import constant_trips, loads, names, rewrite, substitute, walk
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.linear_forms import normal

__all__ = ["Extreme", "extremes_of", "takes_extremes"]

_MOST_EXTREMES = 4  # of one loop
_MOST_NODES = 64  # of what an extreme is taken of: it is written for every vector
_BITS = (32, 64)
_TURNED = {"gt": "lt", "ge": "le", "lt": "gt", "le": "ge"}
_FUNCTIONS = {"max_number": "gt", "min_number": "lt"}
_PLAIN = ("add", "sub", "mul")  # operations that every lane has


@dataclass(frozen=True, slots=True)
class Extreme:
    """element = value if value `by` element else element; `by` is gt, ge, lt or le."""

    element: Load
    value: Expr
    by: str
    is_ended_by_nan: bool = False  # a NaN takes the place of the element until the next value
    cond: Expr | None = None  # as it is written, where it is
    notes: tuple[Store, ...] = ()  # what is stored where the element is replaced

    @property
    def strictly(self) -> str:
        return {"ge": "gt", "le": "lt"}.get(self.by, self.by)

    @property
    def is_last(self) -> bool:
        """Whether the last one of equal values stays."""
        return self.by in ("ge", "le")


def takes_extremes(loop: Stmt) -> bool:
    """Whether a loop takes extremes of neighbours, and does nothing else."""
    return bool(extremes_of(loop, None))


def extremes_of(loop: Stmt, near: Collection[str] | None) -> list[Extreme]:
    """The extremes that a serial loop takes, where it does nothing else.

    Elements of `near` are neighbours along the last subscript; None: those of all arrays.
    """
    if not isinstance(loop, For) or loop.mark is not Mark.SERIAL or loop.until is not None:
        return []
    if loop.step != Const(1) or constant_trips(loop) is not None:
        return []
    own: dict[str, Expr] = {}  # by variable or name
    found: list[Extreme] = []
    noted: list[Store] = []
    written: list[Load] = []
    for store in _parts(loop.body):
        if isinstance(store, Let) and not _touches(store.value, written):
            own[store.name] = _with_own(store.value, own)
            continue
        if not isinstance(store, Store) or store.is_atomic or store.buffer in own:
            return []
        value = _with_own(store.value, own)
        extreme = _matched(store, value, loop.var)
        if _touches(store.value, written):
            return []  # values of this iteration; those it has set for itself are from before
        if extreme is not None:
            if len(found) == _MOST_EXTREMES:
                return []
            found.append(extreme)
            written.append(Load(store.buffer, store.index, value.dtype))
        elif store.index or any(load.array == store.buffer for load in loads(value)):
            if not isinstance(value, Select):
                return []  # no note: those of a long body would be compared pair by pair
            noted.append(replace(store, value=value))
            written.append(Load(store.buffer, store.index, value.dtype))
        else:
            own[store.buffer] = value
    found = _with_notes(found, noted, written, loop.var)
    if not 0 < len(found) <= _MOST_EXTREMES or len({x.value.dtype for x in found}) > 1:
        return []
    if len(set(written)) < len(written):
        return []
    for x in found:
        if _touches(x.value, written) or not _has_lanes(x.value, loop.var, near):
            return []
    return found


def _with_notes(
    found: list[Extreme], noted: list[Store], written: list[Load], var: str
) -> list[Extreme]:
    """Extremes with what is noted by their conditions; none where a note belongs to no other."""
    left = list(noted)
    every: list[Extreme] = []
    for extreme in found:
        own = [note for note in left if _is_note(note, extreme, written, var)]
        left = [note for note in left if note not in own]
        every.append(replace(extreme, notes=tuple(own)))
    return [] if left else every


def _is_note(store: Store, extreme: Extreme, written: list[Load], var: str) -> bool:
    """Whether a store notes what belongs to an extreme."""
    match store.value:
        case Select(cond=cond, x=new, y=old) if cond == extreme.cond:
            is_kept = old == Load(store.buffer, store.index, store.value.dtype)
            is_still = not any(var in names(entry) for entry in store.index)
            is_free = not extreme.is_ended_by_nan and not _touches(new, written)
            return is_kept and is_still and is_free
    return False


def _touches(expr: Expr, written: list[Load]) -> bool:
    """Whether an expression may load one of some elements."""
    return any(_may_be(load, element) for load in loads(expr) for element in written)


def _may_be(one: Load, other: Load) -> bool:
    if one.array != other.array:
        return False
    is_known = all(isinstance(entry, Const) for entry in (*one.index, *other.index))
    return not (is_known and one.index != other.index)


def _parts(stmt: Stmt) -> Iterator[Stmt]:
    """What a body does, bindings and what they are for one after the other."""
    match stmt:
        case Block(body=parts):
            for part in parts:
                yield from _parts(part)
        case Let(body=body):
            yield stmt
            yield from _parts(body)
        case _:
            yield stmt


def _with_own(value: Expr, own: dict[str, Expr]) -> Expr:
    """A value with what the iteration has set before in the place of its variables."""

    def visit(expr: Expr) -> Expr:
        match expr:
            case Load(array=name, index=()) | Var(name=name):
                return own.get(name, expr)
        return expr

    return rewrite(value, visit) if own else value


def _matched(store: Store, value: Expr, var: str) -> Extreme | None:
    """The extreme that a store takes; None where it does something else."""
    dtype = value.dtype
    if not dtype.is_float or dtype.bits not in _BITS or any(var in names(i) for i in store.index):
        return None
    own = Load(store.buffer, store.index, dtype)
    match value:
        case Select(cond=Binary(op=op, x=x, y=y) as cond, x=new, y=old) if old == own:
            by = _chosen(op, x, y, new, own)
            return None if by is None else Extreme(own, new, by, cond=cond)
        case Select(cond=Binary(op=op, x=x, y=y) as cond, x=old, y=new) if old == own:
            by = _chosen(op, y, x, new, own)
            return None if by is None else Extreme(own, new, by, is_ended_by_nan=True, cond=cond)
        case Call(function=function, args=(x, y)) if function in _FUNCTIONS and own in (x, y):
            return Extreme(own, y if x == own else x, _FUNCTIONS[function])
    return None


def _chosen(op: str, x: Expr, y: Expr, new: Expr, own: Load) -> str | None:
    """How `new` compares with the element it replaces, where `x op y` decides it."""
    if op not in _TURNED:
        return None
    if (x, y) == (new, own):
        return op
    if (x, y) == (own, new):
        return _TURNED[op]
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
