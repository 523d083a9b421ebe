"""Divisions in subscripts: written without the loops inside strips, values unchanged."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import HUNTS
from loopwright.ir.dtypes import FLOAT64, INT64
from loopwright.ir.evaluate import evaluate
from loopwright.ir.expr import Const, Expr, Load
from loopwright.ir.loops import Block, Buffer, For, If, Let, LoopNest, Stmt, Store
from loopwright.ir.text import stmt_text
from loopwright.lower.simplify import simplify_divisions
from programs import parse

BUFFER = Buffer("a", FLOAT64, (Const(1),), writable=True)


def index(text: str) -> Expr:
    return parse(text, {}, INT64)


def loop(var: str, start: str, stop: str, body: Stmt, step: int = 1) -> For:
    return For(var, index(start), index(stop), body, Const(step))


def store(*places: str) -> Stmt:
    one = Const(1.0, FLOAT64)
    return Block(tuple(Store("a", (index(place),), one) for place in places))


def simplified(body: Stmt) -> Stmt:
    return simplify_divisions(LoopNest("f", (BUFFER,), ("n", "m"), body)).body


def visited(stmt: Stmt, values: dict[str, int]) -> Iterator[int]:
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
        case Store(index=(place,)):
            yield int(evaluate(place, values))


def test_golden() -> None:
    strips = loop("i", "t", "min(t + 64, n)", store("i // 64", "i // 128", "i // 32"))
    assert stmt_text(simplified(loop("t", "0", "n", strips, 64))) == "\n".join(
        (
            "for t in range(0, n, 64):",
            "    for i in range(t, min(t + 64, n)):",
            "        a[t // 64] = 1.0",
            "        a[t // 128] = 1.0",
            "        a[i // 32] = 1.0",
        )
    )


def test_strips_of_strips() -> None:
    inner = loop("i", "s", "s + 4", store("i // 64", "(i + 1) // 64"))
    strips = loop("s", "t", "min(t + 64, n)", inner, 4)
    told = stmt_text(simplified(loop("t", "0", "n", strips, 64)))
    assert "a[t // 64] = 1.0" in told
    # 1 past the last one of a strip may be in the next block
    assert "a[(i + 1) // 64] = 1.0" in told


def test_starts_that_no_block_begins_with() -> None:
    body = loop("t", "3", "n", loop("i", "t", "t + 64", store("i // 64")), 64)
    assert simplified(body) == body


def test_subscripts_of_loads_are_simplified_and_data_is_not() -> None:
    load = Load("a", (index("i // 8"),), FLOAT64)
    value = load * Const(2.0, FLOAT64)
    body = loop("t", "0", "n", loop("i", "t", "t + 8", Store("a", (index("i"),), value)), 8)
    assert "a[i] = a[t // 8] * 2.0" in stmt_text(simplified(body))


@st.composite
def nests(draw: st.DrawFn) -> Stmt:
    """Two or three loops around stores to quotients, starts and steps of every kind."""
    number = st.integers(-9, 9)
    factor = st.sampled_from((1, 2, 3, 4, 6, 8, 12))
    sums = ("i", "i + s", "2 * i + t", "t + i", "i - s", "t - i", "3 * s + i", "n + i")
    places = []
    for _ in range(draw(st.integers(1, 3))):
        total = f"{draw(st.sampled_from(sums))} + {draw(number)}"
        places.append(f"({total}) // {draw(factor)}")
    begin = draw(st.sampled_from(("s", "t", "s + t", "0", "4", "n")))
    reach = draw(st.integers(0, 9))
    inner = loop("i", begin, f"min({begin} + {reach}, n + 8)", store(*places), draw(factor))
    start = draw(st.sampled_from(("t", "2 * t", "0", "-8", "12")))
    middle = loop("s", start, f"{start} + {draw(st.integers(0, 20))}", inner, draw(factor))
    return loop("t", str(draw(number) * draw(factor)), "n", middle, draw(factor))


@settings(max_examples=3000 if HUNTS else 100, deadline=None)
@given(nests(), st.integers(-3, 12))
def test_values_stay(body: Stmt, n: int) -> None:
    values = {"n": n, "m": 5}
    assert list(visited(simplified(body), values)) == list(visited(body, values))
