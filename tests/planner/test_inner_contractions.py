"""Cores that the planner finds in whole kernels: how many, and that the kernels stay right."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drawn import combined
from frontends.kernels import compiled, define
from loopwright.ir.program import Program
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load import load_machine
from loopwright.planner.loop_plans import inner_contractions
from loopwright.planner.loop_plans.inner_contractions import plan_contractions, roles_of
from loopwright.transform.contract import Contract
from loopwright.transform.plan import apply_plan
from loopwright.transform.schedule_legality import initial_schedule
from oracle import assert_same
from planner.core_kernels import ARGUMENTS, KERNELS

MACHINE = load_machine("neoverse-n1")


@pytest.fixture(autouse=True)
def narrow_strips(monkeypatch: pytest.MonkeyPatch) -> None:
    """Strips of a few iterations, so that small sizes have several of them."""
    monkeypatch.setattr(inner_contractions, "strip_widths", lambda machine, dtype: (4, 2))


def program_of(name: str, reassoc: bool = True) -> Program:
    _, found = compiled(define(KERNELS[name].text), *ARGUMENTS[KERNELS[name].arguments](4))
    return replace(found, reassoc=reassoc)


@pytest.mark.drawn(2)
@pytest.mark.parametrize(("name", "parallel"), combined(KERNELS, [False, True], one_in=3))
def test_kernels(name: str, parallel: bool) -> None:
    kernel = KERNELS[name]
    source = program_of(name)
    steps = plan_contractions(initial_schedule(source), MACHINE, parallel=parallel)
    made = [step for step in steps if isinstance(step, Contract)]
    assert len(made) == kernel.cores
    assert all((step.shares > 1) == parallel for step in made)
    schedule = apply_plan(source, steps)
    covered = {name for made in schedule.contractions for name in made.statements}
    assert covered == set(kernel.covered)
    nest = lower_schedule(schedule)
    largest = 5 if "tensor" in kernel.arguments else 9
    for n in (0, 1, largest) if not parallel else (largest - 2,):
        params = dict.fromkeys(source.params, n)
        assert_same(source, nest, params, threads=2 if parallel else 1)


NO_ROLES = {
    "one factor only": "C[i, j] += A[i, k]",
    "no loop of its own for the columns": "C[i, i] += A[i, k] * B[k, i]",
    "three factors": "C[i, j] += A[i, k] * B[k, j] * C[k, k]",
    "no update": "C[i, j] = A[i, k] * B[k, j]",
    "no reduction": "C[i, j] += A[i, i] * B[j, j]",
}


@pytest.mark.parametrize("name", NO_ROLES)
def test_statements_without_roles(name: str) -> None:
    text = f"""
        def f(A, B, C, D, E):
            for i in range(A.shape[0]):
                for j in range(A.shape[0]):
                    for k in range(A.shape[0]):
                        {NO_ROLES[name]}
        """
    _, source = compiled(define(text), *ARGUMENTS["five matrices"](3))
    assert roles_of(source, source.statements[0]) is None


def test_bands_of_any_width_are_left_alone() -> None:
    """How far two loops are apart is a parameter: there may be hardly any products."""
    text = """
        def f(w, A, B, C):
            n = A.shape[0]
            for i in range(n):
                for j in range(max(0, i - w), min(n, i + w + 1)):
                    for k in range(n):
                        C[i, j] += A[i, k] * B[k, j]
        """
    _, source = compiled(define(text), 2, *ARGUMENTS["five matrices"](3)[:3])
    assert plan_contractions(initial_schedule(source), MACHINE, parallel=False) == ()


def test_loops_of_a_few_iterations_are_left_alone() -> None:
    text = """
        def f(A, B, C, D, E):
            for i in range(3):
                for j in range(2):
                    for k in range(2):
                        C[i, j] += A[i, k] * B[k, j]
        """
    _, source = compiled(define(text), *ARGUMENTS["five matrices"](4))
    assert plan_contractions(initial_schedule(source), MACHINE, parallel=False) == ()


def test_sums_of_two_products_need_leave_to_be_reassociated() -> None:
    source = program_of("syr2k", reassoc=False)
    assert plan_contractions(initial_schedule(source), MACHINE, parallel=False) == ()


def test_what_was_found_stays_when_the_quota_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    source = program_of("lu")
    whole = plan_contractions(initial_schedule(source), MACHINE, parallel=False)
    found = []
    for quota in (20_000, 300_000):
        monkeypatch.setattr(inner_contractions, "_QUOTA", quota)
        fresh = program_of("lu")
        steps = plan_contractions(initial_schedule(fresh), MACHINE, parallel=False)
        found.append(len(steps))
        apply_plan(fresh, steps)
    assert found[0] == 0
    assert 0 < found[1] <= len(whole)
