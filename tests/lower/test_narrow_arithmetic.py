"""Integers computed in 16 bits where they fit: the same values, in half the bits."""

from __future__ import annotations

import random

import numpy as np
import pytest

from loopwright.ir.dtypes import DTYPES
from loopwright.ir.evaluate import evaluate
from loopwright.ir.expr import Binary, Cast, Const, Expr, Load, Select, Unary, Var
from loopwright.ir.loops import Buffer, For, LoopNest, Mark, Stmt, Store
from loopwright.lower.values.narrow_arithmetic import narrow_arithmetic

BYTE, SHORT, INT = DTYPES["uint8"], DTYPES["int16"], DTYPES["int32"]
SOURCES = {"a": BYTE, "b": DTYPES["int8"], "c": SHORT, "d": DTYPES["uint16"], "e": INT}
EXTREMES = {name: (dtype.least, 0, 1, dtype.greatest) for name, dtype in SOURCES.items()}


def wide(name: str) -> Expr:
    return Cast(Load(name, (), SOURCES[name]), INT)


def number(value: int) -> Expr:
    return Const(value, INT)


def narrowed(body: Stmt) -> Stmt:
    loop = For("j", Const(0), Const(9), body, Const(1), Mark.SIMD)
    buffer = Buffer("out", BYTE, (Const(1),), writable=True)
    found = narrow_arithmetic(LoopNest("f", (buffer,), (), loop)).body
    assert isinstance(found, For)
    return found.body


def stored(value: Expr) -> Expr:
    found = narrowed(Store("out", (Var("j"),), value))
    assert isinstance(found, Store)
    return found.value


def value_of(expr: Expr, numbers: dict[str, int]) -> int:
    arrays = {name: np.array(numbers[name], SOURCES[name].numpy) for name in SOURCES}
    return int(evaluate(expr, {"limit": numbers["limit"]}, arrays))


def quotient(x: Expr, by: int) -> Expr:
    """C's x / by, as its front end writes it."""
    down = Binary("floordiv", x, number(by))
    rest = Binary("ne", Binary("mod", x, number(by)), number(0))
    return Select(
        Binary("and", Binary("lt", x, number(0)), rest), Binary("add", down, number(1)), down
    )


def drawn(rng: random.Random, depth: int) -> Expr:
    if depth == 0 or rng.random() < 0.1:
        if rng.random() < 0.3:
            return number(rng.choice((-3, 0, 1, 2, 77, 255, 300)))
        name = rng.choice("aaabbcd")
        return wide(name)
    x, y = drawn(rng, depth - 1), drawn(rng, depth - 1)
    match rng.randrange(9):
        case 0 | 1:
            return Binary("add", x, y)
        case 2:
            return Binary("sub", x, y)
        case 3:
            return Binary("mul", x, number(rng.choice((-2, 3, 7, 150))))
        case 4:
            return Binary(rng.choice(("floordiv", "mod")), x, number(rng.choice((3, 8))))
        case 5:
            return quotient(x, rng.choice((2, 5)))
        case 6:
            return Unary("neg", x)
        case 7:
            return Binary(rng.choice(("min", "max")), x, y)
        case _:
            limit = Cast(Var("limit"), INT) if rng.random() < 0.5 else y
            return Select(Binary(rng.choice(("lt", "ge", "eq")), x, limit), x, y)


@pytest.mark.drawn(4)
@pytest.mark.parametrize("seed", range(200))
def test_the_value_stays(seed: int) -> None:
    rng = random.Random(seed)
    expr = Cast(drawn(rng, 4), rng.choice((BYTE, SHORT, INT)))
    found = stored(expr)
    for _ in range(40):
        numbers = {
            name: rng.choice((*EXTREMES[name], rng.randint(dtype.least, dtype.greatest)))
            for name, dtype in SOURCES.items()
        }
        numbers["limit"] = rng.choice((-(1 << 31), -5, 0, 3, 1000, (1 << 31) - 1))
        assert value_of(found, numbers) == value_of(expr, numbers)
