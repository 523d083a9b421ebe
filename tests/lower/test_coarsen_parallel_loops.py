"""Coarsened parallel loops: which strips are merged, and that the iterations stay the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import some
from loopwright.ir.dtypes import FLOAT64, INT64
from loopwright.ir.evaluate import evaluate
from loopwright.ir.expr import Const, Expr
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
from loopwright.ir.text import stmt_text
from loopwright.lower.work_distribution import coarsen_parallel_loops
from programs import parse

BUFFER = Buffer("a", FLOAT64, (Const(1), Const(1)), writable=True)


def index(text: str) -> Expr:
    return parse(text, {}, INT64)


def loop(var: str, start: str, stop: str, *body: Stmt, step: int = 1) -> For:
    return For(var, index(start), index(stop), Block(body), Const(step))


def strips(start: str, stop: str, *body: Stmt, size: int = 16) -> For:
    return For("t", index(start), index(stop), Block(body), Const(size), Mark.PARALLEL)


def store(*place: str) -> Store:
    return Store("a", tuple(map(index, place)), Const(1.0, FLOAT64))


def coarsened(body: Stmt, chunks: int = 2) -> Stmt:
    return coarsen_parallel_loops(LoopNest("f", (BUFFER,), ("n", "k"), body), {"t": chunks}).body


def visited(stmt: Stmt, values: dict[str, int]) -> Iterator[tuple[int, ...]]:
    """The subscripts that a nest stores to, one after the other."""
    match stmt:
        case For(var=var, body=body):
            limits = [int(evaluate(x, values)) for x in (stmt.start, stmt.stop, stmt.step)]
            for value in range(*limits):
                yield from visited(body, {**values, var: value})
        case Block(body=parts):
            for part in parts:
                yield from visited(part, values)
        case If(cond=cond, body=body):
            if evaluate(cond, values):
                yield from visited(body, values)
        case Let(name=name, value=value, body=body):
            yield from visited(body, {**values, name: int(evaluate(value, values))})
        case Store(index=place):
            yield tuple(int(evaluate(entry, values)) for entry in place)


ROWS = loop("i", "0", "n", loop("j", "max(k, t)", "min(n, t + 16)", store("i", "j")))


def test_golden() -> None:
    assert stmt_text(coarsened(strips("k - k % 16", "n", ROWS))) == "\n".join(
        (
            "let t_parts: int64 = 2 for 2 parts",
            "let t_width: int64 = "
            "max(((n + k % 16 - k + 15) // 16 + t_parts - 1) // t_parts, 1) * 16",
            "let t_end: int64 = k + (n + k % 16 - k + 15) // 16 * 16 - k % 16",
            "parallel for t in range(k - k % 16, n, t_width):",
            "    for i in range(n):",
            "        for j in range(max(k, t), min(n, min(t + t_width, t_end))):",
            "            a[i, j] = 1.0",
        )
    )


@pytest.mark.parametrize(
    "body",
    [
        loop("j", "t", "min(n, t + 16)", store("t", "j")),
        loop("j", "t", "min(n, t + 15)", store("0", "j")),
        loop("j", "t + 1", "min(n, t + 16)", store("0", "j")),
        loop("j", "k", "min(n, t + 16)", store("0", "j")),
        loop("j", "0", "n", store("0", "j")),
        loop("j", "max(k, t)", "min(n, t + 16)", store("0", "j"), step=2),
        loop("j", "t", "min(n, t + 16)", store("0", "j"), step=3),
        loop("j", "t", "t + 16", loop("i", "t", "t + 16", store("i", "j"))),
        Alloc(Buffer("b", FLOAT64, (), Space.STACK), (), loop("j", "t", "t + 16", store("0", "j"))),
        Block((loop("j", "t", "t + 16", store("0", "j")), store("0", "0"))),
    ],
    ids=[
        "used", "shorter", "later", "from-k", "whole", "uneven-start", "uneven-step", "square",
        "memory", "beside",
    ],
)  # fmt: skip
def test_other_uses_of_strips_stay(body: Stmt) -> None:
    nest = strips("0", "n", body)
    assert coarsened(nest) == nest


def test_only_loops_that_are_named() -> None:
    nest = strips("0", "n", ROWS)
    assert coarsen_parallel_loops(LoopNest("f", (BUFFER,), ("n",), nest), {"i": 4}).body == nest


@settings(max_examples=some(150), deadline=None)
@given(
    st.integers(-5, 70),
    st.integers(-5, 40),
    st.integers(2, 5),
    st.sampled_from((2, 4, 8)),
    st.sampled_from(("t", "max(k, t)", "max(3, t)")),
    st.sampled_from((1, 1, 2)),
)
def test_iterations_stay(n: int, k: int, chunks: int, size: int, start: str, step: int) -> None:
    inner = loop("j", start, f"min(n, t + {size})", store("i", "j"), step=step)
    nest = strips("k - k % 8", "n", loop("i", "0", "2", inner), inner_too(size), size=size)
    values = {"n": n, "k": k}
    assert Counter(visited(coarsened(nest, chunks), values)) == Counter(visited(nest, values))


def inner_too(size: int) -> Stmt:
    """A second nest in the same strips, with a guard of its own."""
    return If(index("n > 5"), loop("l", "t", f"t + {size}", store("7", "l")))


def test_the_width_says_how_many_parts() -> None:
    """Where fewer threads run, a backend may take a multiple of the width."""
    made = coarsened(strips("0", "n", loop("j", "t", "min(t + 16, n)", store("0", "j"))), 4)
    assert isinstance(made, Let)
    assert made.parts == 4
    factors = (1, 2, 3, 7)
    for n in (0, 1, 15, 16, 40, 129):
        each = {f: Counter(visited(replace(made, value=made.value * f), {"n": n})) for f in factors}
        assert all(found == each[1] for found in each.values())
        assert sum(each[1].values()) == n
