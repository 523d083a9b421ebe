"""Products on the emulator under tiles of every kind: bits of plain C, and changes are found."""

from __future__ import annotations

import re
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from athread.kernel_runs import Tiles, choose_tiles, require_bits
from athread.test_generated_kernels import program_named
from drawn import HUNTS, combined
from kernels.corpus import CONSTANT, KERNELS, write_source
from loopwright.analysis.size_estimates import likely_sizes
from loopwright.backends.athread import athread_module
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import program_of
from loopwright.ir.loops import Alloc, MeshBroadcast, Space
from loopwright.ir.program import Program
from loopwright.ir.visit import statements
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load_mesh import load_mesh
from loopwright.planner.mesh_plans.mesh import mesh_planner
from loopwright.planner.mesh_plans.mesh_cover import tile_cover
from loopwright.runtime.athread_emulator.athread_run import AthreadFault
from needed_tools import needs_compiler

SW = load_mesh("sw26010")
MACHINES = ("sw26010", "sw26010pro")
GEMM = [{"ni": 70, "nj": 171, "nk": 37}]
CHAINS = {"ni": 41, "nj": 37, "nk": 50, "nl": 45}
NONE = (0, 0)
# Kernel, tiles with windows of steps and strips of rows or columns, sizes that none divides.
CASES: dict[str, tuple[str, Tiles, list[dict[str, int]]]] = {
    # Several turns of both loops; of panels an even number, an odd one, one, and none.
    "panels ahead": (
        "gemm", ((8, 8, 16), 8, NONE), [{"ni": 70, "nj": 130, "nk": k} for k in (50, 37, 9, 0)]
    ),
    "windows, strips of columns": ("gemm", ((12, 40, 16), 8, (0, 16)), GEMM),
    "windows, strips of rows": ("gemm", ((20, 16, 16), 8, (8, 0)), GEMM),
    "strips of columns": ("gemm", ((8, 20, 16), 16, (0, 16)), GEMM),
    "rows by fours, two and one": ("gemm", ((11, 20, 16), 8, (0, 16)), GEMM),
    "ahead in a triangle": (
        "syrk", ((8, 8, 16), 8, NONE),
        [*({"n": 140, "m": m} for m in (20, 40, 9, 0)), {"n": 0, "m": 20}],
    ),
    "two sides ahead": ("syr2k", ((8, 8, 16), 8, NONE), [{"n": 130, "m": m} for m in (32, 33)]),
    # Parts of 4 rows, transposed by the core that brings them in.
    "transposed": ("syrk", ((8, 8, 24), 12, NONE), [{"n": 6, "m": 5}, {"n": 91, "m": 37}]),
    "transposed, long": ("syrk", ((8, 40, 32), 16, NONE), [{"n": 150, "m": 61}]),
    "transposed, high": ("syrk", ((20, 12, 16), 8, NONE), [{"n": 150, "m": 61}]),
    "two transposed": ("syr2k", ((8, 12, 16), 8, NONE), [{"n": 83, "m": 29}]),
    # All of the scratchpad but what arguments and the stack of one product need.
    "one after another": ("2mm", ((38, 140, 16), 16, (0, 48)), [CHAINS]),
    "three in turn": ("3mm", ((38, 140, 16), 16, (0, 48)), [CHAINS | {"nm": 26}]),
}  # fmt: skip


@cache
def program_of_extents(name: str, **extents: int) -> Program:
    """A kernel whose arrays have these extents."""
    with tempfile.TemporaryDirectory() as folder:
        source = write_source(KERNELS[name], Path(folder), mode=CONSTANT, extents=extents)
        (region,) = read_c(source).regions
        return program_of(region.tree, reassoc=False)


@needs_compiler
@pytest.mark.parametrize(("case", "machine"), combined(CASES, MACHINES, one_in=1 if HUNTS else 5))
def test_bits_of_plain_c(
    case: str, machine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, tiles, sizes = CASES[case]
    choose_tiles(tiles, monkeypatch)
    program = program_named(name)
    plan, schedule = mesh_planner(program, load_mesh(machine))
    assert any(box.panel is not None for box in schedule.boxes)
    assert ("tile_within" in {step.kind for step in plan}) == any(tiles[2])
    if case.startswith(("transposed", "two transposed")):
        everything = list(statements(lower_schedule(schedule).body))
        gives = [s for s in everything if isinstance(s, MeshBroadcast) and s.source == s.target]
        assert len({s.target for s in gives}) == (1 if name == "syrk" else 2)
        near = [s.buffer for s in everything if isinstance(s, Alloc)]
        assert not any(
            b.name.startswith("factor") for b in near if b.space is Space.SCRATCHPAD
        )  # nothing is written down again
    require_bits(name, program, load_mesh(machine), sizes, tmp_path, plan=plan)


ROWS = [{"m": 120, "n": 64}, {"m": 140, "n": 64}]  # of trmm: 8 panels, and 9


@needs_compiler
@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("name", "machine", "sizes"),
    [
        ("trmm", "sw26010", ROWS[0]),  # rows that are read before they are put
        ("trmm", "sw26010pro", ROWS[1]),
        # Several turns of both mapped loops; tiles and windows at the ends are ragged.
        ("doitgen", "sw26010", {"nr": 19, "nq": 37, "np": 70}),
        ("doitgen", "sw26010pro", {"nr": 16, "nq": 17, "np": 18}),
    ],
)
def test_bits_of_constant_extents(
    name: str,
    machine: str,
    sizes: dict[str, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if name == "trmm":
        choose_tiles(((8, 8, 16), 8, NONE), monkeypatch)
    program = program_of_extents(name, **sizes)
    plan, _ = mesh_planner(program, SW)
    given = plan if name == "trmm" else None
    require_bits(name, program, load_mesh(machine), [sizes], tmp_path, plan=given)


# Kernel, case or extents, text that is replaced (a regular expression), by what, what is told.
BUGS = {
    "parts are used before they are there": (
        "windows, strips of columns", r"lw_wait_ahead\(\);\n", "\n", "under transfer by",
    ),
    "a core that does not give": (
        "windows, strips of columns", r"lw_give_row\(&", "if (lw_column != 3) lw_give_row(&",
        "no CPE can go on",
    ),
    "a panel in the slot that is used": (
        "panels ahead", r"(_next = [^;]*;(?:.|\n)*?)\(1 - A_part_slot\)", r"\1A_part_slot",
        "under transfer by",
    ),
    # Without the wait in the middle of a turn rows come to the place of those that go.
    "rows that have not gone": (
        "doitgen", r"(s_t == s_t_half\) \{\n) *lw_wait_ahead\(\);\n", r"\1",
        "the source of the athread_put of .*, before it is done",
    ),
}  # fmt: skip


@needs_compiler
@pytest.mark.parametrize("bug", BUGS)
def test_changes_are_found(bug: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case, old, new, told = BUGS[bug]
    found: list[str] = []

    def changed(path: str, text: str) -> str:
        if not path.endswith("_slave.c"):
            return text
        edited, count = re.subn(old, new, text, count=1)
        found.extend([path] * count)
        return edited

    if case == "doitgen":
        name, sizes = "doitgen", {"nr": 19, "nq": 37, "np": 70}
        program, plan = program_of_extents(name, **sizes), None
    else:
        name, tiles, (*_, sizes) = CASES[case]
        sizes = CASES[case][2][1] if case == "panels ahead" else sizes
        choose_tiles(tiles, monkeypatch)
        program = program_named(name)
        plan, _ = mesh_planner(program, SW)
    with pytest.raises(AthreadFault, match=told):
        require_bits(name, program, SW, [sizes], tmp_path, plan=plan, edit=changed, seed=1)
    assert found


@pytest.mark.only_in_all("what phases prevent; `one after another` watches that they do")
@needs_compiler
def test_in_one_function_stacks_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(athread_module, "phases_apart", lambda _: ())
    name, tiles, sizes = CASES["three in turn"]
    choose_tiles(tiles, monkeypatch)
    plan, _ = mesh_planner(program_named(name), SW)
    with pytest.raises(AthreadFault, match="LDM"):
        require_bits(name, program_named(name), SW, sizes, tmp_path, plan=plan)


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
