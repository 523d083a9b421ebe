"""The functions of the networkx backend against networkx: where ours are faster, and the models.

For every function random graphs from 8 nodes on, sparse and dense, conversion included; functions
that search once, on graphs that are converted already. Printed are how many times networkx's time
we are faster, with a mark where `should_run` decides against the faster one, and the constants
of `integrations/networkx_backend/call_costs.py` that fit these times with the least relative error.

`--kernels NAME,...` takes some of the functions.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks.measure import Bar, Outcome, Setting, fastest

__all__ = ["run"]

# Nodes, and edges to a node.
GRAPHS = (
    (8, 2), (16, 3), (32, 2), (32, 8), (64, 3), (64, 24), (128, 2), (128, 16), (256, 3), (256, 32),
)  # fmt: skip
LARGER = ((1000, 4), (1000, 30), (4000, 4))  # for searches from one node
QUICK = ((8, 2), (32, 8))
MOST_CUBES = 128  # nodes for loops of n^3 steps in Python
CLEARLY = 1.25  # a decision is wrong where the other one is so much faster
CUBIC = ("floyd_warshall", "floyd_warshall_numpy", "floyd_warshall_predecessor_and_distance")
ACYCLIC = ("transitive_closure_dag",)
UNDIRECTED = ("global_efficiency",)
FROM_ONE = {
    "single_source_bellman_ford_path_length": (0,),
    "single_source_dijkstra_path_length": (0,),
    "single_source_shortest_path_length": (0,),
}


@dataclass(frozen=True, slots=True)
class Measured:
    """Times of one function on one graph, in microseconds."""

    n: int
    m: int  # entries of adjacencies
    degree: int
    theirs: float
    fresh: float  # ours with the conversion
    kept: float  # ours on a converted graph
    decision: bool


def run(setting: Setting) -> Outcome:
    """Print ratios, decisions against the faster one, and constants."""
    try:
        from loopwright.integrations.networkx_backend import call_costs, interface
    except ImportError:
        print("networkx is not installed")
        return Outcome((), ())
    rows, fits, saved, wrong = [], [], [], 0
    for name in setting.kernels or call_costs.COSTS:
        found = [_measured(interface, name, n, d, setting.seed) for n, d in _sizes(name, setting)]
        wrong += _print_ratios(name, found)
        fits.append(f'    "{name}": CallCost({", ".join(map(_short, _fitted(name, found)))}),')
        saved += [(x.fresh - x.kept) / (x.n + x.m) for x in found if x.n + x.m > 500]
        rows += [{"function": name, **asdict(x)} for x in found]
    print("\n".join(["COSTS = {", *fits, "}"]))
    if saved:
        print(f"NUMBERED = {np.median(saved):.2f}")
    told = f"decisions for what is over {CLEARLY} times slower"
    return Outcome(tuple(rows), (Bar(told, wrong, 0, at_most=True),))


def _sizes(name: str, setting: Setting) -> tuple[tuple[int, int], ...]:
    if setting.quick:
        return QUICK
    if name in CUBIC and not name.endswith("numpy"):
        return tuple(size for size in GRAPHS if size[0] <= MOST_CUBES)
    return GRAPHS + (LARGER if name in FROM_ONE else ())


def _graph(name: str, n: int, degree: int, seed: int) -> Any:
    """A strongly connected graph with a circle through all nodes, or an acyclic one."""
    import networkx as nx

    draw = random.Random(f"{seed} {n} {degree}")
    graph = nx.Graph() if name in UNDIRECTED else nx.DiGraph()
    graph.add_nodes_from(range(n))
    pairs = [(u, (u + 1) % n) for u in range(n)]
    pairs += [(draw.randrange(n), draw.randrange(n)) for _ in range(n * (degree - 1))]
    if name in ACYCLIC:
        pairs = [(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]]
    graph.add_edges_from((u, v, {"weight": draw.randrange(1, 100)}) for u, v in pairs)
    return graph


def _measured(interface: Any, name: str, n: int, degree: int, seed: int) -> Measured:
    import networkx as nx

    graph = _graph(name, n, degree, seed)
    rest = FROM_ONE.get(name, ())
    ours, original = getattr(interface, name), getattr(nx, name).orig_func
    converted = interface.convert_from_nx(graph)
    theirs = 1e6 * fastest(lambda: _all(original(graph, *rest)))
    _all(ours(interface.convert_from_nx(graph), *rest))  # compiles
    fresh = 1e6 * fastest(lambda: _all(ours(interface.convert_from_nx(graph), *rest)))
    _all(ours(converted, *rest))
    kept = 1e6 * fastest(lambda: _all(ours(converted, *rest)))
    asked = converted if name in FROM_ONE else graph
    decision = interface.should_run(name, (asked, *rest), {}) is True
    m = graph.number_of_edges() * (1 if graph.is_directed() else 2)
    return Measured(n, m, degree, theirs, fresh, kept, decision)


def _all(result: Any) -> Any:
    """The result with all that an iterator would still compute."""
    return list(result) if hasattr(result, "__next__") else result


def _print_ratios(name: str, found: Sequence[Measured]) -> int:
    """Print how many times faster we are on each graph; decisions that were clearly wrong."""
    cells, wrong = [], 0
    for x in found:
        ratio = x.theirs / (x.kept if name in FROM_ONE else x.fresh)
        is_wrong = ratio < 1 / CLEARLY if x.decision else ratio > CLEARLY
        wrong += is_wrong
        mark = ("+" if x.decision else "-") + ("!" if is_wrong else "")
        cells.append(f"{x.n},{x.degree}: {ratio:.2g}{mark}")
    print(f"{name:40} {'  '.join(cells)}", flush=True)
    return wrong


def _fitted(name: str, found: Sequence[Measured]) -> list[float]:
    """The coefficients of `call_costs.CallCost`, in its order."""
    n, m = (np.array([getattr(x, part) for x in found], float) for part in ("n", "m"))
    zero, searches = np.zeros(len(found)), 1 if name in FROM_ONE else n
    cubes = n**3 if name in CUBIC else zero
    theirs = np.array([x.theirs for x in found])
    edges = zero if name in CUBIC else searches * m
    loops = _non_negative([zero + searches, searches * n, edges, cubes], theirs)
    is_one = name in FROM_ONE
    ours = np.array([x.kept if is_one else x.fresh for x in found])
    entries = zero if is_one else n + m
    return [*loops, *_non_negative([zero + 1, entries, searches * n, searches * m], ours)]


def _non_negative(columns: Sequence[Any], times: Any) -> list[float]:
    """The coefficients >= 0 whose sums come nearest to some times, errors relative to them."""
    from scipy.optimize import nnls  # lazy: scipy is an extra

    rows = np.stack(columns, axis=1) / times[:, None]
    scale = np.linalg.norm(rows, axis=0)
    scale[scale == 0] = 1.0
    found, _ = nnls(rows / scale, np.ones(len(times)))
    return [float(x) for x in found / scale]


def _short(value: float) -> str:
    return f"{round(value, 4):.3g}"
