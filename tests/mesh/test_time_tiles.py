"""Stencils in overlapped tiles: right at ragged sizes, less DMA, refusals."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent

import pytest

from drawn import drawn
from kernels.corpus import KERNELS, SYMBOLIC, write_source
from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import program_of
from loopwright.ir.check import check_nest
from loopwright.ir.program import Program
from loopwright.ir.text import stmt_text
from loopwright.lower.passes import lower_schedule
from loopwright.transform.plan import apply_plan
from loopwright.transform.time_tiles import TileTime
from loopwright.validate import check_translation
from programs import Do, For, program

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
