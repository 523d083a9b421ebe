"""Shapes of thread blocks by what they move: the model beside exact sets, and which is taken."""

from __future__ import annotations

import pytest

import loopwright as lw
from loopwright.analysis.block_volume import EstimatedVolume, block_volume
from loopwright.analysis.thread_mapping import LoopTile, tiled_mapping
from loopwright.ir.program import Program
from loopwright.machines.load_gpu import load_gpu
from loopwright.planner.grid_plans.gpu import gpu_planner
from loopwright.transform.grid_mapping import MapToThreads
from programs import matmul, seidel

SM_90 = load_gpu("sm_90")


def source(body: str, rank: int = 2, n: str = "n") -> Program:
    """Loops over the inner elements of arrays A and B."""
    extents = f"[{n}]" * rank
    loops = "".join(f"for (int {x} = 1; {x} < {n} - 1; {x}++) " for x in "ijk"[:rank])
    head = f"void f({'int n, ' if n == 'n' else ''}double B{extents}, double A{extents})"
    text = f"{head} {{\n#pragma scop\n{loops}{body}\n#pragma endscop\n}}\n"
    (found,) = lw.parse_c(text.encode())
    return found


def threads(program: Program) -> dict[str, int]:
    """Threads of a block along each axis."""
    plan, _ = gpu_planner(program, SM_90)
    return {step.axis: step.threads for step in plan if isinstance(step, MapToThreads)}


STAR = "B[i][j] = A[i][j] + A[i - 1][j] + A[i + 1][j] + A[i][j - 1] + A[i][j + 1];"
SPACE = (
    "B[i][j][k] = A[i][j][k] + A[i - 1][j][k] + A[i + 1][j][k] + A[i][j - 1][k] + A[i][j + 1][k]"
    " + A[i][j][k - 1] + A[i][j][k + 1];"
)


@pytest.mark.parametrize(
    ("body", "rank", "wanted"),
    [
        (STAR, 2, {"x": 128, "y": 2}),  # several points to a thread
        ("B[i][j] = A[i][j];", 2, {"x": 32, "y": 8}),
        ("B[i][j] = A[i][j] + A[i][j - 1] + A[i][j + 1];", 2, {"x": 32, "y": 8}),
        ("B[i][j] = A[i][j] + A[i - 1][j];", 2, {"x": 128, "y": 2}),
        (SPACE, 3, {"x": 32, "y": 4, "z": 2}),
        ("B[i][j][k] = A[i - 1][j][k] + A[i + 1][j][k];", 3, {"x": 32, "y": 1, "z": 8}),
        ("B[i][j][k] = A[i][j - 1][k] + A[i][j + 1][k];", 3, {"x": 32, "y": 8}),
    ],
    ids=["star", "copy", "along x", "along y", "space", "along z", "planes"],
)
def test_shapes_follow_reuse(body: str, rank: int, wanted: dict[str, int]) -> None:
    found = threads(source(body, rank))
    assert {axis: size for axis, size in found.items() if size > 1 or axis in wanted} == wanted


def test_few_iterations_keep_the_usual_shape() -> None:
    """There would not be blocks for all multiprocessors."""
    assert threads(source(SPACE, 3, "34")) == {"x": 32, "y": 8}


@pytest.mark.parametrize("shape", [(32, 8), (64, 4), (16, 2)])
def test_estimate_of_products_is_exact(shape: tuple[int, int]) -> None:
    program, sizes = matmul(), {"n": 128, "m": 128, "q": 48}
    i, j, k = "ijk"
    tiles = [LoopTile(i, shape[1]), LoopTile(j, shape[0])]
    exact = block_volume(program, tiled_mapping(program, tiles), sizes)
    found = EstimatedVolume(program, ["S0"]).bytes_moved(
        {"S0": {i: shape[1], j: shape[0], k: sizes["q"]}}
    )
    # The exact volume has C's elements once each way, like the estimate's reads and writes.
    assert found == exact.bytes_moved


def test_estimate_of_stencils_is_a_box_around_them() -> None:
    """Exact sets have no corners, and what the block writes first is not brought in."""
    program = source(STAR)
    tiles = [LoopTile("i", 8), LoopTile("j", 32)]
    exact = block_volume(program, tiled_mapping(program, tiles), {"n": 200}, (3, 2))
    found = EstimatedVolume(program, ["S0"]).bytes_moved({"S0": {"i": 8, "j": 32}})
    assert found == exact.bytes_moved + 4 * 8


def test_sectors_are_moved_whole() -> None:
    volume = EstimatedVolume(source("B[i][j] = A[i][j] + A[i][j - 1];"), ["S0"])
    row = {"S0": {"i": 1, "j": 32}}
    assert volume.bytes_moved(row) == (33 + 32) * 8
    assert volume.bytes_moved(row, 32) == (32 + 32) * 8 + 32
    column = {"S0": {"i": 32, "j": 1}}
    assert volume.bytes_moved(column, 32) == 32 * (2 + 1) * 32


def test_skewed_loops_keep_the_usual_shape() -> None:
    """What a block of wavefronts has of an array is not a box of iterations."""
    assert threads(seidel()) == {"x": 32, "y": 8}


def test_report_tells_shapes() -> None:
    text = b"""void f(int n, double B[n][n], double A[n][n]) {
#pragma scop
for (int i = 0; i < n; i++) for (int j = 1; j < n; j++) B[i][j] = A[i][j] + A[i][j - 1];
#pragma endscop
}
"""
    told = lw.compile(text, "cuda", machine="sm_90")["f"].explain()
    head = "    blocks by what they move for each iteration: 32 x 8 (17 bytes) taken, before "
    assert f"{head}128 x 2 (16.2 bytes), 128 x 1 (16.2 bytes), " in told
    assert "a tenth less is too little to leave the usual shape" in told
