"""`loopwright cc --target athread --run`: the files that were written, on the emulator."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from loopwright.calls.device_files import has_main, stem_of
from loopwright.cli.athread_command import profile_report
from loopwright.diagnostics import UsageError
from loopwright.frontends.c import CFile
from loopwright.ir.mesh_machine import MeshMachine
from loopwright.runtime.athread_emulator.athread_build import require_emulator
from loopwright.runtime.athread_emulator.athread_run import run_athread

__all__ = ["add_run_arguments", "require_run", "run_files"]


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of a run."""
    parser.add_argument(
        "--run",
        action="store_true",
        help="athread: then run the program on the emulator; what follows -- is for its main",
    )
    parser.add_argument(
        "--profile", action="store_true", help="with --run: count, and predict the time"
    )
    parser.add_argument("--seed", type=int, help="with --run: draws the order in which cores run")


def require_run(args: argparse.Namespace, file: CFile, machine: object) -> None:
    """Refuse, before anything is written, what cannot be run."""
    if not args.run:
        told = [word for word, value in (("--profile", args.profile), ("--seed", args.seed))
                if value not in (None, False)]  # fmt: skip
        if told or args.passed:
            found = " ".join(told) or "arguments after --"
            raise UsageError("only a program that is run takes these", found=found, hint="--run")
        return
    if not isinstance(machine, MeshMachine):
        hint = f"compile what is written, or --target athread; '{args.target}' is not emulated"
        found = f"--target {args.target}"
        raise UsageError("--run is for target 'athread'", found=found, hint=hint)
    if not has_main(file):
        name = os.path.basename(file.name)
        raise UsageError(
            f"'{name}' has no main to run",
            hint="write the files, then: loopwright athread run MASTER.c SLAVE.c --host FILE.c",
        )
    require_emulator()


def run_files(
    args: argparse.Namespace, file: CFile, folder: str, machine: MeshMachine, words: Sequence[str]
) -> int:
    """Build and run the program in `folder`; the status is the program's.

    `words` are the arguments of the user's file for the preprocessor. Those that define macros
    named LW_... are for the generated files, too.
    """
    name, stem = stem_of(file)
    own, master, slave = (
        os.path.join(folder, part) for part in (name, f"{stem}_master.c", f"{stem}_slave.c")
    )
    of_all = [f"-D{macro}" for macro in args.D if macro.startswith("LW_")]
    if machine.has_remote_access:
        of_all.append("-DLW_ATHREAD_PRO")
    sys.stdout.flush()  # the program writes to the same place
    done = run_athread(
        [own, master],
        [slave],
        machine,
        arguments=args.passed,
        seed=args.seed or 0,
        profile=args.profile,
        capture=False,
        flags=of_all,
        flags_of={own: (*words, "-iquote", os.path.dirname(args.file) or ".")},
    )
    if args.profile:
        lines = ["", "no compute core was started: there is too little work for them"]
        if done.trace is not None and done.trace.teams:
            lines = list(profile_report(done.trace, machine))
        print("\n".join(lines))
    return done.status
