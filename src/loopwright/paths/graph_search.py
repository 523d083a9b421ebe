"""Compiled searches of sparse graphs from many vertices: breadth first, and best first.

Best first is Dijkstra's search over any semiring whose plus chooses the better of two (min or max)
and whose products are never better than their first factor: vertices leave a heap in the order of
their values, and each is final when it leaves. Vertices of equal value leave in the order in which
their values were found, so that the order of a search is determined: it is that of networkx, whose
heap holds (value, number of the push).

Edges lie in the order of their begins: edges of vertex v are `begins[v]` to `begins[v + 1]`. Rows
of results belong to sources and are computed by all threads, each with a heap of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from loopwright.ir.dtypes import BOOL, DTYPES, INT64, DType, dtype_of
from loopwright.ir.expr import Binary, Const, Expr, Load, Select, Unary, Var, cast
from loopwright.ir.loops import Alloc, Buffer, For, If, LoopNest, Mark, Space, Stmt, Store
from loopwright.kernels import ENTRY, nest_kernel, thread_pool
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.build import lets, loop, seq
from loopwright.machines.machine_argument import target_machine
from loopwright.runtime.array_arguments import Array
from loopwright.runtime.kernel import CompiledKernel
from loopwright.semirings.named import Semiring

__all__ = ["Adjacency", "SearchResult", "best_first", "better", "breadth_first", "run_search"]

VERTEX = DTYPES["int32"]
_UNSEEN, _SEEN, _DONE = 0, 1, 2  # states of vertices
_ARITY = 4  # children of a heap's element: one cache line of keys, and half the levels of two
_LEVELS = 40  # no heap is as high
n, rows, heap_size, r, e, j = (Var(x) for x in ("n", "rows", "heap_size", "r", "e", "j"))
v, u, turn, at = (Var(name) for name in ("v", "u", "turn", "at"))


@dataclass(frozen=True, slots=True)
class Adjacency:
    """Edges in the order of the vertices they begin at."""

    begins: Array  # int64, one more than vertices: where the edges of a vertex begin
    ends: Array  # int32, the vertices that edges lead to
    weights: Array

    @property
    def size(self) -> int:
        return len(self.begins) - 1


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What searches from several sources found, a row for each source."""

    values: Array  # of vertices; what is not reached has the absent value, or -1 as its level
    order: Array  # int32, the vertices in the order in which they became final
    count: Array  # int64, how many of them there are
    edges: Array  # int32, the last edge of the path to a vertex; -1 for none
    failed: Array  # int64, whether an edge improved a vertex that was final


def better(ring: Semiring) -> str:
    """The comparison by which an element replaces another one."""
    return {"min": "lt", "max": "gt", "or": "gt"}[str(ring.plus)]


def best_first(
    graph: Adjacency,
    ring: Semiring,
    sources: Array,
    threads: int,
    limit: float | None = None,
    is_ordered: bool = False,
) -> SearchResult:
    """The best paths from each of the sources; those above `limit` are not followed.

    Only where `is_ordered` vertices of equal value leave in the order of their discovery.
    """
    kind = graph.weights.dtype
    dtype = dtype_of(kind)
    key = f"best first {ring.name} {ring.plus} {ring.times_on(dtype)} {dtype} "
    key += f"{limit is not None} {is_ordered} "
    absent = ring.absent(dtype)
    first = np.array([absent, ring.one(dtype), limit or 0], kind)
    shape = (len(sources), graph.size)
    found = SearchResult(
        np.empty(shape, kind),
        np.empty(shape, np.int32),
        np.zeros(shape[0], np.int64),
        np.empty(shape, np.int32),
        np.zeros(shape[0], np.int64),
    )
    arrays = (graph.begins, graph.ends, graph.weights, _vertices(sources), first, *_fields(found))
    most = len(graph.ends) + 1  # an edge is followed once
    run_search(
        key,
        lambda: _best_first_nest(ring, dtype, limit is not None, is_ordered),
        arrays,
        threads,
        heap_size=most,
    )
    return found


def breadth_first(
    graph: Adjacency, sources: Array, threads: int, limit: int | None = None
) -> SearchResult:
    """The number of edges to each vertex, up to `limit`; vertices in the order of discovery."""
    shape = (len(sources), graph.size)
    found = SearchResult(
        np.empty(shape, np.int32),
        np.empty(shape, np.int32),
        np.zeros(shape[0], np.int64),
        np.empty(shape, np.int32),
        np.zeros(shape[0], np.int64),
    )
    most = np.array([graph.size if limit is None else min(max(limit, 0), graph.size)], np.int64)
    outputs = _fields(found)[:-1]
    arrays = (graph.begins, graph.ends, _vertices(sources), most, *outputs)
    run_search("breadth first ", _breadth_first_nest, arrays, threads)
    return found


def run_search(
    key: str, make: Callable[[], LoopNest], arrays: Sequence[Array], threads: int, **sizes: int
) -> None:
    """Run the kernel that `make` gives the nest of; arrays of results have a row per source."""
    kernel = _kernel(key, make)
    sizes |= {"n": len(arrays[0]) - 1, "rows": max(len(x) for x in arrays if x.ndim == 2)}
    team = max(1, min(threads, sizes["rows"]))
    bound = kernel.bind(sizes, np.zeros(0, dtype=np.int64), team, thread_pool)
    bound(*arrays)


def run_square(key: str, make: Callable[[], LoopNest], arrays: Sequence[Array]) -> None:
    """Run a kernel on square arrays, on the caller's thread."""
    kernel = _kernel(key, make)
    kernel.bind({"n": len(arrays[0])}, np.zeros(0, dtype=np.int64), 1, thread_pool)(*arrays)


def _kernel(key: str, make: Callable[[], LoopNest]) -> CompiledKernel:
    return nest_kernel(key + target_machine().content_hash, make, "search of a graph")


def _vertices(sources: Array) -> Array:
    return np.ascontiguousarray(sources, np.int32)


def _fields(found: SearchResult) -> tuple[Array, ...]:
    return found.values, found.order, found.edges, found.count, found.failed


# -- nests ----------------------------------------------------------------------------------------


def scalar(name: str, dtype: DType = INT64) -> Load:
    """The value of a variable of the nest."""
    return Load(name, (), dtype)


def put(name: str, value: Expr | int, dtype: DType = INT64) -> Stmt:
    """Set a variable of the nest."""
    return Store(name, (), value if not isinstance(value, int) else Const(value, dtype))


def both(*conditions: Expr) -> Expr:
    first, *others = conditions
    for other in others:
        first = Binary("and", first, other)
    return first


def either(x: Expr, y: Expr) -> Expr:
    return Binary("or", x, y)


def opposite(x: Expr) -> Expr:
    return Unary("not", x)


def forever(var: Var, most: Expr | int, until: Expr, body: Stmt) -> Stmt:
    """At most so many turns, until a condition holds."""
    stop = Const(most) if isinstance(most, int) else most
    return For(var.name, Const(0), stop, body, Const(1), until=until)


def with_variables(body: Stmt, **kinds: DType) -> Stmt:
    """Variables of the nest around a body."""
    for name, dtype in kinds.items():
        body = Alloc(Buffer(name, dtype, (), Space.STACK, writable=True), (), body)
    return body


def with_arrays(body: Stmt, size: Expr, **kinds: DType) -> Stmt:
    """Arrays of `size` elements, of each thread its own."""
    for name, dtype in kinds.items():
        own = Buffer(name, dtype, (Const(1),), Space.PRIVATE, writable=True)
        body = Alloc(own, (size,), body)
    return body


def vector_buffer(name: str, dtype: DType, writable: bool = False) -> Buffer:
    return Buffer(name, dtype, (Const(1),), writable=writable)


def row_buffer(name: str, dtype: DType) -> Buffer:
    return Buffer(name, dtype, (n, Const(1)), writable=True)


def wide(value: Expr) -> Expr:
    return cast(value, INT64)


def narrow(value: Expr) -> Expr:
    return cast(value, VERTEX)


def vertex_at(name: str, index: Expr) -> Expr:
    """An element of an array of vertices or places, as a subscript."""
    return wide(Load(name, (index,), VERTEX))


def _breadth_first_nest() -> LoopNest:
    level = wide(Load("levels", (r, v), VERTEX))
    tail = scalar("tail")
    found = seq(
        Store("levels", (r, u), narrow(level + 1)),
        Store("edges", (r, u), narrow(e)),
        Store("order", (r, tail), narrow(u)),
        put("tail", tail + 1),
    )
    visit = lets([(u, vertex_at("ends", e))], If(Load("levels", (r, u), VERTEX) < _c(0), found))
    begins = Load("begins", (v,), INT64), Load("begins", (v + 1,), INT64)
    near = Binary("lt", level, Load("most", (Const(0),), INT64))
    head = lets(
        [(v, wide(Load("order", (r, turn), VERTEX)))], If(near, loop(e, *begins, visit), None)
    )
    source = vertex_at("sources", r)
    body = seq(
        loop(
            j,
            0,
            n,
            seq(Store("levels", (r, j), _c(-1)), Store("edges", (r, j), _c(-1))),
        ),
        Store("levels", (r, source), _c(0)),
        Store("order", (r, Const(0)), narrow(source)),
        put("tail", 1),
        # A search that has seen all vertices has nothing to find.
        forever(turn, n, either(turn >= tail, tail >= n), head),
        Store("count", (r,), tail),
    )
    buffers = (
        vector_buffer("begins", INT64),
        vector_buffer("ends", VERTEX),
        vector_buffer("sources", VERTEX),
        vector_buffer("most", INT64),
        row_buffer("levels", VERTEX),
        row_buffer("order", VERTEX),
        row_buffer("edges", VERTEX),
        vector_buffer("count", INT64, writable=True),
    )
    whole = loop(r, 0, rows, with_variables(body, tail=INT64), mark=Mark.PARALLEL)
    return LoopNest(ENTRY, buffers, ("n", "rows"), whole, leave_to_llvm=True, fuses=False)


def _c(value: int) -> Const:
    return Const(value, VERTEX)


class _Heap:
    """Statements on a heap of values, ties by the number of the push where the order matters.

    An element that has become better is pushed again, and the old one is skipped when it leaves:
    no vertex has to know its place.
    """

    def __init__(self, ring: Semiring, dtype: DType, is_ordered: bool) -> None:
        self.dtype = dtype
        self.op = better(ring)
        self.is_ordered = is_ordered

    def key(self, index: Expr) -> Load:
        return Load("keys", (index,), self.dtype)

    def push(self, index: Expr) -> Load:
        return Load("pushes", (index,), INT64)

    def before(self, x: Expr, x_push: Expr, y: Expr, y_push: Expr) -> Expr:
        """Whether one element leaves before another one."""
        first = Binary(self.op, x, y)
        if not self.is_ordered:
            return first
        return either(first, both(Binary("eq", x, y), Binary("lt", x_push, y_push)))

    def fill(self, target: Expr, key: Expr, push: Expr, vertex: Expr) -> Stmt:
        stores = [Store("keys", (target,), key), Store("heap", (target,), vertex)]
        if self.is_ordered:
            stores.append(Store("pushes", (target,), push))
        return seq(*stores)

    def move(self, target: Expr, source: Expr) -> Stmt:
        vertex = Load("heap", (source,), VERTEX)
        return self.fill(target, self.key(source), self.push(source), vertex)

    def rise(self, key: Expr, push: Expr, vertex: Expr) -> Stmt:
        """Put an element at `hole`, or above it where it is better: of equals it comes last."""
        hole, parent = scalar("hole"), Var("parent")
        above = _parent(hole)
        # Without a parent there is nothing to compare with but itself.
        is_worse = opposite(Binary(self.op, key, self.key(Select(hole > 0, above, Const(0)))))
        stop = either(hole <= 0, is_worse)
        climb = lets([(parent, above)], seq(self.move(hole, parent), put("hole", parent)))
        return seq(forever(Var("up"), _LEVELS, stop, climb), self.fill(hole, key, push, vertex))

    def sink(self) -> Stmt:
        """Take the last element into the root's place and down to where it belongs."""
        size, hole = scalar("size"), scalar("hole")
        child, key = Var("child"), Var("last_key", self.dtype)
        push, vertex = Var("last_push"), Var("last_vertex", VERTEX)
        best: Expr = child
        best_key: Expr = Var("key_0", self.dtype)
        best_push: Expr = Var("push_0")
        bound: list[tuple[Var, Expr]] = [(Var("key_0", self.dtype), self.key(child))]
        if self.is_ordered:
            bound.append((Var("push_0"), self.push(child)))
        # The best child by selections: which one it is, no branch predictor knows. Beyond the end
        # the last one is compared again.
        for number in range(1, _ARITY):
            other, other_key = Var(f"child_{number}"), Var(f"key_{number}", self.dtype)
            other_push, chosen = Var(f"push_{number}"), Var(f"is_{number}", BOOL)
            bound += [(other, (child + number).min(size - 1)), (other_key, self.key(other))]
            if self.is_ordered:
                bound.append((other_push, self.push(other)))
            bound.append((chosen, self.before(other_key, other_push, best_key, best_push)))
            names = Var(f"best_{number}"), Var(f"best_key_{number}", self.dtype)
            bound.append((names[0], Select(chosen, other, best)))
            bound.append((names[1], Select(chosen, other_key, best_key)))
            best, best_key = names
            if self.is_ordered:
                least = Var(f"best_push_{number}")
                bound.append((least, Select(chosen, other_push, best_push)))
                best_push = least
        falls = self.before(best_key, best_push, key, push)
        down = seq(self.move(hole, best), put("hole", best))
        level = lets([(child, hole * _ARITY + 1), *bound], If(falls, down, put("rests", 1)))
        over = either(hole * _ARITY + 1 >= size, scalar("rests") > 0)
        last: list[tuple[Var, Expr]] = [
            (key, self.key(size)),
            (vertex, Load("heap", (size,), VERTEX)),
        ]
        if self.is_ordered:
            last.append((push, self.push(size)))
        return lets(
            last,
            seq(
                put("hole", 0),
                put("rests", 0),
                forever(Var("down"), _LEVELS, over, level),
                self.fill(hole, key, push, vertex),
            ),
        )


def _parent(hole: Expr) -> Expr:
    return (hole - 1) // _ARITY


def _best_first_nest(ring: Semiring, dtype: DType, is_limited: bool, is_ordered: bool) -> LoopNest:
    heap = _Heap(ring, dtype, is_ordered)
    size, clock, popped = scalar("size"), scalar("clock"), scalar("popped")
    value, best = Load("values", (r, u), dtype), Var("found", dtype)
    weight = Load("weights", (e,), dtype)
    reached, state = Var("reached", dtype), Var("state_u", VERTEX)
    push = seq(
        Store("values", (r, u), best),
        Store("edges", (r, u), narrow(e)),
        Store("state", (u,), _c(_SEEN)),
        put("hole", size),
        put("size", size + 1),
        heap.rise(best, clock, narrow(u)),
        put("clock", clock + 1),
    )
    gains = Binary(better(ring), best, value)
    # A final vertex that an edge improves: the weight is better than the empty path.
    new = If(Binary("eq", state, _c(_DONE)), put("wrong", 1), push)
    relax: Stmt = If(either(gains, Binary("eq", state, _c(_UNSEEN))), new)
    relax = lets([(state, Load("state", (u,), VERTEX))], relax)
    if is_limited:
        limit = Load("first", (Const(2),), dtype)
        relax = If(opposite(Binary("gt", best, limit)), relax)
    visit = lets(
        [(u, vertex_at("ends", e)), (best, ring.times_expr(dtype, reached, weight))], relax
    )
    begins = Load("begins", (v,), INT64), Load("begins", (v + 1,), INT64)
    take = seq(
        Store("state", (v,), _c(_DONE)),
        Store("order", (r, popped), narrow(v)),
        put("popped", popped + 1),
        loop(e, *begins, visit),
    )
    head = seq(
        put("size", size - 1),
        If(size > 0, heap.sink()),
        If(opposite(Binary("eq", Load("state", (v,), VERTEX), _c(_DONE))), take),
    )
    head = lets([(v, vertex_at("heap", Const(0))), (reached, heap.key(Const(0)))], head)
    source = vertex_at("sources", r)
    one = Load("first", (Const(1),), dtype)
    start = seq(
        loop(
            j,
            0,
            n,
            seq(
                Store("values", (r, j), Load("first", (Const(0),), dtype)),
                Store("edges", (r, j), _c(-1)),
                Store("state", (j,), _c(_UNSEEN)),
            ),
        ),
        Store("values", (r, source), one),
        Store("state", (source,), _c(_SEEN)),
        heap.fill(Const(0), one, Const(0), narrow(source)),
        put("size", 1),
        put("clock", 1),
        put("popped", 0),
        put("wrong", 0),
        forever(turn, heap_size, either(size <= 0, scalar("wrong") > 0), head),
        Store("count", (r,), popped),
        Store("failed", (r,), scalar("wrong")),
    )
    own = with_arrays(start, n, state=VERTEX)
    pushes = {"pushes": INT64} if is_ordered else {}
    own = with_arrays(own, heap_size, keys=dtype, heap=VERTEX, **pushes)
    names = ("size", "clock", "popped", "wrong", "hole", "rests")
    whole = loop(r, 0, rows, with_variables(own, **dict.fromkeys(names, INT64)), mark=Mark.PARALLEL)
    buffers = (
        vector_buffer("begins", INT64),
        vector_buffer("ends", VERTEX),
        vector_buffer("weights", dtype),
        vector_buffer("sources", VERTEX),
        vector_buffer("first", dtype),
        row_buffer("values", dtype),
        row_buffer("order", VERTEX),
        row_buffer("edges", VERTEX),
        vector_buffer("count", INT64, writable=True),
        vector_buffer("failed", INT64, writable=True),
    )
    scalars = ("n", "rows", "heap_size")
    return LoopNest(ENTRY, buffers, scalars, whole, leave_to_llvm=True, fuses=False)
