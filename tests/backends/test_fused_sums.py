"""Sums round once with the product that is written in them, whatever the loops around them are."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest

import loopwright as lw
from loopwright.machines.host import host

needs_fma = pytest.mark.skipif("fma" not in host().features, reason="no fused multiply-adds")
SHAPES = {
    "x + a * b": lambda a, b, x: x + a * b,
    "a * b + x": lambda a, b, x: a * b + x,
    "x - a * b": lambda a, b, x: x - a * b,
    "a * b - x": lambda a, b, x: a * b - x,
    "-(a * b) + x": lambda a, b, x: -(a * b) + x,
    "x - -(a * b)": lambda a, b, x: x + a * b,
}
TEXT = """void f(int n, double a[n], double b[n], double x[n], double y[n])
{{
#pragma scop
    for (int i = 0; i < n; i++)
        y[i] = {};
#pragma endscop
}}"""


def numbers() -> list[np.ndarray]:
    return list(np.random.default_rng(7).standard_normal((3, 203)))


@needs_fma
@pytest.mark.parametrize("shape", SHAPES)
def test_one_rounding(shape: str) -> None:
    words = {name: f"{name}[i]" for name in "abx"}
    text = "".join(words.get(letter, letter) for letter in shape)
    a, b, x = numbers()
    y = np.zeros_like(a)
    lw.compile(TEXT.format(text), threads=1)(len(a), a, b, x, y)
    with localcontext(prec=400):
        columns = zip(*(map(Decimal, v.tolist()) for v in (a, b, x)), strict=True)
        exact = [float(SHAPES[shape](*values)) for values in columns]
    assert y.tolist() == exact
