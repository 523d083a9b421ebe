"""Faults put into every planner of every target: the result is right, and the fault is counted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from loopwright import options
from loopwright.faults import recorded_faults
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import program_of
from loopwright.ir.expr import Var
from loopwright.ir.islkit import OUTER_QUOTA, NotAffine, isl
from loopwright.ir.program import Program
from loopwright.machines import host
from loopwright.machines.load_gpu import load_gpu
from loopwright.machines.load_mesh import load_mesh
from loopwright.pipeline import compile_program
from loopwright.planner import generic
from loopwright.planner.grid_plans import gpu
from loopwright.planner.guard import guarded
from loopwright.planner.mesh_plans import mesh
from loopwright.planner.planners import tile_planner
from loopwright.targets import TARGETS, MachineKind
from loopwright.validate import check_translation
from programs import matmul

# The planners of a machine, in the table that is walked through, and a machine of the kind.
TABLES: dict[MachineKind, tuple[Any, Callable[[], Any]]] = {
    MachineKind.PROCESSOR: (generic, host),
    MachineKind.GPU: (gpu, lambda: load_gpu("sm_90")),
    MachineKind.MESH: (mesh, lambda: load_mesh("sw26010")),
}
# By planner, then by target: of three targets that share a table the usual run takes one for each
# planner. Targets of one planner and as many threads plan the same: they take planners in turn.
TARGETS_OF = {
    MachineKind.PROCESSOR: [("host",), ("openmp",), ("c",)],
    MachineKind.GPU: [("cuda", "opencl")],
    MachineKind.MESH: [("athread",)],
}
CASES = [
    (kind, alike[at % len(alike)], planner.__name__)
    for kind, targets in TARGETS_OF.items()
    for at, planner in enumerate(TABLES[kind][0]._PLANNERS)
    for alike in targets
]
ERRORS = [
    StopIteration(),
    KeyError("i"),
    RuntimeError("generator raised StopIteration"),
    NotAffine(Var("i")),
    UnboundLocalError("a name without a value"),
]
SOURCE = b"""
void f(int n, double C[n][n], double A[n][n], double s[1]) {
#pragma scop
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
      C[i][j] = 2.0 * A[j][i];
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
      s[0] += C[i][j];
#pragma endscop
}
"""


@pytest.fixture(autouse=True)
def _survived(tmp_path: Path) -> Iterator[None]:
    """Faults are survived, and written down in a folder of the test."""
    with options.override(strict=False, cache_dir=str(tmp_path / "cache"), log=("plan",)):
        yield


def program() -> Program:
    (region,) = read_c(SOURCE).regions
    return program_of(region.tree, reassoc=True)


def failing(name: str, error: Exception) -> Callable[..., NoReturn]:
    def fail(*given: object, **named: object) -> NoReturn:
        raise error

    fail.__name__ = name
    return fail


@pytest.mark.parametrize(
    ("target", "planner", "error"),
    [
        pytest.param(
            *case,
            ERRORS[at % len(ERRORS)],
            marks=pytest.mark.drawn(3) if kind is MachineKind.PROCESSOR else (),
        )
        for at, (kind, *case) in enumerate(CASES)
    ],
    ids=lambda x: type(x).__name__ if isinstance(x, Exception) else x,
)
def test_a_fault_of_a_planner_costs_speed_only(
    monkeypatch: pytest.MonkeyPatch, target: str, planner: str, error: Exception
) -> None:
    owner, machine = TABLES[TARGETS[target].kind]
    broken = {p: failing(planner, error) if p.__name__ == planner else p for p in owner._PLANNERS}
    known = owner._PLANNERS
    is_table = isinstance(known, dict)
    changed: Any = {broken[p]: known[p] for p in known} if is_table else tuple(broken.values())
    monkeypatch.setattr(owner, "_PLANNERS", changed)
    source = program()
    threads = TARGETS[target].threads(2)
    made = compile_program(source, machine(), threads, TARGETS[target].planner)
    assert recorded_faults().count > 0
    assert recorded_faults().last.startswith(f"{planner} of 'f': {type(error).__name__}")
    told = check_translation(source, made.nest, [{"n": 0}, {"n": 5}], threads=())
    assert [str(difference) for difference in told] == []


def test_targets_that_plan_the_same_are_together() -> None:
    plans = [
        [{(TARGETS[name].planner, TARGETS[name].threads(2)) for name in alike} for alike in targets]
        for targets in TARGETS_OF.values()
    ]
    assert all(len(alike) == 1 for targets in plans for alike in targets)
    named = [name for targets in TARGETS_OF.values() for alike in targets for name in alike]
    assert sorted(named) == sorted(TARGETS)


@pytest.mark.parametrize(
    ("target", "owner", "name"),
    [
        ("openmp", "loopwright.planner.planners", "extend_plan"),
        ("cuda", "loopwright.planner.planners", "plan_grid_layout"),
        ("athread", "loopwright.planner.planners", "plan_given_order"),
    ],
)
def test_marks_of_a_given_order(
    monkeypatch: pytest.MonkeyPatch, target: str, owner: str, name: str
) -> None:
    monkeypatch.setattr(f"{owner}.{name}", failing(name, StopIteration()))
    machine = TABLES[TARGETS[target].kind][1]()
    made = compile_program(matmul(), machine, 2, tile_planner([4, 4]))
    assert recorded_faults().last == "the marks of 'matmul': StopIteration"
    assert [step.kind for step in made.plan] == ["tile"]


def test_isl_that_fails_is_work_that_is_too_hard(caplog: pytest.LogCaptureFixture) -> None:
    fail = failing("plan", isl.Error("isl_local_space.c:1: no such space"))
    with caplog.at_level(logging.INFO, logger="loopwright"):
        for quota in (OUTER_QUOTA, 1000):
            with options.override(strict=True, log=("plan",)):
                assert guarded(fail, lambda: 7, "plan_marks", matmul(), quota) == 7
    told = "plan: plan_marks gave up on 'matmul': isl_local_space.c:1: no such space"
    assert [record.getMessage() for record in caplog.records] == [told, told]
    assert recorded_faults().count == 0


def test_strict_mode_raises() -> None:
    with options.override(strict=True), pytest.raises(StopIteration):
        guarded(failing("plan", StopIteration()), tuple, "plan_marks", matmul(), 1000)
