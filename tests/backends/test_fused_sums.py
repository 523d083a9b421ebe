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


@needs_fma
def test_of_two_products_the_second_is_fused() -> None:
    a, b, x = numbers()
    y = np.zeros_like(a)
    lw.compile(TEXT.format("a[i] * x[i] + b[i] * x[i]"), threads=1)(len(a), a, b, x, y)
    with localcontext(prec=400):
        expected = [
            float(Decimal(p * r) + Decimal(q) * Decimal(r))
            for p, q, r in zip(a.tolist(), b.tolist(), x.tolist(), strict=True)
        ]
    assert y.tolist() == expected


@pytest.mark.parametrize("plus", ["+", "-"])
def test_complex_numbers_are_rounded_by_their_parts(plus: str) -> None:
    @lw.jit(threads=1)
    def updated(a, b, x):
        for i in range(a.shape[0]):
            x[i] = x[i] + a[i] * b[i]

    @lw.jit(threads=1)
    def reduced(a, b, x):
        for i in range(a.shape[0]):
            x[i] = x[i] - a[i] * b[i]

    re, im, _ = numbers()
    a, b, x = re + 1j * im, im - 2j * re, re * im + 0j
    found = x.copy()
    (updated if plus == "+" else reduced)(a, b, found)
    right = x + a * b if plus == "+" else x - a * b
    np.testing.assert_allclose(found, right, rtol=1e-12, atol=1e-13)
