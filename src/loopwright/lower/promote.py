"""Keep scalars in registers: local memory of rank 0 in straight-line code becomes lets."""

from __future__ import annotations

from dataclasses import replace

from loopwright.ir.expr import Expr, Load, Var
from loopwright.ir.loops import Alloc, Block, Let, LoopNest, Space, Stmt, Store
from loopwright.ir.visit import rebuild, rewrite, statements
from loopwright.ir.walk import fresh_name
from loopwright.lower.chunk import bound_names

__all__ = ["promote_scalars"]


def promote_scalars(nest: LoopNest) -> LoopNest:
    """`nest` with each stack scalar that only stores in a row use replaced by its values.

        alloc t; t = x; a[i] = t + t; t = y; b[i] = t
    ->  let t = x; a[i] = t + t; let t_2 = y; b[i] = t_2
    """
    names = bound_names(nest)

    def visit(node: Stmt) -> Stmt:
        if not isinstance(node, Alloc) or not _is_scalar(node) or not _is_straight(node.body):
            return node
        # The memory goes, so its name is free for the first value.
        names.discard(node.buffer.name)
        promoted = _promoted(_row(node.body), node.buffer.name, None, names)
        names.add(node.buffer.name)
        return node if promoted is None else promoted

    return replace(nest, body=rebuild(nest.body, visit))


def _is_scalar(node: Alloc) -> bool:
    return node.shape == () and node.buffer.space is Space.STACK


def _is_straight(body: Stmt) -> bool:
    """Whether `body` is stores and lets of the lets around them only."""
    return all(isinstance(inner, Store | Let | Block) for inner in statements(body))


def _row(body: Stmt) -> tuple[Stmt, ...]:
    """The statements of `body` in order, blocks laid open."""
    if not isinstance(body, Block):
        return (body,)
    return tuple(stmt for child in body.body for stmt in _row(child))


def _promoted(
    row: tuple[Stmt, ...], scalar: str, value: Var | None, names: set[str]
) -> Stmt | None:
    """`row` with loads of `scalar` replaced by its last `value`; None when it is read unset."""
    done: list[Stmt] = []
    for at, stmt in enumerate(row):
        changed = _with_value(stmt, scalar, value)
        if changed is None:
            return None
        match changed:
            case Store(buffer=name, value=stored) if name == scalar:
                bound = Var(fresh_name(scalar, names), stored.dtype)
                names.add(bound.name)
                rest = _promoted(row[at + 1 :], scalar, bound, names)
                return None if rest is None else Block((*done, Let(bound.name, stored, rest)))
            case Let(body=body):
                # A binding reaches to the end of its body: what follows it cannot be inside.
                rest = _promoted((*_row(body), *row[at + 1 :]), scalar, value, names)
                return None if rest is None else Block((*done, replace(changed, body=rest)))
            case _:
                done.append(changed)
    return Block(tuple(done))


def _with_value(stmt: Stmt, scalar: str, value: Var | None) -> Stmt | None:
    """`stmt` itself, not what a let encloses, with the scalar's value put in."""
    if not isinstance(stmt, Store | Let):
        return stmt
    missing = False

    def change(expr: Expr) -> Expr:
        nonlocal missing
        if isinstance(expr, Load) and expr.array == scalar:
            missing = missing or value is None
            return value or expr
        return expr

    if isinstance(stmt, Let):
        changed: Stmt = replace(stmt, value=rewrite(stmt.value, change))
    else:
        index = tuple(rewrite(entry, change) for entry in stmt.index)
        changed = replace(stmt, index=index, value=rewrite(stmt.value, change))
    return None if missing else changed
