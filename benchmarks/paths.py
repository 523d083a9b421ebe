"""Closures of dense matrices: against the bound of the pair, scipy, squaring, with predecessors.

The bound of a pair is n^3 pairs at the rate of the units (peak.py), on as many cores as threads.
Our bars: 85% of it for every idempotent pair at n = 2000, 2048 and 4096, 5.5 times the speed of
scipy's floyd_warshall on one thread and 11 times on two (float64), 8 times that of squaring without
an early exit, half the speed with predecessors, and never slower than scipy at n = 32 to 128, the
overhead of the call included. Parts are chosen by name,
`--kernels pairs,scipy,small,predecessors,squaring,sparse,networkx`, and with them pairs and types:
`--kernels pairs,max_times,float32`. `--size SMALL`, `LARGE` and `XL` are n = 2000, 2048 and 4096;
`--count` is how many calls are timed. The best call counts, and the worst is shown beside it.

Sparse graphs: all pairs by searches beside scipy's dijkstra, whose speed is the bar on one thread,
and beside the elimination; the road that is taken has to be the quicker one, but for 20%.
networkx: floyd_warshall and floyd_warshall_numpy with the conversion of the graph, no bar.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import loopwright as lw
from benchmarks.measure import (
    Bar,
    Outcome,
    Setting,
    Table,
    check_close,
    fastest,
    geometric_mean,
)
from benchmarks.peak import clock, model_operations, pair_peak
from loopwright.paths.graph_input import SparseGraph, read_graph
from loopwright.paths.semiring_closure import close, power
from loopwright.paths.sparse_search import search_from
from loopwright.semirings import SEMIRINGS

__all__ = ["run"]

PAIRS = ("min_plus", "max_plus", "max_times", "min_times", "min_max", "max_min")
TYPES = ("float32", "float64")
SIZES = (2000, 2048, 4096)
CLASSES = {"SMALL": (2000,), "LARGE": (2048,), "XL": (4096,)}
QUICK_SIZES = (512,)
SMALL = (32, 48, 64, 96, 128)
PARTS = ("small", "scipy", "predecessors", "squaring", "sparse", "networkx", "pairs")
BOUND_BAR, SQUARING_BAR, PREDECESSOR_BAR = 0.85, 8.0, 0.5
SCIPY_BARS = {1: 5.5, 2: 11.0}
ROUNDS, LARGE_ROUNDS = 3, 2
LARGE = 4000  # from this n on a call takes many seconds


def run(setting: Setting) -> Outcome:
    """Run the parts asked for, all when none is named."""
    rows: list[dict[str, Any]] = []
    bars: list[Bar] = []
    for part in _chosen(setting, PARTS):
        made: Callable[[Setting], Outcome] = globals()[f"_{part}"]
        found = made(setting)
        rows += found.rows
        bars += found.bars
    return Outcome(tuple(rows), tuple(bars))


def weights(n: int, dtype: str, pair: str, seed: int) -> np.ndarray[Any, Any]:
    """Weights whose cycles are never better than the empty path, for any of the pairs."""
    drawn = np.random.default_rng(seed).random((n, n)).astype(dtype)
    if pair == "max_plus":
        return -drawn
    return drawn + 1 if pair == "min_times" else drawn


def _chosen(setting: Setting, names: tuple[str, ...]) -> tuple[str, ...]:
    """Those of `names` that were asked for; all where none of them was."""
    return tuple(name for name in names if name in setting.kernels) or names


def _sizes(setting: Setting) -> tuple[int, ...]:
    return QUICK_SIZES if setting.quick else CLASSES.get(setting.size, SIZES)


def _pairs(setting: Setting) -> Outcome:
    """Every pair, type and size beside its bound."""
    columns = (("pair", "10s"), ("type", "8s"), ("n", "5d"), ("s", "7.3f"))
    table = Table((*columns, ("bound", "6.1%"), ("worst call", "6.1%")))
    print(table.head())
    rows = []
    for pair in _chosen(setting, PAIRS):
        ring = SEMIRINGS[pair]
        for dtype in _chosen(setting, TYPES):
            for n in _sizes(setting):
                given = weights(n, dtype, pair, setting.seed)
                out = np.empty_like(given)
                rate = _bound(str(ring.plus), str(ring.times), dtype) * setting.threads
                seconds = _seconds(partial(lw.paths.closure, semiring=pair), given, out, setting)
                share, least = (n**3 / s / rate for s in (min(seconds), max(seconds)))
                row = {"pair": pair, "dtype": dtype, "n": n, "s": seconds}
                rows.append(row | {"share": share, "worst": least})
                print(table.row(pair, dtype, n, min(seconds), share, least), flush=True)
    shares = [row["share"] for row in rows]
    mean, worst = geometric_mean(shares), min(shares)
    print(f"mean {mean:.1%}, worst {worst:.1%}, worst call {min(r['worst'] for r in rows):.1%}")
    return Outcome(tuple(rows), (Bar("closure, share of the bound, worst", worst, BOUND_BAR),))


def _seconds(
    close_into: Callable[..., Any],
    given: np.ndarray[Any, Any],
    out: np.ndarray[Any, Any],
    setting: Setting,
) -> list[float]:
    """Seconds of a few calls after a first one, which takes a part of a large matrix only."""
    n = len(given)
    first = slice(0, n if n < LARGE else n // 2)
    close_into(np.ascontiguousarray(given[first, first]))
    seconds = []
    for _ in range(setting.count or (ROUNDS if n < LARGE else LARGE_ROUNDS)):
        start = time.perf_counter()
        close_into(given, out=out)
        seconds.append(time.perf_counter() - start)
    return seconds


def _scipy(setting: Setting) -> Outcome:
    """Shortest paths in float64 against scipy, which has one thread."""
    from scipy.sparse.csgraph import floyd_warshall

    n = 512 if setting.quick else 2000
    given = weights(n, "float64", "min_plus", setting.seed)
    ours = _best(partial(lw.paths.shortest, given), n)
    start = time.perf_counter()
    theirs_result = floyd_warshall(given)
    theirs = time.perf_counter() - start
    check_close(lw.paths.shortest(given), theirs_result, n)
    ratio = theirs / ours
    print(f"shortest, float64, n = {n}: {ours:.3f} s, scipy {theirs:.2f} s, {ratio:.1f} times")
    row = {"part": "scipy", "n": n, "ours": ours, "scipy": theirs}
    wanted = SCIPY_BARS.get(setting.threads, SCIPY_BARS[2])
    return Outcome((row,), (Bar("shortest, times scipy", ratio, wanted),))


def _small(setting: Setting) -> Outcome:
    """Small matrices, where a call counts."""
    from scipy.sparse.csgraph import floyd_warshall

    rows = []
    for dtype in TYPES:
        for n in SMALL:
            given = weights(n, dtype, "min_plus", setting.seed)
            lw.paths.shortest(given)
            ours = fastest(partial(lw.paths.shortest, given), 0.1)
            theirs = fastest(partial(floyd_warshall, given), 0.1)
            rows.append({"part": "small", "dtype": dtype, "n": n, "ours": ours, "scipy": theirs})
            print(f"{dtype} n = {n}: {ours * 1e6:.0f} us, scipy {theirs * 1e6:.0f} us", flush=True)
    one = np.zeros((1, 1))
    lw.paths.shortest(one)
    call = fastest(partial(lw.paths.shortest, one), 0.1)
    print(f"a call with one vertex: {call * 1e6:.1f} us")
    worst = min(row["scipy"] / row["ours"] for row in rows)
    return Outcome(tuple(rows), (Bar("small matrices, times scipy, worst", worst, 1.0),))


def _predecessors(setting: Setting) -> Outcome:
    """With predecessors beside without."""
    rows = []
    for dtype in _chosen(setting, TYPES):
        for n in _sizes(setting)[::2]:
            given = weights(n, dtype, "min_plus", setting.seed)
            plain = _best(partial(lw.paths.shortest, given), n)
            routes = _best(partial(lw.paths.shortest, given, predecessors=True), n)
            share = plain / routes
            rows.append({"part": "predecessors", "dtype": dtype, "n": n, "share": share})
            text = f"{dtype} n = {n}: {plain:.3f} s, with predecessors {routes:.3f} s"
            print(f"{text}, {share:.2f} of the speed", flush=True)
    worst = min(row["share"] for row in rows)
    bar = Bar("speed with predecessors, worst", worst, PREDECESSOR_BAR)
    return Outcome(tuple(rows), (bar,))


def _squaring(setting: Setting) -> Outcome:
    """Elimination beside (1 plus A)^(n - 1) by squaring, without an early exit."""
    n = 512 if setting.quick else 2000
    given = weights(n, "float32", "min_plus", setting.seed)
    ours = _best(partial(lw.paths.shortest, given), n)
    ring = SEMIRINGS["min_plus"]
    start = time.perf_counter()
    # A power of two from n - 1 on: no more products than squarings.
    found = power(given.copy(), ring, 1 << (n - 2).bit_length(), setting.threads)
    theirs = time.perf_counter() - start
    check_close(lw.paths.shortest(given), found, n)
    print(f"float32 n = {n}: elimination {ours:.3f} s, squaring {theirs:.3f} s")
    row = {"part": "squaring", "n": n, "ours": ours, "squaring": theirs}
    return Outcome((row,), (Bar("times squaring", theirs / ours, SQUARING_BAR),))


SPARSE = ((500, 4), (1000, 4), (1000, 32), (1500, 4), (1500, 32), (2500, 8))
QUICK_SPARSE = ((300, 4), (600, 4))


def _sparse(setting: Setting) -> Outcome:
    """All pairs of sparse graphs, by both roads and by scipy."""
    import scipy.sparse as sp
    from scipy.sparse.csgraph import dijkstra

    ring = SEMIRINGS["min_plus"]
    rows = []
    for n, degree in QUICK_SPARSE if setting.quick else SPARSE:
        random = np.random.default_rng(setting.seed)
        places = random.integers(0, n, (2, n * degree))
        graph = sp.coo_array((random.random(n * degree), tuple(places)), shape=(n, n)).tocsr()
        found = read_graph(graph, ring)
        assert isinstance(found, SparseGraph)
        every = np.arange(n)
        ours = _best(partial(lw.paths.shortest, graph), n)
        search = _best(partial(search_from, found, ring, every, setting.threads), n)
        elimination = _best(partial(close, found, ring, None, setting.threads), n)
        theirs = fastest(partial(dijkstra, graph), 0.1)
        found_values, right = np.asarray(lw.paths.shortest(graph)), dijkstra(graph)
        reached = np.isfinite(right)
        assert np.array_equal(reached, np.isfinite(found_values))
        check_close(found_values[reached], right[reached], n)
        row = {"part": "sparse", "n": n, "degree": degree, "ours": ours, "search": search}
        rows.append(row | {"elimination": elimination, "scipy": theirs})
        print(
            f"n = {n}, {degree} edges a vertex: {ours:.3f} s, search {search:.3f} s, "
            f"elimination {elimination:.3f} s, scipy {theirs:.3f} s",
            flush=True,
        )
    speed = min(row["scipy"] / row["search"] for row in rows)
    choice = min(min(row["search"], row["elimination"]) / row["ours"] for row in rows)
    bars = Bar("searches, times scipy, worst", speed, 1.0), Bar("road taken, worst", choice, 0.8)
    return Outcome(tuple(rows), bars)


def _networkx(setting: Setting) -> Outcome:
    """Floyd and Warshall's functions of networkx by its own code and by the backend."""
    try:
        import networkx as nx
    except ImportError:
        print("networkx is not installed")
        return Outcome((), ())
    from loopwright.integrations.networkx_backend import interface

    rows = []
    sizes = {"floyd_warshall_numpy": (100, 500, 1000), "floyd_warshall": (100, 300)}
    for name, every in sizes.items():
        for n in every[: 1 if setting.quick else None]:
            graph = nx.gnp_random_graph(n, 0.5, seed=setting.seed, directed=True)
            ours = _best(lambda: getattr(interface, name)(interface.convert_from_nx(graph)), n)  # noqa: B023
            start = time.perf_counter()
            getattr(nx, name).orig_func(graph)
            theirs = time.perf_counter() - start
            rows.append({"part": "networkx", "name": name, "n": n, "ours": ours, "theirs": theirs})
            print(f"{name}, n = {n}: {ours:.3f} s with the conversion, networkx {theirs:.3f} s")
    return Outcome(tuple(rows), ())


def _best(call: Callable[[], Any], n: int) -> float:
    """Seconds of the best of a few calls after a first one."""
    call()
    seconds = []
    for _ in range(ROUNDS if n < LARGE else LARGE_ROUNDS):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def _bound(plus: str, times: str, dtype: str) -> float:
    """Pairs of operators per second on one core, at the clock of the moment."""
    cycles = clock()
    hertz = cycles.amount / fastest(cycles.run, 0.05)
    loop = pair_peak(plus, times, dtype)
    loop.run()
    measured = loop.amount / fastest(loop.run, 0.05)
    return max(measured, hertz * model_operations(plus, times, dtype)) / 2
