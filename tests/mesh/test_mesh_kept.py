"""Values that stay in a local array over all nests that gather them: symm, and its kin."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from kernels.corpus import KERNELS, SYMBOLIC, write_source
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import program_of
from loopwright.ir.check import check_nest
from loopwright.ir.program import Program
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load_mesh import load_mesh
from loopwright.planner.mesh_plans.mesh import mesh_planner
from loopwright.transform.keep_in_local import KeepInLocal
from loopwright.validate import check_translation

MACHINE = load_mesh("sw26010")
STEP = KeepInLocal("C", "above")


def symm() -> Program:
    with tempfile.TemporaryDirectory() as folder:
        (region,) = read_c(write_source(KERNELS["symm"], Path(folder), mode=SYMBOLIC)).regions
        return program_of(region.tree, reassoc=False)


def test_results_never_leave_the_scratchpads_on_their_way() -> None:
    source = symm()
    small = replace(MACHINE, rows=2, columns=2, scratchpad_bytes=12 << 10)
    plan, schedule = mesh_planner(source, small)
    assert STEP in plan.steps
    (box,) = (box for box in schedule.boxes if box.array == "above")
    assert not box.is_brought_in
    assert not box.is_put_back
    nest = lower_schedule(schedule)
    check_nest(nest)
    assert check_translation(source, nest, [{"m": 13, "n": 5}, {"m": 5, "n": 33}]) == ()
