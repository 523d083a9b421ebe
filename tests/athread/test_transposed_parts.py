"""Operands across the lanes, transposed by the core that brings them in: bits of plain C."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from athread.emulated import Emulated
from athread.test_generated_kernels import has_bits_of, program_named
from drawn import combined
from kernels.build import system_compiler
from kernels.corpus import KERNELS, make_inputs, reference
from loopwright.analysis.size_estimates import likely_sizes
from loopwright.ir.loops import Alloc, MeshBroadcast, Space
from loopwright.ir.mesh_machine import MeshMachine
from loopwright.ir.visit import statements
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load_mesh import load_mesh
from loopwright.planner.mesh_plans import tiled_nests
from loopwright.planner.mesh_plans.mesh import mesh_planner
from loopwright.planner.mesh_plans.mesh_cover import tile_cover
from loopwright.planner.mesh_plans.mesh_tiles import TiledLoop, TileSizes

SW, PRO = load_mesh("sw26010"), load_mesh("sw26010pro")
# Kernels, sizes that no tile divides, tiles, and windows of steps.
CHOICES = [
    ("syrk", {"n": 6, "m": 5}, (8, 8, 24), 12),
    ("syrk", {"n": 91, "m": 37}, (8, 8, 24), 12),  # parts of 4 rows: two cores bring some in
    ("syrk", {"n": 150, "m": 61}, (8, 40, 32), 16),
    ("syrk", {"n": 150, "m": 61}, (20, 12, 16), 8),
    ("syr2k", {"n": 83, "m": 29}, (8, 12, 16), 8),
    ("syr2k", {"n": 131, "m": 50}, (12, 36, 24), 12),
]

needs_compiler = pytest.mark.skipif(system_compiler() is None, reason="there is no C compiler")


@needs_compiler
@pytest.mark.drawn(2)
@pytest.mark.parametrize(("machine", "choice"), combined([SW, PRO], CHOICES, one_in=6))
def test_bits_of_plain_c(
    machine: MeshMachine,
    choice: tuple[str, dict[str, int], tuple[int, ...], int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name, sizes, tiles, window = choice

    def chosen(loops: Sequence[TiledLoop], *_: object) -> TileSizes | None:
        if len(loops) < 3:
            return None
        names = [loop.name for loop in loops]
        return TileSizes(dict(zip(names, tiles, strict=True)), {names[2]: window}, 1.0)

    monkeypatch.setattr(tiled_nests, "product_sizes", chosen)
    program = program_named(name)
    plan, schedule = mesh_planner(program, machine)
    everything = list(statements(lower_schedule(schedule).body))
    turned = {s.target for s in everything if isinstance(s, MeshBroadcast) and s.source == s.target}
    assert len(turned) == (1 if name == "syrk" else 2)
    near = {
        s.buffer.name
        for s in everything
        if isinstance(s, Alloc) and s.buffer.space is Space.SCRATCHPAD
    }
    assert turned <= near
    assert not any(each.startswith("factor") for each in near)  # nothing is written down again
    inputs = make_inputs(KERNELS[name], sizes)
    expected = reference(KERNELS[name], inputs)
    assert expected is not None
    arrays = {
        key: value.copy() if isinstance(value, np.ndarray) else np.array(value)
        for key, value in inputs.items()
    }
    build = Emulated({name: program}, machine, (8, 8), tmp_path, plans={name: plan})
    build.run([(name, arrays, sizes)])
    assert has_bits_of(arrays["C"], expected["C"])


def test_tiles_that_cover_a_triangle() -> None:
    program = program_named("syrk")
    statement = next(s for s in program.statements if len(s.iterators) == 3)
    row, _, column = statement.iterators
    sizes = {**likely_sizes(program), "n": 1200}
    cover = tile_cover(statement, row, column, sizes)
    assert cover is not None
    assert (cover.rows, cover.columns) == (1200, 1200)
    heights, widths = np.array([400, 416, 320, 640]), np.array([400, 416, 640, 320])
    # Three turns of rows with one, two, three of columns; four with 1, 1, 2, 2; two with 2 and 4.
    assert cover.tiles(heights, widths).tolist() == [6, 6, 6, 6]
    rows = np.arange(1200)
    counted = {(i // 56, j // 24) for i in rows.tolist() for j in (*range(0, i + 1, 8), i)}
    assert cover.tiles(np.array([56]), np.array([24])).tolist() == [len(counted)]
