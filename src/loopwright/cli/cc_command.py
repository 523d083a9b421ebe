"""`loopwright cc`: a C file with the loops between its pragmas optimised, all else untouched."""

from __future__ import annotations

import argparse
import os
import re
import sys
from functools import partial
from pathlib import Path
from typing import TypeAlias

from loopwright.calls.check_c import check_region
from loopwright.calls.compile import char_flags
from loopwright.calls.device_files import device_files, is_serial
from loopwright.calls.explain_c import explain_region
from loopwright.calls.mesh_files import mesh_files
from loopwright.calls.splice import (
    Optimised,
    optimise_region,
    schedules_text,
    spliced,
    team_of,
)
from loopwright.cli.cc_measure import keeps_library, measured_planners, require_measure
from loopwright.cli.cc_run import add_run_arguments, require_run, run_files
from loopwright.cli.cc_tune import require_tune, tuned_planners
from loopwright.cli.output_files import STDOUT, write_file, write_folder
from loopwright.diagnostics import InternalError, ToolchainError, UsageError
from loopwright.frontends.c import CFile, read_c
from loopwright.ir.gpu_machine import GpuMachine
from loopwright.ir.grid_check import require_fit
from loopwright.ir.machine import Machine
from loopwright.ir.mesh_machine import MeshMachine
from loopwright.machines.machine_argument import target_gpu, target_machine, target_mesh
from loopwright.planner.grid_plans.gpu import gpu_planner
from loopwright.planner.mesh_plans.mesh import mesh_planner_of
from loopwright.planner.planners import (
    Planner,
    given_planner,
    loaded_planners,
    plans_from_text,
    plans_text,
    tile_planner,
)
from loopwright.runtime.own_folder import own_folder
from loopwright.runtime.toolchain import complaint, find_compiler
from loopwright.targets import TARGETS, MachineKind

__all__ = [
    "PASSES_ARGUMENTS",
    "add_arguments",
    "add_source",
    "cpp_arguments",
    "gpu_planner_of",
    "run",
]

PASSES_ARGUMENTS = True  # what follows -- is for the program that --run runs

C_TARGETS = tuple(name for name, target in TARGETS.items() if target.is_c)
GPU_TARGETS = tuple(name for name, t in TARGETS.items() if t.kind is MachineKind.GPU)
MESH_TARGETS = tuple(name for name, t in TARGETS.items() if t.kind is MachineKind.MESH)
AnyMachine: TypeAlias = Machine | GpuMachine | MeshMachine
_MOST_TILE = 1 << 20


def add_source(parser: argparse.ArgumentParser) -> None:
    """Declare the C file and what its preprocessor is told."""
    parser.add_argument("file", help="a C file with regions between #pragma scop and endscop")
    for flag, what in (
        ("-D", "define a macro: -DN=1000"),
        ("-U", "undefine a macro"),
        ("-I", "a folder to look for included files in"),
        ("-include", "a file to read first"),
    ):
        parser.add_argument(flag, action="append", default=[], metavar="X", help=what)
    parser.add_argument("-std", default="", metavar="X", help="the language: gnu11, c99")
    parser.add_argument(
        "--machine", metavar="NAME", help="plan for another machine, see 'loopwright machines'"
    )
    parser.add_argument("--registers", type=int, metavar="N", help="of a thread of a GPU, at most")
    parser.add_argument(
        "--no-privatize",
        action="store_true",
        help="keep elements in memory of a GPU that would live in registers, to compare",
    )
    parser.add_argument(
        "--atomics",
        action="store_true",
        help="blocks of a GPU update elements of reductions together: in any order, in one launch",
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_source(parser)
    parser.add_argument(
        "-o",
        dest="output",
        help="the file to write; FILE.opt.c; - for stdout. For a GPU the folder; FILE.cuda",
    )
    parser.add_argument(
        "--target",
        choices=(*C_TARGETS, *GPU_TARGETS, *MESH_TARGETS),
        default="openmp",
        help="C with OpenMP (the default), or plain; for a GPU or Sunway's compute cores "
        "(athread) a folder with a whole program",
    )
    parser.add_argument(
        "--threads", metavar="RxC", help="athread: rows and columns of cores, 8x8 or 1x64"
    )
    parser.add_argument(
        "--reassoc", action="store_true", help="let floating sums be taken in another order"
    )
    parser.add_argument(
        "--functions",
        choices=("own", "library"),
        default="own",
        help="exp, log, sin, cos and tanh of C text: lines of it that vectors take (the default), "
        "within 2.6 units of the last place, or calls of the library",
    )
    parser.add_argument(
        "--assume-disjoint",
        action="store_true",
        help="take pointers to lead to different arrays, without a test in the text",
    )
    parser.add_argument(
        "--check", action="store_true", help="run the new code against the old before writing it"
    )
    parser.add_argument(
        "--tile", "--tile-size", metavar="S,S,...", help="tile nests of loops by these sizes"
    )
    parser.add_argument(
        "--dump-schedule",
        "--save-schedule-file",
        metavar="FILE",
        help="write the schedule trees as YAML",
    )
    parser.add_argument(
        "--load-schedule",
        "--load-schedule-file",
        metavar="FILE",
        help="use these schedule trees, if they are legal",
    )
    parser.add_argument(
        "--dump-plan", metavar="FILE", help="write the plans as JSON, one for each region"
    )
    parser.add_argument(
        "--plan", metavar="FILE", help="take the steps of these plans, if they are legal"
    )
    parser.add_argument(
        "--explain", action="store_true", help="tell what was done, and why not more"
    )
    parser.add_argument(
        "--tune", type=float, metavar="SECONDS", help="measure other plans here, take the best"
    )
    parser.add_argument(
        "--measure",
        action="store_true",
        help="run plans and the text as it stands here, keep the fastest for each region",
    )
    parser.add_argument(
        "--size",
        action="append",
        default=[],
        metavar="NAME=N",
        help="with --tune and --measure: an integer parameter; N alone for all others",
    )
    parser.add_argument(
        "--cold", action="store_true", help="likewise: flush the caches before every run"
    )
    add_run_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Optimise the file; nothing is written unless all of it went well."""
    given = [x for x in (args.tile, args.load_schedule, args.plan) if x is not None]
    if len(given) > 1:
        raise UsageError("--tile, --load-schedule and --plan exclude each other")
    require_tune(args, is_planned=bool(given))
    require_measure(args, is_planned=bool(given))
    if given and gpu_planner_of(args) is not None:
        hint = "a plan has steps for it: cap_registers, keep_in_memory, map_reduction"
        what = "--registers, --no-privatize and --atomics are for the planner"
        raise UsageError(what, hint=hint)
    file, machine = source_and_machine(args)
    require_run(args, file, machine)
    output = _output(args)
    planners = _planners(args, file, machine)
    if args.tune is not None:
        planners = tuned_planners(args, file, cpp_arguments(args), planners)
    if args.measure and isinstance(machine, Machine):
        planners = measured_planners(args, file, machine, cpp_arguments(args), planners)
    rules = {
        "reassoc": args.reassoc,
        "library": keeps_library(args),
        "assume_disjoint": args.assume_disjoint,
    }
    results = [
        optimise_region(file, region, planner, machine, target=args.target, **rules)
        for region, planner in zip(file.regions, planners, strict=True)
    ]
    files: dict[str, bytes] = {}
    if isinstance(machine, GpuMachine):
        for found in results:
            if found.function is not None:
                require_fit(found.function.program, machine, found.function.place)
        files = device_files(file, results, args.target, machine, _moved_arguments(args, output))
    if isinstance(machine, MeshMachine):
        files = mesh_files(file, results, machine, _moved_arguments(args, output))
    if args.check:
        for found, planner in zip(results, planners, strict=True):
            _check(found, planner, machine, args)
    text = spliced(file, results)
    _verify(file, text, args)
    if args.dump_schedule is not None:
        write_file(args.dump_schedule, schedules_text(results).encode())
    if args.dump_plan is not None:
        write_file(args.dump_plan, plans_text([found.plan for found in results]).encode())
    if files:
        write_folder(output, files)
    else:
        write_file(output, text)
    for found, planner in zip(results, planners, strict=True):
        _report(found, planner, machine, args, to_stdout=output != STDOUT)
    if args.run and isinstance(machine, MeshMachine):
        return run_files(args, file, output, machine, cpp_arguments(args))
    return 0


def source_and_machine(
    args: argparse.Namespace,
) -> tuple[CFile, AnyMachine]:
    """The C file of the command, read as the compilers of the machine that is named read it.

    The host of a GPU is this machine.
    """
    given = cpp_arguments(args)
    if args.target in GPU_TARGETS:
        return read_c(Path(args.file), cpp_args=given), target_gpu(args.machine)
    if args.target in MESH_TARGETS:
        return read_c(Path(args.file), cpp_args=given), target_mesh(args.machine)
    machine = target_machine(args.machine)
    signs = () if args.machine is None else char_flags(machine, given)
    return read_c(Path(args.file), cpp_args=(*signs, *given)), machine


def _moved_arguments(args: argparse.Namespace, folder: str) -> tuple[str, ...]:
    """The preprocessor's arguments for a copy of the file in a folder."""

    def moved(path: str) -> str:
        return path if os.path.isabs(path) else os.path.relpath(path, folder)

    words = [f"{flag}{value}" for flag in ("-D", "-U") for value in getattr(args, flag[1:])]
    words += ["-iquote", os.path.relpath(os.path.dirname(args.file) or ".", folder)]
    words += [f"-I{moved(path)}" for path in args.I]
    words += [word for name in args.include for word in ("-include", moved(name))]
    return (*words, *([f"-std={args.std}"] if args.std else []))


def cpp_arguments(args: argparse.Namespace) -> tuple[str, ...]:
    """The preprocessor's arguments among those of the command."""
    words = [f"{flag}{value}" for flag in ("-D", "-U", "-I") for value in getattr(args, flag[1:])]
    words += [word for name in args.include for word in ("-include", name)]
    return (*words, *([f"-std={args.std}"] if args.std else []))


def _planners(args: argparse.Namespace, file: CFile, machine: AnyMachine) -> list[Planner]:
    count = len(file.regions)
    if args.threads is not None and not isinstance(machine, MeshMachine):
        raise UsageError("--threads is for target 'athread'", found=f"--target {args.target}")
    mesh = None
    if args.threads is not None and isinstance(machine, MeshMachine):
        mesh = mesh_shape(args.threads, machine)
    if args.load_schedule is not None:
        return loaded_planners(_read(args.load_schedule), count, mesh)
    if args.plan is not None:
        return [given_planner(plan, mesh) for plan in plans_from_text(_read(args.plan), count)]
    if args.tile is not None:
        return [tile_planner(_sizes(args.tile), mesh)] * count
    if mesh is not None:
        return [mesh_planner_of(mesh)] * count
    return [gpu_planner_of(args) or TARGETS[args.target].planner] * count


def gpu_planner_of(args: argparse.Namespace) -> Planner | None:
    """The planner of GPUs with what was said to it; None where nothing was."""
    if args.registers is None and not args.no_privatize and not args.atomics:
        return None
    if args.target not in GPU_TARGETS:
        what = "--registers, --no-privatize and --atomics are for GPUs"
        raise UsageError(what, found=args.target)
    return partial(
        gpu_planner,
        registers=args.registers,
        in_registers=not args.no_privatize,
        atomics=args.atomics,
    )


def mesh_shape(text: str, machine: MeshMachine) -> tuple[int, int]:
    """Rows and columns of cores, of which a group has enough."""
    found = re.fullmatch(r"([0-9]{1,3})x([0-9]{1,3})", text)
    rows, columns = (0, 0) if found is None else (int(found[1]), int(found[2]))
    if not 1 <= rows * columns <= machine.cores:
        hint = f"--threads {machine.rows}x{machine.columns}, or 1x{machine.cores}"
        hint += f": up to {machine.cores} cores"
        raise UsageError("--threads takes rows and columns", found=repr(text[:60]), hint=hint)
    return rows, columns


def _sizes(text: str) -> list[int]:
    words = text.split(",")
    plain = all(word.isascii() and word.isdigit() and len(word) < 9 for word in words)
    if not plain or not all(1 <= int(word) <= _MOST_TILE for word in words):
        hint = "--tile 32,32,32: whole numbers from 1, one for each loop of a nest"
        raise UsageError("--tile takes sizes", found=repr(text[:60]), hint=hint)
    return [int(word) for word in words]


def _check(
    found: Optimised,
    planner: Planner,
    machine: AnyMachine,
    args: argparse.Namespace,
) -> None:
    """Validate the new code against the region, print what was checked, refuse on a difference."""
    if found.text is None or found.nest is None:
        return
    threads = team_of(machine, args.target)
    report, note = check_region(found, planner, machine, threads, reassoc=args.reassoc)
    place = f"{found.region.span.file}:{found.region.span.line}"
    for line in (note, str(report)):
        if line:
            print(f"{place}: {line}", file=sys.stderr)
    if not report.is_clean:
        raise InternalError(f"{place}: the new code differs from the old", str(report))


def _verify(file: CFile, text: bytes, args: argparse.Namespace) -> None:
    """Compile the result: if the C compiler accepts the source, it must accept the new text."""
    if text == file.source:
        return
    try:
        compiler = find_compiler()
    except ToolchainError:
        return
    folder = os.path.dirname(args.file) or "."
    flags = (*cpp_arguments(args), "-iquote", folder)
    with own_folder() as place:
        after, before = place / "after.c", place / "before.c"
        after.write_bytes(text)
        told = complaint(after, flags, compiler)
        if not told:
            return
        before.write_bytes(file.source)
        if complaint(before, flags, compiler):
            print(
                f"{args.file}: warning: the C compiler does not take this file, so the result is "
                "not checked by it",
                file=sys.stderr,
            )
            return
    raise InternalError("the C compiler does not take the new code", told)


def _output(args: argparse.Namespace) -> str:
    """The path of the output, which must not be the source."""
    source = Path(args.file)
    if args.target in (*GPU_TARGETS, *MESH_TARGETS):
        return _output_folder(args, source)
    output: str = args.output or str(source.with_suffix(".opt.c"))
    if output != STDOUT and os.path.exists(output) and os.path.samefile(output, source):
        hint = f"-o {source.with_suffix('.opt.c').name}"
        raise UsageError("the output would replace the source", found=output, hint=hint)
    return output


def _output_folder(args: argparse.Namespace, source: Path) -> str:
    folder: str = args.output or str(source.with_suffix(f".{args.target}"))
    hint = f"-o {source.with_suffix(f'.{args.target}').name}"
    if folder == STDOUT:
        message = f"target '{args.target}' writes several files: -o names a folder"
        raise UsageError(message, hint=hint)
    if os.path.exists(folder) and os.path.samefile(folder, source.parent):
        raise UsageError("the output would replace the source", found=folder, hint=hint)
    return folder


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise UsageError(f"cannot read '{path}': {reason}") from None


def _report(
    found: Optimised,
    planner: Planner,
    machine: AnyMachine,
    args: argparse.Namespace,
    *,
    to_stdout: bool,
) -> None:
    region = found.region
    place = f"{region.span.file}:{region.span.line}"
    if found.text is None:
        print(f"{place}: note: the region is left as it is: {found.reason}", file=sys.stderr)
    if found.mesh is None and found.function is not None and is_serial(found.function):
        told = "note: no parallel loop was found: one thread of the GPU runs the region"
        print(f"{place}: {told}", file=sys.stderr)
    if args.explain:
        stream = sys.stdout if to_stdout else sys.stderr
        is_chosen = planner is TARGETS[args.target].planner and isinstance(machine, Machine)
        threads = team_of(machine, args.target) if is_chosen else None
        print(explain_region(found, machine, threads), file=stream)
