"""Random affine programs: loops, branches and assignments that stay inside their arrays.

`random_program(seed)` always gives the same SourceTree for a seed. Programs have one to six
statements in nests up to four deep: imperfect nests, triangular and shifted bounds, steps and
decreasing loops, affine conditions, scalars, reductions, stencils, updates in place, subscripts
with remainders and quotients, several element types.

Every expression of integers carries an interval whose ends are sums of sizes and constants, valid
for all sizes of at least zero. Subscripts are moved to begin at zero, and an array is as large as
the largest interval of its subscripts: no access can leave it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from random import Random

from loopwright.diagnostics import Span
from loopwright.frontends.source_tree import (
    ArrayParam,
    Assign,
    ForLoop,
    IfElse,
    Local,
    Node,
    ScalarParam,
    SourceTree,
)
from loopwright.ir.dtypes import DTYPES, DType
from loopwright.ir.expr import Binary, Cast, Const, Expr, Load, Select, Unary, Var
from loopwright.ir.program import Access
from loopwright.ir.visit import loads

MOST_STATEMENTS = 6
DEEPEST = 4
SIZES = ("n", "m")
ELEMENTS = ("int32", "int64", "float64", "float64", "float32")
LETTERS = "ijkl"


@dataclass(frozen=True)
class Form:
    """A sum of sizes and a constant, for the ends of intervals."""

    terms: tuple[int, ...]  # factor of each size
    constant: int

    def __add__(self, other: Form) -> Form:
        return Form(
            tuple(a + b for a, b in zip(self.terms, other.terms, strict=True)),
            self.constant + other.constant,
        )

    def times(self, factor: int) -> Form:
        return Form(tuple(factor * a for a in self.terms), factor * self.constant)

    def join(self, other: Form, pick: Callable[[int, int], int]) -> Form:
        """A form that is at most (pick = min) or at least (max) both, for all sizes."""
        terms = tuple(pick(a, b) for a, b in zip(self.terms, other.terms, strict=True))
        return Form(terms, pick(self.constant, other.constant))

    @property
    def expr(self) -> Expr:
        total: Expr = Const(self.constant)
        for size, factor in zip(SIZES, self.terms, strict=True):
            if factor:
                total = Var(size) * factor + total
        return total


ZERO = Form((0,) * len(SIZES), 0)


@dataclass(frozen=True)
class Whole:
    """An integer expression and an interval it stays in."""

    expr: Expr
    low: Form
    high: Form  # inclusive

    def __add__(self, other: Whole | int) -> Whole:
        other = constant(other) if isinstance(other, int) else other
        return Whole(self.expr + other.expr, self.low + other.low, self.high + other.high)

    def times(self, factor: int) -> Whole:
        ends = self.low.times(factor), self.high.times(factor)
        low, high = ends if factor >= 0 else (ends[1], ends[0])
        return Whole(self.expr * factor, low, high)

    def __sub__(self, other: Whole) -> Whole:
        moved = other.times(-1)
        return Whole(self.expr - other.expr, self.low + moved.low, self.high + moved.high)


def constant(value: int) -> Whole:
    form = Form(ZERO.terms, value)
    return Whole(Const(value), form, form)


def size(name: str) -> Whole:
    form = Form(tuple(int(name == other) for other in SIZES), 0)
    return Whole(Var(name), form, form)


@dataclass
class Shape:
    """What became known of an array while statements were drawn."""

    name: str
    dtype: DType
    rank: int
    is_local: bool = False
    is_written: bool = False
    extents: list[Form] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.extents = [Form(ZERO.terms, 1)] * self.rank


class Drawing:
    """One program under way."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.left = self.random.randint(1, MOST_STATEMENTS)
        # Many statements in deep nests are too much for isl, and for patience.
        self.deepest = DEEPEST if self.left <= 3 else DEEPEST - 1
        self.lines = 0
        self.loops = 0
        self.arrays = self._arrays()

    def _arrays(self) -> list[Shape]:
        """A few arrays: some only read, a scalar, at times a local one."""
        pick = self.random.choice
        # Most programs have one element type: more statements then meet in arrays.
        dtypes = ELEMENTS if self.random.random() < 0.3 else (pick(ELEMENTS),)
        found = [
            Shape("A", DTYPES[pick(dtypes)], pick((1, 2, 2))),
            Shape("B", DTYPES[pick(dtypes)], pick((1, 1, 2, 3))),
            Shape("X", DTYPES[pick(dtypes)], pick((1, 2))),
        ]
        if self.random.random() < 0.5:
            found.append(Shape("s", DTYPES[pick(dtypes)], 0))
        if self.random.random() < 0.4:
            found.append(Shape("t", DTYPES[pick(dtypes)], 0, is_local=True))
        if self.random.random() < 0.3:
            found.append(Shape("w", DTYPES[pick(dtypes)], 1, is_local=True))
        return found

    # -- loops and branches ------------------------------------------------------------------

    def body(self, around: tuple[Whole, ...]) -> list[Node]:
        """One to three things in a row."""
        nodes: list[Node] = []
        for _ in range(self.random.choice((1, 1, 2, 3))):
            if self.left > 0 or not nodes:
                nodes += self.node(around)
        return nodes

    def node(self, around: tuple[Whole, ...]) -> list[Node]:
        chance = self.random.random()
        deep = len(around)
        if deep < self.deepest and chance < (1.0, 0.65, 0.45, 0.3)[deep]:
            return [self.loop(around)]
        if chance > 0.9 and around:
            return [self.branch(around)]
        return self.statements(around)

    def loop(self, around: tuple[Whole, ...]) -> ForLoop:
        random = self.random
        n = size(random.choice(SIZES))
        near = [around[-1]] if around else []
        starts = [constant(0), constant(0), constant(1), *near, *(x + 1 for x in near)]
        stops = [n, n, n, n + 1, n + (-1), *(x + 1 for x in near), *(x + 3 for x in near)]
        stops += [constant(4), *(_least(x + 2, n) for x in near)]
        start, stop = random.choice(starts), random.choice(stops)
        step = random.choice((1, 1, 1, 1, 1, 1, 1, 1, 2, 3, -1, -1, -1, -2))
        # A loop that runs nowhere still has an interval: one of its ends.
        high = (stop + (-1)).high.join(start.high, max)
        self.loops += 1
        var = f"{LETTERS[len(around)]}{self.loops}"
        itself = Whole(Var(var), start.low.join((stop + (-1)).low, min), high)
        line = self._line()
        inner = tuple(self.body((*around, itself)))
        if step > 0:
            return ForLoop(var, start.expr, stop.expr, step, inner, line)
        return ForLoop(var, (stop + (-1)).expr, (start + (-1)).expr, step, inner, line)

    def branch(self, around: tuple[Whole, ...]) -> IfElse:
        line = self._line()
        cond = self.condition(around)
        body = tuple(self.body(around))
        orelse = tuple(self.body(around)) if self.left > 0 and self.random.random() < 0.4 else ()
        return IfElse(cond, body, orelse, line)

    def condition(self, around: tuple[Whole, ...]) -> Expr:
        random = self.random
        chance = random.random()
        if chance < 0.2:
            op = random.choice(("and", "or"))
            return Binary(op, self.condition(around), self.condition(around))
        if chance < 0.25:
            return Unary("not", self.condition(around))
        x = random.choice(around)
        if chance < 0.45:
            return Binary("eq", Binary("mod", x.expr, Const(random.choice((2, 3)))), Const(0))
        others = [constant(random.randint(0, 4)), size("n"), *around]
        y = random.choice(others) + random.randint(-1, 1)
        x = x + random.choice(around) if chance > 0.85 else x
        return Binary(random.choice(("lt", "le", "gt", "ge", "ne")), x.expr, y.expr)

    # -- statements --------------------------------------------------------------------------

    def statements(self, around: tuple[Whole, ...]) -> list[Node]:
        """An assignment; a local scalar or array is set first and used at once."""
        local = [a for a in self.arrays if a.is_local]
        if local and self.random.random() < 0.4 and self.left > 1:
            shape = self.random.choice(local)
            held = self.element(shape, around)
            first = self.assign(shape, held, self.value(shape.dtype, around, 1))
            target = self.random.choice([a for a in self.arrays if a.name in "AB"])
            use = _converted(Load(shape.name, held, shape.dtype), target.dtype)
            place = self.element(target, around)
            other = self.value(target.dtype, around, 1)
            return [first, self.assign(target, place, Binary("add", use, other))]
        target = self.random.choice([a for a in self.arrays if a.name in ("A", "B", "s")])
        place = self.element(target, around)
        own = Load(target.name, place, target.dtype)
        chance = self.random.random()
        if chance < 0.35:
            op = self.random.choice(("add", "add", "add", "mul", "min", "max", "sub"))
            value: Expr = Binary(op, own, self.value(target.dtype, around, 1))
        elif chance < 0.55 and around:
            value = self.stencil(target, around)
        else:
            value = self.value(target.dtype, around, 2)
        return [self.assign(target, place, value)]

    def assign(self, shape: Shape, place: tuple[Expr, ...], value: Expr) -> Assign:
        self.left -= 1
        shape.is_written = True
        return Assign(Access(shape.name, place, shape.dtype), value, self._line())

    def stencil(self, shape: Shape, around: tuple[Whole, ...]) -> Expr:
        """A sum of neighbours in one array."""
        source = self.random.choice([a for a in self.arrays if not a.is_local and a.rank])
        middle = [self.random.choice(around) for _ in range(source.rank)]
        total: Expr | None = None
        for _ in range(self.random.choice((2, 3))):
            index = self.moved(source, [x + self.random.randint(-1, 1) for x in middle])
            part = _converted(Load(source.name, index, source.dtype), shape.dtype)
            total = part if total is None else Binary("add", total, part)
        assert total is not None
        return total

    def value(self, dtype: DType, around: tuple[Whole, ...], depth: int) -> Expr:
        """A right-hand side of `dtype`; small numbers give small numbers."""
        random = self.random
        chance = random.random()
        if depth == 0 or chance < 0.35:
            return self.leaf(dtype, around)
        x, y = self.value(dtype, around, depth - 1), self.value(dtype, around, depth - 1)
        if chance < 0.80:
            return Binary(random.choice(("add", "sub", "add", "min", "max")), x, y)
        if chance < 0.86:
            return Binary("mul", x, _number(random.choice((2, 3, -1)), dtype))
        if chance < 0.90:
            return Unary(random.choice(("neg", "abs")), x)
        if chance < 0.95:
            return Select(Binary(random.choice(("lt", "ge", "eq")), x, y), y, x)
        if dtype.is_integer:
            return Binary(
                random.choice(("floordiv", "mod")), x, _number(random.randint(2, 5), dtype)
            )
        return Binary("div", x, _number(random.choice((2, 4)), dtype))

    def leaf(self, dtype: DType, around: tuple[Whole, ...]) -> Expr:
        random = self.random
        chance = random.random()
        if chance < 0.1:
            return _number(random.randint(-2, 3), dtype)
        if chance < 0.2 and around:
            return _converted(random.choice(around).expr, dtype)
        # Locals are read where they were just set, nowhere else.
        shape = random.choice([a for a in self.arrays if not a.is_local])
        return _converted(Load(shape.name, self.element(shape, around), shape.dtype), dtype)

    # -- subscripts --------------------------------------------------------------------------

    def element(self, shape: Shape, around: tuple[Whole, ...]) -> tuple[Expr, ...]:
        """Subscripts of an element: mostly the loops around, in order, with small offsets."""
        random = self.random
        if len(around) >= shape.rank and random.random() < 0.5:
            chosen = list(around[len(around) - shape.rank :])
        else:
            chosen = [random.choice([*around, constant(0)]) for _ in range(shape.rank)]
        return self.moved(shape, [self.subscript(x, around) for x in chosen])

    def subscript(self, x: Whole, around: tuple[Whole, ...]) -> Whole:
        random = self.random
        chance = random.random()
        if chance < 0.5:
            return x
        if chance < 0.75:
            return x + random.randint(-2, 2)
        if chance < 0.85 and around:
            return x + random.choice(around)
        if chance < 0.91 and around:
            return x - random.choice(around)
        if chance < 0.95:
            return x.times(random.choice((2, 3)))
        if chance < 0.975:
            divisor = random.choice((2, 3))
            low, high = x.low.join(ZERO, min), x.high.join(ZERO, max)
            return Whole(Binary("floordiv", x.expr, Const(divisor)), low, high)
        divisor = random.choice((2, 3, 4))
        return Whole(Binary("mod", x.expr, Const(divisor)), ZERO, Form(ZERO.terms, divisor - 1))

    def moved(self, shape: Shape, index: list[Whole]) -> tuple[Expr, ...]:
        """Subscripts moved to begin at zero; the array grows to hold them."""
        found = []
        for at, x in enumerate(index):
            below = x.low.join(ZERO, min).times(-1)
            extent = x.high + below + Form(ZERO.terms, 1)
            shape.extents[at] = shape.extents[at].join(extent, max)
            found.append(x.expr + below.expr)
        return tuple(found)

    def _line(self) -> Span:
        self.lines += 1
        return Span("random.c", self.lines, 1, self.lines, 2)


def random_program(seed: int) -> SourceTree:
    """The program of a seed."""
    drawing = Drawing(seed)
    body: list[Node] = []
    while drawing.left > 0 and len(body) < 3:
        body += drawing.body(())
    return tree_of(f"random_{seed}", drawing.arrays, tuple(body))


def tree_of(name: str, shapes: list[Shape], body: tuple[Node, ...]) -> SourceTree:
    """A tree with just the arrays that its body uses."""
    nowhere = Span("random.c", 1, 1, 1, 2)
    used = {access.array for access in accesses(body)}
    written = {assign.target.array for assign in assigns(body)}
    params: list[ArrayParam | ScalarParam] = []
    locals_: list[Local] = []
    for shape in shapes:
        extents = tuple(extent.expr for extent in shape.extents)
        if shape.name not in used:
            continue
        if shape.is_local:
            locals_.append(Local(shape.name, shape.dtype, extents, nowhere))
        elif shape.rank == 0 and shape.name not in written and not shape.dtype.is_integer:
            params.append(ScalarParam(shape.name, shape.dtype, nowhere))
        else:
            params.append(ArrayParam(shape.name, shape.dtype, extents, nowhere))
    return SourceTree(name, tuple(params), SIZES, tuple(locals_), body, None, (), nowhere)


# -- making failing programs smaller ---------------------------------------------------------


def smaller(tree: SourceTree) -> Iterator[SourceTree]:
    """The tree with one thing less, the largest cuts first."""
    for body in _smaller_bodies(tree.body):
        if body:
            yield _pruned(tree, body)


def shrink(tree: SourceTree, fails: Callable[[SourceTree], bool]) -> SourceTree:
    """A tree that still fails, of which no smaller one does."""
    found = True
    while found:
        found = False
        for candidate in smaller(tree):
            if fails(candidate):
                tree, found = candidate, True
                break
    return tree


def _smaller_bodies(body: tuple[Node, ...]) -> Iterator[tuple[Node, ...]]:
    for at, node in enumerate(body):
        before, after = body[:at], body[at + 1 :]
        yield before + after
        match node:
            case ForLoop(body=inner):
                for less in _smaller_bodies(inner):
                    if less:
                        yield (*before, replace(node, body=less), *after)
                if node.step not in (1, -1):
                    yield (*before, replace(node, step=1 if node.step > 0 else -1), *after)
            case IfElse(body=inner, orelse=orelse):
                yield before + inner + after
                if orelse:
                    yield (*before, replace(node, orelse=()), *after)
                    yield before + orelse + after
                for less in _smaller_bodies(inner):
                    if less:
                        yield (*before, replace(node, body=less), *after)
            case Assign(value=value):
                for part in _smaller_values(value):
                    yield (*before, replace(node, value=part), *after)


def _smaller_values(value: Expr) -> Iterator[Expr]:
    match value:
        case Binary(x=x, y=y) if value.dtype == x.dtype:
            yield x
            yield y
        case Select(x=x, y=y):
            yield x
            yield y
        case Unary(x=x):
            yield x


def _pruned(tree: SourceTree, body: tuple[Node, ...]) -> SourceTree:
    """The tree with another body, without the arrays that it does not use."""
    used = {access.array for access in accesses(body)}
    params = tuple(p for p in tree.params if p.name in used)
    locals_ = tuple(v for v in tree.locals if v.name in used)
    return replace(tree, params=params, locals=locals_, body=body)


def assigns(body: tuple[Node, ...]) -> Iterator[Assign]:
    for node in body:
        match node:
            case Assign():
                yield node
            case ForLoop(body=inner):
                yield from assigns(inner)
            case IfElse(body=inner, orelse=orelse):
                yield from assigns(inner)
                yield from assigns(orelse)


def accesses(body: tuple[Node, ...]) -> Iterator[Access | Load]:
    for assign in assigns(body):
        yield assign.target
        yield from loads(assign.value)


def _least(x: Whole, y: Whole) -> Whole:
    return Whole(x.expr.min(y.expr), x.low.join(y.low, min), x.high.join(y.high, max))


def _number(value: int, dtype: DType) -> Const:
    return Const(value if dtype.is_integer else float(value), dtype)


def _converted(expr: Expr, dtype: DType) -> Expr:
    return expr if expr.dtype == dtype else Cast(expr, dtype)
