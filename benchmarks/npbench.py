"""The programs of NPBench, from a checkout (--dir), by `jit`, NumPy and numba.

`--preset S,M,paper` and `--only NAME,...` choose; `--check` says which are right and times nothing.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.measure import Outcome, Setting
from benchmarks.numpy_functions.race import run_source

__all__ = ["run"]

PROGRAMS = 54  # all of them


def run(setting: Setting) -> Outcome:
    """Race or check the programs of a checkout; without one there is nothing to do."""
    if not (Path(setting.folder) / "bench_info").is_dir():
        print("needs --dir CHECKOUT, a folder with NPBench's bench_info")
        return Outcome((), ())
    return run_source(setting.folder, setting, complete=PROGRAMS)
