"""Products in windows and strips on the emulator: results to the bit, all checks on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from athread.emulated import Emulated
from athread.test_generated_kernels import has_bits_of, program_named
from drawn import drawn
from kernels.build import system_compiler
from kernels.corpus import KERNELS, make_inputs, reference
from loopwright.ir.program import Program
from loopwright.machines.load_mesh import load_mesh
from loopwright.planner.mesh_plans import tiled_nests
from loopwright.planner.mesh_plans.mesh import mesh_planner
from loopwright.planner.mesh_plans.mesh_tiles import TiledLoop, TileSizes
from loopwright.runtime.athread_emulator.athread_run import AthreadFault
from loopwright.transform.plan import Plan

SW = load_mesh("sw26010")
SIZES = {"ni": 70, "nj": 171, "nk": 37}
# Tiles, windows of steps, and strips of rows or of columns, the last one of a tile smaller.
CHOICES = {
    "windows": ((8, 20, 16), 8, (0, 0)),
    "strips of columns": ((8, 20, 16), 16, (0, 16)),
    "windows, strips of columns": ((12, 40, 16), 8, (0, 16)),
    "windows, strips of rows": ((20, 16, 16), 8, (8, 0)),
    "rows by fours, two and one": ((11, 20, 16), 8, (0, 16)),
}


needs_compiler = pytest.mark.skipif(system_compiler() is None, reason="there is no C compiler")
Arrays = dict[str, np.ndarray]


def planned(choice: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Program, Plan]:
    """gemm with the sizes of a choice."""
    tiles, window, strips = CHOICES[choice]

    def chosen(loops: Sequence[TiledLoop], *_: object) -> TileSizes | None:
        if len(loops) < 3:
            return None
        names = [loop.name for loop in loops]
        cuts = {name: size for name, size in zip(names, strips, strict=False) if size}
        sizes = dict(zip(names, tiles, strict=True))
        return TileSizes(sizes, {names[2]: window}, 1.0, cuts)

    monkeypatch.setattr(tiled_nests, "product_sizes", chosen)
    program = program_named("gemm")
    plan, schedule = mesh_planner(program, SW)
    assert sum(box.panel is not None for box in schedule.boxes) == 2
    assert sum(step.kind == "tile_within" for step in plan.steps) == bool(any(strips))
    return program, plan


def arrays_of_gemm() -> tuple[Arrays, Arrays]:
    inputs = make_inputs(KERNELS["gemm"], SIZES)
    expected = reference(KERNELS["gemm"], inputs)
    assert expected is not None
    arrays = {
        key: value.copy() if isinstance(value, np.ndarray) else np.array(value)
        for key, value in inputs.items()
    }
    return arrays, expected


@needs_compiler
@pytest.mark.drawn(2)
@pytest.mark.parametrize("choice", drawn(CHOICES, 3))
def test_results_to_the_bit(choice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, plan = planned(choice, monkeypatch)
    arrays, expected = arrays_of_gemm()
    build = Emulated({"gemm": program}, SW, (8, 8), tmp_path, plans={"gemm": plan})
    build.run([("gemm", arrays, SIZES)])
    assert has_bits_of(arrays["C"], expected["C"])


BUGS = {
    "parts are used before they are there": ("lw_wait_ahead();\n", "\n", "under transfer by"),
    "a core that does not give": (
        "lw_give_row(&", "if (lw_column != 3) lw_give_row(&", "no CPE can go on",
    ),
}  # fmt: skip


@needs_compiler
@pytest.mark.parametrize("bug", drawn(BUGS, 1))
def test_the_bug_is_found(bug: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new, told = BUGS[bug]
    program, plan = planned("windows, strips of columns", monkeypatch)
    found: list[str] = []

    def changed(path: str, text: str) -> str:
        if old in text and not found:
            found.append(path)
            return text.replace(old, new, 1)
        return text

    build = Emulated({"gemm": program}, SW, (8, 8), tmp_path, plans={"gemm": plan}, edit=changed)
    arrays, _ = arrays_of_gemm()
    with pytest.raises(AthreadFault, match=told):
        build.run([("gemm", arrays, SIZES)], seed=1)
    assert found
