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

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Const, Expr, Load, Var
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
from loopwright.ir.visit import fresh_name, loads, names, rebuild, rewrite
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.build import bound_names, is_straight_line, seq, substitute_statement, vector
from loopwright.lower.linear_forms import normal
from loopwright.lower.vectorize import strip_mine

__all__ = ["vectorize_outer"]


def vectorize_outer(nest: LoopNest, outer: Mapping[str, tuple[int, int]]) -> LoopNest:
    """Take the loops that `outer` names, each with its lanes and copies, in vectors.

        for i: s = 0; for j: s += a[i, j]; b[i] = s
    ->  for i in range(0, n - 3, 4): vector for v in range(4): s[v] = 0
            for j: vector for v in range(4): s[v] += a[i + v, j]
            vector for v in range(4): b[i + v] = s[v]
        and the loop itself over the iterations that are left

    A loop that holds something with no form for all lanes, a branch that differs by lane or memory
    other than scalars, stays as it is.
    """
    taken = bound_names(nest)

    def visit(node: Stmt) -> Stmt:
        if not isinstance(node, For) or node.var not in outer or node.step != Const(1):
            return node
        lanes, copies = outer[node.var]
        lane = fresh_name(f"{node.var}_v", taken)
        taken.add(lane)
        writer = _Lanes(node.var, lane, lanes, copies, taken)
        body = writer.statement(node.body, frozenset({node.var}))
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


@dataclass(frozen=True, slots=True)
class _Lanes:
    """Writes the body of a loop for lanes of vectors."""

    var: str  # of the loop; in what is written, its value in the first lane
    lane: str  # variable of vector loops
    lanes: int
    copies: int
    taken: set[str]  # names of the nest; grows

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
                if not is_plain or self._differs((start, stop, step), varying, wide):
                    return None
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
            case Alloc(buffer=buffer, shape=(), body=body) if buffer.space is Space.STACK:
                name = self._fresh(buffer.name)
                inner = self.statement(body, varying, {**wide, buffer.name: name})
                return None if inner is None else self._registers(name, buffer.dtype, inner)
        return None

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
        return self._registers(name, dtype, seq(first, body))

    def _fresh(self, name: str) -> str:
        """A name of its own for the vectors of a scalar: the remainder keeps the scalar."""
        found = fresh_name(f"{name}_v", self.taken)
        self.taken.add(found)
        return found

    def _registers(self, name: str, dtype: DType, body: Stmt) -> Stmt:
        """`body` with vectors in place of a scalar."""
        shape, strides = (Const(self.copies), Const(self.lanes)), (Const(self.lanes), Const(1))
        # Registers are explicit code, which LLVM takes as it stands; here it is to see all loops.
        return Alloc(Buffer(name, dtype, strides, Space.STACK, writable=True), shape, body)

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


def _indexed(stmt: Stmt, wide: Mapping[str, str], copy: int, lane: Var) -> Stmt:
    """`stmt` with the element of a lane in place of every scalar that is a vector."""
    index = (Const(copy), lane)

    def change(expr: Expr) -> Expr:
        match expr:
            case Load(array=name) if name in wide:
                return replace(expr, array=wide[name], index=index)
            case Var(name=name, dtype=dtype) if name in wide:
                return Load(wide[name], index, dtype)
        return expr

    def visit(node: Stmt) -> Stmt:
        if isinstance(node, Store) and node.buffer in wide:
            return replace(node, buffer=wide[node.buffer], index=index)
        return node

    return rebuild(stmt, visit, lambda expr: rewrite(expr, change))
