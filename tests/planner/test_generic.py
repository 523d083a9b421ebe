"""The generic planner: plans that are legal, sensible, and keep the meaning."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from drawn import combined
from loopwright.ir.loops import For as ForLoop
from loopwright.ir.program import Program
from loopwright.ir.visit import statements
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load import load_machine
from loopwright.planner.generic import default_plan, extend_plan
from loopwright.transform.loop_marks import Parallel
from loopwright.transform.plan import apply_plan
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

MACHINE = load_machine("neoverse-n1")


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


PROGRAMS: tuple[Callable[[], Program], ...] = (
    matmul,
    copy_columns,
    outer,
    lu,
    jacobi,
    gemv,
    with_sum,
    with_scalar,
    syrk,
    seidel,
    floyd_warshall,
    triangular_solve,
    matmul_in_nest,
    complex_scale,
)


@pytest.mark.drawn(6)
@pytest.mark.parametrize(
    ("make", "parallel"),
    combined(PROGRAMS, [False, True], one_in=2),
    ids=lambda x: getattr(x, "__name__", x),
)
def test_plan_keeps_the_meaning(make: Callable[[], Program], parallel: bool) -> None:
    source = make()
    plan, planned = default_plan(source, MACHINE, parallel=parallel)
    assert planned.tree.plain_is_equal(apply_plan(source, plan).tree)
    nest = lower_schedule(apply_plan(source, plan))
    for sizes in ((0, 0, 0), (7, 6, 3)):
        params = dict(zip(source.params, sizes, strict=False))
        assert_same(source, nest, params, threads=3 if parallel else 1)


@pytest.mark.drawn(5)
@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_one_thread_gets_no_parallel_loop(make: Callable[[], Program]) -> None:
    steps, _ = default_plan(make(), MACHINE)
    assert not any(isinstance(step, Parallel) for step in steps)


def test_contractions_become_cores() -> None:
    assert "contract" in {step.kind for step in default_plan(matmul(), MACHINE)[0]}


def test_columns_are_walked_by_rows() -> None:
    """The loop along memory ends up innermost."""
    nest = lower_schedule(default_plan(copy_columns(), MACHINE)[1])
    loops = [stmt.var for stmt in statements(nest.body) if isinstance(stmt, ForLoop)]
    assert loops[0].startswith("i")
    assert loops[-1].startswith("j")


def test_rest_of_a_plan() -> None:
    """What a plan by hand leaves open gets marks."""
    steps = extend_plan(apply_plan(outer(), ()), MACHINE, parallel=True)
    assert any(isinstance(step, Parallel) for step in steps)
