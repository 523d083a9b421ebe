"""Sums of C text that may be regrouped: parts of long loops, and what they add up to."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from backends.c_compiled import EXACT, compile_c, needs_cc
from loopwright.backends.c_text.c_dialect import OPENMP, C, Dialect
from loopwright.backends.c_text.c_module import emit_c
from loopwright.ir.dtypes import FLOAT32, FLOAT64, DType
from loopwright.ir.expr import Binary, Const, Load, Var
from loopwright.ir.loops import Block, Buffer, LoopNest, Store
from loopwright.lower.build import loop

J, N, S = Var("i"), Var("n"), Var("s")
REGROUPED = ("-O3", "-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math")
SIZES = (0, 1, 2, 7, 255, 256, 257, 511, 512, 513, 1031)


def gathered(op: str, dtype: DType, count: int = 1) -> LoopNest:
    """y[k] = y[k] op a[n - 1 - i] * b[i] for i from s on, `count` times."""

    def update(k: int) -> Store:
        value = Load("a", (N - 1 - J,), dtype) * Load("b", (J,), dtype)
        return Store(
            "y" * (k + 1), (Const(0),), Binary(op, Load("y" * (k + 1), (Const(0),), dtype), value)
        )

    names = ["y" * (k + 1) for k in range(count)]
    buffers = (
        Buffer("a", dtype, (Const(1),)),
        Buffer("b", dtype, (Const(1),)),
        *(Buffer(name, dtype, (Const(1),), writable=True) for name in names),
    )
    body = loop(J, S, N, Block(tuple(update(k) for k in range(count))))
    nest = LoopNest("f", buffers, ("n", "s"), body, leave_to_llvm=True)
    return replace(nest, reassoc=True, vector_bits=512)


@needs_cc
@pytest.mark.parametrize("flags", [(), REGROUPED], ids=["in order", "regrouped"])
@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
def test_the_same_sums(dtype: DType, flags: tuple[str, ...]) -> None:
    """Whole numbers, whose sums have the same bits in any order; products of 1 and -1."""
    random = np.random.default_rng(3)
    ops = ("add", "sub", "mul")
    kernels = compile_c([gathered(op, dtype) for op in ops], C, (*EXACT, *flags))
    for (op, kernel), n, s in product(zip(ops, kernels, strict=True), SIZES, (0, 1, 3)):
        choices = [-1, 1] if op == "mul" else range(-9, 10)
        a, b = (random.choice(choices, max(n, 1)).astype(dtype.numpy) for _ in range(2))
        y = np.array([3.0], dtype.numpy)
        terms = (a[:n][::-1] * b[:n])[s:]
        total = np.prod(terms) if op == "mul" else terms.sum()
        expected = {"add": 3 + total, "sub": 3 - total, "mul": 3 * total}[op]
        kernel({"a": a, "b": b, "y": y}, {"n": n, "s": s})
        assert y[0] == expected, (op, n, s)


def test_what_is_printed() -> None:
    lines = [line.strip() for line in emit_c(gathered("add", FLOAT64), C).text.splitlines()]
    at = lines.index("double y_sum = y[0];")
    assert lines[at + 1 : at + 14] == [
        "const long i_part = (n - s) < 256 ? 0 : (n - s) / 4;",
        "double y_sum_2 = 0.0;",
        "double y_sum_3 = 0.0;",
        "double y_sum_4 = 0.0;",
        "for (long i = s; i < s + i_part; i++) {",
        "y_sum += a[n - 1 - i] * b[i];",
        "y_sum_2 += a[n - 1 - (i + i_part)] * b[i + i_part];",
        "y_sum_3 += a[n - 1 - (i + i_part * 2)] * b[i + i_part * 2];",
        "y_sum_4 += a[n - 1 - (i + i_part * 3)] * b[i + i_part * 3];",
        "}",
        "y_sum += y_sum_2;",
        "y_sum_3 += y_sum_4;",
        "y_sum += y_sum_3;",
    ]
    assert "for (long i = s + i_part * 4; i < n; i++) {" in lines


@pytest.mark.parametrize(
    ("nest", "dialect"),
    [
        (gathered("add", FLOAT64), OPENMP),
        (gathered("add", FLOAT64, count=2), C),
        (replace(gathered("add", FLOAT64), reassoc=False), C),
        (replace(gathered("add", FLOAT64), vector_bits=0), C),
    ],
    ids=["lanes by OpenMP", "two sums", "in order", "other machines"],
)
def test_what_stays_one_loop(nest: LoopNest, dialect: Dialect) -> None:
    assert "_part" not in emit_c(nest, dialect).text
