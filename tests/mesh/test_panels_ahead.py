"""First panels of a turn that come during the turn before: where, and in which slot."""

from __future__ import annotations

import re

import pytest

from athread.kernel_runs import choose_tiles
from athread.test_generated_kernels import program_named
from athread.test_tiled_kernels import program_of_extents
from loopwright.ir.loops import Alloc, Copy, For, LoopNest, Space
from loopwright.ir.text import nest_text
from loopwright.ir.visit import statements
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load_mesh import load_mesh
from loopwright.planner.mesh_plans.mesh import mesh_planner

SW = load_mesh("sw26010")


def lowered(
    name: str, monkeypatch: pytest.MonkeyPatch, extents: dict[str, int] | None = None
) -> LoopNest:
    """A kernel in small tiles."""
    choose_tiles(((8, 8, 16), 8, (0, 0)), monkeypatch)
    program = program_of_extents(name, **extents) if extents else program_named(name)
    return lower_schedule(mesh_planner(program, SW)[1])


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
