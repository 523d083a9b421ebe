"""Products without a reduction that are added to what stands there round once, as loops do."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

import loopwright as lw


def fused(x: float, y: float, z: float) -> float:
    return float(Fraction(x) * Fraction(y) + Fraction(z))


def test_an_outer_product_rounds_once() -> None:
    def f(C, a, b):
        for i in range(C.shape[0]):
            for j in range(C.shape[1]):
                C[i, j] += a[i] * b[j]

    rng = np.random.default_rng(0)
    a, b, C = rng.random(9), rng.random(37), rng.random((9, 37))
    D = C.copy()
    lw.jit(f)(D, a, b)
    assert D.tolist() == [
        [fused(x, y, z) for y, z in zip(b, row, strict=True)] for x, row in zip(a, C, strict=True)
    ]


def test_a_product_of_one_step_rounds_once() -> None:
    def f(C, A, B):
        for i in range(A.shape[0]):
            for j in range(B.shape[1]):
                for k in range(A.shape[1]):
                    C[i, j] += A[i, k] * B[k, j]

    rng = np.random.default_rng(1)
    A, B, C = rng.random((17, 1)), rng.random((1, 19)), rng.random((17, 19))
    D = C.copy()
    lw.jit(f)(D, A, B)
    assert all(D[i, j] == fused(A[i, 0], B[0, j], C[i, j]) for i in range(17) for j in range(19))
