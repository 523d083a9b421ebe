"""Measured seconds of networkx's functions and of ours, by which `should_run` decides.

With n nodes, m entries of adjacencies (edges of directed graphs, twice those of others) and s
searches, one from each node but for the functions that search from one:

    networkx:  s (search + vertex n + edge m + square n^2)
    ours:      call + entry (n + m) + s (result n + reach m)

`entry` is the conversion; on a graph that is converted already, NUMBERED of it is saved. Searches
from one node were measured on such graphs, where they have no entry.

Neoverse N1, two threads, Python 3.11, networkx 3.6.1: `python -m benchmarks networkx_backend`
measures and prints this table, and how often it decides wrongly.
"""

from __future__ import annotations

from loopwright.lazy_dataclass import dataclass

__all__ = ["COSTS", "NUMBERED", "CallCost"]


@dataclass(frozen=True, slots=True)
class CallCost:
    """Coefficients of the two models; microseconds, since all of them are about one."""

    search: float
    vertex: float
    edge: float
    square: float
    call: float
    entry: float
    result: float
    reach: float

    def theirs(self, n: int, m: int, searches: int) -> float:
        """Seconds that networkx takes."""
        each = self.search + self.vertex * n + self.edge * m + self.square * n * n
        return 1e-6 * searches * each

    def ours(self, n: int, m: int, searches: int, *, is_converted: bool) -> float:
        """Seconds that we take."""
        entry = max(self.entry - NUMBERED, 0.0) if is_converted else self.entry
        found = searches * (self.result * n + self.reach * m)
        return 1e-6 * (self.call + entry * (n + m) + found)


NUMBERED = 0.12  # microseconds for each node and entry
# search, vertex, edge, square of networkx; call, entry, result, reach of ours
COSTS = {
    "all_pairs_bellman_ford_path_length": CallCost(3.03, 1.65, 0.637, 0, 238, 1.05, 0.255, 0.0018),
    "all_pairs_dijkstra": CallCost(5.91, 1.61, 0.394, 0, 248, 0.798, 1.07, 0),
    "all_pairs_dijkstra_path": CallCost(11.4, 1.65, 0.374, 0, 248, 0, 0.788, 0.0168),
    "all_pairs_dijkstra_path_length": CallCost(10.3, 0.867, 0.349, 0, 240, 1.03, 0.256, 0.0008),
    "all_pairs_shortest_path_length": CallCost(7.09, 0.496, 0, 0, 185, 0.3, 0.207, 0),
    "average_shortest_path_length": CallCost(11.7, 0.522, 0.0034, 0, 313, 0.269, 0.0657, 0),
    "center": CallCost(14, 0.515, 0, 0, 160, 0.178, 0.055, 0),
    "closeness_centrality": CallCost(25.3, 0.459, 0.0236, 0, 185, 0.232, 0.0694, 0),
    "diameter": CallCost(13.9, 0.516, 0, 0, 155, 0.176, 0.0554, 0),
    "eccentricity": CallCost(13.4, 0.517, 0, 0, 153, 0.177, 0.0548, 0),
    "floyd_warshall": CallCost(2.51, 1.27, 0, 0.132, 575, 0.955, 0.421, 0),
    "floyd_warshall_numpy": CallCost(8.76, 0, 0, 0.0019, 239, 0.274, 0.0292, 0.0015),
    "floyd_warshall_predecessor_and_distance": CallCost(1.13, 1.29, 0, 0.134, 1070, 1.58, 0.945, 0),
    "global_efficiency": CallCost(7.36, 0.576, 0, 0, 264, 0.199, 0.11, 0),
    "harmonic_centrality": CallCost(13.3, 0.688, 0.0006, 0, 290, 0.416, 0.161, 0),
    "johnson": CallCost(0, 1.33, 0.524, 0, 315, 0, 0.875, 0.0215),
    "periphery": CallCost(13.6, 0.533, 0, 0, 157, 0.183, 0.0572, 0),
    "radius": CallCost(13.2, 0.544, 0, 0, 156, 0.181, 0.0565, 0),
    "single_source_bellman_ford_path_length": CallCost(0, 1.31, 0.696, 0, 95.2, 0, 0.298, 0.502),
    "single_source_dijkstra_path_length": CallCost(3.29, 0.905, 0.376, 0, 84.1, 0, 0.421, 0.392),
    "single_source_shortest_path_length": CallCost(1.2, 0.508, 0.0007, 0, 54.2, 0, 0.188, 0.0001),
    "transitive_closure": CallCost(4.02, 6.82, 1.44, 0, 513, 1.91, 1.59, 0),
    "transitive_closure_dag": CallCost(22.7, 0.655, 0.0233, 0, 419, 1.89, 0.401, 0),
    "wiener_index": CallCost(12.4, 0.492, 0.0031, 0, 314, 0.268, 0.0678, 0),
}
