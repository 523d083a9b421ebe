"""Programs for tests, built by hand: a small builder and the kernels every analysis must know.

    program("scale", {"x": "inout float64 [n]"}, For("i", 0, "n", Do("x[i]", "2 * x[i]")))

Loops and statements are given as a tree; statements are called S0, S1, ... in textual order, the
n-th one on line n of `<name>.py`. Expressions are Python text over arrays, loop variables and
parameters; literals take the dtype of the element that is assigned.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

import islpy as isl
from hypothesis import strategies as st

from loopwright.diagnostics import Span
from loopwright.ir.dtypes import BOOL, DTYPES, INT64, DType
from loopwright.ir.expr import FUNCTIONS, Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var
from loopwright.ir.islkit import context
from loopwright.ir.program import Access, Array, Program, Role, Statement

Bound = str | int

_BINARY = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv",
    ast.Mod: "mod", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.Pow: "pow",
}  # fmt: skip
_COMPARE = {
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne",
}  # fmt: skip


@dataclass(frozen=True)
class Do:
    """`target = value` where `where` (isl text) holds."""

    target: str
    value: str
    where: str = ""


@dataclass(frozen=True, init=False)
class For:
    """`for var in range(start, stop, step): body`."""

    var: str
    start: Bound
    stop: Bound
    body: tuple[For | Do, ...]
    step: int

    def __init__(self, var: str, start: Bound, stop: Bound, *body: For | Do, step: int = 1):
        for name, value in (("var", var), ("start", start), ("stop", stop), ("body", body)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "step", step)

    @property
    def constraint(self) -> str:
        if self.step < 0:
            assert self.step == -1, "decreasing loops go down by one"
            return f"{self.stop} < {self.var} <= {self.start}"
        text = f"{self.start} <= {self.var} < {self.stop}"
        return (
            text
            if self.step == 1
            else f"{text} and ({self.var} - ({self.start})) mod {self.step} = 0"
        )

    @property
    def time(self) -> str:
        return self.var if self.step > 0 else f"-{self.var}"


def nest(loops: Sequence[tuple[str, Bound]], *body: For | Do) -> For | Do:
    """Loops from zero, outermost first, around a body."""
    (var, stop), *inner = loops
    return For(var, 0, stop, *((nest(inner, *body),) if inner else body))


def program(
    name: str,
    arrays: Mapping[str, str],
    *body: For | Do,
    params: str = "n",
    known: str = "",
    reassoc: bool = False,
) -> Program:
    """A Program; `arrays` says `role dtype [extents]` of each, `known` what holds of the params."""
    names = tuple(params.split())
    head = f"[{', '.join(names)}] -> "
    table = {array.name: array for array in map(_array, arrays, arrays.values())}
    statements: list[Statement] = []
    below: dict[int, tuple[str, ...]] = {}  # identity of a node -> instances under it, isl text

    def collect(node: For | Do, loops: tuple[For, ...]) -> tuple[str, ...]:
        """Make the statements under `node`, in textual order."""
        if isinstance(node, For):
            inner = (collect(child, (*loops, node)) for child in node.body)
            below[id(node)] = tuple(text for texts in inner for text in texts)
            return below[id(node)]
        label, iterators = f"S{len(statements)}", tuple(loop.var for loop in loops)
        below[id(node)] = (f"{label}[{', '.join(iterators)}]",)
        where = " and ".join([*(loop.constraint for loop in loops), node.where or "true"])
        domain = isl.Set.read_from_str(context(), f"{head}{{ {below[id(node)][0]} : {where} }}")
        target = parse(node.target, table, BOOL)
        assert isinstance(target, Load), f"not an element: {node.target}"
        value = parse(node.value, table, target.dtype)
        write = Access(target.array, target.index, target.dtype)
        line = len(statements) + 1
        span = Span(f"{name}.py", line, 1, line, 2)
        statements.append(Statement(label, iterators, domain, write, value, span))
        return below[id(node)]

    def tree(nodes: Sequence[For | Do]) -> str:
        """The child of a schedule node that runs `nodes` in order, isl text; empty for a leaf."""
        if len(nodes) > 1:
            parts = ((f"{{ {'; '.join(below[id(node)])} }}", tree([node])) for node in nodes)
            filters = (f'{{ filter: "{filter_}"{child} }}' for filter_, child in parts)
            return f", child: {{ sequence: [ {', '.join(filters)} ] }}"
        (node,) = nodes
        if isinstance(node, Do):
            return ""
        times = "; ".join(f"{text} -> [({node.time})]" for text in below[id(node)])
        return f', child: {{ schedule: "{head}{node.var}[{{ {times} }}]"{tree(node.body)} }}'

    # A node may be used several times; its copies have identities of their own.
    body = tuple(_copy(node) for node in body)
    for node in body:
        collect(node, ())
    domain = isl.UnionSet.from_set(statements[0].domain)
    for statement in statements[1:]:
        domain = domain.union(isl.UnionSet.from_set(statement.domain))
    schedule = isl.Schedule.read_from_str(context(), f'{{ domain: "{domain}"{tree(body)} }}')
    facts = isl.Set.read_from_str(context(), f"{head}{{ : {known or 'true'} }}")
    return Program(name, names, tuple(table.values()), tuple(statements), schedule, facts, reassoc)


def _copy(node: For | Do) -> For | Do:
    if isinstance(node, Do):
        return replace(node)
    return For(node.var, node.start, node.stop, *map(_copy, node.body), step=node.step)


def _array(name: str, text: str) -> Array:
    role, dtype, shape = text.split(maxsplit=2)
    extents = ast.parse(shape, mode="eval").body
    assert isinstance(extents, ast.List)
    return Array(name, DTYPES[dtype], tuple(_expr(e, {}, INT64) for e in extents.elts), Role(role))


def parse(text: str, arrays: Mapping[str, Array], dtype: DType) -> Expr:
    """Python text as an expression; literals have the given dtype."""
    return _expr(ast.parse(text, mode="eval").body, arrays, dtype)


def _expr(node: ast.expr, arrays: Mapping[str, Array], dtype: DType) -> Expr:
    def down(child: ast.expr) -> Expr:
        return _expr(child, arrays, dtype)

    match node:
        case ast.Constant(value=value):
            kind = {"b": bool, "i": int, "u": int, "f": float, "c": complex}[dtype.kind]
            return Const(kind(value), dtype)
        case ast.Name(id=name):
            return Load(name, (), arrays[name].dtype) if name in arrays else Var(name)
        case ast.Subscript(value=ast.Name(id=name), slice=index):
            entries = index.elts if isinstance(index, ast.Tuple) else [index]
            subscripts = tuple(_expr(entry, arrays, INT64) for entry in entries)
            return Load(name, subscripts, arrays[name].dtype)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=value)):
            return _expr(ast.Constant(-value), arrays, dtype)
        case ast.UnaryOp(op=ast.USub(), operand=x):
            return Unary("neg", down(x))
        case ast.UnaryOp(op=ast.Invert(), operand=x):
            return Unary("not", down(x))
        case ast.BinOp(left=x, op=op, right=y):
            return Binary(_BINARY[type(op)], down(x), down(y))
        case ast.Compare(left=x, ops=[op], comparators=[y]):
            return Binary(_COMPARE[type(op)], down(x), down(y))
        case ast.IfExp(test=cond, body=x, orelse=y):
            return Select(down(cond), down(x), down(y))
        case ast.Call(func=ast.Name(id="min" | "max" as name), args=[x, y]):
            return Binary(name, down(x), down(y))
        case ast.Call(func=ast.Name(id="abs"), args=[x]):
            return Unary("abs", down(x))
        case ast.Call(func=ast.Name(id=name), args=args) if name in FUNCTIONS:
            return Call(name, tuple(map(down, args)))
        case ast.Call(func=ast.Name(id=name), args=[x]) if name in DTYPES:
            return Cast(down(x), DTYPES[name])
    raise AssertionError(f"not in the test language: {ast.unparse(node)}")


MATRICES = {"A": "in float64 [n, q]", "B": "in float64 [q, m]", "C": "inout float64 [n, m]"}
MATMUL = Do("C[i, j]", "C[i, j] + A[i, k] * B[k, j]")
MATRIX_LOOPS = (("i", "n"), ("j", "m"), ("k", "q"))
ORDERS = tuple("".join(order) for order in permutations("ijk"))


def matmul(order: str = "ijk", update: Do = MATMUL, reassoc: bool = False) -> Program:
    """C += A B with the loops in any order."""
    return program("matmul", MATRICES, over(order, update), params="n m q", reassoc=reassoc)


def matmul_in_nest(before: Do | None = None, after: Do | None = None) -> Program:
    """C = A B with the first value and the last change inside the nest of the element."""
    update = For("k", 0, "q", MATMUL)
    inner = [x for x in (before or Do("C[i, j]", "0"), update, after) if x is not None]
    return program("matmul", MATRICES, over("ij", *inner), params="n m q")


def matmul_apart(first: Do, order: str = "ikj") -> Program:
    """C = A B with the first values written by a nest of their own."""
    start = nest((("x", "n"), ("y", "m")), first)
    arrays = {**MATRICES, "D": "in float64 [n, m]", "beta": "in float64 []"}
    return program("matmul", arrays, start, over(order, MATMUL), params="n m q")


def min_plus() -> Program:
    """One step of all shortest paths."""
    return matmul("ijk", Do("C[i, j]", "min(C[i, j], A[i, k] + B[k, j])"))


def gemv() -> Program:
    arrays = {"A": "in float64 [n, m]", "x": "in float64 [m]", "y": "inout float64 [n]"}
    body = nest((("i", "n"), ("k", "m")), Do("y[i]", "y[i] + A[i, k] * x[k]"))
    return program("gemv", arrays, body, params="n m")


def dot() -> Program:
    arrays = {"x": "in float64 [n]", "y": "in float64 [n]", "s": "out float64 []"}
    return program("dot", arrays, Do("s", "0"), For("k", 0, "n", Do("s", "s + x[k] * y[k]")))


def outer() -> Program:
    arrays = {"x": "in float64 [n]", "y": "in float64 [m]", "C": "inout float64 [n, m]"}
    body = nest((("i", "n"), ("j", "m")), Do("C[i, j]", "C[i, j] + x[i] * y[j]"))
    return program("outer", arrays, body, params="n m")


def batched() -> Program:
    arrays = {
        "A": "in float64 [b, n, q]",
        "B": "in float64 [b, q, m]",
        "C": "inout float64 [b, n, m]",
    }
    loops = (("t", "b"), *MATRIX_LOOPS)
    body = nest(loops, Do("C[t, i, j]", "C[t, i, j] + A[t, i, k] * B[t, k, j]"))
    return program("batched", arrays, body, params="b n m q")


def rank5() -> Program:
    """The contraction efbad,cf->abcde."""
    arrays = {
        "A": "in float64 [ne, nf, nb, na, nd]",
        "B": "in float64 [nc, nf]",
        "C": "inout float64 [na, nb, nc, nd, ne]",
    }
    update = Do("C[a, b, c, d, e]", "C[a, b, c, d, e] + A[e, f, b, a, d] * B[c, f]")
    loops = [(loop, f"n{loop}") for loop in "abcdef"]
    return program("rank5", arrays, nest(loops, update), params="na nb nc nd ne nf")


def trace() -> Program:
    arrays = {"A": "in float64 [n, n]", "s": "inout float64 []"}
    return program("trace", arrays, For("k", 0, "n", Do("s", "s + A[k, k]")))


def jacobi() -> Program:
    arrays = {"A": "inout float64 [n]", "B": "inout float64 [n]"}
    body = For(
        "t",
        0,
        "m",
        For("i", 1, "n - 1", Do("B[i]", "A[i - 1] + A[i] + A[i + 1]")),
        For("j", 1, "n - 1", Do("A[j]", "B[j]")),
    )
    return program("jacobi", arrays, body, params="n m")


def seidel() -> Program:
    arrays = {"A": "inout float64 [n, n]"}
    value = "A[i - 1, j] + A[i, j - 1] + A[i, j] + A[i, j + 1] + A[i + 1, j]"
    inner = For("i", 1, "n - 1", For("j", 1, "n - 1", Do("A[i, j]", value)))
    return program("seidel", arrays, For("t", 0, "m", inner), params="n m")


def triangular_solve() -> Program:
    """L x = b by forward substitution."""
    arrays = {"L": "in float64 [n, n]", "b": "in float64 [n]", "x": "out float64 [n]"}
    body = For(
        "i",
        0,
        "n",
        Do("x[i]", "b[i]"),
        For("j", 0, "i", Do("x[i]", "x[i] - L[i, j] * x[j]")),
        Do("x[i]", "x[i] / L[i, i]"),
    )
    return program("triangular_solve", arrays, body)


def floyd_warshall() -> Program:
    arrays = {"D": "inout float64 [n, n]"}
    loops = (("k", "n"), ("i", "n"), ("j", "n"))
    body = nest(loops, Do("D[i, j]", "min(D[i, j], D[i, k] + D[k, j])"))
    return program("floyd_warshall", arrays, body)


def lu() -> Program:
    arrays = {"A": "inout float64 [n, n]"}
    update = For("j", "k + 1", "n", Do("A[i, j]", "A[i, j] - A[i, k] * A[k, j]"))
    inner = For("i", "k + 1", "n", Do("A[i, k]", "A[i, k] / A[k, k]"), update)
    return program("lu", arrays, For("k", 0, "n", inner))


def syrk() -> Program:
    """The lower triangle of C += A A^T."""
    arrays = {"A": "in float64 [n, m]", "C": "inout float64 [n, n]"}
    update = For("k", 0, "m", Do("C[i, j]", "C[i, j] + A[i, k] * A[j, k]"))
    return program("syrk", arrays, For("i", 0, "n", For("j", 0, "i + 1", update)), params="n m")


MORE = {
    **MATRICES,
    "D": "inout float64 [n, m]",
    "b": "in float64 [m]",
    "alpha": "in float64 []",
    "beta": "in float64 []",
    "s": "local float64 []",
    "t": "local float64 [n, m]",
    "r": "local float64 []",
}


def kernel(*body: For | Do, reassoc: bool = False, dtype: str = "float64") -> Program:
    """A program over matrices A (n x q), B (q x m), C, D, t (n x m), a row b and scalars."""
    arrays = {name: text.replace("float64", dtype) for name, text in MORE.items()}
    return program("kernel", arrays, *body, params="n m q", reassoc=reassoc)


def over(loops: str, *body: For | Do) -> For | Do:
    """Loops i, j, k (to n, m, q) in the given order around a body."""
    return nest([(loop, dict(MATRIX_LOOPS)[loop]) for loop in loops], *body)


def in_sequence(known: Program, *parts: tuple[str, Sequence[str]]) -> isl.Schedule:
    """Statements one after the other, each with bands of its own."""
    trees = []
    for name, times in parts:
        statement = known.statement(name)
        tree = isl.Schedule.from_domain(isl.UnionSet.from_set(statement.domain))
        for depth, time in reversed(list(enumerate(times))):
            point = f"{name}[{', '.join(statement.iterators)}]"
            text = f"[{', '.join(known.params)}] -> {name}_{depth}[{{ {point} -> [({time})] }}]"
            tree = tree.insert_partial_schedule(isl.MultiUnionPwAff.read_from_str(context(), text))
        trees.append(tree)
    total = trees[0]
    for tree in trees[1:]:
        total = total.sequence(tree)
    return total


@st.composite
def orders(draw: st.DrawFn, known: Program) -> isl.Schedule:
    """Statements one after the other, their loops in any order and direction; legal or not."""
    parts = []
    for statement in draw(st.permutations(known.statements)):
        loops = draw(st.permutations(statement.iterators))
        parts.append((statement.name, [draw(st.sampled_from(["", "", "-"])) + x for x in loops]))
    return in_sequence(known, *parts)
