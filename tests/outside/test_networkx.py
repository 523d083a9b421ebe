"""The backend of networkx: its own tests, and random graphs compared in values, order and types.

The usual run takes the files of the suite that name our functions, with functions that we do not
have left to networkx; ours never fall back.
"""

from __future__ import annotations

import itertools
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

nx = pytest.importorskip("networkx")

from _loopwright_networkx import FUNCTIONS, get_info  # noqa: E402
from drawn import drawn  # noqa: E402
from loopwright.integrations.networkx_backend import interface as backend  # noqa: E402
from outside.networkx_suite import FILES, MORE, path_with_backend, run_networkx_suite  # noqa: E402
from outside.suites import RUNS_ALL  # noqa: E402

ROOT = Path(__file__).parents[2]
KINDS = (nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph)
WEIGHTS = ("int", "float", "mixed", "missing", "hidden", "infinite", "negative")


@pytest.mark.only_in_all("the suite of networkx once more, with what it has itself")
def test_suite_of_networkx(tmp_path: Path) -> None:
    """Every function is called, no call of one falls back, and nothing fails."""
    files = (*FILES, *MORE) if RUNS_ALL else FILES
    chosen = () if RUNS_ALL else ("-k", "not test_use_bounds_on_off_consistency")  # 500 of them
    outcome = run_networkx_suite(tmp_path, *chosen, files=files, fallback=True)
    assert outcome.errors == {}
    assert outcome.count("failed") == 0
    assert [name for name in FUNCTIONS if not outcome.calls.get(name)] == []
    assert {n: c for n, c in outcome.calls.items() if "refused" in n or "failed" in n} == {}


def test_suite_of_networkx_without_fallback(tmp_path: Path) -> None:
    """Tests that need nothing but our functions call each of them, and pass.

    Tests of others end as expected failures of networkx's making.
    """
    chosen = () if RUNS_ALL else ("-k", "not test_use_bounds_on_off_consistency")
    # Tracebacks of hundreds of expected failures would take longer than the tests.
    outcome = run_networkx_suite(tmp_path, "--tb=line", *chosen)
    assert outcome.errors == {}
    assert [name for name in FUNCTIONS if not outcome.calls.get(f"{name} tests passed")] == []
    assert {n: c for n, c in outcome.calls.items() if "refused" in n or "failed" in n.split()} == {}


def test_info_names_what_the_backend_has() -> None:
    assert get_info()["functions"].keys() == set(FUNCTIONS)  # type: ignore[attr-defined]
    assert set(FUNCTIONS) == {
        name
        for name in backend.__all__
        if name not in ("convert_from_nx", "convert_to_nx", "can_run", "should_run")
    }


def run_child(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": path_with_backend(folder)}
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=folder, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_runs(tmp_path: Path) -> None:
    out = run_child(tmp_path, str(ROOT / "examples" / "networkx_backend.py"))
    assert "loopwright, converted: " in out
    assert "lengths are the same, in the same order" in out
    assert "the diameter of a path of 9 vertices is 8" in out


def test_the_code_of_the_page_runs_and_names_all_functions(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "networkx.md").read_text(encoding="utf-8")
    named = {name.strip("`") for name in re.findall(r"`[a-z_]+`", text.split("Left out")[0])}
    assert set(FUNCTIONS) <= named
    (block,) = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert run_child(tmp_path, "-c", f"{block}\nprint(len(found), diameter)") == "400 299\n"


def drawn_graph(kind: type, weights: str, seed: int) -> Any:
    """A random graph whose nodes are not in order, with loops and parallel edges."""
    draw = random.Random(f"{kind.__name__} {weights} {seed}")
    n = draw.choice([1, 2, 5, 9, 14])
    nodes = [chr(97 + x) for x in range(n)]
    draw.shuffle(nodes)
    graph = kind()
    graph.add_nodes_from(nodes)
    for _ in range(draw.randrange(3 * n + 1)):
        data: dict[str, Any] = {"weight": draw.randrange(6)}
        if weights in ("float", "infinite"):
            data["weight"] = draw.choice([0.1, 0.2, 0.25, 1.5, 3.0, 0.0])
        if weights == "mixed" and draw.random() < 0.5:
            data["weight"] = float(data["weight"])
        if weights == "missing" and draw.random() < 0.5:
            del data["weight"]
        if weights == "hidden" and draw.random() < 0.3 and not graph.is_multigraph():
            data["weight"] = None
        if weights == "infinite" and draw.random() < 0.2:
            data["weight"] = float("inf")
        if weights == "negative":
            data["weight"] = draw.randrange(-1, 6)
        graph.add_edge(draw.choice(nodes), draw.choice(nodes), **data)
    return graph


def shown(value: Any) -> Any:
    """A result with the order and the types of its numbers, for comparison."""
    if isinstance(value, dict):
        return [(key, shown(x)) for key, x in value.items()]
    if isinstance(value, tuple | list):
        return [shown(x) for x in value]
    if isinstance(value, set):
        return sorted(map(shown, value))
    return type(value).__name__, value


def outcome_of(call: Callable[[], Any]) -> Any:
    try:
        return shown(call())
    except NotImplementedError:
        raise  # left to networkx
    except (nx.NetworkXException, ValueError, TypeError, KeyError, RuntimeError) as error:
        return type(error).__name__, error.args


SEARCHES: dict[str, dict[str, Any]] = {
    "all_pairs_shortest_path_length": {},
    "all_pairs_dijkstra_path_length": {},
    "all_pairs_dijkstra_path": {},
    "all_pairs_dijkstra": {},
    "all_pairs_bellman_ford_path_length": {},
    "johnson": {},
    "average_shortest_path_length": {"weight": "weight"},
    "wiener_index": {"weight": "weight"},
    "eccentricity": {"weight": "weight"},
    "closeness_centrality": {"distance": "weight"},
    "harmonic_centrality": {},
    "radius": {"weight": "weight"},
    "periphery": {},
    "center": {},
    "diameter": {"usebounds": True},
}


def both_answers(name: str, graph: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """Ours and networkx's answer; a call that we refuse has none."""
    wrap: Callable[[Any], Any] = lambda x: list(x) if hasattr(x, "__next__") else x  # noqa: E731
    if name.startswith("all_pairs"):
        wrap = dict
    ours = getattr(backend, name)
    theirs = getattr(nx, name).orig_func
    given = backend.convert_from_nx(graph)
    try:
        found = outcome_of(lambda: wrap(ours(given, *args, **kwargs)))
    except NotImplementedError:
        return None, None
    return found, outcome_of(lambda: wrap(theirs(graph, *args, **kwargs)))


@pytest.mark.drawn(4)
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SEARCHES)
def test_searches_are_those_of_networkx(name: str, kind: type, weights: str) -> None:
    is_new = hasattr(nx.tree, "center")
    if name.startswith(("all_pairs_dijkstra", "johnson")) and not is_new:
        pytest.skip("older releases list paths in the order of discovery")
    for seed in drawn(range(12), 12, KINDS.index(kind) + WEIGHTS.index(weights)):
        graph = drawn_graph(kind, weights, seed)
        found, wanted = both_answers(name, graph, **SEARCHES[name])
        if name == "johnson" and not isinstance(wanted, tuple | type(None)):
            assert found == wanted
        elif name == "diameter" and isinstance(wanted, tuple) and len(graph) == 0:
            continue
        else:
            assert found == wanted, (name, seed)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("kind", KINDS)
def test_floyd_and_warshall(kind: type, weights: str) -> None:
    """Lengths in the order of networkx; numbers are floats where weights are of both types."""
    for seed in drawn(range(12), 4):
        graph = drawn_graph(kind, weights, seed)
        found, wanted = both_answers("floyd_warshall", graph)
        if found is None:
            assert weights == "hidden"
            continue
        is_exact = weights in ("int", "negative")
        if is_exact and not any(u == v for u, v in graph.edges()):
            assert found == wanted
        for (u, row), (x, other) in zip(found, wanted, strict=True):
            assert u == x
            assert [node for node, _ in row] == [node for node, _ in other]
            ours, theirs = ([value for _, (_, value) in part] for part in (row, other))
            np.testing.assert_allclose(ours, theirs, rtol=1e-12)
        before, distances = backend.floyd_warshall_predecessor_and_distance(
            backend.convert_from_nx(graph)
        )
        told, _ = nx.floyd_warshall_predecessor_and_distance.orig_func(graph)
        assert list(before) == list(told)
        assert {u: set(row) for u, row in before.items()} == {u: set(r) for u, r in told.items()}
        matrix = backend.floyd_warshall_numpy(backend.convert_from_nx(graph))
        np.testing.assert_allclose(matrix, nx.floyd_warshall_numpy.orig_func(graph), rtol=1e-12)
        if weights != "negative":
            check_predecessors(graph, before, distances)


def check_predecessors(graph: Any, before: Any, distances: Any) -> None:
    """The last edge of every path is tight, and following predecessors ends at the source."""
    for u, row in before.items():
        for v, p in row.items():
            if u == v:
                assert p == u
                continue
            steps = 0
            while v != u:
                v, steps = row[v], steps + 1
                assert steps <= len(graph)
            assert distances[u][p] <= distances[u][v] or distances[u][p] >= 0


@pytest.mark.parametrize("kind", [nx.DiGraph, nx.MultiDiGraph])
def test_closures_of_acyclic_graphs(kind: type) -> None:
    for seed in range(6):
        graph = kind((u, v) for u, v in drawn_graph(kind, "int", seed).edges() if u < v)
        found = backend.transitive_closure_dag(backend.convert_from_nx(graph))
        assert found.adj == nx.transitive_closure_dag.orig_func(graph).adj
        order = list(nx.topological_sort(graph))
        again = backend.transitive_closure_dag(backend.convert_from_nx(graph), order)
        assert again.adj == found.adj
        if len(order) > 1 and graph.number_of_edges():
            with pytest.raises(NotImplementedError, match="topo_order is not a topological order"):
                backend.transitive_closure_dag(backend.convert_from_nx(graph), order[::-1])
    circle = backend.convert_from_nx(nx.DiGraph([(0, 1), (1, 0)]))
    with pytest.raises(nx.NetworkXUnfeasible, match="Graph contains a cycle"):
        backend.transitive_closure_dag(circle)


@pytest.mark.parametrize("kind", KINDS)
def test_walks_by_breadth(kind: type) -> None:
    """Edges and layers from one node, several, all, and one that is not there."""
    for seed in drawn(range(20), 6):
        graph = drawn_graph(kind, "int", seed)
        nodes = list(graph)
        for source in (None, nodes[0], nodes[:3], "nowhere"):
            for orientation in (None, "original", "reverse", "ignore", "sideways"):
                found, wanted = both_answers("edge_bfs", graph, source, orientation)
                assert found == wanted, (seed, source, orientation)
        for distance in (-1, 0, 1, 2, 2.0, 1.5):
            for source in (nodes[-1], "nowhere"):
                found, wanted = both_answers("descendants_at_distance", graph, source, distance)
                assert found == wanted, (seed, source, distance)


@pytest.mark.parametrize("name", ["topological_sort", "topological_generations"])
@pytest.mark.parametrize("kind", KINDS)
def test_topological_orders(kind: type, name: str) -> None:
    """Orders of acyclic graphs, and the errors of others."""
    for seed in drawn(range(20), 6):
        graph = drawn_graph(kind, "int", seed)
        acyclic = kind((u, v) for u, v in graph.edges() if u < v)
        for given in (graph, acyclic):
            found, wanted = both_answers(name, given)
            assert found == wanted, seed


def changed_while_sorted(change: Callable[[Any], None]) -> str:
    graph = nx.DiGraph([(1, 2), (2, 3), (3, 4)])
    order = backend.topological_sort(backend.convert_from_nx(graph))
    next(order)
    change(graph)
    with pytest.raises((RuntimeError, nx.NetworkXUnfeasible)) as caught:
        list(order)
    return f"{type(caught.value).__name__}: {caught.value}"


def test_a_graph_that_is_changed_while_it_is_sorted() -> None:
    told = "RuntimeError: Graph changed during iteration"
    assert changed_while_sorted(lambda graph: graph.remove_node(2)) == told
    assert changed_while_sorted(lambda graph: graph.add_edge(4, 5)) == told
    told = "NetworkXUnfeasible: Graph contains a cycle or graph changed during iteration"
    assert changed_while_sorted(lambda graph: graph.remove_node(4)) == told


def test_weights_by_functions() -> None:
    graph = drawn_graph(nx.DiGraph, "int", 3)

    def length(u: Any, v: Any, data: dict[str, Any]) -> float | None:
        return None if u == "b" else data["weight"] + 0.5

    for name in ("all_pairs_dijkstra_path_length", "average_shortest_path_length"):
        found, wanted = both_answers(name, graph, weight=length)
        assert found == wanted
    found, wanted = both_answers("closeness_centrality", graph, distance=length)
    assert found == wanted


@pytest.mark.drawn(3)
@pytest.mark.parametrize("weight", [None, "weight"])
@pytest.mark.parametrize("method", ["dijkstra", "bellman-ford", "mine"])
@pytest.mark.parametrize("kind", KINDS)
def test_lengths_by_a_chosen_search(kind: type, method: str, weight: str | None) -> None:
    """All pairs, from a node, to a node, pairs; of graphs with negative weights as well."""
    for weights in ("int", "mixed", "negative"):
        for seed in drawn(range(12), 4):
            graph = drawn_graph(kind, weights, seed)
            nodes = [None, *list(graph)[:3], "nowhere"]
            for source, target in itertools.product(nodes, nodes):
                given = (source, target, weight, method)
                found, wanted = both_answers("shortest_path_length", graph, *given)
                assert found == wanted, (weights, seed, given)


@pytest.mark.parametrize(
    ("weight", "told"),
    [
        ("x", "loopwright: weights are of type str, not int or float"),
        (2**60, f"loopwright: integer weights up to {2**60}, whose sums may pass 2**53"),
        (float("nan"), "loopwright: a weight is not a number"),
    ],
)
def test_weights_that_are_left_to_networkx(weight: Any, told: str) -> None:
    graph = backend.convert_from_nx(nx.DiGraph([(0, 1, {"weight": weight})]))
    with pytest.raises(NotImplementedError) as caught:
        backend.all_pairs_dijkstra_path_length(graph)
    assert str(caught.value) == told


def test_what_cannot_run_is_told() -> None:
    graph = nx.path_graph(3)
    assert backend.can_run("floyd_warshall", (graph,), {}) is True
    assert (
        backend.can_run("eccentricity", (graph.nodes,), {})
        == "the graph has no adjacencies of networkx"
    )


def test_small_graphs_and_single_searches_should_not_run() -> None:
    small, large = nx.path_graph(5), nx.gnm_random_graph(300, 3000, seed=1)
    for name in ("floyd_warshall", "all_pairs_dijkstra_path_length", "diameter"):
        assert "ms with the conversion" in str(backend.should_run(name, (small,), {}))
        assert backend.should_run(name, (large,), {}) is True
    one = backend.should_run("single_source_dijkstra_path_length", (large, 0), {})
    assert one == "one search takes less time than the conversion of the graph"
    converted = backend.convert_from_nx(large)
    assert backend.should_run("single_source_shortest_path_length", (converted, 0), {}) is True
    assert backend.should_run("shortest_path_length", (large, 0), {}) == one
    assert backend.should_run("shortest_path_length", (large,), {}) is True
    ours = backend.should_run("edge_bfs", (large, 0), {})
    assert ours == "networkx is as fast, and it is no graph of ours"
    assert backend.should_run("edge_bfs", (converted, 0), {}) is True


def test_a_graph_of_ours_answers_as_its_graph() -> None:
    graph = nx.path_graph(4)
    ours = backend.convert_from_nx(graph)
    assert backend.convert_from_nx(ours) is ours
    assert backend.convert_to_nx(ours) is graph
    assert (len(ours), list(ours), 2 in ours, 9 in ours) == (4, [0, 1, 2, 3], True, False)
    assert ours[1] == graph[1]
    assert ours.number_of_edges() == 3
    assert backend.convert_to_nx([1]) == [1]
