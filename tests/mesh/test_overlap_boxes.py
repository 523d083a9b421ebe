"""Boxes of two slots in mapped loops, and parts that stay: loops, and cores that run them."""

from __future__ import annotations

import re
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from athread.emulated import Emulated
from athread.test_generated_kernels import has_bits_of
from drawn import drawn
from kernels.build import system_compiler
from kernels.corpus import CONSTANT, KERNELS, make_inputs, reference, write_source
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import program_of
from loopwright.ir.loops import Copy, For, If, Wait
from loopwright.ir.program import Program
from loopwright.ir.text import nest_text
from loopwright.ir.visit import statements
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load_mesh import load_mesh
from loopwright.planner.mesh_plans.mesh import mesh_planner, scratchpad_bytes, scratchpad_room
from loopwright.runtime.athread_emulator.athread_run import AthreadFault
from loopwright.transform.mesh_mapping import MapToMesh
from loopwright.transform.plan import apply_plan
from loopwright.transform.stage_box import StageBox
from loopwright.transform.tiling import Tile
from loopwright.validate import check_translation
from programs import Do, program
from programs import For as Loop

MACHINE = load_mesh("sw26010")
# Several turns of both mapped loops; tiles and windows at the ends are ragged.
EXTENTS = {"nr": 19, "nq": 37, "np": 70}


@cache
def doitgen() -> Program:
    with tempfile.TemporaryDirectory() as folder:
        source = write_source(KERNELS["doitgen"], Path(folder), mode=CONSTANT, extents=EXTENTS)
        (region,) = read_c(source).regions
        return program_of(region.tree, reassoc=False)


SCALED = program(
    "scaled", {"A": "inout float64 [n, m, 4]"},
    Loop("i", 0, "n", Loop("j", 0, "m", Loop("k", 0, 4, Do("A[i, j, k]", "2 * A[i, j, k]")))),
    params="n m",
)  # fmt: skip
SCALED_STEPS = (
    Tile(("i", "j"), (2, 3)),
    MapToMesh("i_t", "row", 2, 2),
    MapToMesh("j_t", "column", 2, 2),
    StageBox("A", "j_t", (), 2),
)


def test_turns_of_two_loops_are_one_row_of_turns() -> None:
    nest = lower_schedule(apply_plan(SCALED, SCALED_STEPS))
    sizes = [{"n": n, "m": m} for n in (0, 1, 5, 9) for m in (0, 1, 13)]
    assert check_translation(SCALED, nest, sizes) == ()
    moved = [s for s in statements(nest.body) if isinstance(s, Copy)]
    assert all(copy.is_async for copy in moved)
    assert {copy.target for copy in moved} == {"A", "A_box"}
    told = nest_text(nest)
    assert "let A_box_slot" in told
    assert told.rstrip().endswith("wait")  # what was put last


def test_rows_and_parts() -> None:
    """Whole rows have two slots, and each core has its part of C from the first tile on."""
    _, schedule = mesh_planner(doitgen(), MACHINE)
    boxes = {(box.array, len(box.accesses)): box for box in schedule.boxes}
    assert boxes["A", 2].buffers == 2
    panel = boxes["C", 1].panel
    assert panel is not None
    assert (panel.parts, panel.buffers, panel.memory) == (64, 1, (2, 70))
    assert scratchpad_bytes(schedule) <= scratchpad_room(MACHINE)
    nest = lower_schedule(schedule)
    (part,) = (s for s in statements(nest.body) if isinstance(s, Copy) and s.source == "C")
    assert not part.is_async
    assert not any(
        part in statements(s) for s in statements(nest.body) if isinstance(s, For)
        and not s.var.startswith("thread.")
    )  # fmt: skip
    half = [s for s in statements(nest.body) if isinstance(s, If) and "_half" in str(s.cond)]
    assert len(half) == 1
    assert any(isinstance(s, Wait) for s in statements(half[0].body))


@cache
def _expected() -> tuple[dict[str, Any], dict[str, Any]]:
    kernel = KERNELS["doitgen"]
    inputs = make_inputs(kernel, EXTENTS)
    found = reference(kernel, inputs)
    assert found is not None
    return inputs, found


def _arrays() -> dict[str, Any]:
    inputs, _ = _expected()
    return {k: v.copy() if isinstance(v, np.ndarray) else np.array(v) for k, v in inputs.items()}


@pytest.mark.skipif(system_compiler() is None, reason="there is no C compiler")
@pytest.mark.parametrize("machine", drawn(["sw26010", "sw26010pro"], 2))
def test_rows_come_and_go_on_the_emulator(machine: str, tmp_path: Path) -> None:
    build = Emulated({"doitgen": doitgen()}, load_mesh(machine), (8, 8), tmp_path)
    arrays = _arrays()
    build.run([("doitgen", arrays, EXTENTS)])
    for array, right in _expected()[1].items():
        assert has_bits_of(arrays[array], right), array


@pytest.mark.skipif(system_compiler() is None, reason="there is no C compiler")
def test_rows_that_have_not_gone_are_seen(tmp_path: Path) -> None:
    """Without the wait in the middle of a turn rows come to the place of those that go."""

    def edit(name: str, text: str) -> str:
        if not name.endswith("_slave.c"):
            return text
        changed, count = re.subn(r"(s_t == s_t_half\) \{\n) *lw_wait_ahead\(\);\n", r"\1", text)
        assert count == 1
        return changed

    build = Emulated({"doitgen": doitgen()}, MACHINE, (8, 8), tmp_path, edit=edit)
    with pytest.raises(
        AthreadFault, match=r"the source of the athread_put of .*, before it is done"
    ):
        build.run([("doitgen", _arrays(), EXTENTS)])
