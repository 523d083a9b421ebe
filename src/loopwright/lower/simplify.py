"""Make a loop nest plain: fold index arithmetic, drop dead lets, empty loops and implied guards."""

from __future__ import annotations

from dataclasses import replace

from loopwright.ir.dtypes import BOOL
from loopwright.ir.expr import Binary, Const, Expr, Load, Var
from loopwright.ir.loops import (
    Alloc,
    Block,
    Copy,
    For,
    If,
    Let,
    LoopNest,
    Mark,
    Prefetch,
    Stmt,
    Store,
)
from loopwright.ir.visit import expressions, rebuild, rewrite, statements, substitute, walk
from loopwright.lower.linear import Linear, linear, nonnegative_form, normal

__all__ = ["simplify", "substitute_statement", "touches"]

_EMPTY = Block(())


def simplify(nest: LoopNest) -> LoopNest:
    """The same nest with less text; meaning, order of stores and marks are kept."""
    return replace(nest, body=rebuild(_fold(nest.body), _plain))


def substitute_statement(stmt: Stmt, values: dict[str, Expr]) -> Stmt:
    """`stmt` with variables replaced by name; loops inside do not rebind them."""
    return rebuild(stmt, expression=lambda expr: substitute(expr, values))


def _fold(stmt: Stmt) -> Stmt:
    """Index expressions and conditions in normal form; the user's arithmetic stays as written."""

    def visit(node: Stmt) -> Stmt:
        match node:
            case For(start=start, stop=stop, step=step):
                bounds = replace(node, start=normal(start), stop=normal(stop), step=normal(step))
                ends = node.until and rewrite(node.until, _fold_subscripts)
                return replace(bounds, until=ends)
            case If(cond=cond):
                return replace(node, cond=normal(cond))
            case Let(value=value) if not any(isinstance(x, Load) for x in walk(value)):
                return replace(node, value=normal(value))
            case Store(index=index, value=value):
                folded = tuple(map(normal, index))
                return replace(node, index=folded, value=rewrite(value, _fold_subscripts))
        return node

    return rebuild(stmt, visit)


def _fold_subscripts(expr: Expr) -> Expr:
    if isinstance(expr, Load):
        return replace(expr, index=tuple(map(normal, expr.index)))
    return expr


def _plain(stmt: Stmt) -> Stmt:
    """One statement whose parts are plain already."""
    match stmt:
        case Block(body=body):
            return _plain_block(body)
        case For():
            return _plain_for(stmt)
        case If():
            return _plain_if(stmt)
        case Let(name=name, value=value, body=body):
            if isinstance(value, Const | Var):
                return rebuild(_fold(substitute_statement(body, {name: value})), _plain)
            return stmt if _uses(body, name) else body
        case Alloc(buffer=buffer, body=body):
            is_used = any(touches(inner, buffer.name) for inner in statements(body))
            return stmt if is_used else body
    return stmt


def _plain_block(body: tuple[Stmt, ...]) -> Stmt:
    flat: list[Stmt] = []
    for child in body:
        flat += child.body if isinstance(child, Block) else [child]
    return flat[0] if len(flat) == 1 else Block(tuple(flat))


def _plain_for(loop: For) -> Stmt:
    if loop.body == _EMPTY:
        return _EMPTY
    extent = linear(loop.stop) - linear(loop.start)
    if not extent.terms and extent.constant <= 0:
        return _EMPTY
    # A parallel loop of one iteration says that one thread only does the work.
    is_once = not extent.terms and loop.mark is not Mark.PARALLEL and loop.until is None
    if is_once and isinstance(loop.step, Const) and extent.constant <= _int(loop.step):
        inner = substitute_statement(loop.body, {loop.var: loop.start})
        return rebuild(_fold(inner), _plain)
    known = [linear(Var(loop.var)) - linear(bound) for bound in _bounds("max", loop.start)]
    known += [
        linear(bound) - linear(Var(loop.var)) + Linear((), -1)
        for bound in _bounds("min", loop.stop)
    ]
    return replace(loop, body=_assume(loop.body, known))


def _plain_if(branch: If) -> Stmt:
    orelse = None if branch.orelse == _EMPTY else branch.orelse
    if isinstance(branch.cond, Const):
        return branch.body if branch.cond.value else (orelse or _EMPTY)
    if branch.body == _EMPTY and orelse is None:
        return _EMPTY
    known = [form for c in conjuncts(branch.cond) if (form := nonnegative_form(c)) is not None]
    return If(branch.cond, _assume(branch.body, known), orelse)


def conjuncts(cond: Expr) -> list[Expr]:
    """The conditions that `cond` joins with `and`."""
    if isinstance(cond, Binary) and cond.op == "and" and cond.dtype == BOOL:
        return conjuncts(cond.x) + conjuncts(cond.y)
    return [cond]


def _assume(stmt: Stmt, known: list[Linear]) -> Stmt:
    """`stmt` without the guards that follow from sums known to be >= 0."""

    def is_open(cond: Expr) -> bool:
        form = nonnegative_form(cond)
        if form is None:
            return True
        gaps = (form - fact for fact in known)
        return not any(not gap.terms and gap.constant >= 0 for gap in gaps)

    def visit(node: Stmt) -> Stmt:
        if not isinstance(node, If):
            return node
        left = [cond for cond in conjuncts(node.cond) if is_open(cond)]
        if len(left) == len(conjuncts(node.cond)):
            return node
        cond: Expr = Const(True, BOOL)
        for part in left:
            cond = normal(Binary("and", cond, part))
        return _plain_if(replace(node, cond=cond))

    if not any(isinstance(node, If) for node in statements(stmt)):
        return stmt
    return rebuild(stmt, visit)


def _bounds(op: str, expr: Expr) -> list[Expr]:
    if isinstance(expr, Binary) and expr.op == op:
        return _bounds(op, expr.x) + _bounds(op, expr.y)
    return [expr]


def _int(constant: Const) -> int:
    assert isinstance(constant.value, int)
    return constant.value


def _uses(stmt: Stmt, name: str) -> bool:
    everything = (e for s in statements(stmt) for e in expressions(s))
    return any(isinstance(x, Var) and x.name == name for e in everything for x in walk(e))


def touches(stmt: Stmt, buffer: str) -> bool:
    """Whether `stmt` itself, not a statement below it, reads or writes a buffer."""
    match stmt:
        case Store(buffer=name) | Prefetch(buffer=name) if name == buffer:
            return True
        case Copy(target=target, source=source) if buffer in (target, source):
            return True
    loads = (x for expr in expressions(stmt) for x in walk(expr) if isinstance(x, Load))
    return any(load.array == buffer for load in loads)
