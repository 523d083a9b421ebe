"""Neighbouring array statements over one box as one nest of loops; temporaries as scalars.

    T[...] = a * b; r[...] = T + c  ->  for p: let T_p = a[p] * b[p]; r[p] = T_p + c[p]

Statements may share loops where each element that one writes and another one uses belongs to the
same point of the box. Every operation stays as it is, so that bits do too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass

from loopwright.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var
from loopwright.ir.loops import Let, Mark, Stmt, Store
from loopwright.ir.procedure import AllocateArray, BindView, ProcedureStmt
from loopwright.ir.visit import linear_terms, loads, rewrite
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.procedure_nests.build_loops import NestBuilder, block, loops
from loopwright.lower.procedure_nests.element_maps import ElementMap, may_clash

__all__ = ["BoxStatement", "fused", "may_join", "scalars_of", "uses_of"]

_MOST_ARRAYS = 12  # of one nest: more streams are not fetched ahead
_MOST_STATEMENTS = 16


@dataclass(frozen=True, slots=True)
class BoxStatement:
    """A statement that computes each element of its target from others at the same point."""

    target: ElementMap
    index: tuple[Var, ...]
    value: Expr  # at the index

    @property
    def place(self) -> tuple[Expr, ...]:
        return self.target.element(self.index)

    @property
    def bases(self) -> set[str]:
        """The arrays that it reads or writes."""
        return {self.target.base, *(load.array for load in loads(self.value))}


def may_join(group: Sequence[BoxStatement], other: BoxStatement) -> bool:
    """Whether a statement behind those of a group may run in their loops, and is better there."""
    first = group[0]
    extents = zip(first.target.shape, other.target.shape, strict=False)
    if len(first.index) != len(other.index) or not all(_is_equal(x, y) for x, y in extents):
        return False
    if first.target.by_memory() != other.target.by_memory():
        return False
    known = set().union(*(one.bases for one in group))
    if len(known | other.bases) > _MOST_ARRAYS or len(group) >= _MOST_STATEMENTS:
        return False
    return not known.isdisjoint(other.bases) and all(_are_apart(one, other) for one in group)


def _is_equal(x: Expr, y: Expr) -> bool:
    difference = linear_terms(x, 1)
    difference.subtract(linear_terms(y, 1))
    return not any(difference.values())


def _are_apart(one: BoxStatement, other: BoxStatement) -> bool:
    """Whether two statements meet at no two different points of their box."""
    index = other.index
    written = Load(one.target.base, one.target.element(index), one.target.dtype)
    pairs = ((one.value, other.target), (other.value, one.target), (written, other.target))
    return not any(may_clash(value, target, index) for value, target in pairs)


def fused(group: Sequence[BoxStatement], scalars: Collection[str], builder: NestBuilder) -> Stmt:
    """The loops of a group; the arrays `scalars` are used nowhere else, and after they are set."""
    first = group[0]
    now: dict[str, Expr] = {}
    heads: list[tuple[str, Expr] | Store] = []
    for one in group:
        value = _replaced(one.value, now)
        if one.target.base in scalars:
            name = builder.name(one.target.base)
            heads.append((name, value))
            now[one.target.base] = Var(name, one.target.dtype)
        else:
            heads.append(Store(one.target.base, one.place, value))
    body: Stmt = block()
    for head in reversed(heads):
        body = block(head, body) if isinstance(head, Store) else Let(*head, body)
    return loops(first.index, first.target.shape, first.target.by_memory(), body, Mark.SIMD)


def _replaced(value: Expr, now: Mapping[str, Expr]) -> Expr:
    if not now:
        return value
    return rewrite(value, lambda x: now.get(x.array, x) if isinstance(x, Load) else x)


def scalars_of(
    group: Sequence[BoxStatement], uses: Mapping[str, int], locals_: Collection[str]
) -> set[str]:
    """The local arrays of a group that nothing else uses, and that are set before they are read.

    `uses` counts the statements of the procedure that name an array.
    """
    inside = Counter(name for one in group for name in one.bases)
    found: set[str] = set()
    read: set[str] = set()
    for one in group:
        read |= {load.array for load in loads(one.value)} - found
        base = one.target.base
        if base in locals_ and base not in read and inside[base] == uses[base]:
            found.add(base)
    return found


def uses_of(body: Sequence[ProcedureStmt]) -> Counter[str]:
    """How many statements name each array or view; one that declares it is none of them."""
    found: Counter[str] = Counter()
    for stmt in body:
        if isinstance(stmt, BindView):
            found[stmt.view.base] += 1
        elif not isinstance(stmt, AllocateArray):
            inner: list[ProcedureStmt] = []
            found.update(set(_names_in(stmt, inner)))
            found.update(uses_of(inner))
    return found


_EXPRESSIONS = (Binary, Call, Cast, Const, Load, Select, Unary, Var)


def _names_in(part: object, inner: list[ProcedureStmt]) -> Iterator[str]:
    """The arrays that a statement itself names; `inner` gets the statements inside of it."""
    for field in fields(part):  # type: ignore[arg-type]
        value = getattr(part, field.name)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, _EXPRESSIONS):
                yield from (load.array for load in loads(item))
            elif isinstance(item, str):
                yield item
            elif is_dataclass(item):
                inner.append(item)  # type: ignore[arg-type]
