"""Branches around calls of library functions whose values are needed under a condition only.

    mask = r < cut; d = sqrt(r); e = erfc(d); s = (s + e if mask else s)
->  mask = r < cut; if mask: d = sqrt(r); e = erfc(d); s = s + e

A selection computes both of its values, and a call takes as long as dozens of products, so a branch
pays for itself even where nobody can foretell it. Vectors are nothing that such a loop could lose:
calls are made one number at a time in them, too.

Let S be stores in a row, and c a condition that is computed whatever the data are and reads nothing
that S writes. Then S is `if c: S+ else: S-`, where S+ has true and S- false in place of c, and
either leaves out what changes nothing: an element stored to itself, and scalars that nobody reads
before they are written again. It is done where one of both has fewer calls than S. A call that c
itself makes is made in both cases, and is no reason for a branch. Both parts are then taken for
rows of their own, so that conditions inside a condition, and calls on both sides, have branches.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import cast

from loopwright.ir.dtypes import BOOL, DType
from loopwright.ir.expr import (
    REAL_INSTRUCTIONS,
    REAL_ONLY,
    REAL_PAIRS,
    Binary,
    Call,
    Const,
    Expr,
    Load,
    Select,
    Unary,
    Var,
)
from loopwright.ir.loops import Alloc, Barrier, Block, For, If, Let, LoopNest, Stmt, Store
from loopwright.ir.visit import (
    children,
    expressions,
    loads,
    rebuild,
    rewrite,
    statements,
    statements_inside,
    substitute,
    walk,
)
from loopwright.lower.build import seq

__all__ = ["CALLED", "branch_around_calls"]

Functions = Collection[tuple[str, DType]]  # by name and type
Row = tuple[Store, ...]

CALLED = (
    frozenset(
        {"exp", "exp2", "log", "log2", "log10", "sin", "cos", "tan", "tanh", "pow"}
        | set(REAL_ONLY)
        | set(REAL_PAIRS)
    )
    - REAL_INSTRUCTIONS
)
_DEEPEST = 4  # branches inside each other: each may write a row of statements twice
_TRUE, _FALSE = Const(True, BOOL), Const(False, BOOL)


def branch_around_calls(nest: LoopNest, known: Functions) -> LoopNest:
    """The nest with such branches, around calls of other functions than those that are `known`.

    Known functions are code in straight lines, which vectors compute.
    """
    inside = list(statements(nest.body))
    values = [value for s in inside for value in expressions(s)]
    if not nest.leave_to_llvm or not _calls(values, known):
        return nest
    allocated = [s for s in inside if isinstance(s, Alloc)]
    buffers = [*nest.buffers, *(s.buffer for s in allocated)]
    is_plain = all(isinstance(s, Block | For | If | Let | Store | Alloc | Barrier) for s in inside)
    if not is_plain or any(buffer.is_volatile for buffer in buffers):
        return nest
    scalars = {s.buffer.name for s in allocated if not s.shape}
    rows = _Rows(scalars - _exposed(nest.body), known)
    return replace(nest, body=rebuild(nest.body, lambda stmt: _change_rows(stmt, rows.changed)))


def _change_rows(stmt: Stmt, change: Callable[[Row | Let], Stmt]) -> Stmt:
    """A statement with the stores in a row, and the bindings, that stand directly in it changed."""

    def changed(part: Stmt | Row) -> Stmt:
        if isinstance(part, Store) and not part.is_atomic:
            return change((part,))
        return change(part) if isinstance(part, tuple | Let) else part

    match stmt:
        case Block(body=body):
            return seq(*map(changed, _parts(body)))
        case For(body=body) | Alloc(body=body):
            return replace(stmt, body=changed(body))
        case If(body=body, orelse=orelse):
            orelse = None if orelse is None else changed(orelse)
            return replace(stmt, body=changed(body), orelse=orelse)
    return stmt


def _parts(body: Iterable[Stmt]) -> list[Stmt | Row]:
    """The statements of a block, those of them that are stores in rows."""
    parts: list[Stmt | Row] = []
    for stmt in body:
        if not isinstance(stmt, Store) or stmt.is_atomic:
            parts.append(stmt)
        elif parts and isinstance(parts[-1], tuple):
            parts[-1] = (*parts[-1], stmt)
        else:
            parts.append((stmt,))
    return parts


def _exposed(body: Stmt) -> set[str]:
    """What is read somewhere without having been written before in the same row."""
    found: set[str] = set()

    for stmt in statements(body):
        parts = _parts(statements_inside(stmt))
        for row in (part for part in parts if isinstance(part, tuple)):
            written: set[str] = set()
            for store in row:
                found.update(_read(expressions(store)) - written)
                written |= set() if store.index else {store.buffer}
        if not isinstance(stmt, Store) or stmt.is_atomic:
            found |= _read(expressions(stmt))
    return found


class _Rows:
    """How rows are branched in a nest.

    `scalars` are those of an iteration: every read of them comes after a store in the same row.
    """

    def __init__(self, scalars: Collection[str], known: Functions) -> None:
        self.scalars = scalars
        self.known = known

    def changed(self, part: Row | Let) -> Stmt:
        return self._unbound(part) if isinstance(part, Let) else self.branched(part)

    def _unbound(self, let: Let) -> Stmt:
        """Bindings around a row, calls among them in the branches that need them."""
        around, body = [], cast("Stmt", let)
        while isinstance(body, Let) and not body.is_anew and not body.parts:
            around.append(body)
            body = body.body
        parts = _parts(body.body if isinstance(body, Block) else (body,))
        calls: dict[str, Expr] = {}  # the whole values of bindings that need calls
        for one in around:
            value = substitute(one.value, calls)
            if _calls([value], self.known):
                calls[one.name] = value
        read = _read(calls.values())
        match parts:
            case [tuple() as row] if not any(store.buffer in read for store in row[:-1]):
                whole = tuple(_substituted(store, calls) for store in row)
            case _:
                return let
        found = self.branched(whole)
        if not calls or found == seq(*whole):
            return let
        body = _bound(found, calls)
        for one in reversed(around):
            body = body if one.name in calls else replace(one, body=body)
        return body

    def branched(self, row: Row, later: Collection[str] = (), depth: int = _DEEPEST) -> Stmt:
        """The stores of a row, branches among them; `later` is what is read behind it."""
        if depth == 0 or not self._calls(row):
            return seq(*row)
        for at, store in enumerate(row):
            for cond in dict.fromkeys(x for e in expressions(store) for x in _conditions(e)):
                found = self._split(row, at, cond, later)
                if found is not None:
                    (first, last), met, failed = found
                    behind = {*later, *_read(e for s in row[last:] for e in expressions(s))}
                    parts = [self.branched(part, behind, depth - 1) for part in (met, failed)]
                    branch = _branch(cond, *parts)
                    rest = self.branched(row[last:], later, depth)
                    return seq(*row[:first], branch, rest)
        return seq(*row)

    def _split(
        self, row: Row, at: int, cond: Expr, later: Collection[str]
    ) -> tuple[tuple[int, int], Row, Row] | None:
        """Which stores of a row the condition of store `at` splits, and what is left of them."""
        first, last = _span(row, at, cond)
        behind = {*later, *_read(e for s in row[last:] for e in expressions(s))}
        versions = [
            self._needed([_under(s, cond, met) for s in row[first:last]], behind)
            for met in (_TRUE, _FALSE)
        ]
        met, failed = (tuple(s for s in version if s is not None) for version in versions)
        certain = _calls([cond], self.known)
        before = self._calls(row[first:last]) - certain
        if before <= self._calls(met) and before <= self._calls(failed):
            return None
        while row[first] == versions[0][0] == versions[1][0]:  # what both begin with stays before
            first += 1
            met, failed = met[1:], failed[1:]
            versions = [version[1:] for version in versions]
        return (first, last), met, failed

    def _needed(self, stores: Sequence[Store], behind: Collection[str]) -> list[Store | None]:
        """Stores, None in place of each that changes nothing which anybody reads."""
        live = set(behind)
        found: list[Store | None] = []
        for store in reversed(stores):
            own = Load(store.buffer, store.index, store.value.dtype)
            if store.value == own or (store.buffer in self.scalars and store.buffer not in live):
                found.append(None)
                continue
            live -= set() if store.index else {store.buffer}
            live |= _read(expressions(store))
            found.append(store)
        return found[::-1]

    def _calls(self, row: Row) -> set[Expr]:
        return _calls([e for store in row for e in expressions(store)], self.known)


def _substituted(store: Store, values: Mapping[str, Expr]) -> Store:
    index = tuple(substitute(e, values) for e in store.index)
    return replace(store, index=index, value=substitute(store.value, values))


def _bound(stmt: Stmt, values: Mapping[str, Expr]) -> Stmt:
    """A statement with names for these values, which stand in it; in branches where they can."""
    if isinstance(stmt, Block):
        return seq(*(_bound(part, values) for part in stmt.body))
    if isinstance(stmt, If) and not set(values.values()) & set(walk(stmt.cond)):
        orelse = None if stmt.orelse is None else _bound(stmt.orelse, values)
        return replace(stmt, body=_bound(stmt.body, values), orelse=orelse)
    for name, value in reversed(list(values.items())):
        variable = Var(name, value.dtype)
        named = rebuild(stmt, expression=_replaced(value, variable))
        stmt = stmt if named == stmt else Let(name, value, named)
    return stmt


def _replaced(value: Expr, variable: Var) -> Callable[[Expr], Expr]:
    return lambda expr: rewrite(expr, lambda node: variable if node == value else node)


def _span(row: Row, at: int, cond: Expr) -> tuple[int, int]:
    """The stores around store `at` before and during which the condition keeps its value.

    The last one may write what the condition reads; behind the last that asks for it there is no
    difference.
    """
    asked = _read([cond])
    first = max((k + 1 for k in range(at) if row[k].buffer in asked), default=0)
    last = next((k + 1 for k in range(at, len(row)) if row[k].buffer in asked), len(row))
    uses = [k for k in range(at, last) if any(cond in walk(e) for e in expressions(row[k]))]
    return first, uses[-1] + 1


def _conditions(expr: Expr) -> Iterator[Expr]:
    """Conditions that are computed whatever the data are, those outside first."""
    match expr:
        case Const() | Select(cond=Const()):
            return
        case Select(cond=cond):
            yield cond
            yield from _conditions(cond)
        case Binary(op="and" | "or", x=x) if x.dtype == BOOL and not isinstance(x, Const):
            yield x
            yield from _conditions(x)
        case _:
            for child in children(expr):
                yield from _conditions(child)


def _under(store: Store, cond: Expr, value: Const) -> Store:
    """A store where the value of a condition is known."""

    def change(node: Expr) -> Expr:
        if node == cond:
            return value
        match node:
            case Select(cond=Const(value=bool(is_met)), x=x, y=y):
                return x if is_met else y
            case Unary(op="not", x=Const(value=bool(is_met))):
                return _FALSE if is_met else _TRUE
            case Binary(op="and" | "or" as op, x=x, y=y) if node.dtype == BOOL:
                neutral, absorbing = (_TRUE, _FALSE) if op == "and" else (_FALSE, _TRUE)
                if absorbing in (x, y):
                    return absorbing
                return y if x == neutral else x if y == neutral else node
        return node

    index = tuple(rewrite(e, change) for e in store.index)
    return replace(store, index=index, value=rewrite(store.value, change))


def _branch(cond: Expr, met: Stmt, failed: Stmt) -> Stmt:
    empty = Block(())
    if met == empty:
        return If(Unary("not", cond), failed)
    return If(cond, met, None if failed == empty else failed)


def _read(values: Iterable[Expr]) -> set[str]:
    return {load.array for value in values for load in loads(value)}


def _calls(values: Iterable[Expr], known: Functions) -> set[Expr]:
    """The calls of library functions in expressions."""
    return {x for value in values for x in walk(value) if _is_called(x, known)}


def _is_called(expr: Expr, known: Functions) -> bool:
    if not expr.dtype.is_float:
        return False
    match expr:
        case Call(function="pow", args=(_, y)) | Binary(op="pow", y=y):
            return not isinstance(y, Const)  # constant powers are products and roots
        case Call(function=function):
            return function in CALLED and (function, expr.dtype) not in known
    return False
