"""Sums under a condition whose terms are dear: terms in lanes of vectors, sums in order.

    for j: mask = r[j] < cut; q = 1 / sqrt(r[j]); if mask: s += q * q * q
->  for strips of 16: if mask holds in any lane:
        lanes v: mask = ...; q = ...; a[v] = (q * q if mask else -0.0); b[v] = (q if mask else 1.0)
        for v: s += a[v] * b[v]

A floating sum in order has no vectors in LLVM, and its roots and quotients run one by one, behind a
branch that is guessed wrong where the condition is drawn by lot. What a sum takes in does not wait
for it. A product is handed on by its factors, for the sum rounds with it (ADR 55); s + -0.0 and
s - 0.0 are s for every s. Strips in which no lane meets the condition are passed over.

Energies of all pairs within a cutoff, double, Cascade Lake: 2.4 times as fast as a branch for each
pair where a quarter is within, twice where one in a hundred is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from loopwright.ir.any_lane import LaneTest, where_any_lane
from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Binary, Call, Const, Expr, Load, Select, Unary, Var
from loopwright.ir.loops import Alloc, Buffer, For, If, Let, LoopNest, Mark, Space, Stmt, Store
from loopwright.ir.visit import loads, substitute, walk
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.build import bound_names, seq, substitute_statement
from loopwright.lower.contract_arrays import sink_scalars
from loopwright.lower.values.promote_registers import promote_scalars
from loopwright.lower.values.strips import change_loops, fresh
from loopwright.lower.values.update_rows import (
    Row,
    is_dear,
    nested,
    selected_sum,
    update_condition,
    update_row,
    with_values,
)

__all__ = ["sums_in_lanes"]

_LANES = 16  # of a strip
_INSTRUCTIONS = frozenset({"sqrt", "fma", "abs", "copysign", "min_number", "max_number"})


@dataclass(frozen=True, slots=True)
class _Sum:
    """A scalar that takes in a term, or a product of two factors, where the condition holds."""

    store: Store
    op: str  # add or sub
    factors: tuple[Expr, ...]


def sums_in_lanes(nest: LoopNest, dtypes: Collection[DType]) -> LoopNest:
    """The nest with its innermost serial loops of such sums in strips, for sums of these types."""
    if not nest.leave_to_llvm or not dtypes or nest.reassoc:
        return nest
    bound = promote_scalars(sink_scalars(nest))
    taken = set(bound_names(bound))

    def change(loop: For) -> Stmt:
        row = update_row(loop.body)
        return loop if row is None else _in_strips(loop, row, dtypes, taken)

    found = change_loops(bound, _LANES, change)
    return nest if found == bound else found


def _in_strips(loop: For, row: Row, dtypes: Collection[DType], taken: set[str]) -> Stmt:
    """The loop in strips where its stores are sums under one condition, else the loop."""
    row = tuple(selected_sum(part) if isinstance(part, Store) else part for part in row)
    values = {part.name: part.value for part in row if isinstance(part, Let)}
    stores = [part for part in row if isinstance(part, Store)]
    conditions = {update_condition(row, at, values) for at, x in enumerate(row) if x in stores}
    if len(conditions) != 1 or (cond := conditions.pop()) is None:
        return loop
    sums = [_sum_of(store, cond) for store in stores]
    if None in sums or not _is_apart(row, stores, dtypes):
        return loop
    terms = [factor for one in sums if one is not None for factor in one.factors]
    read = {x.array for e in (cond, *terms, *values.values()) for x in loads(e)}
    if read & {store.buffer for store in stores}:
        return loop  # what is taken in waits for the sum
    asked = [part for part in with_values(row, [Store("", (), cond)]) if isinstance(part, Let)]
    known = {x for part in asked for x in walk(part.value)} | set(walk(cond))
    if not any(is_dear(x) for part in row for x in set(walk(part.value)) - known):
        return loop
    found = [x for x in sums if x is not None]
    return _strips(loop, row, found, LaneTest(tuple(asked), cond), taken)


def _sum_of(store: Store, cond: Expr) -> _Sum | None:
    own = Load(store.buffer, store.index, store.value.dtype)
    match store.value:
        case Select(cond=asked, x=Binary(op="add" | "sub" as op, x=x, y=term), y=y) if (
            asked == cond and x == own and y == own and not store.index
        ):
            match term:
                case Binary(op="mul", x=first, y=second):
                    return _Sum(store, op, (first, second))
                case Unary():
                    return None  # a product inside would be rounded with the sum
            return _Sum(store, op, (term,))
    return None


def _is_apart(row: Row, stores: Sequence[Store], dtypes: Collection[DType]) -> bool:
    """Whether terms can be computed for many iterations, in vectors, before any is taken in."""
    gathered = {store.buffer for store in stores}
    for part in row:
        if isinstance(part, Let) and part.value.dtype.is_integer:
            return False  # subscripts that follow it would be no sums of the lane
        if any(_is_called(x) for x in walk(part.value)):
            return False
    is_once = len(gathered) == len(stores) > 0
    return is_once and all(store.value.dtype in dtypes for store in stores)


def _is_called(expr: Expr) -> bool:
    match expr:
        case Call(function=function):
            return function not in _INSTRUCTIONS
        case Binary(op="pow" | "mod"):
            return expr.dtype.is_float
    return False


def _strips(loop: For, row: Row, sums: Sequence[_Sum], test: LaneTest, taken: set[str]) -> Stmt:
    strip, lane = Var(fresh(f"{loop.var}_s", taken)), Var(fresh(f"{loop.var}_v", taken))
    here = {loop.var: strip + lane}
    lanes = For(lane.name, Const(0), Const(_LANES), seq(), Const(1), Mark.VECTOR)
    buffers: list[Buffer] = []
    terms: list[Store] = []
    orders: list[Store] = []
    for one in sums:
        own = one.store.value.dtype
        kept: list[Expr] = []
        for at, factor in enumerate(one.factors):
            name = fresh(f"{one.store.buffer}_t", taken)
            buffers.append(Buffer(name, own, (Const(1),), Space.STACK, writable=True))
            nothing = 1.0 if at else -0.0 if one.op == "add" else 0.0
            chosen = Select(test.cond, factor, Const(nothing, own))
            terms.append(Store(name, (lane,), chosen))
            kept.append(Load(name, (lane,), own))
        term = kept[0] if len(kept) == 1 else Binary("mul", *kept)
        place = Load(one.store.buffer, (), own)
        orders.append(Store(one.store.buffer, (), Binary(one.op, place, term)))
    lets = [part for part in row if isinstance(part, Let)]
    computed = replace(lanes, body=substitute_statement(nested((*lets, *terms)), here))
    ordered = For(lane.name, Const(0), Const(_LANES), seq(*orders), Const(1))
    moved = LaneTest(
        tuple(replace(x, value=substitute(x.value, here)) for x in test.values),
        substitute(test.cond, here),
    )
    flag = fresh("any", taken)
    whole = where_any_lane(flag, replace(lanes, mark=Mark.SERIAL), [moved], seq(computed, ordered))
    end = strip + _LANES
    body = If(Binary("le", end, loop.stop), whole, replace(loop, start=strip))
    found: Stmt = replace(loop, var=strip.name, body=body, step=Const(_LANES), copies=0)
    for buffer in buffers:
        found = Alloc(buffer, (Const(_LANES),), found)
    return found
