"""`loopwright explain`: what is done with each region of a C file, and why not more."""

from __future__ import annotations

import argparse
from pathlib import Path

from loopwright.calls.explain_c import explain_on_gpu, explain_region
from loopwright.calls.explain_mesh import explain_on_mesh
from loopwright.calls.measure_c import measure_function
from loopwright.calls.splice import optimise_region, team_of
from loopwright.cli.cc_command import (
    C_TARGETS,
    MESH_TARGETS,
    add_source,
    cpp_arguments,
    gpu_planner_of,
    mesh_shape,
    source_and_machine,
)
from loopwright.cli.cc_tune import read_sizes
from loopwright.diagnostics import UsageError
from loopwright.frontends.c import read_c
from loopwright.ir.machine import Machine
from loopwright.machines.machine_argument import require_runnable, target_gpu, target_mesh
from loopwright.planner.mesh_plans.mesh import mesh_planner_of
from loopwright.targets import TARGETS, MachineKind

__all__ = ["add_arguments", "run"]

_GPU_TARGETS = tuple(name for name, t in TARGETS.items() if t.kind is MachineKind.GPU)
_SIZE = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_source(parser)
    parser.add_argument(
        "--target",
        choices=(*C_TARGETS, *_GPU_TARGETS, *MESH_TARGETS),
        default="openmp",
        help="as for 'cc', kernels of a GPU, or code for Sunway's compute cores (athread)",
    )
    parser.add_argument("--reassoc", action="store_true", help="as for 'cc'")
    parser.add_argument("--run", action="store_true", help="measure each function as well")
    parser.add_argument(
        "--size",
        action="append",
        default=[],
        metavar="NAME=N",
        help=f"an integer parameter of the run; N alone for all others ({_SIZE}); athread: of the "
        "prediction",
    )
    parser.add_argument(
        "--threads", help="threads of the run; athread: rows and columns of cores, 8x8 or 1x64"
    )


def run(args: argparse.Namespace) -> int:
    """Print one report per region, and the times of each function."""
    sizes, default = read_sizes(args.size)
    path = Path(args.file)
    if args.target in _GPU_TARGETS:
        return _explain_on_gpu(args, path)
    if args.target in MESH_TARGETS:
        is_given = any("=" not in part for text in args.size for part in text.split(","))
        return _explain_on_mesh(args, path, sizes, default if is_given else None)
    gpu_planner_of(args)  # refuses what is for GPUs
    threads = _threads(args.threads)
    file, machine = source_and_machine(args)
    assert isinstance(machine, Machine), "targets of this command are processors"
    if args.run:
        require_runnable(machine)
    planner = TARGETS[args.target].planner
    for region in file.regions:
        found = optimise_region(
            file, region, planner, machine, target=args.target, reassoc=args.reassoc
        )
        print(explain_region(found, machine, team_of(machine, args.target)))
    if not args.run:
        return 0
    for name in dict.fromkeys(region.function for region in file.regions):
        print(f"{name}:")
        lines = measure_function(
            file,
            path,
            name,
            sizes,
            default=default,
            reassoc=args.reassoc,
            threads=threads,
            cpp_args=cpp_arguments(args),
        )
        print("\n".join(lines))
    return 0


def _explain_on_mesh(
    args: argparse.Namespace, path: Path, sizes: dict[str, int], default: int | None
) -> int:
    """Print the trees, the scratchpad, the requests and the prediction of every region."""
    gpu_planner_of(args)  # refuses what is for GPUs
    if args.run:
        hint = "loopwright athread run, on the files that 'cc' writes"
        raise UsageError(f"--run does not measure target '{args.target}'", hint=hint)
    machine = target_mesh(args.machine)
    shape = (machine.rows, machine.columns)
    if args.threads is not None:
        shape = mesh_shape(args.threads, machine)
    file = read_c(path, cpp_args=cpp_arguments(args))
    for region in file.regions:
        told = explain_on_mesh(
            file,
            region,
            machine,
            mesh_planner_of(shape),
            sizes,
            default=default,
            reassoc=args.reassoc,
        )
        print(told)
    return 0


def _explain_on_gpu(args: argparse.Namespace, path: Path) -> int:
    """Print the kernels of every region, for the GPU that is named; none has to be here."""
    if args.run:
        hint = "--target openmp, or call the function that loopwright.compile returns"
        raise UsageError(f"--run does not measure target '{args.target}'", hint=hint)
    machine, planner = target_gpu(args.machine), gpu_planner_of(args)
    for region in read_c(path, cpp_args=cpp_arguments(args)).regions:
        print(explain_on_gpu(region, args.target, machine, planner, reassoc=args.reassoc))
    return 0


def _threads(word: str | None) -> int | None:
    if word is None:
        return None
    if not (word.isascii() and word.isdigit() and 0 < int(word) < 1 << 16):
        raise UsageError("--threads takes a number", found=repr(word[:60]), hint="--threads 2")
    return int(word)
