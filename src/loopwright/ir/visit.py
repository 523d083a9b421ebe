"""Traversal: of expressions, with bottom-up rewriting, and of loop nests; the trips of a loop."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import assert_never

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import (
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    Unary,
    Var,
)
from loopwright.ir.loops import (
    Alloc,
    Barrier,
    Block,
    Commit,
    Copy,
    For,
    If,
    LabelledBlock,
    Leave,
    Let,
    MeshBroadcast,
    MeshMessage,
    Prefetch,
    Stmt,
    Store,
    Wait,
    WarpMma,
)

__all__ = [
    "children",
    "constant_trips",
    "expanded_dot",
    "expanded_extreme",
    "expressions",
    "fresh_name",
    "is_same",
    "linear_terms",
    "loads",
    "loop_depth",
    "names",
    "operands",
    "reads_what_it_writes",
    "rebuild",
    "rewrite",
    "statements",
    "statements_inside",
    "substitute",
    "unguarded_calls",
    "unguarded_loads",
    "update_conditions",
    "walk",
]


def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct sub-expressions, subscripts of a load included."""
    # By type, the commonest first: patterns would be tried one after another.
    kind = type(expr)
    if kind is Var or kind is Const:
        return ()
    if kind is Binary:
        return (expr.x, expr.y)  # type: ignore[union-attr]
    match expr:
        case Load(index=index):
            return index
        case Unary(x=x) | Cast(x=x):
            return (x,)
        case Select(cond=cond, x=x, y=y):
            return (cond, x, y)
        case Call(args=args):
            return args
    raise AssertionError(f"no expression: {expr}")


def is_same(x: object, y: object) -> bool:
    """Whether two terms are equal; `==` recurses, and fails where terms are some hundred deep."""
    ahead = [(x, y)]
    while ahead:
        one, other = ahead.pop()
        if one is other:
            continue
        if type(one) is not type(other):
            return False
        if isinstance(one, tuple) and isinstance(other, tuple):
            if len(one) != len(other):
                return False
            ahead += zip(one, other, strict=True)
        elif is_dataclass(one):
            names = [field.name for field in fields(one) if field.compare]
            ahead += ((getattr(one, name), getattr(other, name)) for name in names)
        elif one != other:
            return False
    return True


def walk(expr: Expr) -> Iterator[Expr]:
    """`expr` and everything below it, parents first."""
    ahead = [expr]
    while ahead:
        part = ahead.pop()
        yield part
        kind = type(part)
        if kind is Binary:
            ahead += (part.y, part.x)  # type: ignore[union-attr]
        elif kind is not Var and kind is not Const:
            ahead += children(part)[::-1]


def loads(expr: Expr) -> tuple[Load, ...]:
    """Every distinct load in `expr`, in order of appearance."""
    return tuple(dict.fromkeys([x for x in walk(expr) if type(x) is Load]))


def unguarded_loads(expr: Expr) -> Iterator[Load]:
    """The loads of an expression that happen whatever the data are, those in subscripts first."""
    for child in _certain(expr):
        yield from unguarded_loads(child)
    if isinstance(expr, Load):
        yield expr


def unguarded_calls(expr: Expr, known: Collection[tuple[str, DType]]) -> Iterator[Call]:
    """Calls of known functions that happen whatever the data are; none is inside another.

    Functions are known by name and type.
    """
    if isinstance(expr, Call) and (expr.function, expr.dtype) in known:
        yield expr
        return
    for child in _certain(expr):
        yield from unguarded_calls(child, known)


def _certain(expr: Expr) -> tuple[Expr, ...]:
    """The direct sub-expressions that are computed whatever the data are."""
    match expr:
        case Select(cond=cond):
            return (cond,)
        case Binary(op="and" | "or", x=x):
            return (x,)
    return children(expr)


def reads_what_it_writes(stmt: Stmt) -> bool:
    """Whether a statement reads arrays that it writes, but for those declared inside.

    One that does not may run twice: the second run writes the same numbers.
    """
    inside = list(statements(stmt))
    own = {s.buffer.name for s in inside if isinstance(s, Alloc)}
    written = {s.buffer for s in inside if isinstance(s, Store)} - own
    values = (value for s in inside for value in expressions(s))
    return any(load.array in written for value in values for load in loads(value))


def update_conditions(value: Expr, before: Load) -> Iterator[Expr]:
    """The conditions without any of which `value` is what an element has `before`, in order.

    c and d of `(e if d else a[i]) if c else a[i]`.
    """
    while isinstance(value, Select) and value.y == before:
        yield value.cond
        value = value.x


def names(expr: Expr) -> set[str]:
    """The variables `expr` depends on, those in subscripts included."""
    # Asked more often than all else of an expression: no generator, and no order.
    found: set[str] = set()
    ahead = [expr]
    while ahead:
        part = ahead.pop()
        kind = type(part)
        if kind is Var:
            found.add(part.name)  # type: ignore[union-attr]
        elif kind is Binary:
            ahead += (part.x, part.y)  # type: ignore[union-attr]
        elif kind is not Const:
            ahead += children(part)
    return found


def operands(op: str, expr: Expr) -> list[Expr]:
    """The operands of nested applications of one operator: a, b, c of `(a + b) + c`."""
    if isinstance(expr, Binary) and expr.op == op:
        return operands(op, expr.x) + operands(op, expr.y)
    return [expr]


def fresh_name(wish: str, taken: Iterable[str]) -> str:
    """`wish`, or `wish_2`, `wish_3`, ... when it is taken."""
    used = set(taken)
    name, count = wish, 1
    while name in used:
        count += 1
        name = f"{wish}_{count}"
    return name


def rewrite(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Rebuild `expr` bottom-up, passing every node through `change`.

    Nodes whose parts stay the same objects are not made anew.
    """

    def down(node: Expr) -> Expr:
        kind = type(node)
        if kind is Const or kind is Var:
            return change(node)
        match node:
            case Binary(x=x, y=y):
                left, right = down(x), down(y)
                is_same = left is x and right is y
                return change(node if is_same else Binary(node.op, left, right))
            case Load(index=index):
                parts = tuple([down(entry) for entry in index])
                is_same = all(map(operator.is_, parts, index))
                return change(node if is_same else Load(node.array, parts, node.dtype))
            case Unary(x=x) | Cast(x=x):
                part = down(x)
                return change(node if part is x else replace(node, x=part))
            case Select(cond=cond, x=x, y=y):
                parts = (down(cond), down(x), down(y))
                is_same = parts[0] is cond and parts[1] is x and parts[2] is y
                return change(node if is_same else Select(*parts))
            case Call(args=args):
                parts = tuple([down(entry) for entry in args])
                is_same = all(map(operator.is_, parts, args))
                return change(node if is_same else replace(node, args=parts))
        raise AssertionError(f"no expression: {node}")

    return down(expr)


def substitute(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """`expr` with variables replaced by name."""

    def change(node: Expr) -> Expr:
        return values.get(node.name, node) if isinstance(node, Var) else node

    return rewrite(expr, change)


def expanded_dot(x: Expr, y: Expr, total: Expr) -> Expr:
    """dot(x, y, total) as sums and products of single elements; see FUNCTIONS of expr."""
    assert isinstance(x, Load)
    assert isinstance(y, Load)
    for q in range(total.dtype.bits // x.dtype.bits):
        factors = (replace(load, index=(*load.index[:-1], load.index[-1] + q)) for load in (x, y))
        first, second = (Cast(factor, total.dtype) for factor in factors)
        total = Binary("add", total, Binary("mul", first, second))
    return total


def expanded_extreme(function: str, x: Expr, y: Expr) -> Expr:
    """min_number(x, y) or max_number(x, y) by min or max, which NaN takes part in."""
    inner = Select(Binary("ne", y, y), x, Binary(function[:3], x, y))
    return Select(Binary("ne", x, x), y, inner)


# -- loop nests, and the expressions in them ------------------------------------------------------


def statements_inside(stmt: Stmt) -> tuple[Stmt, ...]:
    """The statements directly inside of a statement, in order."""
    match stmt:
        case Block(body=body):
            return body
        case For(body=inner) | Let(body=inner) | Alloc(body=inner) | LabelledBlock(body=inner):
            return (inner,)
        case If(body=inner, orelse=orelse):
            return (inner,) if orelse is None else (inner, orelse)
        case (
            Store()
            | Copy()
            | MeshBroadcast()
            | MeshMessage()
            | Commit()
            | Wait()
            | Barrier()
            | Prefetch()
            | WarpMma()
            | Leave()
        ):
            return ()
        case _:
            assert_never(stmt)


def statements(stmt: Stmt) -> Iterator[Stmt]:
    """`stmt` and every statement below it, parents first."""
    waiting = [stmt]  # a stack: generators inside each other would cost a step per level
    while waiting:
        here = waiting.pop()
        yield here
        waiting += reversed(statements_inside(here))


def loop_depth(stmt: Stmt) -> int:
    """How many loops stand inside each other at most."""
    below = max(map(loop_depth, statements_inside(stmt)), default=0)
    return below + isinstance(stmt, For)


def expressions(stmt: Stmt) -> tuple[Expr, ...]:
    """The expressions that stand directly in `stmt`, not in statements below it."""
    match stmt:
        case For(start=start, stop=stop, step=step, until=until):
            return (start, stop, step) if until is None else (start, stop, step, until)
        case If(cond=cond):
            return (cond,)
        case Let(value=value):
            return (value,)
        case Store(index=index, value=value):
            return (*index, value)
        case Alloc(buffer=buffer, shape=shape):
            return (*shape, *buffer.strides)
        case Copy(target_start=target, source_start=source, shape=shape):
            return (*target, *source, *shape)
        case MeshBroadcast(target_start=target, source_start=source, shape=shape, root=root):
            return (*target, *source, *shape, root)
        case MeshMessage(start=start, shape=shape):
            return (*start, *shape)
        case Prefetch(index=index):
            return index
        case WarpMma(sums_start=sums, left_start=left, right_start=right):
            return (*sums, *left, *right)
        case Block() | Commit() | Wait() | Barrier() | LabelledBlock() | Leave():
            return ()
        case _:
            assert_never(stmt)


def rebuild(
    stmt: Stmt,
    statement: Callable[[Stmt], Stmt] = lambda s: s,
    expression: Callable[[Expr], Expr] | None = None,
) -> Stmt:
    """Rebuild `stmt` bottom-up: expressions through `expression`, then nodes through `statement`.

    `expression` sees the whole expressions that stand in a statement, not their parts. Nodes whose
    parts stay the same objects are not made anew.
    """
    if expression is None:
        return _rebuilt(stmt, statement)

    def each(index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        made = tuple(map(expression, index))
        return index if all(map(operator.is_, made, index)) else made

    def down(stmt: Stmt) -> Stmt:
        match stmt:
            case Block(body=body):
                parts = tuple(map(down, body))
                is_same = all(map(operator.is_, parts, body))
                return statement(stmt if is_same else Block(parts))
            case For(start=start, stop=stop, step=step, until=until, body=inner):
                first, end, by = expression(start), expression(stop), expression(step)
                ends = None if until is None else expression(until)
                new = down(inner)
                is_same = first is start and end is stop and by is step and ends is until
                if not is_same or new is not inner:
                    stmt = replace(stmt, start=first, stop=end, step=by, until=ends, body=new)
                return statement(stmt)
            case If(cond=cond, body=inner, orelse=orelse):
                other = None if orelse is None else down(orelse)
                chosen, new = expression(cond), down(inner)
                is_same = other is orelse and chosen is cond and new is inner
                return statement(stmt if is_same else If(chosen, new, other))
            case LabelledBlock(body=inner):
                new = down(inner)
                return statement(stmt if new is inner else replace(stmt, body=new))
            case Let(value=value, body=inner):
                bound, new = expression(value), down(inner)
                if bound is not value or new is not inner:
                    stmt = replace(stmt, value=bound, body=new)
                return statement(stmt)
            case Store(index=index, value=value):
                place, stored = each(index), expression(value)
                if place is not index or stored is not value:
                    stmt = replace(stmt, index=place, value=stored)
                return statement(stmt)
            case Alloc(buffer=buffer, shape=shape, body=inner):
                strides, sides = each(buffer.strides), each(shape)
                new = down(inner)
                if strides is not buffer.strides:
                    buffer = replace(buffer, strides=strides)
                is_same = buffer is stmt.buffer and sides is shape and new is inner
                return statement(stmt if is_same else Alloc(buffer, sides, new))
            case Copy(target_start=target, source_start=source, shape=shape):
                to, from_, sides = each(target), each(source), each(shape)
                if to is not target or from_ is not source or sides is not shape:
                    stmt = replace(stmt, target_start=to, source_start=from_, shape=sides)
                return statement(stmt)
            case MeshBroadcast(target_start=target, source_start=source, shape=shape, root=root):
                given = replace(stmt, target_start=each(target), source_start=each(source))
                return statement(replace(given, shape=each(shape), root=expression(root)))
            case MeshMessage(start=start, shape=shape):
                return statement(replace(stmt, start=each(start), shape=each(shape)))
            case Prefetch(index=index):
                return statement(replace(stmt, index=each(index)))
            case WarpMma(sums_start=sums, left_start=left, right_start=right):
                return statement(
                    replace(
                        stmt, sums_start=each(sums), left_start=each(left), right_start=each(right)
                    )
                )
            case Commit() | Wait() | Barrier() | Leave():
                return statement(stmt)
            case _:
                assert_never(stmt)

    return down(stmt)


def _rebuilt(stmt: Stmt, statement: Callable[[Stmt], Stmt]) -> Stmt:
    """`stmt` with every node, bottom-up, passed through `statement`; expressions stay."""

    def down(node: Stmt) -> Stmt:
        inside = statements_inside(node)
        if not inside:
            return statement(node)
        # The other branch comes first, as above: some rewrites give names as they go.
        backwards = isinstance(node, If)
        made = list(map(down, inside[::-1] if backwards else inside))
        parts = tuple(made[::-1] if backwards else made)
        if all(map(operator.is_, parts, inside)):
            return statement(node)
        match node:
            case Block():
                return statement(Block(parts))
            case If(cond=cond):
                return statement(If(cond, parts[0], parts[1] if len(parts) > 1 else None))
            case For() | Let() | Alloc() | LabelledBlock():
                return statement(replace(node, body=parts[0]))
        raise AssertionError(f"nothing stands in {node}")

    return down(stmt)


# -- the iterations of a loop, where their number is the same whatever the variables hold ---------


def constant_trips(loop: For) -> int | None:
    """How often the body runs when stop - start and the step are constants; None otherwise."""
    if loop.until is not None:
        return None
    match loop:
        case For(
            start=Const(value=int(start)), stop=Const(value=int(stop)), step=Const(value=int(step))
        ):
            return max(0, -(-(stop - start) // step))
    terms = linear_terms(loop.stop, 1)
    terms.subtract(linear_terms(loop.start, 1))
    if not isinstance(loop.step, Const) or any(terms[x] for x in terms if x is not None):
        return None
    assert isinstance(loop.step.value, int)
    return max(0, -(-terms[None] // loop.step.value))


def linear_terms(expr: Expr, factor: int) -> Counter[Expr | None]:
    """`factor * expr` as a sum: how often each term occurs; None stands for the number 1."""
    match expr:
        case Const(value=int(value)):
            return Counter({None: factor * value})
        case Unary(op="neg", x=x):
            return linear_terms(x, -factor)
        case Binary(op="add" | "sub", x=x, y=y):
            total = linear_terms(x, factor)
            total.update(linear_terms(y, factor if expr.op == "add" else -factor))
            return total
        case Binary(op="mul", x=x, y=Const(value=int(value))):
            return linear_terms(x, factor * value)
        case Binary(op="mul", x=Const(value=int(value)), y=y):
            return linear_terms(y, factor * value)
        case _:
            return Counter({expr: factor})
