"""Stencils in overlapped tiles: right at ragged sizes, less DMA, refusals."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent

import pytest

from drawn import drawn
from kernels.corpus import KERNELS, SYMBOLIC, write_source
from loopwright.analysis.find_time_stencil import find_time_stencil
from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import program_of
from loopwright.ir.check import check_nest
from loopwright.ir.program import Program
from loopwright.ir.text import stmt_text
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load_mesh import load_mesh
from loopwright.planner.mesh_plans.mesh import scratchpad_room
from loopwright.planner.mesh_plans.mesh_stencils import stencil_prices
from loopwright.transform.mesh_mapping import MapToMesh
from loopwright.transform.plan import apply_plan, candidates, initial_schedule
from loopwright.transform.time_tiles import TileTime
from loopwright.validate import check_translation
from mesh.dma_bytes import dma_bytes
from programs import Do, For, program

MACHINE = load_mesh("sw26010")
SIZES = {"jacobi-2d": (5, 4), "jacobi-1d": (7,), "heat-3d": (4, 5, 4), "fdtd-2d": (4, 5)}


@cache
def source(name: str) -> Program:
    with TemporaryDirectory() as folder:
        file = write_source(KERNELS[name], Path(folder), mode=SYMBOLIC)
        (region,) = read_c(file).regions
    return program_of(region.tree, reassoc=False)


def stencil(value: str, *, target: str = "B[i]", first: str = "2", stop: str = "n - 1") -> Program:
    """A step of two statements; the second one copies."""
    arrays = {
        "A": "inout float64 [n]", "B": "inout float64 [n]", "c": "in float64 [n]",
        "p": "in float64 [m]", "q": "in float64 [n, n]",
    }  # fmt: skip
    return program(
        "stencil",
        arrays,
        For(
            "t", 0, "m",
            For("i", first, stop, Do(target, value)),
            For("j", 1, "n", Do("A[j]", "B[j]")),
        ),
        params="n m",
    )  # fmt: skip


ONE_SIDED = stencil("A[i - 2] + c[i + 1] * p[t]")


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("name", "steps"), drawn([(name, steps) for name in SIZES for steps in (1, 2)], 3)
)
def test_kernels_compute_what_they_say(name: str, steps: int) -> None:
    wanted = source(name)
    most = 6 if name == "heat-3d" else 11
    nest = lower_schedule(apply_plan(wanted, [TileTime(steps, SIZES[name], 2, 2)]))
    check_nest(nest)
    sizes = [
        {p: time if "step" in p else n + k for k, p in enumerate(wanted.params)}
        for n, time in ((0, 1), (1, 1), (3, 0), (5, 1), (most, 5))
    ]
    assert check_translation(wanted, nest, sizes) == ()


@pytest.mark.parametrize("sizes", [(1,), (4,), (16,)])
def test_borders_coefficients_and_lines(sizes: tuple[int, ...]) -> None:
    nest = lower_schedule(apply_plan(ONE_SIDED, [TileTime(3, sizes, 1, 3)]))
    known = [{"n": n, "m": m} for n, m in ((0, 2), (2, 2), (3, 1), (4, 3), (9, 8), (17, 5))]
    assert check_translation(ONE_SIDED, nest, known) == ()


def test_what_a_stencil_is_made_of() -> None:
    found = find_time_stencil(ONE_SIDED)
    assert not isinstance(found, str)
    assert (found.carried, found.made, found.fixed, found.lines) == (("A",), ("B",), ("c",), ("p",))
    growth = dict(found.boxes)
    assert (growth["A"].low, growth["A"].high) == (((0, 2),), ((0, 0),))
    assert (growth["c"].low, growth["c"].high) == (((-2, 2),), ((1, 0),))


def test_golden() -> None:
    half = program(
        "half", {"A": "inout float64 [n]"},
        For("t", 0, "m", For("i", 0, "n", Do("A[i]", "A[i] * 0.5"))),
        params="n m",
    )  # fmt: skip
    nest = lower_schedule(apply_plan(half, [TileTime(4, (8,), 1, 2)]))
    text = stmt_text(nest.body)
    start = text.index("            let first_step", text.index("let first_step") + 1)
    assert "\n" + dedent(text[start:]) + "\n" == dedent("""
        let first_step: int64 = m * (block + 1) // blocks
        let steps: int64 = m * (block + 2) // blocks - first_step
        barrier of the block
        for tile0 in range(thread.row * 16 + thread.column * 8, n, 16):
            let A_at0: int64 = max(tile0, 0)
            let A_by0: int64 = min(tile0 + 8, n) - A_at0
            alloc scratchpad A_box: float64[8] strides [1]
            copy [A_by0] to A_box[0] from A_next[A_at0]
            for step in range(steps):
                for x0 in range(max(tile0, 0), min(tile0 + 8, n)):
                    A_box[x0 - A_at0] = A_box[x0 - A_at0] * 0.5
            copy [min(n - tile0, 8)] to A[tile0] from A_box[tile0 - A_at0]
        barrier of the block
        """)


def test_a_stencil_in_the_plane_moves_a_quarter_of_what_sweeps_do() -> None:
    nest = lower_schedule(apply_plan(source("jacobi-2d"), [TileTime(4, (32, 64), 8, 8)]))
    n = 1300
    # Some is moved once, for the first and for the last step.
    more, less = (dma_bytes(nest, {"n": n, "tsteps": steps}) for steps in (24, 8))
    sweeps = 16 * 2 * 2 * n * n * 8  # both arrays, one read and one written, no borders
    assert 4 * (more - less) < sweeps


def test_tiles_are_left_where_they_do_not_pay() -> None:
    """In space the borders of a tile that fits into 64 KiB are larger than the tile."""
    room = scratchpad_room(MACHINE)
    prices = stencil_prices(source("heat-3d"), MACHINE, (8, 8), room)
    assert [None if t is None else t.stream is None for _, t in prices] == [False, None, True]


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (stencil("B[i - 1]"), "S0 reads what it writes in the same step"),
        (stencil("A[2 * i]"), "S0 reads 'A' at no constant distance"),
        (stencil("q[i, i]"), "S0 reads 'q', which is no grid"),
        (stencil("A[i]", target="B[0]"), "S0: it writes elements of 'B' several times in a step"),
        (stencil("A[i]", first="t + 1"), "S0: its iterations are no box"),
        (
            program(
                "p", {"A": "inout float64 [n]"}, For("i", 0, "n", Do("A[i]", "A[i] + 1.0"))
            ),
            "S0: it writes 'A' along no loop of its own",
        ),
    ],
)  # fmt: skip
def test_refused(wanted: Program, told: str) -> None:
    step = TileTime(2, (4,), 2, 2)
    with pytest.raises(IllegalStep) as caught:
        apply_plan(wanted, [step])
    assert str(caught.value) == f"{step}: {told}"


def test_refused_dimensions_and_marks() -> None:
    with pytest.raises(IllegalStep, match="the grids have 1 dimensions"):
        apply_plan(ONE_SIDED, [TileTime(2, (4, 4), 2, 2)])
    with pytest.raises(IllegalStep, match="the loops are mapped already"):
        apply_plan(ONE_SIDED, [MapToMesh("i", "mesh", 2, 2), TileTime(2, (4,), 2, 2)])


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ((0, (4,), 2, 2), "tile_time takes 1 to 32 steps"),
        ((2, (), 2, 2), "tile_time takes tiles of one element or more"),
        ((2, (4,), 0, 2), "tile_time takes one or more rows and columns"),
    ],
)
def test_numbers(values: tuple[int, tuple[int, ...], int, int], told: str) -> None:
    with pytest.raises(UsageError) as caught:
        TileTime(*values)
    assert told in str(caught.value)


def test_candidates() -> None:
    offered = [s for s in candidates(initial_schedule(ONE_SIDED)) if s.kind == TileTime.kind]
    assert offered == [TileTime(2, (5,), 2, 2)]
    assert not list(TileTime.candidates(initial_schedule(stencil("B[i - 1]"))))
