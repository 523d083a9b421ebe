"""Computations that tests share: building the rows of a matrix, and small recurrences."""

from __future__ import annotations

from loopwright.ir import expr as ir
from loopwright.ir.dtypes import FLOAT64, INT32, INT64, DType
from loopwright.ir.program import Role
from loopwright.sparse.spf.computation import Computation, DataSpace, Stmt
from loopwright.sparse.spf.term_exprs import as_expr, element
from loopwright.sparse.uf import Facts, FunctionFacts, Monotone, parse_linear, parse_set

SYMBOLS = ("N", "M", "K")
ONE = ir.Const(1, INT32)

SPACES = (
    DataSpace.of("row", INT32, ["K"], Role.IN),
    DataSpace.of("ptr", INT32, ["N+1"], Role.IN),
    DataSpace.of("perm", INT32, ["K"], Role.IN),
    DataSpace.of("val", FLOAT64, ["K"], Role.IN),
    DataSpace.of("count", INT32, ["N"], Role.LOCAL),
    DataSpace.of("start", INT32, ["N+1"], Role.OUT),
    DataSpace.of("out", FLOAT64, ["K"], Role.OUT),
    DataSpace.of("y", FLOAT64, ["N"], Role.OUT),
    DataSpace.of("total", FLOAT64, [], Role.OUT),
    DataSpace.of("sum", INT64, [], Role.OUT),
    DataSpace.of("A", FLOAT64, ["N", "M"], Role.INOUT),
    DataSpace.of("b", FLOAT64, ["N"], Role.INOUT),
    DataSpace.of("t", FLOAT64, ["N"], Role.LOCAL),
)
BY_NAME = {space.name: space for space in SPACES}
KEYS = FunctionFacts(
    "row", domain=parse_set("{[x] : 0 <= x < K}"), range=parse_set("{[x] : 0 <= x < N}")
)
ROWS = FunctionFacts(
    "ptr",
    domain=parse_set("{[x] : 0 <= x <= N}"),
    range=parse_set("{[x] : 0 <= x <= K}"),
    monotone=(Monotone(),),
)
PLACES = FunctionFacts(
    "perm",
    domain=parse_set("{[x] : 0 <= x < K}"),
    range=parse_set("{[x] : 0 <= x < K}"),
    is_injective=True,
)
FACTS = Facts((KEYS, ROWS, PLACES))


def load(space: str, *index: str, of: str = "", dtype: DType | None = None) -> ir.Expr:
    """An element; subscripts are texts over the variables `of`."""
    names = of.split()
    return element(space, [parse_linear(entry, names) for entry in index], BY_NAME, dtype)


def add(space: str, index: tuple[str, ...], operand: ir.Expr, of: str) -> ir.Expr:
    """The value of space[index] += operand."""
    terms = [parse_linear(entry, of.split()) for entry in index]
    return ir.Binary("add", element(space, terms, BY_NAME), operand)


def number(text: str, of: str) -> ir.Expr:
    """An int64 value."""
    return as_expr(parse_linear(text, of.split()), BY_NAME)


def real(value: float) -> ir.Expr:
    return ir.Const(value, FLOAT64)


def computation(*statements: Stmt, facts: Facts = FACTS) -> Computation:
    used = {name for stmt in statements for name in (*stmt.reads, stmt.target)}
    spaces = tuple(space for space in SPACES if space.name in used)
    return Computation("made", spaces, statements, SYMBOLS, facts)


ZERO = Stmt.of("zero", "{[i] : 0 <= i < N}", (0, "i", 0), "count(i)", ir.Const(0, INT32))
HISTOGRAM = Stmt.of(
    "histogram",
    "{[n] : 0 <= n < K}",
    (1, "n", 0),
    "count(row(n))",
    add("count", ("row(n)",), ONE, "n"),
)
FIRST = Stmt.of("first", "{[]}", (2,), "start(0)", ir.Const(0, INT32))
PREFIX = Stmt.of(
    "prefix",
    "{[i] : 0 <= i < N}",
    (3, "i", 0),
    "start(i+1)",
    ir.Binary("add", load("start", "i", of="i"), load("count", "i", of="i")),
)
COPY = Stmt.of(
    "copy",
    "{[i,k] : 0 <= i < N && start(i) <= k < start(i+1) && 0 <= k < K}",
    (4, "i", 0, "k", 0),
    "out(k)",
    load("val", "k", of="i k"),
)
CLEAR = Stmt.of("clear", "{[i] : 0 <= i < N}", (0, "i", 0), "y(i)", real(0.0))
ROW_SUM = Stmt.of(
    "row_sum",
    "{[i,k] : 0 <= i < N && ptr(i) <= k < ptr(i+1)}",
    (1, "i", 0, "k", 0),
    "y(i)",
    add("y", ("i",), load("val", "k", of="i k"), "i k"),
)


def assembly() -> Computation:
    """Rows counted, summed up and copied: the shape of a conversion to compressed rows."""
    return computation(ZERO, HISTOGRAM, FIRST, PREFIX, COPY)
