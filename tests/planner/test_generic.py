"""The generic planner: plans that are legal, sensible, and keep the meaning."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from loopwright.ir.program import Program
from loopwright.lower.astgen import lower_schedule
from loopwright.planner.generic import default_plan, extend_plan
from loopwright.transform.contract import Contract
from loopwright.transform.mark import Parallel, Vectorize
from loopwright.transform.plan import apply_plan
from loopwright.transform.privatize import Privatize
from loopwright.transform.reorder import Interchange
from loopwright.transform.step import Step
from loopwright.transform.tile import StripMine
from oracle import assert_same
from programs import (
    Do,
    For,
    floyd_warshall,
    gemv,
    jacobi,
    lu,
    matmul,
    matmul_in_nest,
    outer,
    program,
    seidel,
    syrk,
    triangular_solve,
)


class Vectors:
    """A machine with registers of 32 bytes."""

    def lanes(self, dtype_bits: int) -> int:
        return 256 // dtype_bits


class NoVectors:
    def lanes(self, dtype_bits: int) -> int:
        return 1


def copy_columns() -> Program:
    """Written column by column: the wrong way round for the memory."""
    arrays = {"a": "in float32 [n, m]", "b": "out float32 [n, m]"}
    body = For("j", 0, "m", For("i", 0, "n", Do("b[i, j]", "a[i, j] * 2")))
    return program("copy", arrays, body, params="n m")


def complex_scale() -> Program:
    return program("scale", {"a": "inout complex128 [n]"}, For("i", 0, "n", Do("a[i]", "a[i] * 2")))


def with_scalar() -> Program:
    """A local scalar that each iteration sets and uses."""
    arrays = {"a": "in float64 [n]", "b": "inout float64 [n]", "t": "local float64 []"}
    body = For("i", 1, "n - 1", Do("t", "a[i - 1] + a[i + 1]"), Do("b[i]", "t * t"))
    return program("stencil", arrays, body)


def with_sum() -> Program:
    arrays = {
        "A": "in float64 [n, m]",
        "x": "in float64 [m]",
        "y": "out float64 [n]",
        "s": "local float64 []",
    }
    update = For("j", 0, "m", Do("s", "s + A[i, j] * x[j]"))
    body = For("i", 0, "n", Do("s", "0"), update, Do("y[i]", "s"))
    return program("rows", arrays, body, params="n m")


PLANS: tuple[tuple[Callable[[], Program], tuple[Step, ...]], ...] = (
    (matmul, (Interchange(("k", "j")), Parallel("i"), Vectorize("j", 4))),
    (copy_columns, (Interchange(("i", "j")), Parallel("i"), Vectorize("j", 8))),
    (outer, (Parallel("i"), Vectorize("j", 4))),
    (lu, (Parallel("i"), Vectorize("j", 4))),
    (
        jacobi,
        (
            StripMine("i", 1024),
            Parallel("i_t"),
            StripMine("j", 1024),
            Parallel("j_t"),
            Vectorize("i", 4),
            Vectorize("j", 4),
        ),
    ),
    (gemv, (Parallel("i"),)),
    (with_sum, (Privatize("s", "i"), Parallel("i"))),
    (
        with_scalar,
        (Privatize("t", "i"), StripMine("i", 1024), Parallel("i_t"), Vectorize("i", 4)),
    ),
    (syrk, (Parallel("i"),)),
    (seidel, ()),
    (floyd_warshall, ()),
    (triangular_solve, ()),
    (matmul_in_nest, (Parallel("i"),)),
    (complex_scale, (Parallel("i"),)),
)


@pytest.mark.parametrize(("make", "steps"), PLANS, ids=lambda x: getattr(x, "__name__", ""))
def test_plan(make: Callable[[], Program], steps: tuple[Step, ...]) -> None:
    assert default_plan(make(), Vectors(), parallel=True).steps == steps


@pytest.mark.parametrize("make", [make for make, _ in PLANS], ids=lambda make: make.__name__)
@pytest.mark.parametrize("parallel", [False, True])
def test_plan_keeps_the_meaning(make: Callable[[], Program], parallel: bool) -> None:
    source = make()
    plan = default_plan(source, Vectors(), parallel=parallel)
    nest = lower_schedule(apply_plan(source, plan))
    for sizes in ((0, 0, 0), (7, 6, 3)):
        params = dict(zip(source.params, sizes, strict=False))
        assert_same(source, nest, params, threads=3 if parallel else 1)


def test_one_thread_gets_no_parallel_loop() -> None:
    kinds = {step.kind for step in default_plan(jacobi(), Vectors())}
    assert kinds == {"vectorize"}


def test_no_vectors_no_vector_loop() -> None:
    assert default_plan(matmul(), NoVectors()).steps == ()


def test_many_barriers_are_avoided() -> None:
    arrays = {"A": "inout float64 [n, n]"}
    inner = For("j", 0, "n", Do("A[s + 1, j]", "A[s, j] + A[t, j]"))
    source = program("deep", arrays, For("t", 0, "n", For("s", 0, "n - 1", inner)))
    assert default_plan(source, Vectors(), parallel=True).steps == (Vectorize("j", 4),)


def test_cores_are_left_alone() -> None:
    schedule = apply_plan(matmul(), [Contract("S0")])
    assert extend_plan(schedule, Vectors(), parallel=True) == ()
