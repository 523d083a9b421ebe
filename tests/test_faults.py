"""Faults put into our own planning: errors in strict mode, else right results by a simpler plan."""

import json
import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from contract_steps import contract_loops
from drawn import combined
from loopwright import faults, options, pipeline, targets
from loopwright.calls import einsum as einsum_calls
from loopwright.calls import einsum_contraction, polyhedral_function
from loopwright.cli import info_command, main
from loopwright.diagnostics import IllegalStep, InternalError, UsageError
from loopwright.faults import Faults, recorded_faults, survive
from loopwright.lower import buffers, passes
from loopwright.machines import host
from loopwright.planner import generic
from loopwright.transform.contract import Contract
from loopwright.transform.loop_marks import Parallel
from loopwright.transform.partial_sums import PartialSums
from loopwright.transform.plan import Plan
from no_kernels import forget_kernels
from programs import matmul, matmul_in_nest, min_plus

ERRORS = [
    AssertionError("a loop keeps its order"),
    InternalError("no such loop"),
    IllegalStep(Parallel("i"), "there is no loop 'i'"),
    KeyError("i"),
    ValueError("not enough values to unpack"),
]
SOURCE = b"""
void f(int n, double C[n][n], double A[n][n], double B[n][n]) {
#pragma scop
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
      C[i][j] = A[j][i] + B[i][j];
  for (int i = 1; i < n; i++)
    for (int j = 0; j < n; j++)
      C[i][j] += C[i - 1][j];
#pragma endscop
}
"""


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No kernel is known, faults are survived, and the machine has two cores, whatever it has."""
    monkeypatch.setattr(sys.modules["loopwright.machines.host"], "available_cores", lambda: 2)
    host.cache_clear()
    forget_kernels(monkeypatch)
    for owner, name in (
        (einsum_contraction, "_launches"),
        (einsum_calls, "_ready"),
    ):
        monkeypatch.setattr(owner, name, {})
    monkeypatch.setattr(einsum_contraction, "_unproven", {})
    with options.override(strict=False, cache_dir=str(tmp_path / "cache"), log=("plan",)):
        yield
    host.cache_clear()


def failing(error: Exception) -> Callable[..., Any]:
    def fail(*given: object, **named: object) -> Any:
        raise error

    return fail


def numbers(*shape: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.random.default_rng(len(shape)).integers(-3, 4, shape).astype(np.float64)


# -- the policy ------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_fault_is_told_and_counted(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="loopwright"):
        survive(error, "plan_marks of 'f'")
        survive(error, "plan_marks of 'g'")
    assert recorded_faults().count == 2
    assert recorded_faults().last.startswith(f"plan_marks of 'g': {type(error).__name__}: ")
    told = "plan: a fault of ours was passed over, plan_marks of 'f'"
    assert caplog.records[0].getMessage().startswith(told)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_strict_mode_raises(error: Exception) -> None:
    with options.override(strict=True), pytest.raises(type(error)) as caught:
        survive(error, "plan_marks of 'f'")
    assert caught.value is error
    assert recorded_faults().count == 0


def test_a_disk_that_takes_nothing_costs_no_call(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with options.override(cache_dir=str(tmp_path / "file" / "cache")):
        survive(AssertionError(), "plan_marks of 'f'")
        assert recorded_faults().count == 0
    with options.override(cache=False):
        survive(AssertionError(), "plan_marks of 'f'")
    assert recorded_faults().count == 0


def test_the_record_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "_MOST_BYTES", 1000)
    for _ in range(50):
        survive(AssertionError("x" * 1000), "plan_marks of 'f'")
    assert recorded_faults().count == 5
    assert len(recorded_faults().last) == 200


def test_info_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert info_command.collect()["faults"] == {"count": 0, "last": ""}
    assert main(["info"]) == 0
    assert "faults of ours  none met\n" in capsys.readouterr().out
    survive(AssertionError(), "plan_marks of 'f'")
    assert main(["info", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["faults"] == {"count": 1, "last": "plan_marks of 'f': AssertionError"}


# -- einsum ----------------------------------------------------------------------------------------

BROKEN = [
    (pipeline, "contraction_tree"),
    (passes, "lower_contraction"),
    (einsum_contraction, "choose"),
]


@pytest.mark.drawn(4)
@pytest.mark.parametrize(
    ("broken", "error", "threads"),
    combined(BROKEN, ERRORS, [1, 2], one_in=6),
    ids=lambda x: x[1] if isinstance(x, tuple) else type(x).__name__,
)
def test_einsum(
    monkeypatch: pytest.MonkeyPatch, broken: tuple[Any, str], error: Exception, threads: int
) -> None:
    owner, name = broken
    monkeypatch.setattr(owner, name, failing(error))
    a, b = numbers(6, 7), numbers(7, 5)
    for _ in range(2):
        np.testing.assert_array_equal(lw.einsum("ij,jk->ki", a, b, threads=threads), (a @ b).T)
    # A call of a known layout is not planned again.
    assert recorded_faults().count == 1
    with options.override(strict=True), pytest.raises(type(error)):
        lw.einsum("ij,kj->ik", a, numbers(5, 7), threads=threads)


# -- programs --------------------------------------------------------------------------------------


def wanted(a: Any, b: Any) -> Any:
    return np.cumsum(a.T + b, axis=0)


@pytest.mark.parametrize("target", ["host", "openmp", "c"])
@pytest.mark.parametrize("failures", [1, 2])
def test_lowering(monkeypatch: pytest.MonkeyPatch, failures: int, target: str) -> None:
    """After a plan that cannot be lowered come marks on the source's loops, then source order."""
    real, tried = pipeline.lower_schedule, []

    def lower(schedule: Any) -> Any:
        tried.append(schedule)
        if len(tried) <= failures:
            raise AssertionError("lanes")
        return real(schedule)

    monkeypatch.setattr(pipeline, "lower_schedule", lower)
    kernel = lw.compile(matmul(), target, threads=2)
    kinds = {step.kind for step in kernel.plan}
    assert "contract" not in kinds
    assert bool(kinds) == (failures == 1)
    assert ("parallel" in kinds) == (failures == 1 and target != "c")
    c, a, b = np.zeros((30, 30)), numbers(30, 30), numbers(30, 30) + 1
    kernel(A=a, B=b, C=c)
    np.testing.assert_array_equal(c, a @ b)
    assert recorded_faults() == Faults(failures, "the loops of 'matmul': AssertionError: lanes")


def test_jit(monkeypatch: pytest.MonkeyPatch) -> None:
    @lw.jit(threads=2)
    def product_of(c, a, b):  # type: ignore[no-untyped-def]
        for i in range(c.shape[0]):
            for j in range(c.shape[1]):
                c[i, j] = 0.0
                for k in range(a.shape[1]):
                    c[i, j] += a[i, k] * b[k, j]

    broken = failing(ERRORS[0])
    monkeypatch.setattr(polyhedral_function, "compile_contraction", broken)
    monkeypatch.setattr(generic, "_PLANNERS", (broken, *generic._PLANNERS))
    broken.__name__ = "plan_nothing"
    c, a, b = np.empty((6, 8)), numbers(6, 7), numbers(7, 8)
    product_of(c, a, b)
    np.testing.assert_array_equal(c, a @ b)
    assert recorded_faults().count == 2


# -- plans of users --------------------------------------------------------------------------------


VARIANTS = contract_loops("i", "j", "k").variants


@pytest.mark.parametrize("target", ["host", "openmp", "c"])
@pytest.mark.parametrize(
    "steps",
    [
        (Contract((), VARIANTS, (8, 8, 8)),),
        (Contract((), (replace(VARIANTS[0], parallel="i"),), (8, 8, 8)),),
    ],
)
def test_contract_in_a_plan_is_refused(steps: tuple[Any, ...], target: str) -> None:
    with pytest.raises(UsageError) as error:
        lw.compile(matmul(), target, Plan(steps))
    told = str(error.value)
    assert told.startswith("a plan for the loops of 'matmul' cannot take out the whole of them\n")
    assert told.endswith(
        "try: contract for three loops of it, or the plan 'model', by which a function of C that "
        "is one contraction runs as its kernel"
    )


def test_an_illegal_plan_is_told() -> None:
    with pytest.raises(IllegalStep, match="loop 'k' carries"):
        lw.compile(matmul_in_nest(), plan=Plan((Parallel("k"),)))
    assert recorded_faults().count == 0


def test_the_statement_of_a_core_cannot_change() -> None:
    core = contract_loops("i", "j", "k")
    with pytest.raises(IllegalStep, match="the contraction of S0 would be none: "):
        lw.compile(min_plus(), plan=Plan((core, PartialSums("S0", "k", 64))))


# -- what lowering and printing do for speed only --------------------------------------------------

GHOSTS = b"""
void f(int n, double x[n]) {
  double y[7];
#pragma scop
  for (int e = 0; e < n; e++) {
    for (int i = 0; i < 4; i++)
      y[i + 2] = x[e] + i;
    y[0] = y[4];
    x[e] = y[0] + y[5];
  }
#pragma endscop
}
"""


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (buffers, "contracted_array"),
        (passes, "simplify_divisions"),
        (targets, "sink_scalars"),
    ],
    ids=lambda x: x if isinstance(x, str) else None,
)
def test_rewrites_for_speed_only(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, tmp_path: Path
) -> None:
    fail = failing(IndexError("list index out of range"))
    if owner is passes:
        broken = [replace(x, rewrite=fail) if x.name == name else x for x in passes.PASSES]
        monkeypatch.setattr(passes, "PASSES", tuple(broken))
    else:
        monkeypatch.setattr(owner, name, fail)
    monkeypatch.setattr(passes, "_require_known_passes", lambda: None)
    x = numbers(5)
    found = x.copy()
    lw.compile(GHOSTS, function="f")(5, found)
    np.testing.assert_array_equal(found, (x + 2) + (x + 3))
    path = tmp_path / "f.c"
    path.write_bytes(GHOSTS)
    assert main(["cc", str(path), "--target", "c", "-o", str(tmp_path / "out.c")]) == 0
    assert recorded_faults().count > 0
