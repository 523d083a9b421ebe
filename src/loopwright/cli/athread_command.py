"""`loopwright athread run`: an Athread program on the emulator, with counts and a prediction."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from loopwright.ir.mesh_machine import MeshMachine
from loopwright.machines.load_mesh import load_mesh
from loopwright.machines.mesh_timeline import MeshPrediction, predict_teams
from loopwright.runtime.athread_emulator.athread_run import run_athread
from loopwright.runtime.athread_emulator.athread_trace import Trace, count_events, profile_lines

__all__ = ["PASSES_ARGUMENTS", "add_arguments", "profile_report", "run"]

PASSES_ARGUMENTS = True  # what follows -- is the program's


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.usage = (
        "loopwright athread run MASTER.c SLAVE.c [SLAVE.c ...] [options] [-- ARGUMENT ...]"
    )
    parser.add_argument("action", choices=("run",), help="build the program and run it")
    parser.add_argument("master", metavar="MASTER.c", help="source of the host's side")
    parser.add_argument("slaves", metavar="SLAVE.c", nargs="+", help="sources of the CPEs' side")
    parser.add_argument(
        "--host", metavar="FILE.c", action="append", default=[], help="one more of the host's side"
    )
    parser.add_argument(
        "--machine", metavar="NAME", default="sw26010", help="sw26010 (the default), sw26010pro, or"
        " the path of a JSON file"
    )  # fmt: skip
    parser.add_argument(
        "--seed", type=int, default=0, help="draws the order in which CPEs run and transfers end"
    )
    parser.add_argument(
        "--profile", action="store_true", help="then count, and predict the time on the machine"
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="a CPE may read what it has put itself after a barrier only",
    )
    parser.add_argument("-D", metavar="NAME", action="append", default=[], help="define a macro")
    parser.add_argument("-I", metavar="DIR", action="append", default=[], help="search for headers")


def run(args: argparse.Namespace) -> int:
    """Build, run, tell; the status is the program's."""
    machine = load_mesh(args.machine)
    sys.stdout.flush()  # the program writes to the same place
    done = run_athread(
        [args.master, *args.host],
        args.slaves,
        machine,
        arguments=args.passed,
        seed=args.seed,
        profile=args.profile,
        capture=False,
        strict=args.strict,
        flags=[*(f"-D{name}" for name in args.D), *(f"-I{folder}" for folder in args.I)],
    )
    if args.profile and done.trace is not None:
        print("\n".join(profile_report(done.trace, machine)))
    return done.status


def profile_report(trace: Trace, machine: MeshMachine) -> Iterator[str]:
    """What a run did and how long it would take on the machine, in lines."""
    counts = count_events(trace)
    yield ""
    yield from profile_lines(trace, machine)
    yield ""
    rows = (
        ("teams", f"{counts.teams}"),
        ("DMA", f"{counts.requests} requests, {counts.blocks} blocks, {counts.bytes} bytes"),
        ("RMA", f"{counts.remote_requests} requests"),
        ("messages", f"{counts.messages} sent"),
        ("barriers", f"{counts.barriers} arrivals"),
        ("direct access", f"{counts.global_accesses} to main memory"),
        ("flops", f"{counts.flops}"),
        ("LDM", f"{trace.ldm_bytes} of {machine.scratchpad_bytes} bytes at most"),
    )
    yield from (f"{name:<14} {value}" for name, value in rows if not value.startswith("0 "))
    yield from _prediction(predict_teams(machine, trace.teams), machine)


def _prediction(found: MeshPrediction, machine: MeshMachine) -> Iterator[str]:
    name, share = found.bound
    time = f"{found.cycles:.0f} cycles, {1e6 * found.seconds:.1f} us"
    yield f"{'predicted':<14} {time} on {machine.name}"
    rate = f"{found.flops_per_second / 1e9:.2f} GFLOPS"
    yield f"{'':<14} {rate}, {100 * found.share_of_peak:.2f}% of the peak of a core group"
    yield f"{'bound by':<14} {name} ({100 * share:.0f}% of the time)"
