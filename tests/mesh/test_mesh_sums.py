"""Sums over all loops of a nest: cores gather parts, where the order of terms is free."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kernels.build import system_compiler
from loopwright.cli import main
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import program_of
from loopwright.ir.check import check_nest
from loopwright.ir.loops import Mark
from loopwright.ir.program import Program
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load_mesh import load_mesh
from loopwright.planner.mesh_plans import mesh_sums
from loopwright.planner.mesh_plans.mesh import mesh_planner, mesh_planner_of
from loopwright.transform.partial_sums import PartialSums
from loopwright.validate import check_translation
from loopwright.validate.problem_sizes import pick_sizes

MACHINE = load_mesh("sw26010")


def program(kind: str, body: str, *, reassoc: bool = False) -> Program:
    text = (
        f"void f(int n, int m, {kind} x[n], {kind} y[n], {kind} A[n][m], {kind} s[1])\n"
        f"{{\n#pragma scop\n{body}\n#pragma endscop\n}}\n"
    )
    (region,) = read_c(text).regions
    return program_of(region.tree, reassoc=reassoc)


DOT = "for (int i = 0; i < n; i++) s[0] += x[i] * y[i];"
# Sums, and values that depend on them; one in two loops; shifted terms.
SUMS = {
    "dot": DOT,
    "norm": "for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) s[0] += A[i][j] * A[i][j];",
    "shifted": "for (int i = 2; i < n - 3; i++) s[0] -= x[i + 3] * y[i - 2];",
    "used": f"{DOT}\nfor (int i = 0; i < n; i++) x[i] = x[i] * s[0];",
    "triangle": "for (int i = 0; i < n; i++) for (int j = i; j < m; j++) s[0] += A[i][j] * x[i];",
}


@pytest.mark.drawn(4)
@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("shape", [(2, 2), (1, 3)])
def test_sums_compute_what_they_say(
    name: str, shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Integers, whose sums may be taken in any order; blocks are small."""
    monkeypatch.setattr(mesh_sums, "_BOX", 4)
    monkeypatch.setattr(mesh_sums, "_BOXES", 2)
    wanted = program("int", SUMS[name])
    plan, schedule = mesh_planner_of(shape)(wanted, MACHINE, 1)
    assert any(isinstance(step, PartialSums) for step in plan)
    assert Mark.THREAD in dict(schedule.marks).values()
    nest = lower_schedule(schedule)
    check_nest(nest)
    sizes = pick_sizes(wanted, values=(0, 1, 5, 23, 40), most=4_000, count=5, seed=2)
    assert check_translation(wanted, nest, sizes) == ()


def test_the_order_of_terms_has_to_be_free() -> None:
    for reassoc in (False, True):
        plan, schedule = mesh_planner(program("double", DOT, reassoc=reassoc), MACHINE)
        assert any(isinstance(step, PartialSums) for step in plan) == reassoc
        assert (Mark.THREAD in dict(schedule.marks).values()) == reassoc


RUN = """\
#include <stdio.h>
enum { N = 5000 };
static double x[N], y[N];
int main(void)
{
    double s = 0.5;
    for (int i = 0; i < N; i++) {
        x[i] = i % 7;
        y[i] = i % 5 - 1;
    }
#pragma scop
    for (int i = 0; i < N; i++)
        s += x[i] * y[i];
#pragma endscop
    printf("%.17g\\n", s);
    return 0;
}
"""


@pytest.mark.skipif(system_compiler() is None, reason="there is no C compiler")
def test_a_dot_product_on_the_emulator(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source, plain = tmp_path / "dot.c", tmp_path / "plain"
    source.write_text(RUN)
    subprocess.run([system_compiler() or "", "-o", plain, source], check=True)
    expected = subprocess.run([plain], check=True, capture_output=True, text=True).stdout
    words = ["cc", str(source), "--target", "athread", "-o", str(tmp_path / "out"), "--reassoc"]
    assert main([*words, "--run", "--profile", "-DLW_LEAST_WORK=0"]) == 0
    told = capfd.readouterr().out
    assert told.startswith(expected)
    assert "\nteams          1\n" in told
    # So little work stays on the host unless it is asked for.
    assert main([*words, "--run", "--profile"]) == 0
    told = capfd.readouterr().out
    assert told.startswith(expected)
    assert "\nteams          1\n" not in told
