"""isl's quota holds wherever isl works: front ends, analyses, planners, lowering, all targets."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import options, pipeline, targets
from loopwright.calls.splice import optimise_region
from loopwright.diagnostics import UsageError
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import program_of
from loopwright.ir import islkit
from loopwright.ir.islkit import isl
from loopwright.machines.host import host
from loopwright.machines.machine_argument import target_gpu, target_mesh
from loopwright.targets import TARGETS
from loopwright.transform.isl_scheduler import is_schedulable
from no_kernels import forget_kernels

SOURCE = """
void rows(int n, double a[n][n], double b[n][n], double s[n]) {
#pragma scop
for (int i = 1; i < n; i++)
  for (int j = 1; j < n; j++)
    if (i % 3 != 1)
      a[i][j] = a[i - 1][j] * 0.5 + b[j][i];
for (int i = 0; i < n; i++)
  for (int j = 0; j <= i; j++)
    s[i] += a[i][j];
#pragma endscop
}
"""
SIMPLE = "void f(int n, double a[n]) {\n#pragma scop\nfor (int i = 0; i < n; i++) a[i] *= 2;\n"
SIMPLE += "#pragma endscop\n}\n"
MACHINES: dict[str, Callable[[], Any]] = {
    "openmp": host,
    "cuda": lambda: target_gpu(None),
    "athread": lambda: target_mesh(None),
}
# What projects, searches, simplifies or generates code; the rest of isl takes no time.
SETS = "coalesce subtract complement lexmin lexmax dim_min dim_max dim_min_val dim_max_val"
SETS += " is_empty is_subset is_equal project_out gist sample_point foreach_point"
MAPS = "coalesce subtract is_empty deltas lexmin lexmax is_injective is_single_valued apply_range"
HARD: dict[type, str] = {
    isl.Set: SETS,
    isl.Map: f"{MAPS} is_subset project_out",
    isl.UnionMap: "coalesce subtract apply_range is_empty is_injective is_subset",
    isl.UnionAccessInfo: "compute_flow",
    isl.AstBuild: "node_from_schedule",
    isl.ScheduleConstraints: "compute_schedule",
}


@pytest.fixture
def unbounded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What isl is asked for outside of any quota; checks of the suite belong to no compilation."""
    found: list[str] = []

    def watched(kind: type, name: str) -> Callable[..., Any]:
        own = getattr(kind, name)

        def asked(self: Any, *args: Any, **named: Any) -> Any:
            if not islkit._local.quotas:
                where = "|".join(f"{x[0][-22:]}:{x.name}" for x in traceback.extract_stack()[-9:-1])
                found.append(f"{kind.__name__}.{name} by {where}")
            return own(self, *args, **named)

        return asked

    islkit.context()
    for kind, names in HARD.items():
        for name in names.split():
            monkeypatch.setattr(kind, name, watched(kind, name))
    return found


@pytest.mark.parametrize("target", MACHINES)
def test_regions(target: str, unbounded: list[str]) -> None:
    assert set(MACHINES) <= set(TARGETS)
    with options.override(check=False):
        file = read_c(SOURCE)
        (region,) = file.regions
        optimise_region(file, region, TARGETS[target].planner, MACHINES[target](), target=target)
    assert not unbounded, "\n".join(sorted(set(unbounded)))


def test_functions(unbounded: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    forget_kernels(monkeypatch)

    @lw.jit
    def sweep(a, b):
        for i in range(1, a.shape[0]):
            b[i] = a[i] + b[i - 1] * 0.5

    with options.override(check=False, cache=False):
        sweep(np.ones(7), np.ones(7))
        lw.einsum("ij,jk->ik", np.ones((3, 4)), np.ones((4, 5)))
    assert not unbounded, "\n".join(sorted(set(unbounded)))


def test_loops_of_a_mesh_that_are_too_hard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the loops as they were written, which a mesh keeps: the region stays, or the call ends."""
    file = read_c(SOURCE)
    machine = target_mesh(None)
    monkeypatch.setattr(targets, "ISL_QUOTA", 1)
    planner = TARGETS["athread"].planner
    found = optimise_region(file, file.regions[0], planner, machine, target="athread")
    assert found.text is None
    assert found.reason == "its loops are too hard to write down (more than 1 isl operations)"
    program = program_of(read_c(SOURCE).regions[0].tree, reassoc=False)
    with pytest.raises(UsageError) as caught:
        pipeline.compile_program(program, machine, 1, target="athread")
    assert str(caught.value) == (
        "the loops of 'rows' are too hard to write down\n"
        "note: found more than 1 isl operations\n"
        "try: simpler conditions, or several functions"
    )


def test_what_is_too_much_for_the_scheduler() -> None:
    """Its unknowns are those of all dependences, which isl does not count: it is not asked."""
    loops = "for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) for (int k = 0; k < n; k++)"
    bodies = " ".join("a[i][j][k] += 1;" for _ in range(9))
    text = f"void f(int n, double a[n][n][n]) {{\n#pragma scop\n{loops} {{ {bodies} }}\n"
    program = program_of(read_c(f"{text}#pragma endscop\n}}\n").regions[0].tree, reassoc=False)
    names = [statement.name for statement in program.statements]
    assert [is_schedulable(program, names[:count]) for count in (1, 8, 9)] == [True, True, False]
