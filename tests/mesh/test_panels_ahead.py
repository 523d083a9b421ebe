"""First panels of a turn that come during the turn before: where, in which slot, and results."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from athread.emulated import Emulated
from athread.test_generated_kernels import has_bits_of, program_named
from drawn import combined, drawn
from kernels.build import system_compiler
from kernels.corpus import CONSTANT, KERNELS, make_inputs, reference, write_source
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import program_of
from loopwright.ir.loops import Alloc, Copy, For, LoopNest, Space
from loopwright.ir.program import Program
from loopwright.ir.text import nest_text
from loopwright.ir.visit import statements
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load_mesh import load_mesh
from loopwright.planner.mesh_plans import tiled_nests
from loopwright.planner.mesh_plans.mesh import mesh_planner
from loopwright.planner.mesh_plans.mesh_tiles import TiledLoop, TileSizes
from loopwright.runtime.athread_emulator.athread_run import AthreadFault
from loopwright.transform.plan import Plan, apply_plan

SW = load_mesh("sw26010")
TILES = {"gemm": (8, 8, 16), "syrk": (8, 8, 16), "syr2k": (8, 8, 16), "trmm": (8, 8, 16)}
# Several turns of both loops; of panels an even number, an odd one, one, and none.
SIZES = {
    "gemm": [{"ni": 70, "nj": 130, "nk": nk} for nk in (50, 37, 9, 0)],
    "syrk": [{"n": 140, "m": m} for m in (20, 40, 9, 0)] + [{"n": 0, "m": 20}],
    "syr2k": [{"n": 130, "m": m} for m in (32, 33)],
}
ROWS = [{"m": 120, "n": 64}, {"m": 140, "n": 64}]  # of trmm: 8 panels, and 9
needs_compiler = pytest.mark.skipif(system_compiler() is None, reason="there is no C compiler")


@cache
def program_of_extents(name: str, **extents: int) -> Program:
    """A kernel whose arrays have these extents."""
    with tempfile.TemporaryDirectory() as folder:
        source = write_source(KERNELS[name], Path(folder), mode=CONSTANT, extents=extents)
        (region,) = read_c(source).regions
        return program_of(region.tree, reassoc=False)


def planned(
    name: str, monkeypatch: pytest.MonkeyPatch, extents: Mapping[str, int] | None = None
) -> tuple[Program, Plan]:
    """A kernel in small tiles."""

    def chosen(loops: Sequence[TiledLoop], *_: object) -> TileSizes | None:
        if len(loops) < 3:
            return None
        names = [loop.name for loop in loops]
        return TileSizes(dict(zip(names, TILES[name], strict=True)), {names[2]: 8}, 1.0)

    monkeypatch.setattr(tiled_nests, "product_sizes", chosen)
    program = program_of_extents(name, **extents) if extents else program_named(name)
    plan, _ = mesh_planner(program, SW)
    return program, plan


def lowered(
    name: str, monkeypatch: pytest.MonkeyPatch, extents: Mapping[str, int] | None = None
) -> LoopNest:
    program, plan = planned(name, monkeypatch, extents)
    return lower_schedule(apply_plan(program, plan.steps))


def part_before_turns(nest: LoopNest) -> bool:
    """Whether parts of panels have memory outside of the loops of turns."""
    turns = [s for s in statements(nest.body) if isinstance(s, For) and s.var.endswith("_all")]
    inside = {
        s.buffer.name
        for turn in turns
        for s in statements(turn)
        if isinstance(s, Alloc) and s.buffer.space is Space.SCRATCHPAD
    }
    parts = {s.target for s in statements(nest.body) if isinstance(s, Copy) and s.is_async}
    return bool(parts) and not parts & inside


def test_slots_go_on_from_turn_to_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    nest = lowered("gemm", monkeypatch)
    assert part_before_turns(nest)
    told = nest_text(nest)
    (slot,) = re.findall(r"let A_part_slot: int64 = (.*)", told)
    assert "i_t_all // 64" in slot
    assert "j_t_all // 64" in slot
    assert slot.endswith("% 2")
    # The first panels of all, the next ones, and the first ones of the next turn.
    assert len(re.findall(r"async copy .* to A_part\[", told)) == 3
    assert "async copy" not in told[told.index("for j_t_all") : told.index("for k_t")]


def test_turns_of_a_triangle_are_not_numbered(monkeypatch: pytest.MonkeyPatch) -> None:
    nest = lowered("syrk", monkeypatch)
    assert part_before_turns(nest)
    told = nest_text(nest)
    assert re.findall(r"let A_part_slot: int64 = (.*)", told) == ["k_t // 16 % 2"]
    # Of an odd number of panels the first one comes as before.
    assert len(re.findall(r"async copy .* to A_part\[", told)) == 4
    assert "async copy" in told[told.index("for j_t_all") : told.index("for k_t")]


def test_panels_that_begin_with_their_turn_come_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """B is put at the end of each turn, and nobody puts what later turns have in panels."""
    told = nest_text(lowered("trmm", monkeypatch, ROWS[0]))
    assert len(re.findall(r"async copy .* to B_old_part\[", told)) == 4
    assert "(max(m, 0) + 15) // 16 % 2 == 0" in told


def test_panels_with_elements_of_other_turns_come_as_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With several turns of columns the last panel begins in the columns of the one before."""
    assert not part_before_turns(lowered("trmm", monkeypatch))


def test_an_odd_number_of_panels_in_a_turn_comes_as_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With turns of 64 rows and panels of 64 steps slots would not begin anew."""
    monkeypatch.setitem(TILES, "trmm", (8, 8, 64))
    assert not part_before_turns(lowered("trmm", monkeypatch, ROWS[0]))


@needs_compiler
@pytest.mark.parametrize(("name", "machine"), combined(SIZES, ["sw26010", "sw26010pro"], one_in=4))
def test_results_to_the_bit(
    name: str, machine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, plan = planned(name, monkeypatch)
    calls = []
    rights = []
    for sizes in SIZES[name]:
        inputs = make_inputs(KERNELS[name], sizes)
        rights.append(reference(KERNELS[name], inputs))
        arrays = {
            key: value.copy() if isinstance(value, np.ndarray) else np.array(value)
            for key, value in inputs.items()
        }
        calls.append((name, arrays, sizes))
    build = Emulated({name: program}, load_mesh(machine), (8, 8), tmp_path, plans={name: plan})
    build.run(calls)
    for (_, arrays, sizes), right in zip(calls, rights, strict=True):
        assert right is not None
        assert all(has_bits_of(arrays[key], value) for key, value in right.items()), sizes


@needs_compiler
@pytest.mark.drawn(2)
@pytest.mark.parametrize("machine", drawn(["sw26010", "sw26010pro"], 2))
@pytest.mark.parametrize("sizes", drawn(ROWS, 1))
def test_rows_that_are_read_before_they_are_put(
    sizes: dict[str, int], machine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, plan = planned("trmm", monkeypatch, sizes)
    inputs = make_inputs(KERNELS["trmm"], sizes)
    right = reference(KERNELS["trmm"], inputs)
    assert right is not None
    arrays = {
        key: value.copy() if isinstance(value, np.ndarray) else np.array(value)
        for key, value in inputs.items()
    }
    build = Emulated({"trmm": program}, load_mesh(machine), (8, 8), tmp_path, plans={"trmm": plan})
    build.run([("trmm", arrays, sizes)])
    assert has_bits_of(arrays["B"], right["B"])


@needs_compiler
def test_a_panel_in_the_slot_that_is_used_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def edit(path: str, text: str) -> str:
        if not path.endswith("_slave.c"):
            return text
        at = text.index("_next = ")
        return text[:at] + text[at:].replace("(1 - A_part_slot)", "A_part_slot", 1)

    program, plan = planned("gemm", monkeypatch)
    build = Emulated({"gemm": program}, SW, (8, 8), tmp_path, plans={"gemm": plan}, edit=edit)
    sizes = SIZES["gemm"][1]
    arrays = {
        key: value.copy() if isinstance(value, np.ndarray) else np.array(value)
        for key, value in make_inputs(KERNELS["gemm"], sizes).items()
    }
    with pytest.raises(AthreadFault, match="under transfer by"):
        build.run([("gemm", arrays, sizes)], seed=1)
