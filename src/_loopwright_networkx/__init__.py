"""What networkx asks about the backend at every start; nothing of Loopwright is imported."""

from __future__ import annotations

_SEARCH = "Searches from all vertices are compiled and use all threads; order and sums as here."
_CLOSURE = (
    "Blocked elimination over (min, +) on all threads. Sums of floats may differ by rounding; of "
    "several shortest paths another one may be told."
)
_REACH = "Reached vertices are found by compiled searches on all threads."
_ONE = "Runs by itself only where the converted graph is in networkx's cache."
_OURS = "No faster than networkx: for graphs of this backend, which need not go back."

FUNCTIONS = {
    "all_pairs_bellman_ford_path_length": _SEARCH,
    "all_pairs_dijkstra": _SEARCH,
    "all_pairs_dijkstra_path": _SEARCH,
    "all_pairs_dijkstra_path_length": _SEARCH,
    "all_pairs_shortest_path_length": _SEARCH,
    "average_shortest_path_length": _SEARCH,
    "center": _SEARCH,
    "closeness_centrality": _SEARCH,
    "convert_node_labels_to_integers": _OURS,
    "descendants_at_distance": _OURS,
    "diameter": _SEARCH,
    "edge_bfs": _OURS,
    "eccentricity": _SEARCH,
    "floyd_warshall": _CLOSURE,
    "floyd_warshall_numpy": _CLOSURE,
    "floyd_warshall_predecessor_and_distance": _CLOSURE,
    "global_efficiency": _SEARCH,
    "harmonic_centrality": _SEARCH,
    "johnson": _SEARCH,
    "periphery": _SEARCH,
    "radius": _SEARCH,
    "relabel_nodes": _OURS,
    "shortest_path_length": _SEARCH,
    "single_source_bellman_ford_path_length": _ONE,
    "single_source_dijkstra_path_length": _ONE,
    "single_source_shortest_path_length": _ONE,
    "topological_generations": _OURS,
    "topological_sort": _OURS,
    "transitive_closure": _REACH,
    "transitive_closure_dag": _REACH,
    "wiener_index": _SEARCH,
}


def get_info() -> dict[str, object]:
    """The entry point `networkx.backend_info`."""
    return {
        "backend_name": "loopwright",
        "project": "loopwright",
        "package": "loopwright",
        "short_summary": "All-pairs paths by compiled kernels.",
        "functions": {name: {"additional_docs": text} for name, text in FUNCTIONS.items()},
    }
