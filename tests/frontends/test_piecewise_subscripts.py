"""Subscripts with cases and modulo a size: the common case is plain, the meaning stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import options
from loopwright.ir.islkit import inside
from loopwright.ir.program import Program
from loopwright.ir.text import expr_text
from loopwright.lower.passes import lower_schedule
from loopwright.transform.schedule_legality import initial_schedule
from oracle import assert_same


def region(body: str, params: str = "int n, double u[n], double v[n]") -> Program:
    (program,) = lw.parse_c(f"void f({params})\n{{\n#pragma scop\n{body}\n#pragma endscop\n}}\n")
    return program


def statements(program: Program) -> list[tuple[str, str]]:
    """What every statement computes, and where."""
    return [(expr_text(s.value), inside(s.domain)) for s in program.statements]


def periodic(place: str) -> Program:
    return region(f"for (int i = 0; i < n; i++) v[i] = u[{place}];")


@pytest.mark.parametrize(
    ("place", "common", "where"),
    [
        ("i == 0 ? n - 1 : i - 1", "u[i - 1]", "S0[i] : 0 < i < n"),
        ("i > 0 ? i - 1 : n - 1", "u[i - 1]", "S0[i] : 0 < i < n"),
        ("i > 0 ? i - 1 : 0", "u[i - 1]", "S0[i] : 0 < i < n"),
        ("(i + 1) % n", "u[i + 1]", "S0[i] : 0 <= i <= -2 + n"),
        ("(i - 1 + n) % n", "u[i - 1]", "S0[i] : 0 < i < n"),
        ("(i + 1 + n) % n", "u[i + 1]", "S0[i] : 0 <= i <= -2 + n"),
        ("i + 2 < n ? i + 2 : n - 1", "u[i + 2]", "S0[i] : 0 <= i <= -3 + n"),
    ],
)
def test_the_common_case_has_a_plain_subscript(place: str, common: str, where: str) -> None:
    program = periodic(place)
    assert statements(program)[0] == (common, where)
    assert len(program.statements) == 2
    first, second = (s.domain.reset_tuple_id() for s in program.statements)
    assert first.is_disjoint(second)
    nest = lower_schedule(initial_schedule(program))
    for n in (0, 1, 2, 3, 7):
        assert_same(program, nest, {"n": n})


SIZES = (0, 1, 2, 3, 7, 16, 31)


def ring(a: Any, b: Any) -> None:
    n = a.shape[0]
    for i in range(n):
        b[i] = a[(i + 1) % n] - 2 * a[i] + a[(i - 1) % n]


def torus(a: Any, b: Any) -> None:
    n, m = a.shape
    for i in range(n):
        for j in range(m):
            b[i, j] = a[(i + 1) % n, j] + a[(i - 1) % n, j] + a[i, (j + 1) % m] + a[i, (j - 1) % m]


def named(a: Any, b: Any) -> None:
    n, m = a.shape
    for i in range(n):
        up = (i - 1) % n
        down = (i + 1) % n
        for j in range(m):
            left = (j - 1) % m
            b[i, j] = a[up, left] * a[down, (j + 1) % m] + up


def backwards(a: Any, b: Any) -> None:
    n = a.shape[0]
    for i in range(n - 1, -1, -1):
        b[(i + 1) % n] = a[(i - 1) % n]


def far(a: Any, b: Any) -> None:
    n = a.shape[0]
    for i in range(n):
        for k in range(n):
            b[i] += a[(i - k) % n] * a[(i + k) % n]


def under_a_condition(a: Any, b: Any) -> None:
    n = a.shape[0]
    for i in range(-3, n):
        if i >= 0:
            b[i] = a[(i - 1) % n]
        else:
            b[0] = 1.0


def by_quotient(a: Any, b: Any) -> None:
    n = a.shape[0]
    for i in range(n):
        b[i] = a[i // n] + a[(i + 1) // n * (0)]


FUNCTIONS: tuple[tuple[Callable[..., None], int], ...] = (
    (ring, 1),
    (torus, 2),
    (named, 2),
    (backwards, 1),
    (far, 1),
    (under_a_condition, 1),
    (by_quotient, 1),
)


@pytest.mark.drawn(3)
@pytest.mark.parametrize(("function", "rank"), FUNCTIONS, ids=lambda x: getattr(x, "__name__", x))
@pytest.mark.parametrize("interpret", [False, True])
def test_meaning(function: Callable[..., None], rank: int, interpret: bool) -> None:
    """Machine code and the interpreter do what Python does, whose % is never negative here."""
    compiled = lw.jit(function)
    with options.override(interpret=interpret):
        for n in SIZES if not interpret else (0, 1, 2, 5):
            if function is under_a_condition and n == 0:
                continue  # Python leaves the array, too
            shape = (n, n + 2)[:rank]
            a = np.random.default_rng(n).integers(-9, 9, shape).astype(float)
            found, wanted = np.zeros(shape), np.zeros(shape)
            compiled(a, found)
            function(a, wanted)
            np.testing.assert_array_equal(found, wanted)
