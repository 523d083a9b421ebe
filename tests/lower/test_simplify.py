"""Simplified nests: which bindings, guards, loops and memory go, and which stay."""

from __future__ import annotations

from textwrap import dedent

from loopwright.ir.dtypes import FLOAT64, INT64
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
from loopwright.ir.program import Array, Role
from loopwright.ir.text import stmt_text
from loopwright.lower.simplify import simplify
from programs import parse

ARRAYS = {"a": Array("a", FLOAT64, (Var("n"),), Role.INOUT)}
BUFFER = Buffer("a", FLOAT64, (Var("a_s0"),), writable=True)


def index(text: str) -> Expr:
    return parse(text, {}, INT64)


def loop(var: str, start: str, stop: str, *body: Stmt, mark: Mark = Mark.SERIAL) -> For:
    return For(var, index(start), index(stop), Block(body), Const(1), mark)


def when(cond: str, *body: Stmt) -> If:
    return If(index(cond), Block(body))


def store(place: str, value: str = "1") -> Store:
    return Store("a", (index(place),), parse(value, ARRAYS, FLOAT64))


def simplified(*body: Stmt) -> str:
    return stmt_text(simplify(LoopNest("f", (BUFFER,), ("n", "a_s0"), Block(body))).body)


def lines(block: str) -> str:
    return dedent(block).strip()


def test_golden() -> None:
    nest = (
        Let("unused", index("n + 1"), store("0")),
        loop("i", "0", "n - 1 + 1", when("(i < n) & (i >= 2)", store("i + 1 - 1", "a[i + 0]"))),
        loop("j", "5", "6", Block((store("j"), store("j + 1")))),
        loop("k", "3", "2", store("k")),
    )
    assert simplified(*nest) == lines("""
        a[0] = 1.0
        for i in range(n):
            if i >= 2:
                a[i] = a[i]
        a[5] = 1.0
        a[6] = 1.0
        """)


def test_guards_inside_guards() -> None:
    inner = when("(n >= 2) & (i < 4)", store("i"))
    assert simplified(when("n > 2", loop("i", "0", "n", inner))) == lines("""
        if n > 2:
            for i in range(n):
                if i < 4:
                    a[i] = 1.0
        """)


def test_bounds_of_minima_are_known() -> None:
    body = when("(i < n) & (i < t + 8) & (i >= t) & (i >= 1)", store("i"))
    nest = loop("t", "0", "n", loop("i", "max(t, 1)", "min(n, t + 8)", body))
    assert simplified(nest) == lines("""
        for t in range(n):
            for i in range(max(t, 1), min(n, t + 8)):
                a[i] = 1.0
        """)


def test_else_branches() -> None:
    chosen = If(index("n < n + 1"), store("0"), store("1"))
    other = If(index("n > n + 1"), store("2"), store("3"))
    nothing = If(index("n > 3"), Block(()), Block(()))
    assert simplified(chosen, other, nothing) == "a[0] = 1.0\na[3] = 1.0"


def test_lets_of_names_are_written_out() -> None:
    nest = Let("x", index("n"), Let("y", index("x + 1"), Block((store("y"), store("x")))))
    assert simplified(nest) == "let y: int64 = n + 1\na[y] = 1.0\na[n] = 1.0"


def test_a_parallel_loop_of_one_iteration_stays() -> None:
    assert simplified(loop("once", "0", "1", store("0"), mark=Mark.PARALLEL)) == lines("""
        parallel for once in range(1):
            a[0] = 1.0
        """)


def test_the_user_s_arithmetic_stays() -> None:
    twice = Store("a", (Const(0),), parse("a[0 + 0] + 1 - 1", ARRAYS, FLOAT64))
    assert simplified(twice) == "a[0] = a[0] + 1.0 - 1.0"


def test_unused_memory_goes() -> None:
    t = Buffer("t", FLOAT64, (), Space.STACK, writable=True)
    assert simplified(Alloc(t, (), store("0"))) == "a[0] = 1.0"
    used = Alloc(t, (), Store("a", (Const(0),), Load("t", (), FLOAT64)))
    assert simplified(used) == "alloc stack t: float64[] strides []\na[0] = t[]"


def test_everything_may_go() -> None:
    assert simplified(loop("i", "0", "0", store("i"))) == "pass"
    assert simplified(loop("i", "0", "n", when("i < 0", store("i")))) == lines("""
        for i in range(n):
            if i < 0:
                a[i] = 1.0
        """)


def test_a_loop_that_may_end_before_its_first_iteration_stays() -> None:
    once = For("j", index("5"), index("6"), store("j"), Const(1), until=index("n < j"))
    assert simplified(once) == lines("""
        for j in range(5, 6) until n < j:
            a[j] = 1.0
    """)
