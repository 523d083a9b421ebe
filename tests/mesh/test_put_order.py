"""What a core has put, it gets again only behind a barrier of its requests or one of all cores.

The interpreter runs nests of cores; here it also keeps, for each core, the elements of main memory
that the core has put since it last met others.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from drawn import drawn
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import program_of
from loopwright.ir import interpret_nest as interpreter
from loopwright.ir.loops import Copy, LoopNest, Stmt
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.ir.visit import rebuild
from loopwright.lower.mesh_nests import put_order
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load_mesh import load_mesh
from loopwright.planner.mesh_plans.mesh import mesh_planner
from loopwright.transform.mesh_mapping import MapToMesh
from loopwright.transform.plan import apply_plan
from loopwright.transform.stage_box import StageBox
from loopwright.transform.step import Step
from loopwright.transform.tiling import StripMine
from loopwright.validate import check_translation
from loopwright.validate.problem_sizes import pick_sizes
from programs import Do, For, program

FOLDER = Path(__file__).parent.parent / "kernels"
MACHINE = load_mesh("sw26010")
# Small arrays have several tiles in so small a scratchpad.
SMALL = replace(MACHINE, rows=2, columns=2, scratchpad_bytes=8192)
NAMES = (
    "nasty_branches", "ludcmp", "lu", "cholesky", "durbin", "gramschmidt", "trisolv", "adi",
    "trmm", "symm", "correlation",
)  # fmt: skip


@dataclass
class Order:
    """The puts of cores that may be under way, and what was read of them too early."""

    puts: dict[object, set[tuple[int, tuple[int, ...]]]] = field(default_factory=dict)
    early: list[str] = field(default_factory=list)
    held: dict[int, object] = field(default_factory=dict)  # memory, so that no other has its id

    def moved(self, stmt: Copy, frame: Any, machine: Any) -> None:
        """A copy is about to run."""
        target, source = frame.buffer(stmt.target), frame.buffer(stmt.source)
        if target.is_shared == source.is_shared:
            return
        start = stmt.target_start if target.is_shared else stmt.source_start
        first = machine.integers(start, frame)
        shape = machine.integers(stmt.shape, frame)
        cells = target if target.is_shared else source
        self.held[id(cells)] = cells
        places = {
            (id(cells), tuple(a + b for a, b in zip(first, offset, strict=True)))
            for offset in interpreter.itertools.product(*map(range, shape))
        }
        mine = self.puts.setdefault(frame.turns(), set())
        if target.is_shared:
            if not stmt.lands:
                mine |= places
            return
        if stmt.after_puts:
            mine.clear()
        elif mine & places:
            self.early.append(f"{stmt.target} = {stmt.source}{list(first)}")

    def loaded(self, array: str, index: tuple[int, ...], frame: Any) -> None:
        """An element is about to be read."""
        cells = frame.buffer(array)
        if cells.is_shared and (id(cells), index) in self.puts.get(frame.turns(), ()):
            self.early.append(f"{array}{list(index)} directly")


@contextmanager
def observed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Order]:
    order = Order()
    copy, load = interpreter._Machine.copy, interpreter._Frame.load

    def watched_copy(self: Any, stmt: Copy, frame: Any) -> None:
        order.moved(stmt, frame, self)
        copy(self, stmt, frame)

    def watched_load(self: Any, array: str, index: tuple[int, ...]) -> Any:
        order.loaded(array, index, self)
        return load(self, array, index)

    with monkeypatch.context() as patched:
        patched.setattr(interpreter._Machine, "copy", watched_copy)
        patched.setattr(interpreter._Frame, "load", watched_load)
        yield order


@cache
def source(name: str) -> Program:
    (region,) = read_c(FOLDER / f"{name}.c").regions
    return program_of(region.tree, reassoc=False)


@cache
def planned(name: str) -> Schedule:
    return mesh_planner(source(name), SMALL)[1]


@cache
def lowered(name: str) -> LoopNest:
    return lower_schedule(planned(name))


def run(wanted: Program, nest: LoopNest, monkeypatch: pytest.MonkeyPatch) -> Order:
    sizes = pick_sizes(wanted, values=(1, 5, 13), most=1_500, count=2, seed=3)
    with observed(monkeypatch) as order:
        assert check_translation(wanted, nest, sizes) == ()
    return order


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", drawn(NAMES, 7))
def test_gets_come_after_puts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(source(name), lowered(name), monkeypatch).early == []


# Every step of t brings in the boxes that the last one has put.
AGAIN = program(
    "again",
    {"A": "inout float64 [n, n]", "B": "in float64 [n, n]"},
    For("i", 0, "n", For("t", 0, "n", For("j", 0, "n", Do("A[i, j]", "A[i, j] + B[t, j]")))),
)
BOXES: tuple[Step, ...] = (
    StripMine("i", 2), MapToMesh("i_t", "mesh", 2, 2), StripMine("j", 4),
    StageBox("A", "j_t", (), 1), StageBox("B", "j_t", (), 1),
)  # fmt: skip


def test_gets_without_a_barrier_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(stmt: Stmt) -> Stmt:
        return replace(stmt, after_puts=False) if isinstance(stmt, Copy) else stmt

    nest = lower_schedule(apply_plan(AGAIN, BOXES))
    assert run(AGAIN, nest, monkeypatch).early == []
    bare = replace(nest, body=rebuild(nest.body, without))
    assert run(AGAIN, bare, monkeypatch).early != []


def test_one_box_of_a_mapped_iteration_needs_no_barrier(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is brought in before it is put back, whatever isl can do with its pieces.

    All boxes of nasty_branches are of mapped loops, b of j_5 in many pieces.
    """
    schedule = planned("nasty_branches")
    assert any(box.is_put_back and box.is_brought_in for box in schedule.boxes)
    monkeypatch.setattr(put_order, "_QUOTA", 1)
    late = [box for box in schedule.boxes if put_order.comes_after_puts(schedule, box)]
    assert late == []
