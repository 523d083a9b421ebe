"""Programs on a real GPU against the interpreter: the corpus, other families, random programs.

    PYTHONPATH=src:tests python3 tests/gpu/on_device/programs_check.py [--processes 15]
        [--seeds 200] [--only attention,blur,gemm]

Needs CuPy and islpy. Kernels come from the plan of the model for the GPU that is there, sizes are
small and odd, data as `validate` draws them. Under `compute-sanitizer`, with `--only` and without
`--processes`, it looks for accesses at fault and for races. The status is the number of programs
that differ.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from gpu.test_grid_reductions import SOURCES as REDUCTIONS
from gpu.test_grid_reductions import planned
from gpu.test_programs import NAMES, regions
from loopwright.backends.c_text.c_dialect import CUDA
from loopwright.backends.device_text.device_module import emit_kernels
from loopwright.ir.device import is_by_value, value_bits
from loopwright.ir.loops import LoopNest
from loopwright.ir.memory import Memory
from loopwright.ir.program import Program
from loopwright.lower.grid_nests.split_kernels import split_kernels
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load_gpu import load_gpu
from loopwright.planner.grid_plans.gpu import gpu_planner
from loopwright.runtime.cuda_executable import CudaExecutable
from loopwright.validate.check_data import Runner, check_data
from loopwright.validate.check_order import launch_of
from loopwright.validate.problem_sizes import pick_sizes
from loopwright.validate.reference_run import Arrays, ReferenceRun, run_reference
from property.random_translations import draw_case, has_facts

MACHINE = "sm_90"
SIZES = (0, 1, 2, 3, 5, 7, 17, 33)
MOST_ACCESSES = 20_000


def device_runner(nest: LoopNest) -> Runner:
    """Runs a nest on the device, on copies of arrays that come back."""
    import cupy  # after the fork: contexts do not survive it

    program = split_kernels(nest)
    executable = CudaExecutable(program, emit_kernels([program], CUDA))

    def run(arrays: Arrays, params: Mapping[str, int]) -> None:
        scalars = launch_of(nest, arrays, params)
        pointers: list[int] = []
        copies = []
        for buffer in program.buffers:
            array = arrays[buffer.name]
            if is_by_value(buffer):
                pointers.append(value_bits(array[()], buffer.dtype))
                continue
            memory = Memory.of(array)
            there = cupy.asarray(np.ascontiguousarray(memory.data))
            copies.append((memory, there))
            pointers.append(int(there.data.ptr) + memory.base * array.itemsize)
        executable.launch(pointers, [scalars[name] for name in program.scalars])
        cupy.cuda.Device().synchronize()
        for memory, there in copies:
            if memory.data.size:
                memory.data[...] = there.get()

    return run


def references(program: Program) -> list[ReferenceRun]:
    sizes = pick_sizes(program, values=SIZES, most=MOST_ACCESSES, count=3, seed=1)
    return [run_reference(program, params, seed=seed) for seed, params in enumerate(sizes)]


def programs(seeds: int, only: Sequence[str]) -> Iterator[tuple[str, Program]]:
    """Names and programs, reductions among them; the random ones come last."""
    for name in (*NAMES, *REDUCTIONS):
        if not only or name in only:
            for program in regions(name) if name in NAMES else [planned(name)[0]]:
                yield name, program
    for seed in range(0 if only else seeds):
        case = draw_case(seed)
        if case is not None and has_facts(case.program):
            yield f"random {seed}", case.program


def check_share(first: int, every: int, seeds: int, only: Sequence[str]) -> tuple[int, list[str]]:
    """Every so many of the programs: how many were run, and what is wrong with some of them."""
    count, told = 0, []
    for number, (name, program) in enumerate(programs(seeds, only)):
        if number % every != first:
            continue
        try:
            nests = [lower_schedule(gpu_planner(program, load_gpu(MACHINE))[1])]
            if name in REDUCTIONS:  # whose blocks may also update an element together
                plan = gpu_planner(program, load_gpu(MACHINE), atomics=True)
                nests.append(lower_schedule(plan[1]))
            for run in map(device_runner, nests):
                for reference in references(program):
                    told += [f"{name}: {x}" for x in check_data(reference, run, "device")]
        except Exception as error:  # noqa: BLE001, the other programs are run all the same
            traceback.print_exc(limit=-3)
            told.append(f"{name}: {type(error).__name__}: {str(error)[:300]}")
        count += 1
    return count, told


def main() -> int:
    """Print what differs; the number of differences."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    only = tuple(args.only.split(",")) if args.only else ()
    work = [(at, args.processes, args.seeds, only) for at in range(args.processes)]
    if args.processes == 1:
        found = [check_share(*work[0])]
    else:
        with multiprocessing.get_context("spawn").Pool(args.processes) as pool:
            found = pool.starmap(check_share, work, 1)
    told = [line for _, lines in found for line in lines]
    print("\n".join(told))
    print(f"{sum(count for count, _ in found)} programs, {len(told)} differences")
    return min(len(told), 100)


if __name__ == "__main__":
    sys.exit(main())
