"""Tiles, schedules and plans of users for a mesh of cores: served, or refused with the reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loopwright.cli import main

SCALE = """\
void scale(int n, int m, double A[n][m], double c)
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            A[i][j] = c * A[i][j];
#pragma endscop
}
"""
SERIAL = """\
void sweep(int n, double x[n])
{
#pragma scop
    for (int t = 0; t < n; t++)
        for (int i = 1; i < n; i++)
            x[i] = x[i] + x[i - 1];
#pragma endscop
}
"""


def cc(folder: Path, *options: str, source: str = SCALE) -> int:
    file = folder / "scale.c"
    file.write_text(source)
    return main(["cc", str(file), "--target", "athread", "-o", str(folder / "made"), *options])


def steps(folder: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads((folder / "plan.json").read_text())["steps"]
    return found


@pytest.mark.parametrize(
    ("threads", "mapped"),
    [
        ((), [("i_t", "row", 8, 8), ("j_t", "column", 8, 8)]),
        (("--threads", "1x64"), [("i_t", "mesh", 1, 64)]),
    ],
)
def test_cores_take_the_given_tiles(
    tmp_path: Path, threads: tuple[str, ...], mapped: list[tuple[object, ...]]
) -> None:
    dumped = str(tmp_path / "plan.json")
    assert cc(tmp_path, "--tile", "4,4", "--dump-plan", dumped, "--check", *threads) == 0
    found = steps(tmp_path)
    assert [step["sizes"] for step in found if step["kind"] == "tile"] == [[4, 4]]
    assert [
        tuple(step[key] for key in ("loop", "axis", "rows", "columns"))
        for step in found
        if step["kind"] == "map_to_mesh"
    ] == mapped
    assert [step["loop"] for step in found if step["kind"] == "stage_box"] == ["j_t"]


def test_a_dumped_schedule_is_served(tmp_path: Path) -> None:
    tree, plan = str(tmp_path / "tree.yaml"), str(tmp_path / "plan.json")
    assert cc(tmp_path, "--dump-schedule", tree) == 0
    assert cc(tmp_path, "--load-schedule", tree, "--dump-plan", plan, "--check") == 0
    kinds = [step["kind"] for step in steps(tmp_path)]
    assert kinds == ["reschedule", "map_to_mesh", "map_to_mesh", "stage_box"]


def test_threads_beside_a_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = str(tmp_path / "plan.json")
    assert cc(tmp_path, "--dump-plan", plan) == 0
    assert cc(tmp_path, "--plan", plan, "--threads", "8x8") == 0
    capsys.readouterr()
    assert cc(tmp_path, "--plan", plan, "--threads", "1x64") == 2
    assert capsys.readouterr().err == (
        "loopwright: error: the plan of 'scale' is for 8x8 cores\n"
        "note: found --threads 1x64\n"
        "try: --threads 8x8, or a plan that was made with --threads 1x64\n"
    )


def test_true_reasons(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "none.json").write_text('{"version": 3, "steps": []}')
    tree = str(tmp_path / "tree.yaml")
    assert (
        main(["cc", str(_serial(tmp_path)), "--dump-schedule", tree, "-o", str(tmp_path / "a.c")])
        == 0
    )
    capsys.readouterr()
    assert cc(tmp_path, "--plan", str(tmp_path / "none.json")) == 2
    assert "on a mesh of cores: the plan maps no loop to cores\n" in capsys.readouterr().err
    assert cc(tmp_path, "--load-schedule", tree, source=SERIAL) == 2
    assert "on a mesh of cores: no parallel loop was found\n" in capsys.readouterr().err


def _serial(folder: Path) -> Path:
    file = folder / "sweep.c"
    file.write_text(SERIAL)
    return file
