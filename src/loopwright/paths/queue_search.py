"""Bellman and Ford's search with a queue, which takes negative weights, from one or more sources.

The search is that of networkx step by step, so that vertices are discovered in its order and sums
are rounded as there: a vertex is passed over while one of its predecessors waits in the queue, and
a vertex that its own last improvement comes from, or that was queued n times, lies on a cycle of
negative weight.
"""

from __future__ import annotations

import numpy as np

from loopwright.ir.dtypes import DTYPES, INT64
from loopwright.ir.expr import Binary, Const, Expr, Load, Select, Var
from loopwright.ir.loops import If, LoopNest, Mark, Stmt, Store
from loopwright.kernels import ENTRY
from loopwright.lower.build import lets, loop, seq
from loopwright.paths.graph_search import (
    VERTEX,
    Adjacency,
    SearchResult,
    both,
    either,
    forever,
    narrow,
    put,
    row_buffer,
    run_search,
    scalar,
    vector_buffer,
    vertex_at,
    with_arrays,
    with_variables,
)
from loopwright.runtime.array_arguments import Array

__all__ = ["queue_search"]

FLOAT = DTYPES["float64"]
_ENDLESS = 1 << 62  # turns: the queue runs empty, or a cycle is found
n, rows, m, r, e, j, k = (Var(x) for x in ("n", "rows", "m", "r", "e", "j", "k"))
u, v, turn, back = (Var(x) for x in ("u", "v", "turn", "back"))


def queue_search(graph: Adjacency, starts: Array, threads: int) -> SearchResult:
    """The least sums of weights (float64) from the vertices of each row of `starts`.

    `order` has vertices as they were discovered; `failed` says that a cycle of negative weight was
    met, which ends the row.
    """
    shape = (len(starts), graph.size)
    found = SearchResult(
        np.empty(shape, np.float64),
        np.empty(shape, np.int32),
        np.zeros(shape[0], np.int64),
        np.empty(shape, np.int32),
        np.zeros(shape[0], np.int64),
    )
    begin_of = np.repeat(np.arange(graph.size, dtype=np.int32), np.diff(graph.begins))
    incoming = np.argsort(graph.ends, kind="stable").astype(np.int32)
    into = np.searchsorted(graph.ends[incoming], np.arange(graph.size + 1)).astype(np.int64)
    given = np.ascontiguousarray(starts, np.int32)
    width = np.array([given.shape[1]], np.int64)
    outputs = found.values, found.order, found.edges, found.count, found.failed
    inputs = graph.begins, graph.ends, graph.weights, begin_of, into, incoming
    arrays = (*inputs, given.reshape(-1), width, *outputs)
    edges = len(graph.ends)
    run_search("queue search ", _nest, arrays, threads, m=edges)
    return found


def _nest() -> LoopNest:
    def number(name: str, index: Expr) -> Load:
        return Load(name, (index,), VERTEX)

    head, tail, wrong = scalar("head"), scalar("tail"), scalar("wrong")
    infinite = Const(float("inf"), FLOAT)
    value, found = Load("values", (r, v), FLOAT), Var("found", FLOAT)

    def append(vertex: Expr) -> Stmt:
        return seq(
            Store("queue", (tail % n,), narrow(vertex)),
            put("tail", tail + 1),
            Store("waits", (vertex,), _v(1)),
        )

    # The last update of v came by u as well: its path's head stays. Otherwise it is this edge.
    same = Binary("eq", number("by", v), narrow(u))
    recent = [
        Store(name, (v,), Select(same, number(name, u), narrow(new)))
        for name, new in (("head_a", u), ("head_b", v))
    ]
    queued = seq(
        append(v),
        Store("times", (v,), Load("times", (v,), INT64) + 1),
        If(Binary("ge", Load("times", (v,), INT64), n), put("wrong", 1)),
    )
    count = scalar("count_now")
    discovered = seq(Store("order", (r, count), narrow(v)), put("count_now", count + 1))
    improve = seq(
        *recent,
        If(Binary("eq", number("waits", v), _v(0)), queued),
        If(Binary("eq", value, infinite), discovered),
        Store("values", (r, v), found),
        Store("edges", (r, v), narrow(e)),
        Store("version", (v,), Load("version", (v,), INT64) + 1),
        Store("stamp", (e,), Load("version", (v,), INT64)),
        Store("by", (v,), narrow(u)),
    )
    on_path = either(
        Binary("eq", number("head_a", u), narrow(v)), Binary("eq", number("head_b", u), narrow(v))
    )
    tie = both(Binary("eq", found, value), Binary("lt", value, infinite))
    relax = If(
        Binary("lt", found, value),
        If(on_path, put("wrong", 1), improve),
        If(tie, Store("stamp", (e,), Load("version", (v,), INT64))),
    )
    total = Binary("add", Load("values", (r, u), FLOAT), Load("weights", (e,), FLOAT))
    visit = lets(
        [(v, vertex_at("ends", e)), (found, total)],
        If(Binary("eq", wrong, Const(0)), relax),
    )
    # The value of u is that before its edges are relaxed, self-loops too: none improves u but one
    # of negative weight, which is a cycle.
    through = loop(e, *_range("begins", u), visit)
    is_tight = Binary("eq", Load("stamp", (back,), INT64), Load("version", (u,), INT64))
    waits = Binary("ne", number("waits", vertex_at("begin_of", back)), _v(0))
    look = lets([(back, vertex_at("incoming", k))], If(both(is_tight, waits), put("waiting", 1)))
    step = seq(
        put("head", head + 1),
        Store("waits", (u,), _v(0)),
        put("waiting", 0),
        loop(k, *_range("into", u), look),
        If(Binary("eq", scalar("waiting"), Const(0)), through),
    )
    step = lets([(u, vertex_at("queue", head % n))], step)
    width = Load("width", (Const(0),), INT64)
    source = vertex_at("starts", r * width + k)
    begin = lets(
        [(u, source)],
        seq(
            Store("values", (r, u), Const(0.0, FLOAT)),
            Store("order", (r, k), narrow(u)),
            append(u),
        ),
    )
    clear = seq(
        Store("values", (r, j), infinite),
        Store("edges", (r, j), _v(-1)),
        *(Store(name, (j,), _v(-1)) for name in ("by", "head_a", "head_b")),
        Store("waits", (j,), _v(0)),
        *(Store(name, (j,), Const(0)) for name in ("version", "times")),
    )
    body = seq(
        put("head", 0),
        put("tail", 0),
        put("wrong", 0),
        loop(j, 0, n, clear),
        loop(e, 0, m, Store("stamp", (e,), Const(-1))),
        loop(k, 0, width, begin),
        put("count_now", width),
        forever(turn, _ENDLESS, either(head >= tail, wrong > 0), step),
        Store("count", (r,), count),
        Store("failed", (r,), wrong),
    )
    own = with_arrays(body, m, stamp=INT64)
    own = with_arrays(own, n, version=INT64, times=INT64)
    names = ("queue", "waits", "by", "head_a", "head_b")
    own = with_arrays(own, n, **dict.fromkeys(names, VERTEX))
    names = ("head", "tail", "wrong", "waiting", "count_now")
    own = with_variables(own, **dict.fromkeys(names, INT64))
    buffers = (
        vector_buffer("begins", INT64),
        vector_buffer("ends", VERTEX),
        vector_buffer("weights", FLOAT),
        vector_buffer("begin_of", VERTEX),
        vector_buffer("into", INT64),
        vector_buffer("incoming", VERTEX),
        vector_buffer("starts", VERTEX),
        vector_buffer("width", INT64),
        row_buffer("values", FLOAT),
        row_buffer("order", VERTEX),
        row_buffer("edges", VERTEX),
        vector_buffer("count", INT64, writable=True),
        vector_buffer("failed", INT64, writable=True),
    )
    whole = loop(r, 0, rows, own, mark=Mark.PARALLEL)
    scalars = ("n", "rows", "m")
    return LoopNest(ENTRY, buffers, scalars, whole, leave_to_llvm=True, fuses=False)


def _v(value: int) -> Const:
    return Const(value, VERTEX)


def _range(name: str, vertex: Expr) -> tuple[Expr, Expr]:
    return Load(name, (vertex,), INT64), Load(name, (vertex + 1,), INT64)
