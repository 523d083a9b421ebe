"""A plan is for one kind of machine, and for that of the target."""

from __future__ import annotations

import pytest

import loopwright as lw
from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import extract
from loopwright.ir.program import Program
from loopwright.transform.grid_mapping import MapToBlocks, MapToThreads
from loopwright.transform.loop_marks import Parallel, Simd
from loopwright.transform.machine_kinds import GPU, MESH, PROCESSOR, machine_kinds
from loopwright.transform.mesh_mapping import MapToMesh
from loopwright.transform.plan import Plan, apply_plan, apply_step, initial_schedule
from loopwright.transform.step import Step
from loopwright.transform.tiling import StripMine

TEXT = """
void two(int n, double a[n][n], double b[n][n], double c[n][n]) {
#pragma scop
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
      b[i][j] = a[i][j] + 1;
  for (int i = 1; i < n - 1; i++)
    for (int j = 0; j < n; j++)
      c[i][j] = b[i - 1][j] + b[i + 1][j];
#pragma endscop
}
"""
BLOCKS = "loop '{}' is mapped to blocks of a GPU"
SHARED = "loop '{}' is shared out to threads of a processor"


def two() -> Program:
    return extract(read_c(TEXT).regions[0].tree)


@pytest.mark.parametrize(
    ("steps", "kinds"),
    [
        ((), {}),
        ((StripMine("i", 4), Simd("j")), {}),
        ((Parallel("i"), Simd("j")), {PROCESSOR: SHARED.format("i")}),
        ((MapToBlocks("i", "x"), MapToThreads("j", "x", 32)), {GPU: BLOCKS.format("i")}),
        (
            (MapToMesh("i", "mesh", 2, 4),),
            {MESH: "loops are dealt out to 2 x 4 cores of a mesh"},
        ),
    ],
)
def test_kinds(steps: tuple[Step, ...], kinds: dict[str, str]) -> None:
    assert machine_kinds(apply_plan(two(), steps)) == kinds


@pytest.mark.parametrize(
    ("first", "step", "reasons"),
    [
        # one nest, from outside and from inside
        (Parallel("i"), MapToBlocks("j", "x"), (SHARED.format("i"), BLOCKS.format("j"))),
        (Parallel("j"), MapToBlocks("i", "x"), (SHARED.format("j"), BLOCKS.format("i"))),
        (MapToBlocks("i", "x"), Parallel("j"), (BLOCKS.format("i"), SHARED.format("j"))),
        # two nests, which one team of threads would go through together
        (MapToBlocks("i", "x"), Parallel("i_1"), (BLOCKS.format("i"), SHARED.format("i_1"))),
        (Parallel("i_1"), MapToBlocks("i", "x"), (SHARED.format("i_1"), BLOCKS.format("i"))),
    ],
)
def test_one_machine(first: Step, step: Step, reasons: tuple[str, str]) -> None:
    schedule = apply_step(initial_schedule(two()), first)
    with pytest.raises(IllegalStep) as caught:
        apply_step(schedule, step)
    kept = ", ".join(reasons)
    told = f"{step}: a plan is for one machine: {kept}; leave out one of the steps"
    assert str(caught.value) == told


OF_GPU = """\
the plan of 'two' is for a GPU, and the target is for a processor
note: found loop 'i' is mapped to blocks of a GPU
try: the target 'cuda' or 'opencl', or a plan that was made for this target"""
OF_PROCESSOR = """\
the plan of 'two' is for a processor, and the target is for a GPU
note: found loop 'i' is shared out to threads of a processor
try: the target 'host', 'openmp' or 'c', or a plan that was made for this target"""
OF_MESH = """\
the plan of 'two' is for a mesh, and the target is for a GPU
note: found loops are dealt out to 2 x 4 cores of a mesh
try: the target 'athread', or a plan that was made for this target"""


@pytest.mark.parametrize(
    ("step", "target", "told"),
    [
        (MapToBlocks("i", "x"), "host", OF_GPU),
        (MapToBlocks("i", "x"), "c", OF_GPU),
        (MapToBlocks("i", "x"), "openmp", OF_GPU),
        (Parallel("i"), "cuda", OF_PROCESSOR),
        (Parallel("i"), "opencl", OF_PROCESSOR),
        (MapToMesh("i", "mesh", 2, 4), "cuda", OF_MESH),
    ],
)
def test_the_machine_of_the_target(step: Step, target: str, told: str) -> None:
    machine = "sm_80" if target in ("cuda", "opencl") else None
    with pytest.raises(UsageError) as caught:
        lw.compile(TEXT, target, plan=Plan((step,)), machine=machine)
    assert str(caught.value) == told
