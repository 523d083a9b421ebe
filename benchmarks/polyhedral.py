"""Loops in C, 30 kernels shaped like PolyBench: lw.compile beside gcc, clang and Polly.

LARGE compares all kernels, XL the stencils on arrays that no cache holds. Every contestant gets the
same file: constant extents, sizes as arguments, `restrict`. Peers run on one thread.
"""

from __future__ import annotations

import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import loopwright as lw
from benchmarks.corpus_contestants import (
    Contestant,
    blas_product,
    blas_rate,
    compile_ours,
    installed_peers,
)
from benchmarks.corpus_kernels import CONSTANT, KERNELS, Inputs, Kernel, make_inputs, write_source
from benchmarks.corpus_race import Effort, race_in_place
from benchmarks.environment import processors
from benchmarks.measure import (
    Bar,
    Outcome,
    Setting,
    Table,
    Times,
    geometric_mean,
    seconds_by_name,
    summary,
    values_of,
)
from loopwright import options

__all__ = ["bars", "chosen", "run"]

OURS, OURS_ON_TWO = "loopwright", "loopwright, 2 threads"
PEERS = ("gcc", "clang", "polly")
TIME_TILED = ("jacobi-2d", "heat-3d", "seidel-2d", "fdtd-2d", "adi")
EFFORT, QUICK_EFFORT = Effort(rounds=7, seconds=6.0), Effort(rounds=3, seconds=0.5)
COLUMNS = (
    ("kernel", "14s"),
    ("size", "5s"),
    ("gcc ms", "8.2f"),
    ("clang ms", "8.2f"),
    ("polly ms", "8.2f"),
    ("ours ms", "8.2f"),
    ("2 threads", "8.2f"),
    ("x gcc", "6.2f"),
    ("x best", "6.2f"),
    ("x 1 thread", "6.2f"),
    ("GFlop/s", "7.2f"),
    ("of gemm", "7.0%"),
    ("compile s", "7.2f"),
)
RATIOS = ("times_gcc", "times_best", "times_one_thread")


def run(setting: Setting) -> Outcome:
    """Race the kernels asked for, all of them at LARGE and XL by default."""
    peers = installed_peers()
    for peer in peers:
        print(f"{peer.name}: {' '.join(peer.command)}")
    asked = chosen(setting)
    table = Table(COLUMNS)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        entries = _compile_peers(asked, Path(folder))
        print(table.head(), flush=True)
        for entry in entries:
            rows.append(_row(entry, setting))
            print(table.row(*_cells(rows[-1])), flush=True)
            for remark in rows[-1]["remarks"]:
                print(f"  {remark}", flush=True)
    for size in dict.fromkeys(row["size"] for row in rows):
        same = [row for row in rows if row["size"] == size]
        means = [_known(geometric_mean(values_of(same, ratio))) for ratio in RATIOS]
        print(table.row("geometric mean", size, *[None] * 5, *means, *[None] * 3), flush=True)
    return Outcome(tuple(rows), bars(rows))


def chosen(setting: Setting) -> list[tuple[Kernel, str]]:
    """The kernels to race, each with the class of its sizes."""
    unknown = [name for name in setting.kernels if name not in KERNELS]
    if unknown:
        sys.exit(f"no kernel is named {', '.join(unknown)}; known: {', '.join(KERNELS)}")
    kernels = [KERNELS[name] for name in setting.kernels]
    kernels = kernels or [kernel for kernel in KERNELS.values() if kernel.kind != "nasty"]
    sizes = (setting.size,) if setting.size else ("SMALL",) if setting.quick else ("LARGE", "XL")
    found = [(kernel, size) for size in sizes for kernel in kernels if size in kernel.classes]
    return found or sys.exit(f"none of these kernels has sizes {' or '.join(sizes)}")


def bars(rows: Iterable[dict[str, Any]]) -> tuple[Bar, ...]:
    """What we hold ourselves to, as far as these rows can tell."""
    all_rows = list(rows)
    large = [row for row in all_rows if row["size"] != "XL"]
    beyond = [row for row in all_rows if row["size"] == "XL" and row["kernel"] in TIME_TILED]
    parallel = [row for row in large if row["parallel"]]
    gemm_like = [row for row in large if row["kind"] == "gemm-like"]
    paths = [row for row in large if row["kernel"] == "floyd-warshall"]
    wanted = (
        ("speed of gcc, geometric mean", large, "times_gcc", geometric_mean, 2.0, False),
        ("speed of the best peer, geometric mean", large, "times_best", geometric_mean, 1.3, False),
        ("speed of the best peer, worst", large, "times_best", min, 0.95, False),
        ("two threads, mean", parallel, "times_one_thread", geometric_mean, 1.6, False),
        ("two threads, worst", parallel, "times_one_thread", min, 1.6, False),
        ("share of NumPy's GEMM, worst", gemm_like, "share_of_gemm", min, 0.7, False),
        ("floyd-warshall, speed of gcc", paths, "times_gcc", min, 5.0, False),
        ("beyond the caches, speed of gcc, worst", beyond, "times_gcc", min, 1.5, False),
        ("time to compile, mean", large, "compile_seconds", np.mean, 0.7, True),
        ("time to compile, worst", large, "compile_seconds", max, 3.0, True),
    )
    return tuple(
        Bar(what, summary(among, key, pick), bar, at_most)
        for what, among, key, pick, bar, at_most in wanted
        if among
    )


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


@dataclass(frozen=True, slots=True)
class Entry:
    """A kernel at one size, its file, and what the peers made of it."""

    kernel: Kernel
    size: str
    source: Path
    peers: tuple[Contestant, ...]


def _compile_peers(asked: Sequence[tuple[Kernel, str]], folder: Path) -> list[Entry]:
    """Let the peers compile everything before anything is timed: Polly takes up to a minute."""
    start = time.perf_counter()
    sources = []
    for kernel, size in asked:
        (folder / size).mkdir(exist_ok=True)
        mode, extents = CONSTANT.with_restrict(), kernel.at(size)
        sources.append(write_source(kernel, folder / size, mode=mode, extents=extents))

    def compile_one(asked: tuple[Kernel, str], source: Path) -> Entry:
        kernel, size = asked
        peers = tuple(peer.compile(source, kernel) for peer in installed_peers())
        return Entry(kernel, size, source, peers)

    with ThreadPoolExecutor(processors()) as pool:
        entries = list(pool.map(compile_one, asked, sources))
    print(f"the peers compiled everything in {time.perf_counter() - start:.0f} s", flush=True)
    return entries


def _row(entry: Entry, setting: Setting) -> dict[str, Any]:
    kernel, size = entry.kernel, entry.size
    inputs = make_inputs(kernel, kernel.at(size), seed=setting.seed)
    contestants = list(entry.peers)
    ours, ready, refused = _ours(entry.source, inputs)
    if ours is not None:
        contestants.append(Contestant(OURS, ours))
        if processors() > 1:
            contestants.append(Contestant(OURS_ON_TWO, ours, threads=2))
    if kernel.kind == "gemm-like":
        contestants.append(blas_product(inputs))
    effort = QUICK_EFFORT if setting.quick else EFFORT
    times, wrong = race_in_place(kernel, contestants, inputs, effort)
    remarks = ([f"loopwright: {refused}"] if refused else []) + wrong
    return _facts(kernel, size, times, ready) | {"remarks": remarks}


def _ours(source: Path, inputs: Inputs) -> tuple[Callable[..., Any] | None, float | None, str]:
    """Our kernel, seconds from the file to the end of its first call, and why there is none.

    Kernels may be specialised when they are first called; the cache on disk is off.
    """
    copies = [x.copy() if isinstance(x, np.ndarray) else x for x in inputs.values()]
    lw.set_num_threads(1)
    try:
        with options.override(cache=False):
            start = time.perf_counter()
            compiled = compile_ours(source, reassoc=True)
            compiled(*copies)
            return compiled, time.perf_counter() - start, ""
    except lw.LoopwrightError as error:
        return None, None, str(error)


def _facts(
    kernel: Kernel, size: str, times: dict[str, Times], ready: float | None
) -> dict[str, Any]:
    """What was found about one kernel, as plain data."""
    best = {name: t.best for name, t in times.items()}
    ours, two = best.get(OURS), best.get(OURS_ON_TWO)
    peers = [best[name] for name in PEERS if name in best]
    flops = kernel.count_flops(kernel.at(size))
    rate = None if ours is None else 1e-9 * flops / ours
    blas = blas_rate(best)
    return {
        "kernel": kernel.name,
        "kind": kernel.kind,
        "size": size,
        "sizes": kernel.at(size),
        "parallel": kernel.parallel,
        "seconds": seconds_by_name(times),
        "best": best,
        "times_gcc": None if ours is None or "gcc" not in best else best["gcc"] / ours,
        "times_best": None if ours is None or not peers else min(peers) / ours,
        "times_one_thread": None if ours is None or two is None else ours / two,
        "gflops": rate,
        "bytes": kernel.count_bytes(kernel.at(size)),
        "share_of_gemm": None if rate is None or blas is None else rate / blas,
        "compile_seconds": None if ready is None or ours is None else max(0.0, ready - ours),
    }


def _cells(row: dict[str, Any]) -> list[Any]:
    """The line of the table for one kernel."""
    names = (*PEERS, OURS, OURS_ON_TWO)
    seconds = [row["best"].get(name) for name in names]
    milliseconds = [None if s is None else 1000 * s for s in seconds]
    rest = ("gflops", "share_of_gemm", "compile_seconds")
    return [row["kernel"], row["size"], *milliseconds, *(row[key] for key in (*RATIOS, *rest))]
