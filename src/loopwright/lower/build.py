"""Pieces of loop nests: short constructors, names that are bound, renaming, substitution."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from loopwright.ir.expr import Const, Expr, Load, Var, as_expr
from loopwright.ir.loops import (
    Alloc,
    Block,
    Buffer,
    Copy,
    For,
    Let,
    LoopNest,
    Mark,
    MeshBroadcast,
    MeshMessage,
    Prefetch,
    Stmt,
    Store,
    WarpMma,
)
from loopwright.ir.visit import expressions, names, rebuild, rewrite, statements, substitute, walk
from loopwright.lower.linear_forms import normal

__all__ = [
    "CACHE_LINE",
    "at_turn",
    "bound_names",
    "is_straight_line",
    "lets",
    "loop",
    "names_bound",
    "needed",
    "nothing",
    "renamed",
    "renamed_expr",
    "repeated",
    "seq",
    "substitute_statement",
    "tiles",
    "to_and_fro",
    "touches",
    "unrolled",
    "vector",
]

CACHE_LINE = 64  # bytes between prefetches; a larger line only makes some hints redundant
nothing = Block(())


def seq(*parts: Stmt) -> Stmt:
    """The parts in order; blocks inside blocks are flattened."""
    flat: list[Stmt] = []
    for part in parts:
        flat.extend(part.body if isinstance(part, Block) else (part,))
    return flat[0] if len(flat) == 1 else Block(tuple(flat))


def loop(
    var: Var,
    start: Expr | int,
    stop: Expr | int,
    body: Stmt,
    step: Expr | int = 1,
    mark: Mark = Mark.SERIAL,
) -> Stmt:
    """A loop over `var` from `start` up to `stop`, which is excluded."""
    return For(var.name, as_expr(start), as_expr(stop), body, as_expr(step), mark)


def tiles(extent: Expr, tile: int) -> Expr:
    """How many tiles of `tile` cover an extent."""
    return (extent + (tile - 1)) // tile


def unrolled(var: Var, count: int, body: Stmt, *, in_order: bool = False) -> Stmt:
    """An UNROLL loop of `count` iterations from 0."""
    return For(var.name, Const(0), Const(count), body, Const(1), Mark.UNROLL, in_order=in_order)


def repeated(var: Var, count: int, body: Stmt, copies: int = 0) -> Stmt:
    """A loop of `count` iterations from 0, `copies` of its body in the code; 0: all of them."""
    if copies == 0 or copies >= count:
        return unrolled(var, count, body)
    return For(var.name, Const(0), Const(count), body, Const(1), copies=copies)


def to_and_fro(row: Var, rows: int, column: Var, columns: int, body: Stmt) -> Stmt:
    """UNROLL loops over rows and columns, every other row from its end: what follows shares one."""
    back = substitute_statement(body, {row.name: row + 1, column.name: columns - 1 - column})
    both = seq(unrolled(column, columns, body), unrolled(column, columns, back))
    return For(row.name, Const(0), Const(rows), both, Const(2), Mark.UNROLL)


def vector(var: Var, lanes: int, body: Stmt) -> Stmt:
    """A VECTOR loop of `lanes` iterations from 0."""
    return For(var.name, Const(0), Const(lanes), body, Const(1), Mark.VECTOR)


def lets(bindings: Sequence[tuple[Var, Expr]], body: Stmt, *, is_anew: bool = False) -> Stmt:
    """Nested bindings around `body`, the first one outermost."""
    for var, value in reversed(bindings):
        body = Let(var.name, value, body, is_anew)
    return body


def needed(bindings: Sequence[tuple[Var, Expr]], body: Stmt) -> list[tuple[Var, Expr]]:
    """Those of the bindings, the first one outermost, that `body` or another one of them uses."""
    used = {name for stmt in statements(body) for e in expressions(stmt) for name in names(e)}
    found: list[tuple[Var, Expr]] = []
    for var, value in reversed(bindings):
        if var.name in used:
            found.append((var, value))
            used |= names(value)
    return found[::-1]


# -- what a statement binds and uses -------------------------------------------------------------


def is_straight_line(stmt: Stmt) -> bool:
    """Whether `stmt` holds stores and bindings only: no loop, no branch, no memory of its own."""
    return all(isinstance(inner, Store | Let | Block) for inner in statements(stmt))


def touches(stmt: Stmt, buffer: str) -> bool:
    """Whether `stmt` itself, not a statement below it, reads or writes a buffer."""
    match stmt:
        case Store(buffer=name) | Prefetch(buffer=name) if name == buffer:
            return True
        case MeshMessage(buffer=name) if name == buffer:
            return True
        case Copy(target=target, source=source) | MeshBroadcast(target=target, source=source) if (
            buffer in (target, source)
        ):
            return True
        case WarpMma(sums=sums, left=left, right=right) if buffer in (sums, left, right):
            return True
    parts = (part for expr in expressions(stmt) for part in walk(expr))
    return any(isinstance(part, Load) and part.array == buffer for part in parts)


def names_bound(stmt: Stmt) -> set[str]:
    """The loop variables, bindings and buffers that `stmt` declares."""
    found = set()
    for node in statements(stmt):
        match node:
            case For(var=name) | Let(name=name) | Alloc(buffer=Buffer(name=name)):
                found.add(name)
    return found


def bound_names(nest: LoopNest) -> set[str]:
    """Every name in a nest: its arguments, and all that its statements declare."""
    return {buffer.name for buffer in nest.buffers} | set(nest.scalars) | names_bound(nest.body)


# -- renaming and substitution -------------------------------------------------------------------


def substitute_statement(stmt: Stmt, values: dict[str, Expr]) -> Stmt:
    """`stmt` with variables replaced by values; no loop or binding inside declares them again."""
    return rebuild(stmt, expression=lambda expr: substitute(expr, values))


def at_turn(
    stmt: Stmt,
    heads: Sequence[For | Let],
    values: Mapping[str, Expr],
    fresh: Callable[[str], str],
) -> Stmt:
    """A statement inside of loops and bindings as it is at other values of the loops.

    The bindings that it needs stand around it anew, under the names that `fresh` gives.
    """
    bindings = [(Var(head.name), head.value) for head in heads if isinstance(head, Let)]
    bound = needed(bindings, stmt)
    new = {var.name: fresh(var.name) for var, _ in bound}

    def there(expr: Expr) -> Expr:
        return normal(substitute(renamed_expr(expr, new), values))

    anew = [(Var(new[var.name]), there(value)) for var, value in bound]
    return lets(anew, rebuild(stmt, expression=there))


def renamed_expr(expr: Expr, names: Mapping[str, str]) -> Expr:
    """`expr` with its variables and arrays renamed by `names`."""

    def change(node: Expr) -> Expr:
        match node:
            case Var(name=name) if name in names:
                return replace(node, name=names[name])
            case Load(array=name) if name in names:
                return replace(node, array=names[name])
        return node

    return rewrite(expr, change)


def renamed(stmt: Stmt, names: Mapping[str, str]) -> Stmt:
    """`stmt` with everything that it declares or uses renamed by `names`, all at once."""

    def change(node: Stmt) -> Stmt:
        match node:
            case For(var=name) if name in names:
                return replace(node, var=names[name])
            case Let(name=name) if name in names:
                return replace(node, name=names[name])
            case Alloc(buffer=buffer) if buffer.name in names:
                return replace(node, buffer=replace(buffer, name=names[buffer.name]))
            case Store(buffer=name) | Prefetch(buffer=name) if name in names:
                return replace(node, buffer=names[name])
            case MeshMessage(buffer=name) if name in names:
                return replace(node, buffer=names[name])
            case Copy(target=target, source=source) | MeshBroadcast(target=target, source=source):
                target, source = names.get(target, target), names.get(source, source)
                return replace(node, target=target, source=source)
            case WarpMma(sums=sums, left=left, right=right):
                sums, left, right = (names.get(x, x) for x in (sums, left, right))
                return replace(node, sums=sums, left=left, right=right)
        return node

    return rebuild(stmt, change, lambda expr: renamed_expr(expr, names))
