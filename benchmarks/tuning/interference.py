"""How much processes on cores of their own disturb each other while they tune.

    python -m benchmarks.tuning.interference --jobs 16

One process times a few trees alone; then all processes do the same at once, compiling between
times as searches do. The ratio of the times is what a parallel evaluation costs in accuracy.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from benchmarks.tuning.evaluation import drawn_shapes
from benchmarks.tuning.pinning import one_processor_a_core, pin_next
from loopwright.machines.host import host
from loopwright.tuning.tree_construction import constructed_tree
from loopwright.tuning.tree_evaluator import TreeClock

__all__ = ["main", "timed_trees"]

_SHAPES = 6
_ROUNDS = 6


def timed_trees(number: int) -> list[float]:
    """Seconds of the constructed trees of a few shapes, each compiled and timed several times."""
    clock = TreeClock(host())
    trees = [constructed_tree(shape.tree(), host()) for shape in drawn_shapes("looptune", _SHAPES)]
    rounds = [[clock(tree) for tree in trees] for _ in range(_ROUNDS)]
    return [statistics.median(times) for times in zip(*rounds, strict=True)]


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.tuning.interference", description=__doc__)
    parser.add_argument("--jobs", type=int, default=0, help="0: one for each core")
    cores = one_processor_a_core()
    jobs = parser.parse_args(words).jobs or len(cores)
    context = get_context("spawn")
    given = context.Value("i", 0), cores[:jobs]
    with ProcessPoolExecutor(jobs, context, initializer=pin_next, initargs=given) as pool:
        list(pool.map(timed_trees, range(jobs)))  # every process has started and loaded all
        alone = pool.submit(timed_trees, 0).result()
        together = list(pool.map(timed_trees, range(jobs)))
    ratios = [b / a for times in together for a, b in zip(alone, times, strict=True)]
    middle, worst = statistics.median(ratios), max(ratios)
    near = sum(ratio < 1.03 for ratio in ratios) / len(ratios)
    print(f"{len(cores)} cores, {jobs} processes at once: times {middle:.3f} of those alone")
    print(f"(median; worst {worst:.3f}; {near:.0%} within 3%)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
