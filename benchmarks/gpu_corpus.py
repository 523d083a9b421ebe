"""The kernels of the corpus on a GPU, against naive kernels: one thread for each parallel point.

    python -m benchmarks.gpu_corpus [--size LARGE] [--kernels gemm,atax]

Data stay on the device. The naive kernel takes the loops as they are written: the outermost ones
that are parallel become threads, what stands around them runs on the host, and where nothing is
parallel one thread does all. Results of both are compared with each other. Needs CuPy.

Of stencils the bandwidth is told: every instance of a statement moves an element of each array that
it reads, and one that it writes. A copy of the same run is beside it; arrays that fit into the
second-level cache may be faster.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.corpus_kernels import KERNELS, SYMBOLIC, Kernel, make_inputs, write_source
from loopwright.analysis.size_estimates import average_trips
from loopwright.calls.compile import compile as compile_file
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import program_of
from loopwright.ir.program import Program
from loopwright.ir.schedule_tree import Band, Node, nodes_of, perfect_nest
from loopwright.ir.schedule_tree import Sequence as InOrder
from loopwright.planner.draft import Draft
from loopwright.transform.grid_mapping import MapToBlocks, MapToThreads
from loopwright.transform.plan import Plan
from loopwright.transform.schedule_legality import initial_schedule
from loopwright.transform.tiling import StripMine, Tile

_AXES = ("x", "y", "z")
_REPEATS = 5
SCALED = "SMALL"  # size of kernels of one thread
_ENOUGH = 2.0  # seconds that one kernel is repeated for at most


def naive_plan(program: Program) -> Plan:
    """One thread for each point of the outermost parallel loops, in the order of the source."""
    draft = Draft(initial_schedule(program))
    _map(draft, nodes_of(draft.schedule))
    return Plan(tuple(draft.steps))


def _map(draft: Draft, node: Node) -> None:
    match node:
        case InOrder(filters=filters):
            for branch in filters:
                _map(draft, branch.child)
        case Band():
            if not _kernel(draft, node):
                _map(draft, node.child)


def _kernel(draft: Draft, band: Band) -> bool:
    free: list[str] = []
    copies = draft.copies(band)
    steps = list(copies)
    for inner in perfect_nest(band)[:3]:
        step = MapToBlocks(inner.loop, _AXES[len(free)])
        if draft.reach(*steps, step) is None:
            break
        steps.append(step)
        free.append(inner.loop)
    if not free:
        return False
    *planes, last = free
    if planes:
        sizes = (*(1 for _ in planes[:-1]), 8, 32)
        tile = Tile(tuple(free), sizes) if len(free) > 1 else StripMine(last, 256)
        threads = [MapToThreads(planes[-1], "y", 8), MapToThreads(last, "x", 32)]
        if len(planes) > 1:
            threads.insert(0, MapToThreads(planes[0], "z", 1))
    else:
        tile, threads = StripMine(last, 256), [MapToThreads(last, "x", 256)]
    names = [f"{name}_t" for name in free]
    blocks = [MapToBlocks(name, axis) for name, axis in zip(reversed(names), _AXES, strict=False)]
    return draft.take(*copies, tile, *blocks, *threads)


def _time(call: Any) -> float:
    """The median time of a call on the device, in seconds."""
    import cupy  # only who has a GPU runs this

    times: list[float] = []
    begun = time.perf_counter()
    while len(times) < _REPEATS and (not times or time.perf_counter() - begun < _ENOUGH):
        first, last = cupy.cuda.Event(), cupy.cuda.Event()
        first.record()
        call()
        last.record()
        last.synchronize()
        times.append(cupy.cuda.get_elapsed_time(first, last) * 1e-3)
    return sorted(times)[len(times) // 2]


def copy_bandwidth() -> float:
    """Bytes that a copy of a GB reads and writes in a second."""
    import cupy

    source = cupy.zeros(1 << 27)
    target = cupy.empty_like(source)
    cupy.copyto(target, source)
    return float(2 * source.nbytes / _time(lambda: cupy.copyto(target, source)))


def _swept_bytes(program: Program, sizes: dict[str, int]) -> float:
    """What the statements of a stencil move, each element of an instance once for each array."""
    total = 0.0
    for name, trips in average_trips(program, sizes).items():
        statement = program.statement(name)
        read = {access.array: access.dtype.bytes for access in statement.reads if access.index}
        moved = sum(read.values()) + statement.write.dtype.bytes
        total += math.prod(trips.values()) * moved
    return total


def measure(kernel: Kernel, size: str, folder: Path) -> dict[str, Any]:
    """Times of our plan and of the naive one, and how far their results are apart.

    Where the naive kernel is one thread, it runs at a smaller size, and its time is scaled by the
    number of operations: a thread alone would take minutes. Results are compared at that size.
    """
    import cupy
    import numpy as np

    source = write_source(kernel, folder, dtype=kernel.dtypes[0], mode=SYMBOLIC)
    trees = [region.tree for region in read_c(source).regions]
    naive = [naive_plan(program_of(tree, reassoc=False)) for tree in trees]
    is_scaled = not any(step.kind == "map_to_threads" for plan in naive for step in plan)
    small = SCALED if is_scaled else size
    found: dict[str, Any] = {"kernel": kernel.name, "is_scaled": is_scaled, "bytes": 0.0}
    if kernel.kind == "stencil":
        programs = [program_of(tree, reassoc=False) for tree in trees]
        found["bytes"] = sum(_swept_bytes(x, dict(kernel.at(size))) for x in programs)

    def arguments(at: str) -> list[Any]:
        inputs = make_inputs(kernel, kernel.at(at))
        return [cupy.asarray(x) if isinstance(x, np.ndarray) else x for x in inputs.values()]

    results = []
    for name, plan, at in (("ours", "model", size), ("naive", naive, small)):
        begun = time.perf_counter()
        function = compile_file(source, target="cuda", plan=plan)
        found[f"{name} compile"] = time.perf_counter() - begun
        values = arguments(small)
        function(*values)
        results.append([x.get() for x in values if isinstance(x, cupy.ndarray)])
        found[name] = _time(partial(function, *arguments(at)))
    if is_scaled:
        counts = [kernel.count_flops(kernel.at(at)) for at in (size, small)]
        found["naive"] *= counts[0] / counts[1]
    with np.errstate(all="ignore"):
        found["apart"] = max(
            float(np.nanmax(np.abs(a - b)) / max(1.0, float(np.nanmax(np.abs(b))))) if a.size else 0
            for a, b in zip(*results, strict=True)
        )
    return found


def main() -> int:
    """Print a line for each kernel, then the geometric mean and the worst."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_corpus")
    parser.add_argument("--size", default="LARGE")
    parser.add_argument("--kernels", default="")
    args = parser.parse_args()
    names = args.kernels.split(",") if args.kernels else [k for k in KERNELS if "nasty" not in k]
    rows: list[dict[str, Any]] = []
    copying = copy_bandwidth()
    print(f"a copy moves {copying * 1e-12:.2f} TB/s")
    with TemporaryDirectory() as folder:
        for name in names:
            try:
                row = measure(KERNELS[name], args.size, Path(folder))
            except Exception as error:  # noqa: BLE001, the others are measured all the same
                print(f"{name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
                continue
            rows.append(row)
            told = f"{row['ours'] * 1e3:9.3f} ms  naive {row['naive'] * 1e3:9.3f} ms"
            times = row["naive"] / row["ours"]
            told += " (scaled)" if row["is_scaled"] else ""
            if row["bytes"]:
                speed = row["bytes"] / row["ours"]
                told += f"  {speed * 1e-12:.2f} TB/s, {speed / copying:.0%} of a copy"
            print(
                f"{name:16} {told}  {times:7.2f} times  apart {row['apart']:.1e}  "
                f"compiled in {row['ours compile']:.2f} s",
                flush=True,
            )
    ratios = [row["naive"] / row["ours"] for row in rows]
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(
            f"geometric mean {mean:.2f} times naive, worst {min(ratios):.2f}, {len(rows)} kernels"
        )
    return len(names) - len(rows)


if __name__ == "__main__":
    sys.exit(main())
