"""Costs of plans: contraction variants, affine schedules, their order, and what the model picks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import options
from loopwright.calls.einsum import einsum_task
from loopwright.ir.kernel_variant import Broadcast, Packing
from loopwright.ir.machine import Machine
from loopwright.machines.load import load_machine
from loopwright.planner.contraction_plans.contraction_cost import choice_cycles
from loopwright.planner.contraction_plans.given_choice import given_choice
from loopwright.planner.cost.schedule_cost import schedule_seconds
from loopwright.transform.interchange import Interchange
from loopwright.transform.loop_marks import Simd
from loopwright.transform.plan import Plan, apply_plan
from loopwright.tuning.candidate_worker import Limits
from loopwright.tuning.evaluators import (
    in_promising_order,
    measuring,
    modelled_plan,
    predicting,
)
from loopwright.tuning.tasks import ContractionTask, ProgramTask

N1 = load_machine("neoverse-n1")


def contraction(text: str, *shapes: tuple[int, ...], threads: int = 1) -> ContractionTask:
    arrays = [np.ones(shape, np.float32) for shape in shapes]
    with options.override(num_threads=threads):
        task = einsum_task(text, *arrays)
    return replace(task, machine=N1, threads=threads)


def cycles(task: ContractionTask, plan: Plan, **changes: Any) -> float:
    """Cycles of a plan with some decisions changed, which need not be a variant that is written."""
    given = task.shape, task.algebra, task.machine, task.threads
    choice = given_choice(plan, *given, reassoc=True)
    blocks = changes.pop("blocks", choice.blocks)
    kernel = replace(choice.kernel, variant=replace(choice.variant, **changes))
    return choice_cycles(replace(choice, kernel=kernel, blocks=blocks), task.machine)


PRODUCT = contraction("ik,kj->ij", (512, 512), (512, 512))


def test_tiles_packing_and_blocks_of_a_product_count() -> None:
    plan = PRODUCT.construction()
    base = cycles(PRODUCT, plan)
    assert cycles(PRODUCT, plan, rows=1, vectors=1) > 2 * base, "one chain of sums"
    assert cycles(PRODUCT, plan, rows=16, vectors=4) > 1.5 * base, "spills"
    assert cycles(PRODUCT, plan, left_packing=Packing.GATHER) > base
    assert cycles(PRODUCT, plan, broadcast=Broadcast.REPLICATED) > base
    (step,) = plan.steps
    mc, nc, kc = step.blocks  # type: ignore[attr-defined]
    assert cycles(PRODUCT, plan, blocks=(mc, nc, 8)) > 1.1 * base, "out is written 64 times"
    assert cycles(PRODUCT, plan, blocks=(mc, 16, kc)) > base, "left is packed again and again"


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("ik,k->i", ((300, 200), (200,))),
        ("k,kj->j", ((200,), (200, 300))),
        ("i,i->", ((4000,), (4000,))),
        ("ij,ij->ij", ((50, 60), (50, 60))),
        ("ij->ji", ((50, 60),)),
        ("abc,cd->abd", ((9, 8, 30), (30, 20))),
    ],
)
def test_every_algorithm_has_a_cost(text: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    task = contraction(text, *shapes)
    plan = task.construction()
    assert 0 < task.predict(plan) < 1e-2
    for other in islice(task.neighbours(plan), 20):
        assert task.predict(other) > 0


def test_a_plan_that_does_not_fit_has_no_prediction() -> None:
    assert math.isnan(PRODUCT.predict(Plan(())))


# -- loops ----------------------------------------------------------------------------------------


@lw.jit
def smoothed(x: Any, y: Any) -> None:
    for i in range(1, x.shape[0] - 1):
        for j in range(x.shape[1]):
            y[i, j] = (x[i - 1, j] + x[i + 1, j]) * 0.5


def loops(function: Any, n: int) -> ProgramTask:
    _, task = function.task(np.ones((n, n)), np.ones((n, n)))
    assert isinstance(task, ProgramTask)
    return replace(task, machine=N1, threads=1)


def seconds(task: ProgramTask, *steps: Any, machine: Machine = N1, threads: int = 1) -> float:
    schedule = apply_plan(task.made(), Plan(steps))
    return schedule_seconds(schedule, machine, task.params, threads)


def test_vectors_pay_and_columns_cost() -> None:
    task = loops(smoothed, 1000)
    plain, vectors = seconds(task), seconds(task, Simd("j"))
    down = seconds(task, Interchange(("j", "i")))
    assert vectors < plain < down
    # The least: two arrays of 8 MB come and go at what the machine reads from its last cache.
    assert 0.5e-3 < vectors < 5e-3


def test_schedules_are_predicted_as_their_plans_are() -> None:
    task = loops(smoothed, 300)
    plan = task.construction()
    assert predicting(task)(apply_plan(task.made(), plan)) == task.predict(plan)
    assert math.isnan(task.predict(Plan((Simd("no such loop"),))))


# -- choosing -------------------------------------------------------------------------------------


class FakeTask:
    """Plans with the costs that are given to them."""

    def __init__(self, costs: dict[str, float], ahead: int = 8, error: float = 1.5) -> None:
        self.costs = {Plan((Simd(name),)): cost for name, cost in costs.items()}
        self.looks_ahead, self.prediction_error = ahead, error

    def construction(self) -> Plan:
        return next(iter(self.costs))

    def neighbours(self, plan: Plan) -> Iterator[Plan]:
        return (other for other in self.costs if other != plan)

    def predict(self, plan: Plan) -> float:
        return self.costs[plan]


def names(plans: Any) -> str:
    return "".join(plan.steps[0].loop for plan in plans)


def test_promising_plans_come_first_and_unknown_ones_keep_their_places() -> None:
    task: Any = FakeTask({"a": 3.0, "b": math.nan, "c": 1.0, "d": 2.0, "e": 0.5})
    plans = list(task.costs)
    assert names(in_promising_order(task, iter(plans))) == "ebcda"
    task.looks_ahead = 3
    assert names(in_promising_order(task, iter(plans))) == "cbaed"


def test_the_model_replaces_the_construction_only_beyond_its_error() -> None:
    near: Any = FakeTask({"a": 3.0, "b": 2.1, "c": math.nan})
    assert names([modelled_plan(near)]) == "a"
    far: Any = FakeTask({"a": 3.0, "b": 2.1, "c": 1.9, "d": math.nan})
    assert names([modelled_plan(far)]) == "c"
    unknown: Any = FakeTask({"a": math.nan, "b": 1.0})
    assert names([modelled_plan(unknown)]) == "a"


def test_what_the_model_picks_is_never_predicted_worse() -> None:
    for shape in ((7, 300, 5), (64, 64, 64), (3, 1000, 40)):
        m, k, n = shape
        task = contraction("ik,kj->ij", (m, k), (k, n))
        picked = modelled_plan(task)
        assert task.predict(picked) <= task.predict(task.construction())


def test_plans_are_measured_in_a_child_process() -> None:
    task = contraction("ik,kj->ij", (40, 50), (50, 30))
    with measuring(task, Limits(start=600, build=600, run=600, sample=0.05)) as measured:
        assert 0 < measured(task.construction()) < math.inf
        assert measured(Plan(())) == math.inf, "refused"
