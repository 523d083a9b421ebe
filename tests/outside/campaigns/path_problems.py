"""Random graphs for `lw.paths`: the seven problems on any number of threads, against brute force.

Weights are small whole numbers or powers of two, so that every sum and product is exact and results
must be equal bit by bit. A case is a seed and how the graph is given: its type, dense or sparse,
with the result in its place, from some sources, with predecessors. Sums of narrow integers reach
the end of their type, where they have to stay. Now and then a cycle is put in that is better than
the empty path: then `CycleError` has to name one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

import loopwright as lw
from outside.campaigns.campaign import Campaign, Case, Difference, Random, Unjudged, chance, pick
from paths.graphs import PROBLEMS, TIMES, brute_force, random_weights

Array = np.ndarray[Any, Any]
THREADS = (1, 2, 3, 5)
SIZES = (0, 1, 2, 3, 5, 8, 13, 21, 40, 64, 97, 129, 140, 200)
FLOATS = ("float32", "float64")
# Sums are as heavy as the type allows, and doubles are no oracle of 64 bits; extremes are of both
# signs.
INTEGERS = {
    "shortest": ("int8", "uint8", "int16", "int32"),
    "widest": ("int8", "int16", "int32", "int64"),
    "minimax": ("int8", "int16", "int32", "int64"),
}
BETTER = {"shortest": -1.0, "longest": 1.0, "least_reliable": 0.5}  # edges of a cycle
WAYS = ("dense", "dense", "in place", "other place", "sparse", "squaring")
NAMES = (*PROBLEMS, "reachability")
RINGS = {
    "shortest": "min_plus", "longest": "max_plus", "widest": "max_min", "minimax": "min_max",
    "most_reliable": "max_times", "least_reliable": "min_times",
}  # fmt: skip


def draw(random: Random) -> Case:
    """A problem, a graph and how it is given."""
    problem = pick(random, *NAMES)
    n = pick(random, *SIZES)
    return {
        "problem": problem,
        "n": n,
        "density": pick(random, 0.02, 0.1, 0.3, 1.0),
        "seed": int(random.integers(2**31)),
        "dtype": pick(random, *FLOATS, *INTEGERS.get(problem, ())),
        "way": pick(random, *WAYS),
        "threads": pick(random, *THREADS),
        "sources": [int(x) for x in random.integers(0, n, 3)] if n and chance(random, 4) else None,
        "predecessors": chance(random, 3),
        "cycle": problem in BETTER and n > 1 and chance(random, 4),
    }


def check(case: Case) -> None:
    """Compute the problem and compare values, then paths."""
    problem = case["problem"]
    if problem == "reachability":
        _check_reachability(case)
        return
    exact = random_weights(problem, case["n"], case["density"], case["seed"])
    if case["cycle"]:
        _check_cycle(case, exact)
        return
    try:
        _check_values(case, exact)
    except lw.paths.CycleError as error:
        raise Difference(f"a cycle is told where none is better: {error}") from error


def _check_values(case: Case, exact: Array) -> None:
    problem, threads = case["problem"], case["threads"]
    right = brute_force(problem, exact)
    weights, expected = _as_type(exact, right, problem, np.dtype(case["dtype"]))
    given, out = _given(weights, case, _absent(problem, weights.dtype))
    call = getattr(lw.paths, problem)
    named: dict[str, Any] = {"threads": threads}
    if case["sources"] is not None:
        named["sources"], expected = case["sources"], expected[case["sources"]]
    if case["predecessors"]:
        found = call(given, predecessors=True, **named)
        _equal(found.distances, expected)
        _check_paths(problem, weights, found, _absent(problem, weights.dtype))
        return
    if case["way"] == "squaring" and case["sources"] is None:
        result = lw.paths.closure(given, RINGS[problem], method="squaring", threads=threads)
    elif out is not None and case["sources"] is None:
        result = call(given, out=out, **named)
        if result is not out:
            raise Difference("the result is not in its place")
    else:
        result = call(given, **named)
    _equal(result, expected)


def _as_type(exact: Array, right: Array, problem: str, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """The weights and what comes out in a type; integers end at the infinity of the type."""
    if dtype.kind == "f":
        return exact.astype(dtype), _normal(problem, right, dtype).astype(dtype)
    limits = np.iinfo(dtype)
    if problem == "shortest":
        # As heavy as the type allows: paths of a few edges reach its end and stay there.
        factor = max(1, limits.max // 16)
        exact, right = exact * factor, right * factor
    return _saturated(exact, dtype), _saturated(right, dtype)


def _normal(problem: str, values: Array, dtype: np.dtype[Any]) -> Array:
    """The values of paths where `least_reliable` stops at the least normal number of a type."""
    return np.maximum(values, np.finfo(dtype).tiny) if problem == "least_reliable" else values


def _saturated(values: Array, dtype: np.dtype[Any]) -> Array:
    limits = np.iinfo(dtype)
    inside = np.clip(values, limits.min, limits.max)
    is_end = values >= limits.max, values <= limits.min
    whole = np.where(is_end[0] | is_end[1], 0, inside).astype(dtype)
    return np.where(is_end[0], limits.max, np.where(is_end[1], limits.min, whole)).astype(dtype)


def _absent(problem: str, dtype: np.dtype[Any]) -> Any:
    absent = PROBLEMS[problem][2]
    if dtype.kind == "f" or not np.isinf(absent):
        return absent
    limits = np.iinfo(dtype)
    return limits.max if absent > 0 else limits.min


def _given(weights: Array, case: Case, absent: Any) -> tuple[Any, Array | None]:
    match case["way"]:
        case "in place":
            given = weights.copy()
            return given, given
        case "other place":
            return weights, np.empty_like(weights)
        case "sparse":
            rows, columns = np.nonzero(weights != absent)
            entries = weights[rows, columns]
            return sp.coo_array((entries, (rows, columns)), shape=weights.shape).tocsr(), None
        case _:
            return weights, None


def _check_paths(problem: str, weights: Array, found: Any, absent: Any) -> None:
    """Some paths: edges of the graph from end to end, no vertex twice, the value of the element."""
    n = weights.shape[0]
    random = np.random.default_rng(n)
    one, times = PROBLEMS[problem][3], TIMES[PROBLEMS[problem][1]]
    for row, i in enumerate(found.sources.tolist()):
        for j in random.integers(0, n, min(n, 6)).tolist():
            path, value = found.path(i, j), found.distances[row, j]
            if not path:
                if value != absent:
                    raise Difference(f"no path from {i} to {j}, whose value is {value}")
                continue
            if (path[0], path[-1]) != (i, j) or len(set(path)) != len(path):
                raise Difference(f"no path from {i} to {j}: {path}")
            along = one
            for a, b in pairwise(path):
                if weights[a, b] == absent:
                    raise Difference(f"no edge from {a} to {b}")
                along = times(along, float(weights[a, b]))
            along = float(_normal(problem, np.float64(along), weights.dtype))
            if i != j and along != value:
                raise Difference(f"the path {path} has the value {along}, not {value}")


def _check_cycle(case: Case, exact: Array) -> None:
    """Put in a cycle that is better than the empty path, and look at what is told about it."""
    problem, n = case["problem"], case["n"]
    if n < 2:
        raise Unjudged("a cycle needs two vertices")
    _, name, absent, one = PROBLEMS[problem]
    weights = exact.astype(case["dtype"] if case["dtype"] in FLOATS else "float64")
    around = np.random.default_rng(case["seed"]).permutation(n)[: min(n, 2 + case["seed"] % 5)]
    for a, b in pairwise([*around.tolist(), int(around[0])]):
        weights[a, b] = BETTER[problem]
    given, out = _given(weights, case, absent)
    try:
        call = getattr(lw.paths, problem)
        if out is None:
            call(given, threads=case["threads"], predecessors=case["predecessors"])
        else:
            call(given, out=out, threads=case["threads"])
    except lw.paths.CycleError as error:
        if out is not None and out is given:
            return  # only a vertex of it is told
        value, times = one, TIMES[name]
        for a, b in pairwise(error.cycle):
            value = float(times(value, weights[a, b]))
        if len(error.cycle) < 2 or error.cycle[0] != error.cycle[-1]:
            raise Difference(f"no cycle: {error.cycle}") from error
        if not (value > one if problem == "longest" else value < one):
            raise Difference(f"the cycle {error.cycle} has the value {value}") from error
        return
    raise Difference("a cycle that is better than the empty path was not found")


def _check_reachability(case: Case) -> None:
    n = case["n"]
    random = np.random.default_rng(case["seed"])
    edges = random.random((n, n)) < case["density"]
    right = edges | np.eye(n, dtype=bool)
    for k in range(n):
        right |= right[:, k : k + 1] & right[k]
    given, _ = _given(edges, case | {"way": "sparse" if case["way"] == "sparse" else ""}, False)
    named: dict[str, Any] = {"threads": case["threads"]}
    if case["sources"] is not None:
        named["sources"], right = case["sources"], right[case["sources"]]
    _equal(lw.paths.reachability(given, **named), right)


def _equal(found: Any, expected: Array) -> None:
    if not np.array_equal(found, expected):
        places = np.argwhere(np.asarray(found) != expected)[:3].tolist()
        raise Difference(f"differs at {places} and {len(places)} places or more")


def smaller(case: Case) -> Iterator[Case]:
    """Fewer vertices first, then plainer ways."""
    for n in SIZES:
        if n < case["n"]:
            sources = case["sources"] and [x % n for x in case["sources"]] if n else None
            yield {**case, "n": n, "sources": sources}
    plain = {"threads": 1, "way": "dense", "sources": None, "predecessors": False}
    for field, value in {**plain, "dtype": "float64", "density": 1.0}.items():
        if case[field] != value:
            yield {**case, field: value}


def campaign() -> Campaign:
    return Campaign("path_problems", draw, check, smaller)
