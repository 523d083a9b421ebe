"""Nests for a GPU run by the shim, as `validate` runs compiled forms of a nest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpu.shim.cuda_shim import run_program
from loopwright.backends.c_text.c_dialect import CUDA
from loopwright.backends.device_text.device_module import emit_kernels
from loopwright.ir.device import DeviceProgram
from loopwright.ir.loops import Alloc, LoopNest, Space
from loopwright.ir.program import Program
from loopwright.ir.visit import statements
from loopwright.lower.grid_nests.split_kernels import split_kernels
from loopwright.validate import check_translation
from loopwright.validate.check_data import Runner, check_data
from loopwright.validate.check_order import launch_of
from loopwright.validate.difference import Difference
from loopwright.validate.reference_run import Arrays, run_reference

__all__ = ["gpu_differences", "shim_runners"]


def shim_runners(nests: Sequence[LoopNest], *, index: str = "int") -> tuple[Runner, ...]:
    """The emitted CUDA text of nests, compiled as one file of C++; one run serves all of them."""
    named = [replace(nest, name=f"kernel_{at}") for at, nest in enumerate(nests)]
    programs = [split_kernels(nest) for nest in named]
    text = emit_kernels(programs, CUDA)
    return tuple(
        _runner(nest, program, text, index) for nest, program in zip(named, programs, strict=True)
    )


def _runner(nest: LoopNest, program: DeviceProgram, text: str, index: str) -> Runner:
    def run(arrays: Arrays, params: Mapping[str, int]) -> None:
        launch = launch_of(nest, arrays, params)
        run_program(program, text, arrays, launch, seed=len(params), index=index)

    return run


def gpu_differences(
    program: Program, nest: LoopNest, sizes: Sequence[Mapping[str, int]], runner: Runner
) -> tuple[Difference, ...]:
    """Differences of a nest for a GPU, and of its CUDA text on the shim, from its program.

    Tiles in shared memory are whole whatever the size, so that the interpreter of nests would take
    minutes for them: they have tests of their own, with small tiles, and run on the shim here.
    """
    memory = (stmt.buffer.space for stmt in statements(nest.body) if isinstance(stmt, Alloc))
    if Space.SHARED not in memory:
        return check_translation(program, nest, sizes, runners={"shim": runner}, threads=())
    found: list[Difference] = []
    for seed, params in enumerate(sizes):
        found += check_data(run_reference(program, params, seed=seed), runner, "shim")
    return tuple(found)
