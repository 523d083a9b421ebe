"""Traversal: terms of any depth are compared, and rewriting rebuilds what it must."""

from ir.examples import ONE, load, loop, store
from loopwright.ir.dtypes import FLOAT64
from loopwright.ir.expr import Binary, Call, Cast, Const, Expr, Select, Unary, Var
from loopwright.ir.loops import (
    Alloc,
    Barrier,
    Block,
    Buffer,
    Copy,
    For,
    If,
    Let,
    Prefetch,
    Space,
    Stmt,
)
from loopwright.ir.visit import (
    expressions,
    is_same,
    rebuild,
    rewrite,
    statements,
    substitute,
)

i, j, n = Var("i"), Var("j"), Var("n")
u = Const(1.0, FLOAT64)
EVERY_KIND = Select(
    i < j,
    Call("fma", (load("A", i, j), u, Unary("neg", load("B", j)))),
    Binary("add", Cast(i + 1, FLOAT64), load("A", i, j)),
)
TREE = loop(
    "i",
    0,
    n,
    Block(
        (
            Let("v", load("x", i), If(i < n, store("y", i, u), Barrier())),
            Alloc(
                Buffer("t", FLOAT64, (ONE,), Space.STACK),
                (Const(4),),
                Copy("t", (Const(0),), "x", (i,), (Const(4),)),
            ),
            Prefetch("x", (i + 8,)),
        )
    ),
)


def test_terms_of_any_depth_are_compared() -> None:
    def deep(last: Expr) -> Expr:
        for _ in range(5000):
            last = Binary("add", last, i)
        return last

    assert is_same(deep(j), deep(j))
    assert not is_same(deep(j), deep(n))
    assert is_same(EVERY_KIND, rewrite(EVERY_KIND, lambda node: node))
    assert not is_same((i, j), (i, j, n))
    assert not is_same(Const(1), Const(1.0, FLOAT64))


def test_what_ends_a_loop_is_an_expression_of_it() -> None:
    ended = For("i", Const(0), n, Block(()), ONE, until=i < n)
    assert expressions(ended) == (Const(0), n, ONE, i < n)
    changed = rebuild(ended, expression=lambda e: substitute(e, {"n": j}))
    assert changed == For("i", Const(0), j, Block(()), ONE, until=i < j)


def test_rebuilding_reaches_statements_and_expressions() -> None:
    assert rebuild(TREE) == TREE
    assert rebuild(TREE, expression=lambda e: substitute(e, {"i": i})) == TREE
    renamed = rebuild(TREE, expression=lambda e: substitute(e, {"n": j}))
    assert [e for s in statements(renamed) for e in expressions(s)] == [
        substitute(e, {"n": j}) for s in statements(TREE) for e in expressions(s)
    ]

    def drop(stmt: Stmt) -> Stmt:
        return Block(()) if isinstance(stmt, Barrier) else stmt

    assert Barrier() not in [*statements(rebuild(TREE, drop))]
