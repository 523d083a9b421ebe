"""Run an Athread program on the emulator, and tell what it did wrong."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from loopwright.child_process import INHERITED, call
from loopwright.diagnostics import LoopwrightError
from loopwright.ir.mesh_machine import MeshMachine
from loopwright.lazy_dataclass import dataclass
from loopwright.runtime.athread_emulator.athread_build import build_athread
from loopwright.runtime.athread_emulator.athread_trace import Trace, read_trace
from loopwright.runtime.own_folder import own_folder

__all__ = ["AthreadFault", "AthreadRun", "run_athread", "run_built"]

_FAULT_STATUS = 97  # of native/faults.c
_PLACE = re.compile(r"(?s)(.*?):(\d+): (.*)")


class AthreadFault(LoopwrightError, RuntimeError):  # noqa: N818, the word of the emulator
    """A program does what no Athread program may; the emulator has ended it."""

    def __init__(
        self, file: str, line: int, message: str, text: str = "", output: str = ""
    ) -> None:
        super().__init__(file, line, message, text, output)
        self.file = file
        self.line = line
        self.message = message
        self.text = text  # of the line
        self.output = output  # of the program until then

    def __str__(self) -> str:
        first, _, rest = self.message.partition("\n")
        shown = f"\n    {self.text}" if self.text else ""
        return f"{self.file}:{self.line}: {first}{shown}" + (f"\n{rest}" if rest else "")


@dataclass(frozen=True, slots=True)
class AthreadRun:
    """A run that came to its end."""

    status: int  # what the program returned
    output: str  # what it printed, where that was captured
    trace: Trace | None  # where it was asked for


def run_athread(
    masters: Sequence[str],
    slaves: Sequence[str],
    machine: MeshMachine,
    *,
    arguments: Sequence[str] = (),
    seed: int = 0,
    profile: bool = False,
    capture: bool = True,
    flags: Sequence[str] = (),
    flags_of: Mapping[str, Sequence[str]] | None = None,
    timeout: float | None = None,
    strict: bool = False,
) -> AthreadRun:
    """Build a program and run it: see `build_athread` and `run_built`."""
    with own_folder("loopwright-athread-") as folder:
        program = build_athread(masters, slaves, machine, folder, flags, flags_of=flags_of)
        return run_built(
            program,
            arguments,
            seed=seed,
            profile=profile,
            capture=capture,
            timeout=timeout,
            strict=strict,
        )


def run_built(
    program: Path,
    arguments: Sequence[str] = (),
    *,
    seed: int = 0,
    profile: bool = False,
    capture: bool = True,
    timeout: float | None = None,
    strict: bool = False,
) -> AthreadRun:
    """Run a program; with `profile` its trace is read, with `capture` its output kept.

    The seed draws the order in which CPEs run and transfers end. With `strict` a CPE may not read
    what it has put itself before a barrier: when a put has ended, its data have left the LDM, and
    need not have come to main memory. Raises AthreadFault with the line of the first fault.
    """
    with own_folder("loopwright-athread-") as folder:
        fault, trace = folder / "fault", folder / "trace"
        environment = {**os.environ, "ATHREAD_SEED": str(seed), "ATHREAD_FAULT": str(fault)}
        if profile:
            environment["ATHREAD_TRACE"] = str(trace)
        if strict:
            environment["ATHREAD_STRICT"] = "1"
        done = call(
            [str(program), *arguments],
            seconds=timeout,
            given=None,
            output=subprocess.PIPE if capture else INHERITED,
            errors=INHERITED,
            environment=environment,
        )
        output = done.output.decode("utf-8", "replace")
        if done.is_late:
            message = f"the program ran for more than {timeout:g} s"
            raise AthreadFault(str(program), 0, message, output=output)
        if done.is_long:
            message = f"the program printed more than {len(done.output) >> 20} MiB"
            raise AthreadFault(str(program), 0, message, output=output)
        if done.status == _FAULT_STATUS and fault.exists():
            raise _fault(fault.read_text(encoding="utf-8", errors="replace"), output)
        if done.status < 0:
            by = signal.Signals(-done.status).name
            raise AthreadFault(str(program), 0, f"the program was ended by {by}", output=output)
        found = read_trace(trace) if profile and trace.exists() else None
        return AthreadRun(done.status, output, found)


def _fault(told: str, output: str) -> AthreadFault:
    match = _PLACE.match(told)
    if match is None:
        return AthreadFault("unknown", 0, told, output=output)
    file, line = match[1], int(match[2])
    return AthreadFault(file, line, match[3], _line_of(file, line), output)


def _line_of(file: str, line: int) -> str:
    try:
        lines = Path(file).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return lines[line - 1].strip() if 0 < line <= len(lines) else ""
