"""Factors of broadcast elements: made by the core that has brought an element in, once for all.

    wait; start copies of the next panel; commit
    broadcast A_box = A_part[slot]: S(alpha * A_box[i, k])
->  wait; start copies of the next panel; commit
    for r: for c: A_part[slot, r, c] = alpha * A_part[slot, r, c]
    broadcast A_box = A_part[slot]: S(A_box[i, k])

Each core does an eighth of the products that every core did before, for all windows of a panel. The
product of an element is the same operation on the same two numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from loopwright.ir.expr import Binary, Const, Expr, Load, Unary, Var
from loopwright.ir.loops import (
    Alloc,
    Block,
    Commit,
    Copy,
    For,
    Let,
    LoopNest,
    MeshBroadcast,
    Stmt,
    Store,
    Wait,
)
from loopwright.ir.visit import (
    children,
    expressions,
    fresh_name,
    loads,
    rebuild,
    rewrite,
    statements,
    substitute,
)
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.build import bound_names, seq
from loopwright.lower.linear_forms import normal

__all__ = ["scale_parts"]


def scale_parts(nest: LoopNest) -> LoopNest:
    """The nest with factors of broadcast elements made before the broadcasts."""
    taken = bound_names(nest)
    for factor in list(_factors(nest)):
        scaling = _Scaling(factor, taken)
        body = scaling.filled(nest.body)
        # Copies for the first panel and for all others, and then one place; or one that waits.
        if scaling.places == 1:
            nest = replace(nest, body=scaling.used(body))
    return nest


@dataclass(frozen=True, slots=True)
class _Factor:
    """What is made of each element of a box."""

    part: str  # memory of the parts that cores give to each other
    load: Load  # of the box that they fill
    value: Expr  # made of the load


def _factors(nest: LoopNest) -> Iterator[_Factor]:
    """The factors of boxes that nobody uses in another way."""
    everything = list(statements(nest.body))
    pairs = {(s.source, s.target) for s in everything if isinstance(s, MeshBroadcast)}
    sources = Counter(source for source, _ in pairs)
    targets = Counter(target for _, target in pairs)
    written: set[str] = set()
    for stmt in everything:
        match stmt:
            case Store(buffer=name):
                written.add(name)
            case Copy(target=target, source=source):
                written |= {target, source}
    used = Counter(
        load for stmt in everything for expr in expressions(stmt) for load in _each_load(expr)
    )
    names = Counter(load.array for load in used.elements())
    for part, box in sorted(pairs):
        if sources[part] > 1 or targets[box] > 1 or box in written or names[box] != 1:
            continue
        if names[part] or any(isinstance(s, Store) and s.buffer == part for s in everything):
            continue
        (load,) = (one for one in used if one.array == box)
        for expr in (e for stmt in everything for e in expressions(stmt)):
            value = _made_of(expr, load, written)
            if value is not None and value != load and value.dtype == load.dtype:
                yield _Factor(part, load, value)


def _each_load(expr: Expr) -> Iterator[Load]:
    """Loads of an expression, as often as they stand there."""
    if isinstance(expr, Load):
        yield expr
    for child in children(expr):
        yield from _each_load(child)


def _made_of(expr: Expr, load: Load, written: set[str]) -> Expr | None:
    """The largest part of an expression that depends on the load and on no other variable."""
    if load not in loads(expr):
        return None
    if _is_fixed(expr, load, written):
        return expr
    for child in children(expr):
        found = _made_of(child, load, written)
        if found is not None:
            return found
    return None


def _is_fixed(expr: Expr, load: Load, written: set[str]) -> bool:
    """Whether nothing but the load changes while the nest runs."""
    match expr:
        case Load():
            return expr == load or (not expr.index and expr.array not in written)
        case Const():
            return True
        case Binary(op="add" | "sub" | "mul" | "div", x=x, y=y):
            return _is_fixed(x, load, written) and _is_fixed(y, load, written)
        case Unary(op="neg", x=x):
            return _is_fixed(x, load, written)
    return False


class _Scaling:
    """One factor in its nest."""

    def __init__(self, factor: _Factor, taken: set[str]) -> None:
        self._factor = factor
        self._taken = taken
        self.places = 0  # where parts are complete

    def used(self, body: Stmt) -> Stmt:
        """The nest with the element in the place of its factor."""
        factor = self._factor

        def change(expr: Expr) -> Expr:
            return rewrite(expr, lambda node: factor.load if node == factor.value else node)

        def visit(stmt: Stmt) -> Stmt:
            if isinstance(stmt, Store) and stmt.buffer == factor.part:
                return stmt
            return stmt if not isinstance(stmt, Store) else replace(stmt, value=change(stmt.value))

        return rebuild(body, visit)

    def filled(self, body: Stmt) -> Stmt:
        """The nest with the factors of a part made when it is there."""
        return rebuild(body, self._visit)

    def _visit(self, stmt: Stmt) -> Stmt:
        match stmt:
            case Copy(target=target, is_async=False) if target == self._factor.part:
                self.places += 1
                return seq(stmt, self._scaled(stmt.target_start[0], stmt.shape))
            case For(var=var, step=step, body=body):
                coming = self._coming(body)
                if coming is None:
                    return stmt
                # The copies are those of the next panel, into the other half.
                before = {var: normal(Var(var) - step)}
                shape = tuple(normal(substitute(extent, before)) for extent in coming.shape)
                slot = normal(1 - coming.target_start[0])
                inner = _behind_commit(body, self._scaled(slot, shape))
                if inner is None:
                    return stmt
                self.places += 1
                return replace(stmt, body=inner)
        return stmt

    def _coming(self, body: Stmt) -> Copy | None:
        """The request for the next part, of a loop that waits for its parts."""
        own = list(_without_loops(body))
        found = [s for s in own if isinstance(s, Copy) and s.target == self._factor.part]
        if len(found) != 1 or not any(isinstance(s, Wait) for s in own):
            return None
        return found[0] if found[0].is_async else None

    def _scaled(self, slot: Expr, shape: Sequence[Expr]) -> Stmt:
        """The loops that make all factors of a part."""
        index: list[Expr] = [slot]
        loops: list[For] = []
        for at, extent in enumerate(shape):
            name = fresh_name(f"{self._factor.part}_{at}", self._taken)
            self._taken.add(name)
            index.append(Var(name))
            loops.append(For(name, Const(0), extent, Block(()), Const(1)))
        load = self._factor.load
        own = Load(self._factor.part, tuple(index), load.dtype)
        value = rewrite(self._factor.value, lambda node: own if node == load else node)
        made: Stmt = Store(self._factor.part, tuple(index), value)
        for loop in reversed(loops):
            made = replace(loop, body=made)
        return made


def _without_loops(stmt: Stmt) -> Iterator[Stmt]:
    """A statement and those inside of it, not those of loops."""
    yield stmt
    match stmt:
        case Block(body=body):
            for child in body:
                yield from _without_loops(child)
        case Let(body=inner) | Alloc(body=inner):
            yield from _without_loops(inner)
        case _ if not isinstance(stmt, For) and hasattr(stmt, "body"):
            yield from _without_loops(stmt.body)


def _behind_commit(stmt: Stmt, made: Stmt) -> Stmt | None:
    """`made` behind the statement that ends a group of copies; None where there is none."""
    match stmt:
        case Let(body=body) | Alloc(body=body):
            inner = _behind_commit(body, made)
            return None if inner is None else replace(stmt, body=inner)
        case Block(body=body):
            for at, child in enumerate(body):
                if isinstance(child, Commit):
                    return Block((*body[: at + 1], made, *body[at + 1 :]))
                inner = _behind_commit(child, made)
                if inner is not None:
                    return Block((*body[:at], inner, *body[at + 1 :]))
    return None
