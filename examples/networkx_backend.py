"""Paths between all vertices of a graph of networkx, by its own code and by the backend.

    python examples/networkx_backend.py

Prints the time of both, and whether lengths, their order and their types are the same.
"""

import time

import networkx as nx

graph = nx.gnm_random_graph(250, 2500, seed=3, directed=True)
for number, (_, _, data) in enumerate(graph.edges(data=True)):
    data["weight"] = 1 + number * 7919 % 101 / 10

times = {}
found = {}
for backend in ("networkx", "loopwright", "loopwright, converted"):
    start = time.perf_counter()
    lengths = nx.all_pairs_dijkstra_path_length(graph, backend=backend.split(",")[0])
    found[backend] = {source: list(row.items()) for source, row in lengths}
    times[backend] = time.perf_counter() - start
    nx.config.warnings_to_ignore.add("cache")  # the graph is not changed between the calls
    print(f"{backend}: {times[backend] * 1e3:.0f} ms")
same = found["networkx"] == found["loopwright"] == found["loopwright, converted"]
print(f"lengths are {'the same' if same else 'DIFFERENT'}, in the same order")

# Small graphs stay with networkx: the backend says why.
nx.config.backend_priority.algos = ["loopwright"]
print(f"the diameter of a path of 9 vertices is {nx.diameter(nx.path_graph(9))}")
