"""Innermost nests of sums in registers: tiles of rows by vectors, borders by smaller tiles.

    for i: for j: for k: C[i, j] = C[i, j] + A[i, k] * B[k, j]
->  for i in steps of 4: for j in steps of 16:
        c_r_q = C[i + r, j + 4 q ...]                         4 x 4 vectors in registers
        for k: b_q = B[k, j + 4 q ...]; a_r = A[i + r, k] in all lanes; c_r_q = c_r_q + a_r * b_q
        C[i + r, j + 4 q ...] = c_r_q
    then the last columns by one vector, by one element, and the last rows one by one

What adds nothing up uses no register twice, and is done by single vectors.

The order of the sums of an element stays. Factors that need more than a load, and those that do not
lie along the lanes, are written down once, in the scratchpad, before the tiles use them. Where
bounds of one loop depend on another the tiles that are whole are told apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import field, replace

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Binary, Const, Expr, Load, Unary, Var
from loopwright.ir.loops import (
    Alloc,
    Block,
    Buffer,
    Copy,
    For,
    If,
    Let,
    LoopNest,
    Mark,
    MeshBroadcast,
    MeshMessage,
    Space,
    Stmt,
    Store,
)
from loopwright.ir.visit import (
    expressions,
    fresh_name,
    loads,
    names,
    operands,
    statements,
    substitute,
    walk,
)
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.build import bound_names, seq
from loopwright.lower.linear_forms import linear, normal
from loopwright.lower.mesh_nests.edge_tiles import ends_of_rows
from loopwright.lower.mesh_nests.register_block import (
    LANES,
    Atom,
    RegisterBlock,
    TileRoles,
    bounding_names,
)

__all__ = ["register_tiles"]

_ROWS, _VECTORS = 4, 4  # of a tile: 16 sums, with 4 + 4 factors they fit into 32 registers
_OPERATORS = ("add", "sub", "mul", "div")


def register_tiles(nest: LoopNest) -> LoopNest:
    """The nest with its innermost sums in registers, where they can be."""
    tiles = _Tiles(nest)
    return replace(nest, body=tiles.statement(nest.body))


class _Unfit(Exception):  # noqa: N818, says what a nest is
    """The nest stays as it is."""


class _Tiles:
    def __init__(self, nest: LoopNest) -> None:
        self.taken = bound_names(nest)
        self.contiguous = {b.name for b in nest.buffers if b.strides[-1:] == (Const(1),)}
        self.near: set[str] = set()
        # Boxes that are filled for the next nest alone: those of the blocks since the last loop.
        self.fresh: frozenset[str] = frozenset()
        everything = list(statements(nest.body))
        self.uses = Counter(
            node.array
            for stmt in everything
            for expr in expressions(stmt)
            for node in walk(expr)
            if isinstance(node, Load)
        )
        self.was_cut = False  # whether the last tiles are whole ones and such that bounds cut
        self.filled: set[str] = set()  # whole boxes that are brought in or given
        self.kept: set[str] = set()  # that somebody else stores to or moves on
        given = {(s.target, s.source) for s in everything if isinstance(s, MeshBroadcast)}
        for stmt in everything:
            match stmt:
                case Store(buffer=name, value=Load(array=source)) if (name, source) in given:
                    pass  # its own part, as it comes from others
                case Store(buffer=name) | Copy(source=name) | MeshBroadcast(source=name):
                    self.kept.add(name)
                case MeshMessage(buffer=name):
                    self.kept.add(name)
            if isinstance(stmt, Copy | MeshBroadcast):
                self.filled.add(stmt.target)
            if isinstance(stmt, Alloc) and stmt.buffer.strides[-1:] == (Const(1),):
                self.contiguous.add(stmt.buffer.name)
            if isinstance(stmt, Alloc) and stmt.buffer.space is Space.SCRATCHPAD:
                self.near.add(stmt.buffer.name)

    def statement(self, stmt: Stmt) -> Stmt:
        match stmt:
            case For():
                roles = self._roles(stmt)
                if roles is not None:
                    try:
                        return self._tiled(roles)
                    except _Unfit:
                        return stmt
                fresh, self.fresh = self.fresh, frozenset()
                made = replace(stmt, body=self.statement(stmt.body))
                self.fresh = fresh
                return made
            case Block(body=children):
                return Block(tuple(map(self.statement, children)))
            case Alloc(buffer=buffer, body=body):
                fresh = self.fresh
                self.fresh |= {buffer.name}
                made_alloc = replace(stmt, body=self.statement(body))
                self.fresh = fresh
                return made_alloc
            case Let(body=body):
                return replace(stmt, body=self.statement(body))
            case If(body=body, orelse=orelse):
                other = None if orelse is None else self.statement(orelse)
                return replace(stmt, body=self.statement(body), orelse=other)
        return stmt

    def name(self, wish: str) -> str:
        found = fresh_name(wish, self.taken)
        self.taken.add(found)
        return found

    # -- which nests ------------------------------------------------------------------------------

    def _roles(self, loop: For) -> TileRoles | None:
        chain: list[For] = []
        stmt: Stmt = loop
        while isinstance(stmt, For):
            if stmt.mark is not Mark.SERIAL or stmt.step != Const(1) or stmt.until is not None:
                return None
            chain.append(stmt)
            stmt = stmt.body
        if not isinstance(stmt, Store) or not _is_real(stmt.value.dtype) or not stmt.index:
            return None
        if stmt.buffer not in self.contiguous or stmt.buffer not in self.near:
            return None
        by_name = {one.var: one for one in chain}
        *others, last = stmt.index
        moving = names(last) & by_name.keys()
        if len(moving) != 1:
            return None
        (lane,) = moving
        if linear(last).terms.count((Var(lane), 1)) != 1:
            return None
        row: For | None = None
        kept: set[str] = set()
        for entry in others:
            used = names(entry) & by_name.keys()
            if lane in used or used & kept:
                return None
            kept |= used
            for only in used:
                if len(used) == 1 and (Var(only), 1) in linear(entry).terms:
                    row = by_name[only]
        outer = tuple(one for one in chain if one.var in kept and one is not row)
        sums = tuple(one for one in chain if one.var not in {*kept, lane})
        inner = {one.var for one in chain if one not in outer}
        if any(inner & (names(one.start) | names(one.stop)) for one in outer):
            return None
        return TileRoles(outer, row, by_name[lane], sums, stmt)

    # -- the nest ---------------------------------------------------------------------------------

    def _tiled(self, roles: TileRoles) -> Stmt:
        """The tiles of a nest; where bounds depend on the row, of its whole part apart."""
        inner = [*([] if roles.row is None else [roles.row]), roles.lane, *roles.sums]
        own = {one.var for one in inner}
        row = set() if roles.row is None else {roles.row.var}
        tied = set().union(*(own & bounding_names(one) for one in inner))
        if not tied:
            made = self.tiles(roles, roles)
        else:
            if tied != row or (roles.row is not None and own & bounding_names(roles.row)):
                raise _Unfit
            whole = _whole(roles)
            if whole is None:
                raise _Unfit
            test, free, hull = whole
            made = self.tiles(roles, hull)
            if not self.was_cut:
                made = If(test, self.tiles(free, free), made)
        for one in reversed(roles.outer):
            made = replace(one, body=made)
        return made

    def _is_cut(self, roles: TileRoles) -> bool:
        """Whether tiles of several rows may be computed whole where bounds depend on the row.

        All of what they read beyond the end of a row is there: boxes that were brought in.
        """
        row = roles.row
        if row is None or len(roles.sums) != 1 or roles.store.buffer not in self.filled:
            return False
        return all(
            ends_of_rows(one, (row.var, Var(row.var), _ROWS)) is not None
            for one in (roles.lane, *roles.sums)
        )

    def tiles(self, roles: TileRoles, hull: TileRoles) -> Stmt:
        """Tiles of a nest, borders included; those that a bound of a row cuts, too.

        Those of `hull` are the same, or the widest of all rows.
        """
        store = roles.store
        target = Load(store.buffer, store.index, store.value.dtype)
        plan = _Value(self, hull, target)
        value = plan.read(store.value)
        is_tied = roles is not hull
        is_cut = self.was_cut = is_tied and self._is_cut(roles) and plan.is_filled()

        def columns(height: int) -> Callable[[Var | None], Stmt]:
            def made(row: Var | None) -> Stmt:
                wide = LANES * _VECTORS
                kinds = [(1, wide, _VECTORS), (wide, LANES, 1), (LANES, 1, 0)]
                if not roles.sums:
                    kinds = [(1, LANES, 1), (LANES, 1, 0)]
                elif height > 1:  # single vectors of each row leave the pipeline of products idle
                    kinds[1:2] = [(wide, 2 * LANES, 2), (2 * LANES, LANES, 1)]
                lanes = roles.lane
                if is_cut and row is not None and roles.row is not None:
                    found = ends_of_rows(lanes, (roles.row.var, row, height))
                    assert found is not None, "the nest has been asked"
                    lanes = found[0]
                return seq(*(
                    self._strips(lanes, done, step, self._block(
                        roles, plan, value, target, row, height, count))
                    for done, step, count in kinds
                ))  # fmt: skip

            return made

        if roles.row is None:
            made = columns(1)(None)
        elif (is_tied and not is_cut) or not roles.sums:
            made = replace(roles.row, body=columns(1)(Var(roles.row.var)))
        else:
            heights = [(1, _ROWS), (_ROWS, 2), (2, 1)]
            if (_most_trips(roles.row) or 0) % _ROWS < 2:
                heights = [(1, _ROWS), (_ROWS, 1)]
            made = seq(*(
                self._strips(roles.row, done, step, columns(step)) for done, step in heights
            ))  # fmt: skip
        for pack in reversed(plan.packs):
            made = pack(made)
        return made

    def _strips(self, loop: For, done: int, step: int, body: Callable[[Var | None], Stmt]) -> Stmt:
        """A loop by steps: of what whole steps of `done` iterations leave, or of all."""
        var = Var(self.name(loop.var))
        start = loop.start
        if done > 1:
            whole = normal((loop.stop - loop.start).max(0) // done * done)
            start = normal(loop.start + whole)
        stop = loop.stop if step == 1 else normal(loop.stop - (step - 1))
        return For(var.name, start, stop, body(var), Const(step))

    def _block(
        self, roles: TileRoles, plan: _Value, value: Expr, target: Load, row: Var | None,
        height: int, vectors: int,
    ) -> Callable[[Var | None], Stmt]:  # fmt: skip
        """One tile of `height` rows and some vectors; of no vector: of single elements."""

        def made(lane: Var | None) -> Stmt:
            assert lane is not None
            block = RegisterBlock(self.name, roles, plan.atoms, row, lane, height, vectors)
            return block.made(value, target)

        return made


def _is_real(dtype: DType) -> bool:
    return dtype.name in ("float64", "float32")


def _whole(roles: TileRoles) -> tuple[Expr, TileRoles, TileRoles] | None:
    """When no bound depends on the row, the nest where that is so, and the hull of all rows."""
    row = roles.row
    assert row is not None
    tests: list[Expr] = []
    free: list[For] = []
    hull: list[For] = []
    for loop in (roles.lane, *roles.sums):
        bounds: list[tuple[Expr, Expr]] = []
        for op, bound, sign in (("max", loop.start, 1), ("min", loop.stop, -1)):
            plain = [part for part in operands(op, bound) if row.var not in names(part)]
            if not plain:
                return None
            kept = widest = _joined(op, plain)
            for part in operands(op, bound):
                if row.var not in names(part):
                    continue
                factor = dict(linear(part).terms).get(Var(row.var), 0)
                if not factor:
                    return None
                ends = normal(row.stop - 1), row.start
                worst, best = ends if factor * sign > 0 else ends[::-1]
                at_worst, at_best = (normal(substitute(part, {row.var: x})) for x in (worst, best))
                tests.append(Binary("le" if op == "max" else "ge", at_worst, kept))
                widest = normal(Binary(op, widest, at_best))
            bounds.append((kept, widest))
        (start, first), (stop, last) = bounds
        free.append(replace(loop, start=start, stop=stop))
        hull.append(replace(loop, start=first, stop=last))
    made = [replace(roles, lane=found[0], sums=tuple(found[1:])) for found in (free, hull)]
    return _joined("and", tests), made[0], made[1]


def _joined(op: str, parts: Sequence[Expr]) -> Expr:
    found = parts[0]
    for part in parts[1:]:
        found = normal(Binary(op, found, part))
    return found


@dataclass(slots=True)
class _Value:
    """Reads the value of a store: which parts of it registers hold."""

    tiles: _Tiles
    roles: TileRoles
    target: Load
    atoms: dict[Expr, Atom] = field(default_factory=dict)
    packs: list[Callable[[Stmt], Stmt]] = field(default_factory=list)

    def read(self, value: Expr) -> Expr:
        """The value with factors that are written down first in the places of their expressions."""
        if any(load.array == self.target.array and load != self.target for load in loads(value)):
            raise _Unfit
        if not self.roles.sums:
            return self._part(value)
        match value:
            case Binary(op="add" | "sub" as op, x=x, y=y) if x == self.target:
                self._require_other(y)
                return Binary(op, x, self._part(y))
            case Binary(op="add", x=x, y=y) if y == self.target:
                self._require_other(x)
                return Binary("add", self._part(x), y)
        raise _Unfit

    def is_filled(self) -> bool:
        """Whether all vectors of factors lie in boxes that are filled, or are written down."""
        return all(
            load.array in self.tiles.filled
            for atom in self.atoms.values()
            if atom.by_lane
            for load in loads(atom.expr)
        )

    def _require_other(self, expr: Expr) -> None:
        if any(load.array == self.target.array for load in loads(expr)):
            raise _Unfit

    def _part(self, expr: Expr) -> Expr:
        if not _is_real(expr.dtype) or expr.dtype != self.target.dtype:
            raise _Unfit
        if expr == self.target:
            return expr
        lane = self.roles.lane.var
        row = "" if self.roles.row is None else self.roles.row.var
        used = names(expr)
        is_lane, is_row = lane in used, row in used
        if not is_lane:
            if not isinstance(expr, Load | Const | Var) and is_row and self.roles.sums:
                expr = self._in_place(expr, self.roles.row, is_lane=False) or expr
            return self._atom(expr, by_row=is_row, by_lane=False)
        if isinstance(expr, Load) and self._is_along(expr, lane):
            return self._atom(expr, by_row=is_row, by_lane=True)
        if row and not is_row and self.roles.sums:
            expr = self._in_place(expr, self.roles.lane, is_lane=True) or self._packed(expr)
            return self._atom(expr, by_row=False, by_lane=True)
        match expr:
            case Binary(op=op, x=x, y=y) if op in _OPERATORS:
                return Binary(op, self._part(x), self._part(y))
            case Unary(op="neg", x=x):
                return Unary("neg", self._part(x))
        raise _Unfit

    def _is_along(self, load: Load, lane: str) -> bool:
        *outer, last = load.index
        is_plain = load.array in self.tiles.contiguous
        is_one = (Var(lane), 1) in linear(last).terms
        hidden = [atom for atom, _ in linear(last).terms if atom != Var(lane)]
        alone = not any(lane in names(atom) for atom in (*hidden, *outer))
        return is_plain and is_one and alone

    def _atom(self, expr: Expr, *, by_row: bool, by_lane: bool) -> Expr:
        self.atoms[expr] = Atom(expr, by_row, by_lane)
        return expr

    def _in_place(self, expr: Expr, loop: For | None, *, is_lane: bool) -> Expr | None:
        """A factor that is made once, before its use, in the place of what it is made of."""
        if len(self.roles.sums) != 1 or loop is None:
            return None
        (sums,) = self.roles.sums
        place = self._own_place(expr, loop, sums)
        if place is None:
            return None
        outer, inner = (sums, loop) if is_lane else (loop, sums)
        roles = TileRoles((), outer, inner, (), Store(place.array, place.index, expr))
        filled = self.tiles.tiles(roles, roles)
        self.packs.append(lambda body: seq(filled, body))
        return place

    def _packed(self, expr: Expr) -> Expr:
        """A factor that is written down along the lanes, for all steps, then loaded."""
        if len(self.roles.sums) != 1:
            raise _Unfit
        loop, (sums,) = self.roles.lane, self.roles.sums
        many, steps = _most_trips(loop), _most_trips(sums)
        if many is None or steps is None:
            raise _Unfit
        name = self.tiles.name("factor")
        width = -(-many // LANES) * LANES
        buffer = Buffer(name, expr.dtype, (Const(width), Const(1)), Space.SCRATCHPAD, writable=True)
        self.tiles.contiguous.add(name)
        self.tiles.filled.add(name)
        index = tuple(normal(Var(one.var) - one.start) for one in (sums, loop))
        fill = replace(loop, body=replace(sums, body=Store(name, index, expr)))
        shape = (Const(steps), Const(width))
        self.packs.append(lambda body: Alloc(buffer, shape, seq(fill, body)))
        return Load(name, index, expr.dtype)

    def _own_place(self, expr: Expr, loop: For, sums: For) -> Load | None:
        """The element that a factor is made of, where nothing else needs it: it may take its place.

        The box is filled for this nest alone, and each step uses an element of its own.
        """
        tiles = self.tiles
        for load in loads(expr):
            if load.array not in tiles.fresh - tiles.kept or tiles.uses[load.array] != 1:
                continue
            *outer, last = load.index
            inner = sums if (Var(sums.var), 1) in linear(last).terms else loop
            other = loop if inner is sums else sums
            is_last = inner is (loop if loop is self.roles.lane else sums)
            steps = [entry for entry in outer if names(entry) & {loop.var, sums.var}]
            is_apart = (
                len(steps) == 1
                and (Var(other.var), 1) in linear(steps[0]).terms
                and inner.var not in names(steps[0])
                and (Var(inner.var), 1) in linear(last).terms
                and other.var not in names(last)
            )
            if is_last and is_apart and load.array in tiles.contiguous:
                return load
        return None


def _most_trips(loop: For) -> int | None:
    """Iterations of a loop at most, where a constant bounds them."""
    gaps = [
        linear(high) - linear(low)
        for low in operands("max", loop.start)
        for high in operands("min", loop.stop)
    ]
    return min((gap.constant for gap in gaps if not gap.terms), default=None)
