"""The NumPy functions of tests/numpy_programs by `jit`, NumPy and numba's `njit`.

`--preset S,M,L` and `--only NAME,...` choose; `--check` says which are right and times nothing.
"""

from __future__ import annotations

from benchmarks.measure import Outcome, Setting
from benchmarks.numpy_functions.race import run_source
from benchmarks.numpy_functions.sources import OWN, source

__all__ = ["run"]


def run(setting: Setting) -> Outcome:
    """Race or check our own programs."""
    return run_source(OWN, setting, complete=len(source(OWN).names()))
