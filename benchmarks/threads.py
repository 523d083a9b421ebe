"""What it costs to open and close a parallel region of two threads beyond a plain call."""

from __future__ import annotations

import time
from collections.abc import Callable

from benchmarks.measure import Bar, Outcome, Setting, Table
from loopwright.kernels import thread_pool
from loopwright.runtime.jit import compile_to_object, load_object

__all__ = ["run"]

EMPTY = "define void @empty(ptr %launch, ptr %team, i64 %thread, ptr %objects) {\n  ret void\n}"
REGIONS = 400  # opened in a row, so that the workers are awake as between the steps of a program
MOST_US = 10.0


def run(setting: Setting) -> Outcome:
    """Time rows of empty regions; of each row the median counts, of the rows the least."""
    code = load_object(compile_to_object(EMPTY), ("empty",))
    pool = thread_pool()

    def opened(threads: int) -> Callable[[], bool]:
        function = code.address("empty")
        return lambda: pool.run(function, 0, (0, 0, 0), 0, threads)

    alone, both = [], []
    for _ in range(setting.rounds * 3):
        alone.append(_median_us(opened(1)))
        both.append(_median_us(opened(setting.threads)))
        time.sleep(0.01)  # another process may leave its processor meanwhile
    cost = min(both) - min(alone)
    table = Table((("threads", "7d"), ("us per region", "8.2f")))
    print(table.head())
    print(table.row(1, min(alone)))
    print(table.row(setting.threads, min(both)))
    rows = ({"threads": 1, "us": alone}, {"threads": setting.threads, "us": both})
    return Outcome(rows, (Bar("cost of a region of 2 threads", cost, MOST_US, True, " us"),))


def _median_us(call: Callable[[], object]) -> float:
    samples = []
    for _ in range(REGIONS):
        start = time.perf_counter()
        call()
        samples.append(time.perf_counter() - start)
    return 1e6 * sorted(samples)[REGIONS // 2]
