"""Registers of a GPU's threads as a parameter: a cap, and privatisation switched off."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import loopwright as lw
from gpu.shim.cuda_shim import has_compiler, run_program
from loopwright import cli
from loopwright.backends.c_text.c_dialect import CUDA
from loopwright.backends.device_text.device_module import emit_kernels
from loopwright.diagnostics import UsageError
from loopwright.ir.device import DeviceProgram
from loopwright.ir.grid_kernel import GridKernel
from loopwright.lower.grid_nests.grid_product import lower_grid_product
from loopwright.lower.grid_nests.split_kernels import split_kernels
from loopwright.machines.load_gpu import load_gpu
from loopwright.planner.grid_plans.gpu import gpu_planner
from loopwright.planner.grid_plans.grid_products import choose_grid
from loopwright.transform.blocked_closure import MapClosure
from loopwright.transform.map_contraction import MapContraction
from loopwright.transform.plan import Plan
from loopwright.transform.register_limits import CapRegisters, KeepInMemory
from planner.test_grid_products import algebra, product

PATHS = b"""void paths(int n, float a[n][n]) {
#pragma scop
for (int k = 0; k < n; k++) for (int i = 0; i < n; i++) for (int j = 0; j < n; j++)
  a[i][j] = a[i][j] < a[i][k] + a[k][j] ? a[i][j] : a[i][k] + a[k][j];
#pragma endscop
}
"""
PRODUCT = b"""void product(int n, double C[n][n], double A[n][n], double B[n][n]) {
#pragma scop
for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) for (int k = 0; k < n; k++)
  C[i][j] += A[i][k] * B[k][j];
#pragma endscop
}
"""
SWEEP = b"""void sweep(int n, double y[n], double A[n][n], double x[n]) {
#pragma scop
for (int i = 0; i < n; i++) for (int j = 0; j < n; j++)
  y[i] += A[i][j] * x[j];
#pragma endscop
}
"""
SOURCES = {"product": PRODUCT, "paths": PATHS, "sweep": SWEEP}
SM_90 = load_gpu("sm_90")


def compiled(name: str, **more: object) -> lw.calls.c_function.CFunction:
    return lw.compile(SOURCES[name], "cuda", machine="sm_90", reassoc=True, **more)[name]


def kernels(name: str, *, reassoc: bool = True, **more: object) -> tuple[DeviceProgram, str, Plan]:
    """The kernels of a source as data and as text, and the plan."""
    (program,) = lw.parse_c(SOURCES[name], reassoc=reassoc)
    code = lw.compile(program, "cuda", machine="sm_90", **more)
    found = code._code  # type: ignore[attr-defined]
    return found.device, found.module.text, code.plan


def arrays(name: str, n: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(n)
    if name == "paths":
        return {"a": random.integers(1, 90, (n, n)).astype(np.float32)}
    shapes = {"product": {"C": 2, "A": 2, "B": 2}, "sweep": {"y": 1, "A": 2, "x": 1}}[name]
    return {x: random.integers(0, 9, (n,) * rank).astype(float) for x, rank in shapes.items()}


@pytest.mark.skipif(not has_compiler(), reason="there is no C++ compiler")
@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", SOURCES)
def test_results_without_privatisation_are_equal(name: str) -> None:
    n = 70 if name == "paths" else 37  # of paths more than a panel
    results = []
    for privatize in (True, False):
        device, text, _ = kernels(name, privatize=privatize)
        given = arrays(name, n)
        run_program(device, text, given, {"n": n})
        results.append(given)
    for array, found in results[0].items():
        np.testing.assert_array_equal(found, results[1][array])


def test_everything_but_registers_stays() -> None:
    """The same kernels with the same grids; sums and panels lie in shared memory."""
    (on, on_text, plan), (off, off_text, other) = (
        kernels("paths", privatize=choice) for choice in (True, False)
    )
    assert [k.grid for k in on.kernels] == [k.grid for k in off.kernels]
    assert [k.block for k in on.kernels] == [k.block for k in off.kernels]
    assert tuple(other) == (KeepInMemory(), *plan)
    assert "float sums[8][8];" in on_text
    assert "volatile" not in on_text
    assert re.search(r"volatile float \(&sums\)\[8\]\[8\]\[256\] =", off_text)
    assert "__shared__ volatile float closure_panel[64][64];" in off_text


def test_reports_tell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = compiled("paths", privatize=False, registers=80).explain()
    assert "privatisation is off: no element is kept in registers over a loop" in told
    assert "a thread has at most 80 registers" in told
    assert "  keep_in_memory()\n  cap_registers(registers=80)\n" in told
    path = tmp_path / "paths.c"
    path.write_bytes(PATHS)
    words = ["explain", str(path), "--target", "cuda", "--no-privatize", "--registers", "80"]
    assert cli.main(words) == 0
    out = capsys.readouterr().out
    assert "  privatisation is off: no element is kept in registers over a loop\n" in out
    assert cli.main(["cc", str(path), "--target", "cuda", "--registers", "80"]) == 0
    assert "__maxnreg__(80)" in (tmp_path / "paths.cuda" / "paths_kernels.cuh").read_text()


def test_plans_go_around() -> None:
    _, text, plan = kernels("product", registers=64, privatize=False)
    assert kernels("product", plan=Plan.loads(plan.dumps()))[1] == text


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"registers": 12}, "a thread has from 24 to 255 registers\nnote: found 12"),
        ({"registers": 300}, "a thread of sm_90 has 255 registers\nnote: found 300"),
        (
            {"registers": 64, "plan": "source"},
            "registers, privatize and atomics are for the plan 'model'",
        ),
        (
            {"privatize": False, "target": "openmp"},
            "registers, privatize and atomics are for GPUs",
        ),
        ({"atomics": True, "target": "c"}, "registers, privatize and atomics are for GPUs"),
    ],
    ids=["low", "high", "plan", "target", "atomics"],
)
def test_refusals(more: dict[str, object], told: str) -> None:
    with pytest.raises(UsageError) as raised:
        lw.compile(PRODUCT, **{"target": "cuda", **more})["product"].explain()
    assert str(raised.value).startswith(told)


@pytest.mark.parametrize("name", ["--registers=64", "--no-privatize"])
def test_commands_refuse(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "paths.c"
    path.write_bytes(PATHS)
    assert cli.main(["cc", str(path), name]) == 2
    assert "--registers, --no-privatize and --atomics are for GPUs" in capsys.readouterr().err
    assert cli.main(["cc", str(path), "--target", "cuda", "--tile", "8", name]) == 2
    assert "are for the planner" in capsys.readouterr().err


def tile_of(name: str, registers: int) -> tuple[int, int] | None:
    """Rows and columns that a thread has of a product under a cap; None without such a kernel."""
    (program,) = lw.parse_c(SOURCES[name], reassoc=True)
    for step in gpu_planner(program, SM_90, registers=registers)[0]:
        if isinstance(step, MapClosure | MapContraction):
            return step.thread_rows, step.thread_columns
    return None


def test_tiles_keep_to_the_cap() -> None:
    assert tile_of("paths", 255) == (8, 8)
    assert tile_of("paths", 96) == (8, 4)
    assert tile_of("paths", 40) is None
    assert tile_of("product", 255) == (8, 8)
    assert tile_of("product", 100) == (4, 4)
    assert tile_of("product", 32) is None


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc")
def test_contractions_keep_to_the_cap(tmp_path: Path) -> None:
    shape, kind = product(4096, 4096, 4096), algebra("float32")
    choice = choose_grid(shape, kind, SM_90, registers=64)
    assert isinstance(choice.kernel, GridKernel)
    program = split_kernels(lower_grid_product(choice.kernel, "product"))
    ((used, spilled),) = registers_of(emit_kernels([program], CUDA), tmp_path)
    assert used <= 64
    assert spilled == 0
    assert choose_grid(shape, kind, SM_90).kernel.variant != choice.kernel.variant


def registers_of(text: str, folder: Path) -> list[tuple[int, int]]:
    """Registers and bytes of spill stores of every kernel of a text, by nvcc."""
    source = folder / "kernels.cu"
    source.write_text(text)
    words = ["nvcc", "-cubin", "-arch=sm_90", "-Xptxas", "-v", "-Werror", "all-warnings"]
    done = subprocess.run(
        [*words, "-o", f"{source}bin", str(source)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    used = map(int, re.findall(r"Used (\d+) registers", done.stderr))
    spilled = map(int, re.findall(r"(\d+) bytes spill stores", done.stderr))
    return list(zip(used, spilled, strict=True))


def test_a_cap_is_a_number_that_compilers_take() -> None:
    with pytest.raises(UsageError):
        CapRegisters(8)
