"""Rows fetched ahead: which places, what is refused, which loops the planner chooses."""

from __future__ import annotations

import pytest

from loopwright.ir.program import Program
from loopwright.machines.load import load_machine
from loopwright.planner.loop_plans.fetches import plan_fetches
from loopwright.transform.plan import apply_plan
from programs import Do, For, program


def columns(value: str, extent: int | str = "n", rank: int = 2, *, down: bool = True) -> Program:
    """A sum down the columns of u, or up."""
    shape = ", ".join([str(extent)] * rank)
    middle = "0, " * (rank - 2)
    value = value.replace("~", middle)
    bounds: tuple[str | int, str | int, int] = (1, "n", 1) if down else ("n - 2", 0, -1)
    loop = For("j", *bounds[:2], Do("s[i, j]", value), step=bounds[2])
    arrays = {"u": f"in float64 [{shape}]", "s": f"inout float64 [{extent}, {extent}]"}
    return program("columns", arrays, For("i", 1, "n - 1", loop))


DOWN, UP = "s[i, j - 1] + u[j, ~i]", "s[i, j + 1] + u[j, ~i]"


@pytest.mark.parametrize(
    ("source", "is_planned"),
    [
        (columns(DOWN, 2000), True),
        (columns(UP, 2000, down=False), True),
        (columns(DOWN, 2000, rank=3), True),
        (columns(DOWN, 200), False),  # in a cache
        (columns("s[i, j - 1] + u[i, j]", 2000), False),  # along a row
    ],
    ids=["down", "up", "cube", "near", "along"],
)
def test_planned(source: Program, is_planned: bool) -> None:
    machine = load_machine("neoverse-n1")
    steps = plan_fetches(apply_plan(source, ()), machine, parallel=False)
    assert [step.kind for step in steps] == ["prefetch_rows"] * is_planned


def test_sums_that_have_vectors_are_not_planned() -> None:
    """Extrema of integers may be taken in any order; compilers find vectors without fetches."""
    machine = load_machine("neoverse-n1")
    for kind, is_planned in (("int32", False), ("float32", True)):
        shape = f"{kind} [2000, 2000]"
        body = For("k", 0, "n", Do("s[i, j]", "min(s[i, j], u[k, j])"))
        arrays = {"u": f"in {shape}", "s": f"inout {shape}"}
        source = program("least", arrays, For("i", 0, "n", For("j", 0, "n", body)))
        steps = plan_fetches(apply_plan(source, ()), machine, parallel=False)
        assert bool(steps) == is_planned


def test_loops_around_others_are_not_planned() -> None:
    body = For("k", 0, "n", Do("s[i, j]", "s[i, j] + u[j, k]"))
    shape = "float64 [2000, 2000]"
    source = program(
        "product",
        {"u": f"in {shape}", "s": f"inout {shape}"},
        For("i", 0, "n", For("j", 0, "n", body)),
    )
    machine = load_machine("neoverse-n1")
    assert plan_fetches(apply_plan(source, ()), machine, parallel=False) == ()
