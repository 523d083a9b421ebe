"""Quick code of loop trees: time to compile, speed beside LLVM's -O3, candidates a minute, memory.

Nests are matrix products of sizes 64 to 256 after actions drawn at random (LoopTune's and merges,
marks, packs), the same for both compilers. Times of the race are those of the processor.
"""

from __future__ import annotations

import resource
import statistics
import time
from random import Random
from typing import Any

import numpy as np

from benchmarks.measure import Bar, Outcome, Setting, Table, check_close, geometric_mean
from loopwright.tuning.actions import ACTIONS, act, mask
from loopwright.tuning.loop_tree import LoopTree
from loopwright.tuning.quick_kernel import compile_tree, compile_tree_by_pipeline, seconds_of
from loopwright.tuning.tensor_nests import matmul_tree

__all__ = ["random_tree", "run"]

SIZES = range(64, 257, 16)
NESTS, QUICK_NESTS = 200, 20
CANDIDATES, QUICK_CANDIDATES = 1000, 100
LIVES, QUICK_LIVES = 2000, 200
LEFT_OUT = ("undo", "stop", "parallel")  # one thread
ROUNDS = 3


def random_tree(random: Random, steps: int = 10) -> LoopTree:
    """A matrix product after random legal actions; groups of words are equally likely."""
    tree = matmul_tree(*(random.choice(SIZES) for _ in range(3)))
    words = [word for word in ACTIONS if word not in LEFT_OUT]
    for _ in range(steps):
        possible = [w for w, ok in zip(words, mask(tree, words), strict=True) if ok]
        group = random.choice(sorted({w.split("_")[0] for w in possible}))
        tree = act(tree, random.choice([w for w in possible if w.split("_")[0] == group]))
    return tree


def run(setting: Setting) -> Outcome:
    """Measure the four bars."""
    random = Random(setting.seed)
    count = setting.count or (QUICK_NESTS if setting.quick else NESTS)
    rows = _race(random, count)
    quick = statistics.median(row["quick_ms"] for row in rows)
    compiled = geometric_mean(row["pipeline_ms"] / row["quick_ms"] for row in rows)
    speed = geometric_mean(row["pipeline_us"] / row["quick_us"] for row in rows)
    best = max(row["gflops"] for row in rows)
    print(f"fastest of the random nests: {best:.1f} GFLOPS")
    candidates = QUICK_CANDIDATES if setting.quick else CANDIDATES
    before = time.process_time()
    seconds = _candidates(Random(setting.seed), candidates)
    used = time.process_time() - before
    print(f"{candidates} candidates: {seconds:.1f} s, {used:.1f} s of the processor")
    growth, mebibytes = _memory(Random(setting.seed), QUICK_LIVES if setting.quick else LIVES)
    rows.append(
        {"candidates": candidates, "seconds": seconds, "used": used, "mebibytes": mebibytes}
    )
    bars = (
        Bar("nest to callable, median", quick, 15.0, at_most=True, unit=" ms"),
        Bar("times as fast to compile as -O3", compiled, 5.0),
        Bar("speed of code over that of -O3", speed, 0.95),
        Bar(f"{candidates} candidates of 64 x 64 x 64", seconds, candidates * 0.06, True, " s"),
        Bar("memory after all candidates over half of them", growth, 1.1, at_most=True),
    )
    return Outcome(tuple(rows), bars)


def _race(random: Random, count: int) -> list[dict[str, Any]]:
    columns = ("quick ms", "-O3 ms", "quick us", "-O3 us", "GFLOPS")
    table = Table((("nest", "40s"), *((title, "9.1f") for title in columns)))
    print(table.head())
    compile_tree(matmul_tree(8, 8, 8))  # first use of libraries is not the nest's
    compile_tree_by_pipeline(matmul_tree(8, 8, 8))
    rows = []
    for _ in range(count):
        tree = random_tree(random)
        arrays = _arrays(tree)
        quick, quick_ms = _timed(compile_tree, tree)
        whole, whole_ms = _timed(compile_tree_by_pipeline, tree)
        calls = [kernel.call_on(arrays) for kernel in (quick, whole)]
        for call in calls:
            arrays["out"][...] = -1
            call()
            check_close(arrays["out"], arrays["A"] @ arrays["B"], arrays["A"].shape[1])
        best = [float("inf")] * 2
        for _ in range(ROUNDS):
            best = [
                min(b, seconds_of(call, clock=time.thread_time))
                for b, call in zip(best, calls, strict=True)
            ]
        micro = [1e6 * seconds for seconds in best]
        name = " ".join(f"{loop.dim}{loop.trips}" for loop in tree.nests[0].loops)
        gflops = tree.operations / best[0] / 1e9
        print(table.row(name, quick_ms, whole_ms, *micro, gflops), flush=True)
        rows.append(
            {
                "nest": name,
                "quick_ms": quick_ms,
                "pipeline_ms": whole_ms,
                "quick_us": micro[0],
                "pipeline_us": micro[1],
                "gflops": gflops,
            }
        )
    return rows


def _timed(compiled: Any, tree: LoopTree) -> tuple[Any, float]:
    start = time.process_time()
    kernel = compiled(tree)
    return kernel, 1e3 * (time.process_time() - start)


def _arrays(tree: LoopTree) -> dict[str, Any]:
    m, k, n = (dict(tree.nests[0].statement.dims)[dim] for dim in "mkn")
    random = np.random.default_rng(0)
    return {
        "A": random.random((m, k), dtype=np.float32),
        "B": random.random((k, n), dtype=np.float32),
        "out": np.zeros((m, n), dtype=np.float32),
    }


def _candidates(random: Random, count: int) -> float:
    """Seconds of the clock to draw, compile, check and time candidates of one small product."""
    start = time.perf_counter()
    tree = matmul_tree(64, 64, 64)
    arrays = _arrays(tree)
    wanted = arrays["A"] @ arrays["B"]
    words = [word for word in ACTIONS if word not in LEFT_OUT]
    for number in range(count):
        if number % 10 == 0:
            tree = matmul_tree(64, 64, 64)
        possible = [w for w, ok in zip(words, mask(tree, words), strict=True) if ok]
        tree = act(tree, random.choice(possible))
        call = compile_tree(tree).call_on(arrays)
        call()
        check_close(arrays["out"], wanted, 64)
        seconds_of(call, least_seconds=0.01)
    return time.perf_counter() - start


def _memory(random: Random, count: int) -> tuple[float, float]:
    """Growth of resident memory over the second half of many candidates, and its MiB."""
    half = 0.0
    for number in range(count):
        if number == count // 2:
            half = resident()
        compile_tree(random_tree(random, 4))
    end = resident()
    return end / half, end / 2**20


def resident() -> float:
    """Bytes of memory that this process holds now."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return float(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0
