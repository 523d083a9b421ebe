"""What it costs to open and close a parallel region of two threads beyond a plain call.

The region's function counts its runs, which shows that every thread took part in every region.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from benchmarks.measure import Bar, Outcome, Setting, Table, check_equal
from loopwright.kernels import thread_pool
from loopwright.runtime.llvm_engine import compile_to_object, load_object

__all__ = ["run"]

COUNT = """
define void @count(ptr %launch, ptr %team, i64 %thread, ptr %objects) {
  %at = getelementptr i64, ptr %launch, i64 %thread
  %old = load i64, ptr %at
  %new = add i64 %old, 1
  store i64 %new, ptr %at
  ret void
}
"""
REGIONS = 400  # opened in a row, so that the workers are awake as between the steps of a program
WAKINGS = 40  # regions opened after the workers have gone to sleep
ASLEEP_SECONDS = 0.002
MOST_US = 10.0


def run(setting: Setting) -> Outcome:
    """Time rows of regions; of each row the median counts, of the rows the least."""
    code = load_object(compile_to_object(COUNT), ("count",))
    pool = thread_pool()
    counts = np.zeros(setting.threads * 8, np.int64)

    def opened(threads: int) -> Callable[[], bool]:
        function, launch = code.address("count"), counts.ctypes.data
        return lambda: pool.run(function, launch, (0, 0, 0), 0, threads)

    rounds = setting.rounds * 3
    alone, both = [], []
    for _ in range(rounds):
        alone.append(_median_us(opened(1), REGIONS))
        both.append(_median_us(opened(setting.threads), REGIONS))
        time.sleep(0.01)  # another process may leave its processor meanwhile
    woken = [_median_us(opened(setting.threads), WAKINGS, ASLEEP_SECONDS)]
    regions = rounds * REGIONS + WAKINGS
    expected = [regions + rounds * REGIONS] + [regions] * (setting.threads - 1)
    check_equal(counts[: setting.threads], expected)
    cost = min(both) - min(alone)
    table = Table((("threads", "24s"), ("us per region", "8.2f")))
    print(table.head())
    print(table.row("1", min(alone)))
    print(table.row(f"{setting.threads}", min(both)))
    print(table.row(f"{setting.threads}, workers asleep", min(woken)))
    rows = (
        {"threads": 1, "us": alone},
        {"threads": setting.threads, "us": both},
        {"threads": setting.threads, "workers": "asleep", "us": woken},
    )
    return Outcome(rows, (Bar("cost of a region of 2 threads", cost, MOST_US, True, " us"),))


def _median_us(call: Callable[[], object], count: int, pause: float = 0.0) -> float:
    samples = []
    for _ in range(count):
        if pause:
            time.sleep(pause)
        start = time.perf_counter()
        call()
        samples.append(time.perf_counter() - start)
    return 1e6 * sorted(samples)[count // 2]
