"""Sums of columns that go from core to core, as generated Athread code on the emulator.

Results are those of plain C, bit by bit. Changes of the code are found.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from athread.emulated import Emulated, Job
from athread.kernel_runs import has_bits_of
from athread.test_generated_kernels import machine_of
from athread.test_generated_passes import calls, program_named
from drawn import HUNTS, combined
from loopwright.ir.loops import MeshMessage
from loopwright.ir.program import Program
from loopwright.ir.visit import statements
from loopwright.runtime.athread_emulator.athread_run import AthreadFault
from loopwright.transform.hand_on import HandOn
from loopwright.transform.plan import Plan
from loopwright.transform.stage_box import StageBox
from loopwright.transform.tiling import Tile
from mesh.test_hand_on import both_ways
from needed_tools import needs_compiler
from programs import Do, For, program

pytestmark = needs_compiler

NAMES = ("mvt", "atax", "bicg")
SHAPES = ((8, 8), (4, 8), (2, 8))
WIDTH = 45


def has_messages(build: Emulated, name: str) -> bool:
    return any(isinstance(stmt, MeshMessage) for stmt in statements(build.nests[name].body))


@pytest.mark.parametrize(
    ("name", "machine", "shape", "is_constant"),
    combined(NAMES, ("sw26010", "small"), SHAPES, (True, False), one_in=1 if HUNTS else 9),
)
def test_kernels_in_the_order_of_the_source(
    name: str, machine: str, shape: tuple[int, int], is_constant: bool, tmp_path: Path
) -> None:
    wanted = program_named(name, is_constant=is_constant, reassoc=False)
    build = Emulated({name: wanted}, machine_of(machine), shape, tmp_path)
    if machine == "sw26010" and is_constant and shape == (8, 8):
        assert has_messages(build, name)
    some = calls(name, is_constant=is_constant, is_exact=False)
    build.run([job for job, _ in some], seed=3)
    for (_, arrays, sizes), expected in some:
        for array, right in expected.items():
            assert has_bits_of(arrays[array], right), f"{array} at {sizes}"


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("machine", "rows", "width"), [("small", 300, 1000), ("sw26010", 200, 3600)]
)
def test_rows_in_blocks_of_columns(machine: str, rows: int, width: int, tmp_path: Path) -> None:
    build = Emulated({"both": both_ways(rows, width)}, machine_of(machine), (8, 8), tmp_path)
    assert has_messages(build, "both")
    n, m = 75, width - 7
    random = np.random.default_rng(3)
    shapes = {"A": (rows, width), "x": (width,), "r": (rows,), "q": (rows,), "s": (width,)}
    arrays = {name: random.standard_normal(shape) for name, shape in shapes.items()}
    q, s = arrays["q"].copy(), arrays["s"].copy()
    for j in range(m):
        q[:n] += arrays["A"][:n, j] * arrays["x"][j]
    for i in range(n):
        s[:m] += arrays["A"][i, :m] * arrays["r"][i]
    build.run([("both", arrays, {"n": n, "m": m})])
    assert has_bits_of(arrays["q"], q)
    assert has_bits_of(arrays["s"], s)


# -- plans by hand --------------------------------------------------------------------------------


def columns(dtype: str) -> Program:
    arrays = {
        "A": f"in {dtype} [n, {WIDTH}]", "x": f"in {dtype} [n]", "y": f"inout {dtype} [{WIDTH}]",
    }  # fmt: skip
    body = For("i", 0, "n", For("j", 0, "m", Do("y[j]", "y[j] + A[i, j] * x[i]")))
    return program("columns", arrays, body, params="n m")


def plan(rows: int, columns: int, strip: int, part: int) -> Plan:
    return Plan(
        (
            Tile(("i", "j"), (strip, part)),
            HandOn("i_t", ("y",), ("j_t",), rows, columns),
            StageBox("A", "i_t", (), 1), StageBox("x", "i_t", (), 1), StageBox("y", "j_t", (), 1),
        )
    )  # fmt: skip


def job(dtype: str, n: int, m: int) -> tuple[Job, Any]:
    """A call, and the sums in the order of rows."""
    random = np.random.default_rng(n)
    matrix = random.standard_normal((n, WIDTH)).astype(dtype)
    x, y = random.standard_normal(n).astype(dtype), random.standard_normal(WIDTH).astype(dtype)
    right = y.copy()
    for row, factor in zip(matrix, x, strict=True):
        right[:m] += row[:m] * factor
    return ("columns", {"A": matrix, "x": x, "y": y}, {"n": n, "m": m}), right


@pytest.mark.parametrize(
    ("dtype", "shape", "strip", "part"),
    combined(
        ["float64", "float32"], [(8, 8), (2, 8), (6, 8), (1, 8), (1, 5)], [1, 3], [12, 45, 17],
        one_in=1 if HUNTS else 12,
    ),
)  # fmt: skip
def test_plans_by_hand(
    dtype: str, shape: tuple[int, int], strip: int, part: int, tmp_path: Path
) -> None:
    given = {"columns": plan(*shape, strip, part)}
    build = Emulated(
        {"columns": columns(dtype)}, machine_of("sw26010"), shape, tmp_path, plans=given
    )
    some = [job(dtype, n, m) for n, m in ((0, 4), (1, 45), (2, 1), (7, 44), (66, 45), (150, 30))]
    build.run([one for one, _ in some], seed=strip)
    for (_, arrays, sizes), right in some:
        assert has_bits_of(arrays["y"], right), str(sizes)


BUGS = {
    "nobody takes": (
        "lw_take_over(&y_box[0]", "(void)(&y_box[0]", "wait to send a message that nobody takes",
    ),
    "nobody sends": (
        "lw_hand_on(&y_box[0]", "(void)(&y_box[0]", "wait for a message that nobody sends",
    ),
    "everybody gets": (
        "if (i_t == 0) {", "if (i_t >= 0) {", "wait to send a message that nobody takes",
    ),
    "everybody puts": (
        "if (i_t == ", "if (i_t >= 0 || i_t == ", "put itself at .*with no barrier between",
    ),
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
def test_changes_are_found(bug: str, tmp_path: Path) -> None:
    old, new, told = BUGS[bug]

    def edit(file: str, text: str) -> str:
        if file != "programs_slave.c":
            return text
        assert old in text
        head, tail = text.split("for (long j_t", 1)
        return f"{head}for (long j_t{tail.replace(old, new)}"

    build = Emulated(
        {"columns": columns("float64")}, machine_of("sw26010"), (1, 8), tmp_path,
        plans={"columns": plan(1, 8, 2, 12)}, edit=edit,
    )  # fmt: skip
    one, _ = job("float64", 50, 45)
    with pytest.raises(AthreadFault, match=told) as error:
        build.run([one])
    assert "programs_slave.c" in str(error.value)
