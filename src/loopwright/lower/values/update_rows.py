"""Rows of bindings and stores, and conditions without which some of the stores change nothing.

    let r = x * x; let q = 1 / r; s = (s + q if r < cut else s); t = t + r

is a row. The first of its stores is an update under the condition `r < cut`; it needs both
bindings, the condition needs one, and the other store may come before or behind it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from loopwright.ir.expr import Binary, Call, Const, Expr, Load, Select, Var
from loopwright.ir.loops import Block, Let, Stmt, Store
from loopwright.ir.visit import loads, names, rewrite, update_conditions
from loopwright.lower.build import seq
from loopwright.lower.values.plain_reductions import is_product
from loopwright.lower.values.rare_calls import CALLED

__all__ = [
    "Row",
    "is_dear",
    "meet",
    "names_through",
    "nested",
    "selected_sum",
    "update_condition",
    "update_row",
    "with_values",
    "written",
]

Row = tuple[Let | Store, ...]


def update_row(body: Stmt) -> Row | None:
    """Bindings and stores in order; None where there is something else, or a name bound twice."""

    def flat(stmt: Stmt) -> Iterator[Stmt]:
        match stmt:
            case Block(body=parts):
                for part in parts:
                    yield from flat(part)
            case Let(body=inner, is_anew=False, parts=0):
                yield stmt
                yield from flat(inner)
            case _:
                yield stmt

    row = tuple(flat(body))
    bound = [part.name for part in row if isinstance(part, Let)]
    plain = tuple(x for x in row if isinstance(x, Let | Store))
    is_plain = len(plain) == len(row) and not any(getattr(x, "is_atomic", False) for x in row)
    return plain if is_plain and len(set(bound)) == len(bound) else None


def nested(row: Sequence[Stmt]) -> Stmt:
    """Bindings and other statements in order, as a statement."""
    found: Stmt = Block(())
    for part in reversed(row):
        found = replace(part, body=found) if isinstance(part, Let) else seq(part, found)
    return found


def update_condition(row: Row, at: int, values: Mapping[str, Expr]) -> Expr | None:
    """The condition without which a store changes nothing; None of a binding."""
    store = row[at]
    if not isinstance(store, Store):
        return None
    before = Load(store.buffer, store.index, store.value.dtype)

    def named(node: Expr) -> Expr:
        """The element itself in place of a name for it."""
        return before if isinstance(node, Var) and values.get(node.name) == before else node

    value = store.value
    if not any(isinstance(part, Store) and part.buffer == store.buffer for part in row[:at]):
        value = rewrite(value, named)  # nothing has changed it since it has the name
    return next(update_conditions(value, before), None)


def with_values(row: Row, stores: Sequence[Let | Store]) -> list[Let | Store]:
    """Stores with the bindings that they need, in order."""
    values = {part.name: part.value for part in row if isinstance(part, Let)}
    used = names_through(
        values, [e for s in stores if isinstance(s, Store) for e in (s.value, *s.index)]
    )
    kept = [
        part
        for part in row
        if (isinstance(part, Let) and part.name in used) or any(part is s for s in stores)
    ]
    return [*kept, *(s for s in stores if not any(s is part for part in row))]


def names_through(values: Mapping[str, Expr], exprs: Iterable[Expr]) -> set[str]:
    """The names that expressions depend on, through bindings too."""
    found: set[str] = set()
    ahead = [name for expr in exprs for name in names(expr)]
    while ahead:
        name = ahead.pop()
        if name not in found:
            found.add(name)
            ahead += names(values[name]) if name in values else ()
    return found


def written(row: Iterable[Let | Store]) -> set[str]:
    return {part.buffer for part in row if isinstance(part, Store)}


def meet(first: Collection[Let | Store], second: Collection[Let | Store]) -> bool:
    """Whether one of two rows stores to what the other touches."""

    def touched(row: Collection[Let | Store]) -> set[str]:
        values = [
            e for x in row for e in ((x.value,) if isinstance(x, Let) else (x.value, *x.index))
        ]
        return written(row) | {load.array for value in values for load in loads(value)}

    return bool(written(first) & touched(second)) or bool(written(second) & touched(first))


def is_dear(expr: Expr) -> bool:
    """Whether a value takes many cycles for each vector of it."""
    match expr:
        case Call(function=function):
            return expr.dtype.is_float and (function == "sqrt" or function in CALLED)
        case Binary(op="div"):
            return expr.dtype.is_float
    return False


def selected_sum(store: Store) -> Store:
    """A sum under a condition as a selection: s + (e if c else -0.0) is s + e if c, else s.

    Not of a product, which would be rounded with the sum then (ADR 55).
    """
    own = Load(store.buffer, store.index, store.value.dtype)
    match store.value:
        case Binary(op="add" | "sub" as op, x=x, y=Select(cond=cond, x=e, y=Const() as none)) if (
            x == own
            and own.dtype.is_float
            and not is_product(e)
            and repr(none.value) == ("-0.0" if op == "add" else "0.0")
        ):
            return replace(store, value=Select(cond, Binary(op, x, e), own))
    return store
