"""What a fresh process does for the latency benchmark: one part, told by name, timed inside it.

Prints one JSON object. The clock of a first call starts when NumPy is there, which the arrays of
the call need, and runs through every import of ours to the end of the call.
"""

import json
import sys
import time
from typing import Any

START = time.perf_counter()
EINSUM = "efbad,cf->abcde"


def milliseconds(start: float) -> float:
    return 1000 * (time.perf_counter() - start)


def import_numpy() -> dict[str, Any]:
    import numpy  # noqa: F401  lazy: this is what is timed

    return {"ms": milliseconds(START)}


def import_loopwright() -> dict[str, Any]:
    import numpy  # noqa: F401  lazy: this is what is timed

    start = time.perf_counter()
    import loopwright  # noqa: F401  lazy: this is what is timed

    added = milliseconds(start)
    from loopwright import einsum  # noqa: F401  lazy: this is what is timed

    return {"ms": added, "ms_with_einsum": milliseconds(start)}


def new_einsum() -> dict[str, Any]:
    """One contraction in a process that does nothing else."""
    import numpy as np  # lazy: not what is timed

    start = time.perf_counter()
    import loopwright as lw  # lazy: this is what is timed

    return _call(start, lambda: lw.einsum(EINSUM, np.ones((6, 7, 4, 5, 6)), np.ones((4, 7))))


def warm_einsum() -> dict[str, Any]:
    """The same in a process that has compiled and run other kernels."""
    import numpy as np  # lazy: this is what is timed

    import loopwright as lw  # lazy: this is what is timed

    ones = np.ones((9, 9), np.float32)
    lw.einsum("ik,kj->ij", ones, ones, semiring="max_plus")
    lw.einsum("ij,j->i", ones, ones[0])
    return new_einsum()


def new_jit() -> dict[str, Any]:
    """One call of a naive loop nest in a process that does nothing else."""
    import numpy as np  # lazy: not what is timed

    from benchmarks.naive import ORDERS  # lazy: not what is timed

    start = time.perf_counter()
    import loopwright as lw  # lazy: this is what is timed

    kernel = lw.jit(ORDERS["ikj"])
    ones = np.ones((40, 40))
    return _call(start, lambda: kernel(ones, ones, np.zeros((40, 40))))


def warm_jit() -> dict[str, Any]:
    """The same in a process that has compiled and run another loop nest."""
    import numpy as np  # lazy: this is what is timed

    import loopwright as lw  # lazy: this is what is timed
    from benchmarks.naive import ORDERS  # lazy: this is what is timed

    ones = np.ones((9, 9), np.float32)
    lw.jit(ORDERS["jik"])(ones, ones, np.zeros((9, 9), np.float32))
    return new_jit()


def _call(start: float, run: Any) -> dict[str, Any]:
    run()
    return {"ms": milliseconds(start), "islpy": "islpy" in sys.modules}


PARTS = {
    part.__name__: part
    for part in (import_numpy, import_loopwright, new_einsum, warm_einsum, new_jit, warm_jit)
}

if __name__ == "__main__":
    print(json.dumps(PARTS[sys.argv[1]]()))
