"""Traversal: everything is reached once, in order, and rewriting rebuilds what it must."""

from ir.examples import ONE, load, loop, store
from loopwright.ir.dtypes import FLOAT64, INT64
from loopwright.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var
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
    loads,
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


def test_loads_come_once_each_in_order() -> None:
    assert loads(EVERY_KIND) == (load("A", i, j), load("B", j))
    nested = load("A", Load("p", (i,), INT64))
    assert loads(nested) == (nested, Load("p", (i,), INT64))


def test_rewriting_goes_bottom_up() -> None:
    seen: list[Expr] = []

    def change(node: Expr) -> Expr:
        seen.append(node)
        return Const(2) if node == i else node

    assert rewrite(i * j, change) == Const(2) * j
    assert seen == [i, j, Const(2) * j]


def test_substitution_is_simultaneous() -> None:
    assert substitute(load("A", i, j), {"i": j, "j": i}) == load("A", j, i)
    assert substitute(n + 1, {"i": j}) == n + 1


def test_statements_are_all_reached() -> None:
    kinds = [type(stmt).__name__ for stmt in statements(TREE)]
    assert kinds == ["For", "Block", "Let", "If", "Store", "Barrier", "Alloc", "Copy", "Prefetch"]


def test_expressions_of_each_statement() -> None:
    shown = [expressions(stmt) for stmt in statements(TREE)]
    zero, four = Const(0), Const(4)
    assert shown == [
        (zero, n, ONE),
        (),
        (load("x", i),),
        (i < n,),
        (i, u),
        (),
        (four, ONE),
        (zero, i, four),
        (i + 8,),
    ]


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
