"""Do not enter loops that a condition leaves without effect.

Statements under a branch on data are selections here: what is not chosen keeps its value. Where all
that a loop stores is chosen by one condition, and the loop does not change that condition, the test
stands before the loop, as people write it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce

from loopwright.ir.dtypes import BOOL
from loopwright.ir.expr import Binary, Const, Expr, Load, Select
from loopwright.ir.loops import Alloc, Block, For, If, Let, LoopNest, Mark, Prefetch, Stmt, Store
from loopwright.ir.visit import (
    constant_trips,
    loads,
    names,
    rebuild,
    rewrite,
    statements,
    substitute,
    update_conditions,
)
from loopwright.lower.build import names_bound
from loopwright.lower.statement_uses import conjuncts
from loopwright.lower.values.strips import written

__all__ = ["skip_idle_loops"]

_FEWEST = 8  # iterations: a branch that is hard to foresee costs as much
_TRUE, _FALSE = Const(True, BOOL), Const(False, BOOL)
_BRANCHING = (Mark.SERIAL, Mark.PARALLEL)  # loops whose bodies may have branches


def skip_idle_loops(nest: LoopNest) -> LoopNest:
    """Put conditions of selections before the loops that do not change them.

        for j in range(m): c[j] = e if x[i] < y else c[j]
    ->  if x[i] < y: for j in range(m): c[j] = e

    Loops inside of loops of vectors stay: these have no branches.
    """
    return replace(nest, body=_all_of(nest.body))


def _all_of(stmt: Stmt) -> Stmt:
    """`stmt` with its loops guarded, inner ones first."""
    match stmt:
        case For(mark=mark, body=body):
            if mark in _BRANCHING:
                stmt = replace(stmt, body=_all_of(body))
            return _guarded(stmt) if mark in (Mark.SERIAL, Mark.SIMD) else stmt
        case Let(body=body) | Alloc(body=body):
            return replace(stmt, body=_all_of(body))
        case Block(body=parts):
            return Block(tuple(map(_all_of, parts)))
        case If(body=body, orelse=orelse):
            return replace(stmt, body=_all_of(body), orelse=orelse and _all_of(orelse))
    return stmt


def _guarded(loop: For) -> Stmt:
    """A loop behind the conditions without which it has no effect."""
    trips = constant_trips(loop)
    if loop.until is not None or (trips is not None and trips < _FEWEST):
        return loop
    bound = names_bound(loop.body) | {loop.var}
    found: list[Expr] = []
    is_open = True  # whether all conditions so far stand before the loop
    for cond in _needs(loop.body, frozenset(), {}) or ():
        is_fixed = not bound & names(cond) and _is_kept(cond, loop)
        if is_fixed and (is_open or not _touches_memory(cond)):
            found.append(cond)
        is_open &= is_fixed
    if not any(map(loads, found)):
        return loop
    whole: Stmt = If(_joined(found), _chosen(loop, found))
    # A loop without iterations must not touch memory.
    if trips is None and any(map(_touches_memory, found)):
        whole = If(loop.start < loop.stop, whole)
    return whole


def _touches_memory(cond: Expr) -> bool:
    return any(load.index for load in loads(cond))


def _joined(conditions: Sequence[Expr]) -> Expr:
    return reduce(lambda x, y: Binary("and", x, y), conditions)


def _needs(
    stmt: Stmt, private: frozenset[str], known: Mapping[str, Expr]
) -> tuple[Expr, ...] | None:
    """Conditions without any of which a statement has no effect; None where it never has one.

    Each may be asked for where those before it hold: elsewhere it may read what does not exist.
    What is stored in `private` memory is seen nowhere else; `known` are its scalars stored before.
    """
    match stmt:
        case Store(buffer=buffer) if buffer in private:
            return None
        case Store(is_atomic=False, value=value):
            return _choices(value, Load(stmt.buffer, stmt.index, value.dtype), known)
        case Prefetch():
            return None
        case Let(name=name, value=value, body=body):
            inner = _needs(body, private, known)
            values = {name: value}
            return inner and tuple(x for c in inner for x in _parts(substitute(c, values)))
        case Alloc(buffer=buffer, body=body):
            return _needs(body, private | {buffer.name}, known)
        case For(start=start, stop=stop, body=body, until=None):
            inner = _needs(body, private, known)
            is_sure = (constant_trips(stmt) or 0) > 0
            return inner if is_sure or inner is None else (start < stop, *inner)
        case If(cond=cond, body=body, orelse=orelse):
            first = _needs(body, private, known)
            if orelse is None:
                return None if first is None else (*conjuncts(cond), *first)
            return _common(first, _needs(orelse, private, known))
        case Block(body=parts):
            found: tuple[Expr, ...] | None = None
            once = _stored_once(parts, private)
            seen = dict(known)
            for part in parts:
                found = _common(found, _needs(part, private, seen))
                if isinstance(part, Store) and part.buffer in once:
                    seen[part.buffer] = part.value
            return found
    return ()


def _stored_once(parts: Sequence[Stmt], private: frozenset[str]) -> set[str]:
    """Private scalars that one of the statements stores, and no other does."""
    inside = [s.buffer for part in parts for s in statements(part) if isinstance(s, Store)]
    here = {s.buffer for s in parts if isinstance(s, Store) and not s.index}
    return {name for name in here & private if inside.count(name) == 1}


def _choices(value: Expr, before: Load, known: Mapping[str, Expr]) -> tuple[Expr, ...]:
    """The conditions under which `value` is not what the element has `before`."""
    found: tuple[Expr, ...] = ()
    for cond in update_conditions(value, before):
        if isinstance(cond, Load) and not cond.index:
            cond = known.get(cond.array, cond)
        found += _parts(cond)
    return tuple(dict.fromkeys(found))


def _parts(cond: Expr) -> tuple[Expr, ...]:
    """The conditions that `cond` joins: x and y, or y if x else False."""
    if isinstance(cond, Select) and cond.y == _FALSE:
        return (*_parts(cond.cond), *_parts(cond.x))
    joined = conjuncts(cond)
    return tuple(joined) if len(joined) == 1 else tuple(x for c in joined for x in _parts(c))


def _common(x: tuple[Expr, ...] | None, y: tuple[Expr, ...] | None) -> tuple[Expr, ...] | None:
    """Conditions of two statements that both need; each is asked for by one of them at least."""
    if x is None or y is None:
        return y if x is None else x
    found: list[Expr] = []
    for cond in x:
        if cond not in y:
            continue
        is_asked = any(set(each[: each.index(cond)]) <= set(found) for each in (x, y))
        if is_asked or not _touches_memory(cond):
            found.append(cond)
    return tuple(found)


def _is_kept(cond: Expr, loop: For) -> bool:
    """Whether a condition has one value in all iterations.

    It has where nothing that it reads is written. Of a loop whose iterations are independent it is
    enough that each reads before it writes: none reads what another has written.
    """
    read = {load.array for load in loads(cond)}
    changed = read & written([loop.body])
    return not changed or (loop.mark is Mark.SIMD and _asked_first(loop.body, cond, changed))


def _asked_first(body: Stmt, cond: Expr, changed: set[str]) -> bool:
    """Whether an iteration asks for `cond` before it stores to what `changed`."""
    for stmt in statements(body):
        if isinstance(stmt, For | If):
            return False
        if isinstance(stmt, Store | Let) and _is_asked(stmt.value, cond):
            return True
        if isinstance(stmt, Store) and stmt.buffer in changed:
            return False
    return False


def _is_asked(value: Expr, cond: Expr) -> bool:
    """Whether `cond` is computed whatever the data are."""
    match value:
        case Select(cond=inner):
            return value == cond or _is_asked(inner, cond)
        case Binary(op="and", x=x):
            return value == cond or _is_asked(x, cond)
    return value == cond


def _chosen(loop: For, conditions: Sequence[Expr]) -> For:
    """The loop where the conditions hold: what they choose is taken."""
    changed = written([loop.body])
    sure = [cond for cond in conditions if not changed & {load.array for load in loads(cond)}]

    def taken(expr: Expr) -> Expr:
        if expr in sure:
            return _TRUE
        match expr:
            case Select(cond=cond, x=x) if cond == _TRUE:
                return x
            case Binary(op="and", x=x, y=y) if _TRUE in (x, y):
                return y if x == _TRUE else x
        return expr

    def change(stmt: Stmt) -> Stmt:
        match stmt:
            case Store(value=value) | Let(value=value):
                return replace(stmt, value=rewrite(value, taken))
            case If(cond=cond, body=body):
                left = rewrite(cond, taken)
                return body if left == _TRUE else replace(stmt, cond=left)
        return stmt

    return replace(loop, body=rebuild(loop.body, change))
