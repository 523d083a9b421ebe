"""Graphs of networkx as arrays: vertices numbered in their order, edges in that of adjacencies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any

import numpy as np

from loopwright.lazy_dataclass import dataclass
from loopwright.paths.graph_search import Adjacency
from loopwright.runtime.array_arguments import Array

__all__ = ["LoopwrightGraph", "NumberedGraph", "WeightedEdges", "convert_from_nx", "convert_to_nx"]

NAME = "loopwright"
# Edges turned around as `G.reverse()` does: neighbours come in the order of all nodes.
REVERSED_COPY = "_reversed_copy"
_EXACT = 2**53  # integers up to this are float64 without rounding


@dataclass(frozen=True, slots=True)
class NumberedGraph:
    """The adjacencies of a graph, of its edges or of the reversed ones."""

    nodes: list[Any]
    index: dict[Any, int]
    adjacency: Adjacency  # all edges, weights are 1

    @property
    def size(self) -> int:
        return len(self.nodes)


@dataclass(frozen=True, slots=True)
class WeightedEdges:
    """Edges with weights as float64, and which of these are floats for networkx.

    Sums of Python integers stay integers, and those with a float are floats.
    """

    adjacency: Adjacency
    is_float: Array | None  # of each edge; None where all edges are of the kind of `kind`
    kind: type  # int or float: of lengths where `is_float` is None


class LoopwrightGraph:
    """A graph of networkx and its arrays, which are made when they are first used.

    Whatever is not needed for paths is answered by the graph itself.
    """

    __networkx_backend__ = NAME

    def __init__(self, graph: Any) -> None:
        self.graph_object = graph
        self._numbered: dict[str, NumberedGraph] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("graph_object", "_numbered"):
            raise AttributeError(name)
        return getattr(self.graph_object, name)

    def __len__(self) -> int:
        return len(self.graph_object)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.graph_object)

    def __contains__(self, node: object) -> bool:
        return node in self.graph_object

    def __getitem__(self, node: Any) -> Any:
        return self.graph_object[node]

    def numbered(self, direction: str = "_adj") -> NumberedGraph:
        """The graph as arrays, by its `_adj`, its `_pred` or REVERSED_COPY."""
        found = self._numbered.get(direction)
        if found is None:
            found = self._numbered[direction] = _numbered(_mapping(self.graph_object, direction))
        return found

    def replace(self, graph: Any) -> None:
        """Stand for another graph of networkx, which is numbered when it is first used."""
        self.graph_object = graph
        self._numbered.clear()

    def weighted(
        self,
        weight: Any,
        direction: str = "_adj",
        *,
        default: float = 1,
        hides: bool = False,
        is_key: bool = False,
    ) -> WeightedEdges:
        """The weights of all edges.

        `weight` is the name of an attribute, missing ones being `default`, or a function of begin,
        end and data, unless `is_key`. Of parallel edges the lightest one counts. Edges of weight
        None are left out where the algorithm `hides` them.
        """
        graph = self.numbered(direction)
        mapping = _mapping(self.graph_object, direction)
        is_multigraph = bool(self.graph_object.is_multigraph())
        function = weight if callable(weight) and not is_key else None
        values = _values(mapping, weight, function, default, is_multigraph)
        return _typed(graph, values, hides)


def convert_from_nx(graph: Any, *args: Any, **kwargs: Any) -> LoopwrightGraph:
    """A graph of ours; attributes are read from the graph itself when a function asks for them."""
    return graph if isinstance(graph, LoopwrightGraph) else LoopwrightGraph(graph)


def convert_to_nx(result: Any, *args: Any, **kwargs: Any) -> Any:
    """The graph of networkx; what is no graph of ours stays as it is."""
    return result.graph_object if isinstance(result, LoopwrightGraph) else result


def _mapping(graph: Any, direction: str) -> Mapping[Any, Any]:
    if not graph.is_directed():
        direction = "_adj"
    if direction != REVERSED_COPY:
        found: Mapping[Any, Any] = getattr(graph, direction)
        return found
    turned: dict[Any, dict[Any, Any]] = {node: {} for node in graph._adj}
    for begin, near in graph._adj.items():
        for end, data in near.items():
            turned[end][begin] = data
    return turned


def _numbered(mapping: Mapping[Any, Any]) -> NumberedGraph:
    nodes = list(mapping)
    index = {node: number for number, node in enumerate(nodes)}
    begins = np.zeros(len(nodes) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, mapping.values()), np.int64, len(nodes)), out=begins[1:])
    every = map(index.__getitem__, chain.from_iterable(mapping.values()))
    ends = np.fromiter(every, np.int32, int(begins[-1]))
    return NumberedGraph(nodes, index, Adjacency(begins, ends, np.ones(len(ends))))


def _values(
    mapping: Mapping[Any, Any],
    weight: Any,
    function: Callable[..., Any] | None,
    default: float,
    is_multigraph: bool,
) -> list[Any]:
    if function is not None:
        return [function(u, v, data) for u, near in mapping.items() for v, data in near.items()]
    every = (data for near in mapping.values() for data in near.values())
    if not is_multigraph:
        return [data.get(weight, default) for data in every]
    return [_least([data.get(weight, default) for data in keys.values()]) for keys in every]


def _least(values: list[Any]) -> Any:
    try:
        return min(values)
    except TypeError:
        refuse("parallel edges whose weights cannot be compared")


def _typed(graph: NumberedGraph, values: list[Any], hides: bool) -> WeightedEdges:
    kinds = set(map(type, values))
    adjacency = graph.adjacency
    begins, ends = adjacency.begins, adjacency.ends
    if type(None) in kinds and hides:
        kept = np.array([value is not None for value in values], bool)
        begin_of = np.repeat(np.arange(graph.size), np.diff(begins))[kept]
        begins = np.searchsorted(begin_of, np.arange(graph.size + 1)).astype(np.int64)
        ends = ends[kept]
        values = [value for value in values if value is not None]
        kinds.discard(type(None))
    other = [kind for kind in kinds if not issubclass(kind, int | float)]
    if other:
        refuse(f"weights are of type {other[0].__name__}, not int or float")
    try:
        weights = np.array(values, np.float64)
    except OverflowError:
        refuse("integer weights beyond the range of float64")
    if np.isnan(weights).any():
        refuse("a weight is not a number")
    floats = {kind for kind in kinds if issubclass(kind, float)}
    if floats != kinds:
        _check_exact(values, graph.size)
    made = Adjacency(begins, ends, weights)
    if not floats or floats == kinds:
        return WeightedEdges(made, None, float if floats else int)
    is_float = np.fromiter((isinstance(value, float) for value in values), bool, len(values))
    return WeightedEdges(made, is_float, float)


def _check_exact(values: list[Any], n: int) -> None:
    """Refuse integers whose sums along paths would be rounded in float64."""
    most = max((abs(x) for x in values if isinstance(x, int)), default=0)
    if most * max(n, 1) > _EXACT:
        refuse(f"integer weights up to {most}, whose sums may pass 2**53")


def refuse(reason: str) -> Any:
    """Leave a call to networkx, which tries the next backend."""
    raise NotImplementedError(f"loopwright: {reason}")
