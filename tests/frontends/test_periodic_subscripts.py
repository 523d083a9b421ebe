"""Subscripts modulo a size in Python, as periodic boundaries are written: `a[(i - 1) % n]`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import options
from loopwright.diagnostics import SourceError
from loopwright.frontends.extract import extract
from loopwright.frontends.python import argument_types, parse_function
from loopwright.ir.text import program_text

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


def test_the_inside_has_plain_subscripts() -> None:
    given = np.zeros((4, 4))
    tree = parse_function(torus, argument_types((given, given)))
    text = program_text(extract(tree))
    assert "a[i + 1, j] + a[i - 1, j] + a[i, j + 1] + a[i, j - 1]" in text
    assert "%" not in text


def signed(a: Any, b: Any, k: int) -> None:
    for i in range(a.shape[0]):
        b[i] = a[(i + 1) % k]


def too_far(a: Any, b: Any) -> None:
    n = a.shape[0]
    for i in range(n):
        b[i] = a[(5 * i - 9) % n]


@pytest.mark.parametrize("function", [signed, too_far])
def test_what_is_not_proved_affine_is_a_whole_function(function: Callable[..., None]) -> None:
    given = np.arange(4.0)
    more = (3,) if function is signed else ()
    with pytest.raises(SourceError) as caught:
        parse_function(function, argument_types((given, given, *more)))
    assert "[LW110]" in str(caught.value)
    assert "a division by something other than a positive constant" in str(caught.value)
    found, wanted = np.zeros(4), np.zeros(4)
    lw.jit(function)(given, found, *more)
    function(given, wanted, *more)
    np.testing.assert_array_equal(found, wanted)
