"""The entry point `networkx.backends`: conversions, functions, and which calls are worth it."""

from __future__ import annotations

from loopwright.integrations.networkx_backend.chosen_lengths import shortest_path_length
from loopwright.integrations.networkx_backend.eliminations import (
    floyd_warshall,
    floyd_warshall_numpy,
    floyd_warshall_predecessor_and_distance,
)
from loopwright.integrations.networkx_backend.graph_arrays import (
    convert_from_nx,
    convert_to_nx,
)
from loopwright.integrations.networkx_backend.lengths import (
    all_pairs_bellman_ford_path_length,
    all_pairs_dijkstra,
    all_pairs_dijkstra_path,
    all_pairs_dijkstra_path_length,
    all_pairs_shortest_path_length,
    johnson,
    single_source_bellman_ford_path_length,
    single_source_dijkstra_path_length,
    single_source_shortest_path_length,
)
from loopwright.integrations.networkx_backend.measures import (
    average_shortest_path_length,
    center,
    closeness_centrality,
    diameter,
    eccentricity,
    global_efficiency,
    harmonic_centrality,
    periphery,
    radius,
    wiener_index,
)
from loopwright.integrations.networkx_backend.reachable import (
    transitive_closure,
    transitive_closure_dag,
)
from loopwright.integrations.networkx_backend.relabelled import (
    convert_node_labels_to_integers,
    relabel_nodes,
)
from loopwright.integrations.networkx_backend.walks import (
    descendants_at_distance,
    edge_bfs,
    topological_generations,
    topological_sort,
)
from loopwright.integrations.networkx_backend.worth import can_run, should_run

__all__ = [
    "all_pairs_bellman_ford_path_length",
    "all_pairs_dijkstra",
    "all_pairs_dijkstra_path",
    "all_pairs_dijkstra_path_length",
    "all_pairs_shortest_path_length",
    "average_shortest_path_length",
    "can_run",
    "center",
    "closeness_centrality",
    "convert_from_nx",
    "convert_node_labels_to_integers",
    "convert_to_nx",
    "descendants_at_distance",
    "diameter",
    "eccentricity",
    "edge_bfs",
    "floyd_warshall",
    "floyd_warshall_numpy",
    "floyd_warshall_predecessor_and_distance",
    "global_efficiency",
    "harmonic_centrality",
    "johnson",
    "periphery",
    "radius",
    "relabel_nodes",
    "shortest_path_length",
    "should_run",
    "single_source_bellman_ford_path_length",
    "single_source_dijkstra_path_length",
    "single_source_shortest_path_length",
    "topological_generations",
    "topological_sort",
    "transitive_closure",
    "transitive_closure_dag",
    "wiener_index",
]
