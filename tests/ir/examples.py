"""Small nouns built by hand for the tests of `ir`."""

from __future__ import annotations

import islpy as isl

from loopwright.ir.contraction import ACCUMULATOR, Contraction, LoopRange, Operand
from loopwright.ir.dtypes import FLOAT64, DType
from loopwright.ir.expr import Binary, Const, Expr, Load, Var
from loopwright.ir.islkit import context
from loopwright.ir.loops import Buffer, For, LoopNest, Mark, Stmt, Store
from loopwright.ir.program import Access, Array, Program, Role, Statement

i, j, k, n = Var("i"), Var("j"), Var("k"), Var("n")
ONE = Const(1)


def isl_set(text: str) -> isl.Set:
    return isl.Set.read_from_str(context(), text)


def isl_tree(text: str) -> isl.Schedule:
    return isl.Schedule.read_from_str(context(), " ".join(text.split()))


def load(array: str, *index: Expr | int, dtype: DType = FLOAT64) -> Load:
    return Load(array, tuple(Const(x) if isinstance(x, int) else x for x in index), dtype)


def access(array: str, *index: Expr, dtype: DType = FLOAT64) -> Access:
    return Access(array, index, dtype)


def gemm(dtype: DType = FLOAT64) -> Program:
    """C += A B with a statement that clears C first."""
    zero = Const(0.0 if dtype.kind == "f" else 0, dtype)
    product = Binary("mul", load("A", i, k, dtype=dtype), load("B", k, j, dtype=dtype))
    return Program(
        name="gemm",
        params=("n",),
        arrays=(
            Array("A", dtype, (n, n), Role.IN),
            Array("B", dtype, (n, n), Role.IN),
            Array("C", dtype, (n, n), Role.OUT),
        ),
        statements=(
            Statement(
                "S",
                ("i", "j"),
                isl_set("[n] -> { S[i, j] : 0 <= i < n and 0 <= j < n }"),
                access("C", i, j, dtype=dtype),
                zero,
            ),
            Statement(
                "T",
                ("i", "j", "k"),
                isl_set("[n] -> { T[i, j, k] : 0 <= i < n and 0 <= j < n and 0 <= k < n }"),
                access("C", i, j, dtype=dtype),
                Binary("add", load("C", i, j, dtype=dtype), product),
            ),
        ),
        schedule=isl_tree(
            """{ domain: "[n] -> { S[i, j] : 0 <= i < n and 0 <= j < n;
                                   T[i, j, k] : 0 <= i < n and 0 <= j < n and 0 <= k < n }",
                 child: { schedule: "[n] -> i[{ S[i, j] -> [(i)]; T[i, j, k] -> [(i)] }]",
                 child: { schedule: "[n] -> j[{ S[i, j] -> [(j)]; T[i, j, k] -> [(j)] }]",
                 child: { sequence: [
                   { filter: "{ S[i, j] }" },
                   { filter: "{ T[i, j, k] }",
                     child: { schedule: "[n] -> k[{ T[i, j, k] -> [(k)] }]" } } ] } } } }"""
        ),
        context=isl_set("[n] -> { : n >= 0 }"),
    )


def running_sum() -> Program:
    """s[i] = s[i - 1] + x[i], which only the source order computes."""
    return Program(
        name="running_sum",
        params=("n",),
        arrays=(
            Array("x", FLOAT64, (n,), Role.IN),
            Array("s", FLOAT64, (n,), Role.INOUT),
        ),
        statements=(
            Statement(
                "S",
                ("i",),
                isl_set("[n] -> { S[i] : 1 <= i < n }"),
                access("s", i),
                Binary("add", load("s", i - 1), load("x", i)),
            ),
        ),
        schedule=isl_tree(
            """{ domain: "[n] -> { S[i] : 1 <= i < n }",
                 child: { schedule: "[n] -> i[{ S[i] -> [(i)] }]" } }"""
        ),
        context=isl_set("[n] -> { : n > 0 }"),
    )


def gemm_contraction() -> Contraction:
    left, right = access("A", i, k), access("B", k, j)
    zero = Const(0)
    return Contraction(
        statement="T",
        plus="add",
        times="mul",
        zero=0.0,
        dtype=FLOAT64,
        batch=(),
        i=(LoopRange("i", zero, n),),
        j=(LoopRange("j", zero, n),),
        p=(LoopRange("k", zero, n),),
        out=access("C", i, j),
        left=Operand(left, left.load()),
        right=Operand(right, right.load()),
        initial=Const(0.0, FLOAT64),
        final=Var(ACCUMULATOR, FLOAT64),
        reassoc=True,
        covers=("S", "T"),
    )


def loop(
    var: str, start: Expr | int, stop: Expr | int, body: Stmt, mark: Mark = Mark.SERIAL
) -> For:
    first = Const(start) if isinstance(start, int) else start
    last = Const(stop) if isinstance(stop, int) else stop
    return For(var, first, last, body, ONE, mark)


def vector(name: str, *, writable: bool = False, dtype: DType = FLOAT64) -> Buffer:
    """An argument of rank 1 and unit stride."""
    return Buffer(name, dtype, (ONE,), writable=writable)


def nest_of(body: Stmt, scalars: tuple[str, ...] = ("n",)) -> LoopNest:
    """A nest over the vectors x (in) and y (inout)."""
    return LoopNest("f", (vector("x"), vector("y", writable=True)), scalars, body)


def store(buffer: str, index: Expr | int, value: Expr) -> Store:
    return Store(buffer, (Const(index) if isinstance(index, int) else index,), value)
