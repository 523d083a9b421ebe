"""isl's loops as a nest: bounds, guards, strides, local memory, names; all against the oracle."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent

import pytest

from contract_steps import contract_loops
from loopwright.ir.program import Program
from loopwright.ir.text import stmt_text
from loopwright.lower.contraction_nests.contraction_kernel import kernel_of, lower_contraction
from loopwright.lower.passes import lower_schedule
from loopwright.transform.contract import Contract
from loopwright.transform.interchange import Interchange
from loopwright.transform.plan import apply_plan, initial_schedule
from loopwright.transform.step import Step
from loopwright.transform.tiling import Tile
from oracle import assert_same
from programs import (
    Do,
    For,
    batched,
    dot,
    floyd_warshall,
    gemv,
    jacobi,
    lu,
    matmul,
    matmul_in_nest,
    program,
    seidel,
    syrk,
    triangular_solve,
)

KERNELS = (
    batched,
    dot,
    floyd_warshall,
    gemv,
    jacobi,
    lu,
    matmul,
    matmul_in_nest,
    seidel,
    syrk,
    triangular_solve,
)


@pytest.mark.parametrize("make", KERNELS, ids=lambda make: make.__name__)
def test_source_order(make: Callable[[], Program]) -> None:
    source = make()
    nest = lower_schedule(initial_schedule(source))
    for sizes in ((0, 0, 0, 0), (1, 2, 1, 1), (4, 3, 5, 2)):
        assert_same(source, nest, dict(zip(source.params, sizes, strict=False)))


def lowered(source: Program, *steps: Step, **params: int) -> str:
    nest = lower_schedule(apply_plan(source, steps))
    assert_same(source, nest, params)
    return stmt_text(nest.body)


def lines(block: str) -> str:
    return dedent(block).strip()


def test_iterators_as_values() -> None:
    source = program(
        "values",
        {"a": "out int64 [n, m]"},
        For("i", 0, "n", For("j", 0, "m", Do("a[i, j]", "i * 100 + j"))),
        params="n m",
    )
    steps = (Tile(("i", "j"), (3, 2)), Interchange(("j_t", "i_t")))
    assert "i * 100 + j" in lowered(source, *steps, n=7, m=5)


def test_local_arrays() -> None:
    source = program(
        "local",
        {"a": "inout int64 [n]", "t": "local int64 []", "w": "local int64 [n, 3]"},
        For("i", 0, "n", Do("t", "a[i] + 1"), Do("w[i, 2]", "t * t")),
        For("j", 0, "n", Do("a[j]", "w[j, 2]")),
    )
    assert lowered(source, n=5) == lines("""
        alloc stack t: int64[] strides []
        alloc scratch w: int64[n, 3] strides [3, 1]
        for i in range(n):
            t[] = a[i] + 1
            w[i, 2] = t[] * t[]
        for j in range(n):
            a[j] = w[j, 2]
        """)


def test_loops_called_like_arguments_are_renamed() -> None:
    source = program(
        "names",
        {"i": "inout int64 [n]", "a": "inout int64 [n]"},
        For("k", 0, "n", Do("i[k]", "a[k]")),
    )
    renamed = For("a_s0", 0, "n", Do("i[a_s0]", "a[a_s0]"))
    clash = program("names", {"i": "inout int64 [n]", "a": "inout int64 [n]"}, renamed)
    assert lowered(source, n=4) == "for k in range(n):\n    i[k] = a[k]"
    assert lowered(clash, n=4) == "for a_s0_2 in range(n):\n    i[a_s0_2] = a[a_s0_2]"


def test_known_parameters_remove_guards() -> None:
    body = For("i", 0, "n", Do("a[i]", "1", where="n >= 3"))
    free = program("known", {"a": "inout int64 [n]"}, body)
    known = program("known", {"a": "inout int64 [n]"}, body, known="n >= 4")
    assert lowered(free, n=2).startswith("if n >= 3:")
    assert lowered(known, n=5) == "for i in range(n):\n    a[i] = 1"


def test_whole_contractions_are_lowered_by_their_algorithm() -> None:
    step = Contract((), contract_loops("i", "j", "k").variants, (8, 8, 8))
    nest = lower_schedule(apply_plan(matmul(), [step]))
    (kernel,) = apply_plan(matmul(), [step]).contractions
    assert nest == lower_contraction(kernel_of(kernel, matmul()), "matmul")
