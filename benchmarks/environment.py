"""The surroundings of a measurement: thread variables of all libraries, machine, load."""

from __future__ import annotations

import atexit
import datetime
import os
import platform
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

__all__ = [
    "DISTURBING",
    "Activity",
    "activity",
    "bytecode_variables",
    "child_environment",
    "load_average",
    "machine_record",
    "others_between",
    "processors",
]

DISTURBING = 0.1  # processors in use by others; above, measurements are noise
_BUSY = slice(0, 3), slice(5, 8)  # user, nice, system; irq, softirq, steal of /proc/stat

# Each library reads its variable once, when it is loaded; so they are set for a new process.
THREAD_VARIABLES = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "LOOPWRIGHT_NUM_THREADS",
)
PACKAGES = ("loopwright", "numpy", "llvmlite", "islpy", "torch", "numba")


@cache
def bytecode_variables() -> dict[str, str]:
    """What has the children of this process share the byte code of modules.

    It is there where a package is installed, whatever the environment says about writing it: what a
    child is timed for is no translation of Python. The folder goes with this process.
    """
    folder = tempfile.TemporaryDirectory(prefix="loopwright-bytecode-")
    atexit.register(folder.cleanup)
    return {"PYTHONPYCACHEPREFIX": folder.name, "PYTHONDONTWRITEBYTECODE": ""}


def child_environment(
    threads: int, environ: Mapping[str, str] = os.environ, *, spinning: bool = False
) -> dict[str, str]:
    """The environment of a process in which every library uses `threads` threads.

    OpenBLAS's workers spin for 2^26 ticks after a call; a tick of ARM's counter is 40 ns, so they
    would take a core from every other library for seconds. 2^20 ticks are over within a pause.
    `spinning` leaves that as it is.
    """
    spins = {} if spinning else {"OPENBLAS_THREAD_TIMEOUT": "20"}
    # What is measured is the plan of the model, unless races are asked for.
    return {
        "LOOPWRIGHT_RACE": "0",
        **environ,
        **spins,
        **dict.fromkeys(THREAD_VARIABLES, str(threads)),
    }


def processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def load_average() -> float | None:
    """Processes that wanted a processor during the last minute; None where it is not told."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


@dataclass(frozen=True, slots=True)
class Activity:
    """Seconds since some beginning."""

    wall: float
    own: float  # processor time of this process and its finished children
    machine: float | None  # processor time of all processes; None where it is not told


def activity() -> Activity:
    """What has been computed so far, by us and by all."""
    own = sum(os.times()[:4])
    return Activity(time.monotonic(), own, _machine_seconds("/proc/stat"))


def others_between(start: Activity, end: Activity) -> float | None:
    """How many processors other processes kept busy; None where it is not told."""
    if start.machine is None or end.machine is None or end.wall <= start.wall:
        return None
    others = (end.machine - start.machine) - (end.own - start.own)
    return max(0.0, others / (end.wall - start.wall))


def _machine_seconds(path: str) -> float | None:
    try:
        with open(path, encoding="ascii") as file:
            words = file.readline().split()
    except OSError:
        return None
    if not words or words[0] != "cpu":
        return None
    ticks = [int(word) for word in words[1:]]
    return sum(sum(ticks[part]) for part in _BUSY) / os.sysconf("SC_CLK_TCK")


def machine_record() -> dict[str, Any]:
    """What ran: processor, system, packages, BLAS and the threads of each library."""
    # lazy: the parent of the measuring processes never loads them
    import numpy as np

    # lazy: as above
    from loopwright.machines.host import host

    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    machine = host()
    return {
        "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "processor": machine.description,
        "machine": machine.name,
        "llvm_cpu": machine.llvm_cpu,
        "processors": processors(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "blas": f"{blas['name']} {blas['version']}",
        "threads": {name: os.environ.get(name) for name in THREAD_VARIABLES},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
