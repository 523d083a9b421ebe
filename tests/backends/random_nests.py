"""Random small loop nests that are valid by construction: in bounds, defined, free of races.

The arguments are x and k (read only) and y (written). Iterations of a parallel or vector loop must
not meet in an element of y: they own one residue class of its subscripts each, so a subscript of y
is a number in mixed radix whose lowest digits are the variables of the concurrent loops around.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import strategies as st

from loopwright.ir.check_expr import BINARY_KINDS
from loopwright.ir.dtypes import DTYPES, FLOAT32, FLOAT64, INT32, INT64, DType
from loopwright.ir.expr import COMPARISONS, Binary, Cast, Const, Expr, Load, Select, Unary, Var
from loopwright.ir.loops import (
    Alloc,
    Barrier,
    Block,
    Buffer,
    Copy,
    For,
    If,
    Let,
    LoopNest,
    Mark,
    Prefetch,
    Space,
    Stmt,
    Store,
)

SIZE = 96  # elements of every argument
TYPES = (INT32, INT64, FLOAT32, FLOAT64, DTYPES["uint8"], DTYPES["complex64"], DTYPES["float16"])
OPERATORS = ("add", "sub", "mul", "min", "max", "floordiv", "mod", "and", "xor")
MOST_DEPTH = 4


@dataclass(frozen=True)
class Scope:
    """What stands around a statement being drawn."""

    ranges: dict[str, tuple[int, int]]  # integer variables and their least and greatest values
    values: dict[str, DType]  # bound data
    owned: tuple[tuple[str, int], ...] = ()  # concurrent loops around and their trips
    fixed: frozenset[str] = frozenset()  # variables of unrolled and vector loops
    local: tuple[tuple[Buffer, tuple[int, ...], int], ...] = ()  # buffer, extents, len(owned) there
    depth: int = 0
    is_vector: bool = False

    def bind(self, name: str, low: int, high: int) -> Scope:
        return replace(self, ranges={**self.ranges, name: (low, high)}, depth=self.depth + 1)


@dataclass
class Nests:
    """Draws the parts of a nest; names are made unique by counting."""

    draw: st.DrawFn
    dtypes: dict[str, DType]
    names: int = 0

    def pick(self, *choices: object) -> object:
        return self.draw(st.sampled_from(choices))

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def name(self, hint: str) -> str:
        self.names += 1
        return f"{hint}{self.names}"

    # -- subscripts -----------------------------------------------------------------------------

    def index(self, scope: Scope, extent: int, fixed: bool = False) -> Expr:
        """A subscript in [0, extent), affine in the variables around."""
        names = sorted(set(scope.ranges) & scope.fixed if fixed else scope.ranges)
        total: Expr = Const(0)
        low = high = 0
        for name in names:
            factor = self.number(-2, 2)
            ends = [factor * end for end in scope.ranges[name]]
            if not factor or high - low + max(ends) - min(ends) >= extent:
                continue
            total = total + Var(name) * factor if factor > 0 else total - Var(name) * -factor
            low, high = low + min(ends), high + max(ends)
        return total + self.number(-low, extent - 1 - high)

    def own_index(self, scope: Scope) -> Expr:
        """A subscript of y in the class of the concurrent iteration around."""
        radix, at = 1, Const(0)
        for name, trips in scope.owned:
            low = scope.ranges[name][0]
            at, radix = at + (Var(name) - low) * radix, radix * trips
        inner = {k: v for k, v in scope.ranges.items() if k not in dict(scope.owned)}
        return at + self.index(replace(scope, ranges=inner), SIZE // radix) * radix

    # -- values ---------------------------------------------------------------------------------

    def value(self, scope: Scope, dtype: DType, depth: int = 0) -> Expr:
        kind = self.number(0, 9) if depth < 3 else self.number(0, 3)
        match kind:
            case 0:
                return self.constant(dtype)
            case 1 | 2 | 3:
                return self.leaf(scope, dtype)
            case 4:
                other = self.pick(*TYPES)
                return Cast(self.value(scope, other, depth + 1), dtype)
            case 5:
                cond = self.condition(scope, depth + 1)
                x, y = (self.value(scope, dtype, depth + 1) for _ in range(2))
                return Select(cond, x, y)
            case 6 if dtype.kind != "u":
                return Unary("neg", self.value(scope, dtype, depth + 1))
            case _:
                operators = [op for op in OPERATORS if dtype.kind in BINARY_KINDS[op]]
                if dtype.is_complex:
                    operators = ["add", "sub"]
                x, y = (self.value(scope, dtype, depth + 1) for _ in range(2))
                return Binary(str(self.pick(*operators)), x, y)

    def constant(self, dtype: DType) -> Const:
        number = self.number(0 if dtype.kind == "u" else -3, 5)
        return Const(number if dtype.is_integer else number / 2, dtype)

    def leaf(self, scope: Scope, dtype: DType) -> Expr:
        leaves: list[Expr] = [Var(name, d) for name, d in scope.values.items()]
        leaves += [Var(name) for name in scope.ranges]
        leaves += [self.read(scope, "x"), self.read(scope, "y"), self.read(scope, "k")]
        leaves += [
            Load(buffer.name, self.local_index(scope, buffer, extents), buffer.dtype)
            for buffer, extents, owned in scope.local
            if not (scope.is_vector and owned < len(scope.owned))
        ]
        found = self.pick(*leaves)
        return found if found.dtype == dtype else Cast(found, dtype)  # type: ignore[attr-defined]

    def read(self, scope: Scope, name: str) -> Load:
        at = self.own_index(scope) if name == "y" else self.index(scope, SIZE)
        return Load(name, (at,), self.dtypes[name])

    def local_index(
        self, scope: Scope, buffer: Buffer, extents: tuple[int, ...]
    ) -> tuple[Expr, ...]:
        fixed = buffer.space is Space.REGISTER
        return tuple(self.index(scope, extent, fixed) for extent in extents)

    def condition(self, scope: Scope, depth: int = 0) -> Expr:
        dtype = self.pick(INT64, FLOAT64, INT32)
        x, y = (self.value(scope, dtype, max(depth, 2)) for _ in range(2))
        return Binary(str(self.pick(*COMPARISONS)), x, y)

    # -- statements -----------------------------------------------------------------------------

    def body(self, scope: Scope) -> Stmt:
        count = self.number(1, 2 if scope.depth < MOST_DEPTH else 1)
        parts = tuple(self.statement(scope) for _ in range(count))
        return parts[0] if len(parts) == 1 else Block(parts)

    def statement(self, scope: Scope) -> Stmt:
        kinds = ["store", "store"]
        if scope.depth < MOST_DEPTH:
            kinds += ["loop", "loop", "vector", "unroll", "if", "let", "integer", "alloc"]
        kinds += ["copy", "prefetch"] if not scope.owned else ["prefetch"]
        match self.pick(*kinds):
            case "store":
                return self.store(scope)
            case "loop":
                return self.loop(scope, Mark.SERIAL)
            case "unroll":
                return self.loop(scope, Mark.UNROLL)
            case "vector":
                return self.loop(scope, Mark.UNROLL if scope.is_vector else Mark.VECTOR)
            case "if":
                inner = replace(scope, depth=scope.depth + 1)
                other = self.body(inner) if self.number(0, 1) else None
                return If(self.condition(scope), self.body(inner), other)
            case "let":
                name, dtype = self.name("d"), self.pick(*TYPES)
                value = self.value(scope, dtype)
                inner = replace(scope, values={**scope.values, name: dtype}, depth=scope.depth + 1)
                return Let(name, value, self.body(inner))
            case "integer":
                name, extent = self.name("m"), self.number(1, 9)
                return Let(
                    name, self.index(scope, extent), self.body(scope.bind(name, 0, extent - 1))
                )
            case "alloc":
                return self.alloc(scope)
            case "copy":
                shape = self.number(0, 5)
                starts = [(self.index(scope, SIZE - shape),) for _ in range(2)]
                source = "x" if self.dtypes["x"] == self.dtypes["y"] else "y"
                if source == "y":  # a block copy must not overlap itself
                    starts = [(Const(0),), (Const(SIZE // 2),)]
                return Copy("y", starts[0], source, starts[1], (Const(shape),))
            case _:
                return Prefetch("x", (self.index(scope, SIZE),), level=self.number(1, 3))

    def store(self, scope: Scope) -> Stmt:
        targets = [
            (buffer, extents) for buffer, extents, owned in scope.local if owned == len(scope.owned)
        ]
        if targets and self.number(0, 2):
            buffer, extents = self.pick(*targets)  # type: ignore[misc]
            at = self.local_index(scope, buffer, extents)
            return Store(buffer.name, at, self.value(scope, buffer.dtype))
        return Store("y", (self.own_index(scope),), self.value(scope, self.dtypes["y"]))

    def loop(self, scope: Scope, mark: Mark) -> Stmt:
        """A loop; its first value may be that of a variable around."""
        name = self.name("i")
        trips = self.number(2, 5) if mark is Mark.VECTOR else self.number(1, 4)
        step = self.number(1, 2)
        names = [n for n, (low, high) in scope.ranges.items() if high - low < 6 and low >= 0]
        start: Expr = Const(self.number(0, 2))
        if names and self.number(0, 3) == 0 and mark is not Mark.PARALLEL:
            start = Var(str(self.pick(*names)))
        low, high = scope.ranges[start.name] if isinstance(start, Var) else (start.value,) * 2
        inner = scope.bind(name, low, high + (trips - 1) * step)
        is_concurrent = mark in (Mark.VECTOR, Mark.PARALLEL)
        if is_concurrent and (step > 1 or isinstance(start, Var)):
            step, start, low = 1, Const(0), 0
            inner = scope.bind(name, 0, trips - 1)
        if is_concurrent:
            inner = replace(inner, owned=(*scope.owned, (name, trips)))
        if mark in (Mark.VECTOR, Mark.UNROLL) and isinstance(start, Const):
            inner = replace(inner, fixed=scope.fixed | {name})
        inner = replace(inner, is_vector=scope.is_vector or mark is Mark.VECTOR)
        is_ended = mark is Mark.SERIAL and self.number(0, 3) == 0
        until = self.condition(inner) if is_ended else None
        stop = start + trips * step
        return For(name, start, stop, self.body(inner), Const(step), mark, until)

    def alloc(self, scope: Scope) -> Stmt:
        """Memory of this iteration, filled with something first."""
        space = self.pick(Space.STACK, Space.REGISTER, Space.PRIVATE)
        extents = (self.number(1, 3), self.number(1, 4))
        pitch = extents[1] + (self.number(0, 2) if space is not Space.REGISTER else 0)
        dtype = self.pick(*TYPES)
        buffer = Buffer(self.name("t"), dtype, (Const(pitch), Const(1)), space)
        a, b = self.name("a"), self.name("b")
        fill: Stmt = Store(buffer.name, (Var(a), Var(b)), self.constant(dtype))
        mark = Mark.UNROLL if space is Space.REGISTER else Mark.SERIAL
        last = Mark.VECTOR if extents[1] > 1 and not scope.is_vector else mark
        fill = For(b, Const(0), Const(extents[1]), fill, Const(1), last)
        fill = For(a, Const(0), Const(extents[0]), fill, Const(1), mark)
        inner = replace(
            scope,
            local=(*scope.local, (buffer, extents, len(scope.owned))),
            depth=scope.depth + 1,
        )
        return Alloc(buffer, tuple(map(Const, extents)), Block((fill, self.body(inner))))


@st.composite
def nests(draw: st.DrawFn, parallel: bool = False) -> tuple[LoopNest, dict[str, int]]:
    """A nest and the launch values of its strides."""
    strides = {name: draw(st.sampled_from([1, 1, 2, -1, -2])) for name in ("xs", "ys")}
    dtypes = {"x": draw(st.sampled_from(TYPES)), "y": draw(st.sampled_from(TYPES)), "k": INT64}
    maker = Nests(draw, dtypes)
    scope = Scope({"n": (3, 3)}, {})
    if parallel:
        loops = [maker.loop(scope, Mark.PARALLEL) for _ in range(draw(st.integers(1, 3)))]
        parts = [part for one in loops for part in (one, Barrier())]
        body: Stmt = Block(tuple(parts))
    else:
        body = maker.body(scope)
    # A stride is a constant of the code or a value of the launch.
    fixed = draw(st.booleans())
    buffers = (
        Buffer("x", dtypes["x"], (Const(strides["xs"]) if fixed else Var("xs"),)),
        Buffer("k", INT64, (Const(1),)),
        Buffer("y", dtypes["y"], (Const(strides["ys"]) if fixed else Var("ys"),), writable=True),
    )
    return LoopNest("f", buffers, ("n", "xs", "ys"), body), {"n": 3, **strides}
