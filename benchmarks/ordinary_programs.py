"""Ten functions as people bring them to numba, by `jit`, NumPy and numba's `njit`.

`--preset S,M,L` and `--only NAME,...` choose; `--check` says which are right and times nothing.
"""

from __future__ import annotations

from benchmarks.measure import Outcome, Setting
from benchmarks.numpy_functions.race import Least, run_source
from benchmarks.numpy_functions.sources import ORDINARY, source

__all__ = ["run"]


def run(setting: Setting) -> Outcome:
    """Race or check the ordinary programs; none may be slower than 0.95 of numba."""
    least = Least(numba_mean=1.0, numba=0.95)
    return run_source(ORDINARY, setting, complete=len(source(ORDINARY).names()), least=least)
