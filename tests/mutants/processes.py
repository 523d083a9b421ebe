"""Processes that run tests: their environment, their two cores, and their end."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress

# Environment variables by which a run hands paths to its test processes.
RECORDS = "MUTANTS_RECORDS"  # a folder in which each process writes records of its tests
DONE = "MUTANTS_DONE"  # a JSON list of the tests that are recorded already
CHOSEN = "MUTANTS_CHOSEN"  # a JSON list of tests with their seconds, in the order to run them
JOB = "MUTANTS_JOB"  # the number of the job, which decides on its cores
LOG = "MUTANTS_LOG"  # a file for the outcome of each of them


def environment() -> dict[str, str]:
    """Return the environment of test processes: the same for the recorder and for mutants."""
    quiet = {"OMP_WAIT_POLICY": "passive", "OPENBLAS_NUM_THREADS": "1"}
    return os.environ | quiet | {"PYTHONDONTWRITEBYTECODE": "", "TEST_LEVEL": "test"}


def take_two_cores(number: int) -> None:
    """Run on two neighbouring cores, as where the suite usually runs."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[number % len(cores)], cores[(number + 1) % len(cores)]})


def spent() -> float:
    """Return the processor seconds of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads a group, and all of the group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
