"""Take outer loops in vectors: the loops inside of them run once for all lanes.

    for i in range(n): alloc s; s = 0; for j in range(m): s = s + b[j] * c[i]; a[i] = s
->  for i in range(0, n - 3, 4):
        alloc s_v[2, 2]
        vector i_v: s_v[0, i_v] = 0; vector i_v: s_v[1, i_v] = 0
        for j in range(m):
            vector i_v: s_v[0, i_v] = s_v[0, i_v] + b[j] * c[i + i_v]
            vector i_v: s_v[1, i_v] = s_v[1, i_v] + b[j] * c[i + 2 + i_v]
        vector i_v: a[i + i_v] = s_v[0, i_v]; vector i_v: a[i + 2 + i_v] = s_v[1, i_v]
    for i in range(n // 4 * 4, n): as before

Iterations are independent of each other, and every one keeps its own order: straight-line code is
run for all lanes before the code behind it begins.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from types import MappingProxyType

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Binary, Const, Expr, Load, Var
from loopwright.ir.loops import (
    Alloc,
    Block,
    Buffer,
    For,
    If,
    Let,
    LoopNest,
    Mark,
    Space,
    Stmt,
    Store,
)
from loopwright.ir.visit import fresh_name, loads, names, rebuild, rewrite, statements, substitute
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.build import (
    bound_names,
    is_straight_line,
    names_bound,
    seq,
    substitute_statement,
    vector,
)
from loopwright.lower.linear_forms import normal
from loopwright.lower.values.element_scalars import elements_as_scalars
from loopwright.lower.values.moving_windows import has_neighbours, moved_along, windows
from loopwright.lower.vectorize import strip_mine

__all__ = ["has_room", "vectorize_outer"]

_OWN = (Space.STACK, Space.PRIVATE)  # memory of one iteration
_MOST_BYTES = 1 << 14  # of vectors in place of a local array: a part of any first cache


def vectorize_outer(nest: LoopNest, outer: Mapping[str, tuple[int, int]]) -> LoopNest:
    """Take the loops that `outer` names, each with its lanes and copies, in vectors.

        for i: s = 0; for j: s += a[i, j]; b[i] = s
    ->  for i in range(0, n - 3, 4): vector for v in range(4): s[v] = 0
            for j: vector for v in range(4): s[v] += a[i + v, j]
            vector for v in range(4): b[i + v] = s[v]
        and the loop itself over the iterations that are left

    A loop that holds something with no form for all lanes, a branch that differs by lane or memory
    of unknown size, stays as it is.
    """
    taken = bound_names(nest)

    def visit(node: Stmt) -> Stmt:
        if not isinstance(node, For) or node.var not in outer or node.step != Const(1):
            return node
        lanes, copies = outer[node.var]
        lane = fresh_name(f"{node.var}_v", taken)
        taken.add(lane)
        own = elements_as_scalars(node.body, taken)
        body = _in_lanes(own, _Lanes(node.var, lane, lanes, copies, taken))
        if body is None:
            return node
        # Strips of one iteration carry the mark of the loop: they may be shared out to threads.
        first = fresh_name(f"{node.var}_w", taken)
        taken.add(first)
        cut = strip_mine(replace(node, mark=Mark.SERIAL), lanes * copies, first)
        return rebuild(cut, lambda stmt: _filled(stmt, node, first, body))

    return replace(nest, body=rebuild(nest.body, visit))


def _filled(stmt: Stmt, loop: For, inner: str, body: Stmt) -> Stmt:
    """A loop over strips with the body for all lanes, and its mark on strips and remainder."""
    if not isinstance(stmt, For) or stmt.var != loop.var:
        return stmt
    is_strips = isinstance(stmt.body, For) and stmt.body.var == inner
    return replace(stmt, body=body if is_strips else stmt.body, mark=loop.mark)


def _in_lanes(one: Stmt, writer: _Lanes) -> Stmt | None:
    """The body `one` of a loop for all lanes; None where it has no such form.

    Where ranges of loops inside differ by lane only at the borders of arrays, it stands there
    without the ends that lanes have alone as well, for all places where there are none:

        for k in range(max(0, i - m), min(n, i + 1)): s += x[k] * h[i - k]
    ->  if the distances of k from i begin and end alike in all lanes:
            for d in range(max(-i, -m), min(n - i, 1)): vector: s += x[i + d] * h[-d]
        else if k does: likewise, over k
        else: what lanes have in common, and the ends of each
    """
    varying = frozenset({writer.var})
    whole = writer.statement(one, varying)
    if whole is None:
        return None
    loops = [loop for loop in statements(one) if isinstance(loop, For)]
    if not any(writer.var in names(loop.start) | names(loop.stop) for loop in loops):
        return whole
    inside = names_bound(one)
    known: list[Expr] | None = None
    for is_moved in (False, True):
        conditions: list[Expr] = []
        view = replace(writer, alike=conditions, is_moved=is_moved)
        body = view.statement(one, varying)
        if body is None or conditions == known or any(names(c) & inside for c in conditions):
            continue
        if not conditions:
            return body
        known = conditions
        whole = If(reduce(partial(Binary, "and"), dict.fromkeys(conditions)), body, whole)
    return whole


def has_room(shape: Sequence[Expr], dtype: DType, width: int) -> bool:
    """Whether `width` copies of every element of a local array stay near to the core."""
    extents = [x.value for x in shape if isinstance(x, Const) and isinstance(x.value, int)]
    is_known = len(extents) == len(shape)
    return is_known and math.prod(extents) * width * dtype.bytes <= _MOST_BYTES


@dataclass(frozen=True, slots=True)
class _Lanes:
    """Writes the body of a loop for lanes of vectors."""

    var: str  # of the loop; in what is written, its value in the first lane
    lane: str  # variable of vector loops
    lanes: int
    copies: int
    taken: set[str]  # names of the nest; grows
    # Where all lanes are to run loops alike: the conditions for it; grows. None: ends stand apart.
    alike: list[Expr] | None = None
    is_moved: bool = False  # ranges that move along with the lanes are seen from there

    def statement(
        self, stmt: Stmt, varying: frozenset[str], wide: Mapping[str, str] = MappingProxyType({})
    ) -> Stmt | None:
        """`stmt` for all lanes; None where it has no such form.

        `varying` are the variables that differ by lane, `wide` the scalars that are vectors, with
        the names of these.
        """
        if is_straight_line(stmt):
            return self._straight(stmt, wide)
        match stmt:
            case Block(body=body):
                return self._row(body, varying, wide)
            case For(start=start, stop=stop, step=step, mark=mark, body=body):
                is_plain = mark in (Mark.SERIAL, Mark.SIMD, Mark.UNROLL) and stmt.until is None
                if not is_plain:
                    return None
                if self._differs((start, stop, step), varying, wide):
                    return self._in_common(stmt, varying, wide)
                inner = self.statement(body, varying, wide)
                kept = Mark.UNROLL if mark is Mark.UNROLL else Mark.SERIAL
                return None if inner is None else replace(stmt, body=inner, mark=kept)
            case If(cond=cond, body=body, orelse=orelse):
                if self._differs((cond,), varying, wide):
                    return None
                then = self.statement(body, varying, wide)
                other = None if orelse is None else self.statement(orelse, varying, wide)
                if then is None or (orelse is not None and other is None):
                    return None
                return replace(stmt, body=then, orelse=other)
            case Let(value=value, body=body):
                if self._differs((value,), varying, wide):
                    return self._bound(stmt, varying, wide)
                inner = self.statement(body, varying, wide)
                return None if inner is None else replace(stmt, body=inner)
            case Alloc(buffer=buffer, shape=shape, body=body) if buffer.space in _OWN:
                if not has_room(shape, buffer.dtype, self.copies * self.lanes):
                    return None
                name = self._fresh(buffer.name)
                inner = self.statement(body, varying, {**wide, buffer.name: name})
                return None if inner is None else self._registers(name, buffer, shape, inner)
        return None

    def _in_common(
        self, stmt: For, varying: frozenset[str], wide: Mapping[str, str]
    ) -> Stmt | None:
        """A loop whose range differs by lane, at least at some places."""
        if self.alike is None:
            return self._with_ends(stmt, varying, wide)
        loop = self._seen(stmt, wide)
        ends = (normal(loop.start), normal(loop.stop))
        if 0 not in windows(loop, self.var) or self._differs(ends, varying - {self.var}, wide):
            return None
        for end in ends:
            if self.var in names(end):
                first, last = self._ends_of(end)
                self.alike.append(Binary("eq", first, last))
        inner = self.statement(loop.body, varying, wide)
        return None if inner is None else replace(loop, body=inner, mark=Mark.SERIAL)

    def _seen(self, loop: For, wide: Mapping[str, str]) -> For:
        """A loop over distances from the lanes, where its range moves along with them."""
        slopes = windows(loop, self.var).keys() - {0} if self.is_moved else ()
        for slope in sorted(slopes):
            moved = moved_along(loop, self.var, slope, self._fresh(loop.var))
            if has_neighbours(moved, self.var, wide):
                return moved
        return loop

    def _ends_of(self, end: Expr) -> tuple[Expr, Expr]:
        """An end of a range in the first and in the last lane."""
        last = Var(self.var) + (self.lanes * self.copies - 1)
        return end, normal(substitute(end, {self.var: last}))

    def _with_ends(
        self, stmt: For, varying: frozenset[str], wide: Mapping[str, str]
    ) -> Stmt | None:
        """A loop whose range differs by lane: what all lanes run, and the ends that each has.

            for i: for j in range(i, n - i): s += a[i, j]
        ->  all lanes: for j in range(i + lane, i + 3): s[lane] += a[i + lane, j]
            for j in range(i + 3, n - i - 3): vector: s[lane] += a[i + lane, j]
            all lanes: for j in range(n - i - 3, n - i - lane): s[lane] += a[i + lane, j]
        """
        ends = (stmt.start, stmt.stop)
        # Of ends that only grow or only shrink along the lanes the first or the last is the most.
        is_known = all(_direction(normal(end), self.var) is not None for end in ends)
        is_known = is_known and not self._differs(ends, varying - {self.var}, wide)
        inner = self.statement(stmt.body, varying, wide)
        if not is_known or stmt.step != Const(1) or inner is None:
            return None
        (start, last_start), (stop, last_stop) = map(self._ends_of, ends)
        low, high = self._fresh(f"{stmt.var}_from"), self._fresh(f"{stmt.var}_to")
        parts: list[Stmt] = []
        if self.var in names(stmt.start):
            parts += self._alone(stmt, wide, lambda x, y: (x, Var(low).min(y)))
        parts.append(replace(stmt, start=Var(low), stop=Var(high), body=inner, mark=Mark.SERIAL))
        if self.var in names(stmt.stop):
            parts += self._alone(stmt, wide, lambda x, y: (Var(low).max(Var(high)), y))
        common = Let(high, normal(stop.min(last_stop)), seq(*parts))
        return Let(low, normal(start.max(last_start)), common)

    def _alone(
        self,
        stmt: For,
        wide: Mapping[str, str],
        part: Callable[[Expr, Expr], tuple[Expr, Expr]],
    ) -> Iterator[Stmt]:
        """A part of the range of a loop for one lane after the other."""
        for copy, lane in itertools.product(range(self.copies), range(self.lanes)):
            here = {self.var: normal(Var(self.var) + (copy * self.lanes + lane))}
            start, stop = part(substitute(stmt.start, here), substitute(stmt.stop, here))
            body = substitute_statement(_indexed(stmt.body, wide, copy, Const(lane)), here)
            yield replace(stmt, start=start, stop=stop, body=body, mark=Mark.SERIAL)

    def _bound(self, stmt: Let, varying: frozenset[str], wide: Mapping[str, str]) -> Stmt | None:
        """A binding around loops that has a value of its own in every lane."""
        dtype = stmt.value.dtype
        if not dtype.is_float:
            return None  # subscripts that follow it would be no sums of the lane
        name = self._fresh(stmt.name)
        inside = {**wide, stmt.name: name}
        body = self.statement(stmt.body, varying, inside)
        if body is None:
            return None
        first = self._straight(Store(stmt.name, (), stmt.value), inside)
        scalar = Buffer(stmt.name, dtype, (), Space.STACK, writable=True)
        return self._registers(name, scalar, (), seq(first, body))

    def _fresh(self, name: str) -> str:
        """A name of its own for the vectors of a scalar: the remainder keeps the scalar."""
        found = fresh_name(f"{name}_v", self.taken)
        self.taken.add(found)
        return found

    def _registers(self, name: str, buffer: Buffer, shape: tuple[Expr, ...], body: Stmt) -> Stmt:
        """`body` with vectors in place of a scalar, or of the elements of an array."""
        width = self.copies * self.lanes
        around = tuple(stride * width for stride in buffer.strides)
        strides = (*around, Const(self.lanes), Const(1))
        # Registers are explicit code, which LLVM takes as it stands; here it is to see all loops.
        vectors = Buffer(name, buffer.dtype, strides, Space.STACK, writable=True)
        return Alloc(vectors, (*shape, Const(self.copies), Const(self.lanes)), body)

    def _row(
        self, row: Sequence[Stmt], varying: frozenset[str], wide: Mapping[str, str]
    ) -> Stmt | None:
        """Statements in order, neighbours that are straight-line code together."""
        done: list[Stmt] = []
        run: list[Stmt] = []
        for stmt in (*row, None):
            if stmt is not None and is_straight_line(stmt):
                run.append(stmt)
                continue
            if run:
                done.append(self._straight(Block(tuple(run)), wide))
                run = []
            if stmt is None:
                break
            inner = self.statement(stmt, varying, wide)
            if inner is None:
                return None
            done.append(inner)
        return seq(*done) if done else Block(())

    def _straight(self, stmt: Stmt, wide: Mapping[str, str]) -> Stmt:
        """Straight-line code for the lanes of every copy."""
        lane = Var(self.lane)
        parts = []
        for copy in range(self.copies):
            place = normal(Var(self.var) + copy * self.lanes + lane)
            here = substitute_statement(_indexed(stmt, wide, copy, lane), {self.var: place})
            parts.append(vector(lane, self.lanes, here))
        return seq(*parts)

    def _differs(
        self, exprs: Sequence[Expr], varying: frozenset[str], wide: Mapping[str, str]
    ) -> bool:
        """Whether some expression has another value in another lane."""
        found = frozenset().union(*map(names, exprs))
        return bool(found & (varying | wide.keys())) or any(map(loads, exprs))


def _direction(expr: Expr, var: str) -> int | None:
    """Whether an expression grows with a variable (1), shrinks (-1), stays (0); None: unknown."""
    if var not in names(expr):
        return 0
    match expr:
        case Var():
            return 1
        case Binary(op="mul", x=x, y=Const(value=int(factor))):
            found = _direction(x, var)
            return None if found is None else found * (1 if factor > 0 else -1)
        case Binary(op="floordiv", x=x, y=Const(value=int(divisor))) if divisor > 0:
            return _direction(x, var)
        case Binary(op="add" | "sub" | "min" | "max" as op, x=x, y=y):
            one, other = _direction(x, var), _direction(y, var)
            if one is None or other is None:
                return None
            other = -other if op == "sub" else other
            return one + other if 0 in (one, other) else one if one == other else None
    return None


def _indexed(stmt: Stmt, wide: Mapping[str, str], copy: int, lane: Expr) -> Stmt:
    """`stmt` with the element of a lane in place of every scalar that is a vector."""
    index = (Const(copy), lane)

    def change(expr: Expr) -> Expr:
        match expr:
            case Load(array=name) if name in wide:
                return replace(expr, array=wide[name], index=(*expr.index, *index))
            case Var(name=name, dtype=dtype) if name in wide:
                return Load(wide[name], index, dtype)
        return expr

    def visit(node: Stmt) -> Stmt:
        if isinstance(node, Store) and node.buffer in wide:
            return replace(node, buffer=wide[node.buffer], index=(*node.index, *index))
        return node

    return rebuild(stmt, visit, lambda expr: rewrite(expr, change))
