"""The source order: marks on the loops as written, no step that moves anything."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import loopwright as lw
from loopwright.ir.schedule_tree import loop_names
from loopwright.machines.machine_argument import target_machine
from loopwright.planner import source_order as module
from loopwright.planner.source_order import source_order
from loopwright.transform.loop_marks import Parallel, Simd
from loopwright.transform.plan import Plan, initial_schedule
from loopwright.transform.privatize import Privatize
from loopwright.transform.register_promotion import PromoteToRegisters

KEEPING = (Parallel, Simd, Privatize, PromoteToRegisters)

SOURCES = {
    "product": """
void f(int n, int a[n][n], int b[n][n], int c[n][n]) {
#pragma scop
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
      for (int k = 0; k < n; k++)
        c[i][j] += a[i][k] * b[k][j];
#pragma endscop
}
""",
    "columns": """
void f(int n, int a[n][n], int b[n][n], int c[n][n]) {
#pragma scop
  for (int j = 1; j < n; j++)
    for (int i = 1; i < n; i++)
      a[i][j] = a[i - 1][j] + b[j][i];
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
      c[i][j] += a[i][j];
#pragma endscop
}
""",
    "passes": """
void f(int n, int a[n][n], int b[n][n], int c[n][n]) {
#pragma scop
  for (int t = 0; t < 5; t++) {
    for (int i = 1; i < n - 1; i++)
      for (int j = 1; j < n - 1; j++)
        b[i][j] = a[i - 1][j] + a[i][j + 1];
    for (int i = 1; i < n - 1; i++)
      for (int j = 1; j < n - 1; j++)
        a[i][j] = b[i][j] + c[i][j];
  }
#pragma endscop
}
""",
    "scalar": """
void f(int n, int a[n][n], int b[n][n], int c[n][n]) {
#pragma scop
  for (int i = 0; i < n; i++) {
    int s = 0;
    for (int j = 0; j < n; j++)
      s += a[i][j] * b[i][j];
    c[i][i] = s;
  }
#pragma endscop
}
""",
}


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_only_marks(name: str, threads: int) -> None:
    (program,) = lw.parse_c(SOURCES[name])
    plan, schedule = source_order(program, target_machine(), threads)
    assert all(isinstance(step, KEEPING) for step in plan)
    assert schedule.tree.get_map().is_equal(initial_schedule(program).tree.get_map())
    assert loop_names(schedule.tree) == loop_names(program.schedule)
    has_parallel = any(isinstance(step, Parallel) for step in plan)
    assert has_parallel is (threads > 1)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("threads", [1, 3])
def test_the_results_are_those_of_the_plan(name: str, threads: int) -> None:
    (program,) = lw.parse_c(SOURCES[name])
    plan, _ = source_order(program, target_machine(), threads)
    results = []
    for chosen in (plan, "model"):
        random = np.random.default_rng(0)
        arrays = [random.integers(0, 9, (37, 37)).astype(np.int32) for _ in range(3)]
        lw.compile(SOURCES[name], plan=chosen, threads=threads)(37, *arrays)
        results.append(arrays)
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_outermost_free_loop_is_shared_out() -> None:
    (program,) = lw.parse_c(SOURCES["passes"])
    plan, _ = source_order(program, target_machine(), 2)
    assert [step.loop for step in plan if isinstance(step, Parallel)] == ["i", "i_1"]


def test_too_hard_is_unmarked(monkeypatch: pytest.MonkeyPatch) -> None:
    def gives_up(_: object, otherwise: Callable[[], object], *given: object) -> object:
        return otherwise()

    monkeypatch.setattr(module, "guarded", gives_up)
    (program,) = lw.parse_c(SOURCES["product"])
    plan, schedule = source_order(program, target_machine(), 2)
    assert plan == Plan(())
    assert schedule.tree.get_map().is_equal(initial_schedule(program).tree.get_map())
