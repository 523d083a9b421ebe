"""Compiled steps of the elimination: the closing of one square, with and without predecessors.

    for k:  row = a[k, :];  column = a[:, k]
            a[i, j] = a[i, j] plus column[i] times row[j]           for all i, j

The row and the column are copied first, so that the last two loops are free of dependences and are
vectorised. That changes nothing where step k leaves row k and column k alone, which is so unless a
cycle through k is better than the empty path: see `elimination`.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from loopwright.calls.arguments import short_strides, stride_values
from loopwright.calls.function_summary import summary_key
from loopwright.diagnostics import Span
from loopwright.frontends.source_tree import ArrayParam, Assign, ForLoop, Node, SourceTree
from loopwright.ir.dtypes import DTYPES, DType, dtype_of
from loopwright.ir.expr import Binary, Const, Expr, Select, Var
from loopwright.ir.loops import LoopNest
from loopwright.ir.program import Access
from loopwright.kernels import nest_kernel, thread_pool
from loopwright.machines.machine_argument import target_machine
from loopwright.memo import BoundedCache
from loopwright.runtime.array_arguments import Array, element_strides
from loopwright.runtime.code_memory import bounded
from loopwright.runtime.kernel import BoundKernel
from loopwright.semirings.named import Semiring

__all__ = ["PREDECESSOR", "close_panel_with_predecessors", "close_square"]

PREDECESSOR = DTYPES["int32"]
_SPAN = Span("<paths>", 1, 1, 1, 2, "")
_bound: BoundedCache[tuple[object, ...], BoundKernel] = bounded(BoundedCache(256))
k, i, j, row_j, column_i = (Var(name) for name in ("k", "i", "j", "j_row", "i_column"))


def close_square(a: Array, ring: Semiring) -> None:
    """Add to every element of a square matrix what all paths of two and more steps give."""
    n = len(a)
    if not n:
        return
    scratch = np.empty((2, n), a.dtype)
    _run(partial(_square_tree, ring, dtype_of(a.dtype)), ("square", ring), (a, *scratch))


def close_panel_with_predecessors(
    square: Array, square_before: Array, a: Array, before: Array, ring: Semiring
) -> None:
    """The steps of a block of rows on some of their columns, and the predecessors of all paths.

    `square` has the columns of the block itself, and is closed as well. An element is replaced only
    by a better one, and with it its predecessor by that of the second part of the path. All arrays
    are C-contiguous and share no memory.
    """
    block, n = a.shape
    if not n:
        return
    row, column = np.empty(max(n, block), a.dtype), np.empty(block, a.dtype)
    kept = np.empty(max(n, block), PREDECESSOR.numpy)
    arrays = (square, square_before, a, before, row, kept, column)
    _run(partial(_panel_tree, ring, dtype_of(a.dtype)), ("panel", ring), arrays)


def _square_tree(ring: Semiring, dtype: DType) -> SourceTree:
    a = Access("a", (i, j), dtype)
    row, column = Access("row", (j,), dtype), Access("column", (i,), dtype)
    product = ring.times_expr(dtype, column.load(), row.load())
    update = Assign(a, ring.plus_expr(dtype, a.load(), product), _SPAN)
    body = (
        _loop(row_j, "n", _copy(Access("row", (row_j,), dtype), Access("a", (k, row_j), dtype))),
        _loop(
            column_i,
            "n",
            _copy(Access("column", (column_i,), dtype), Access("a", (column_i, k), dtype)),
        ),
        _loop(i, "n", _loop(j, "n", update)),
    )
    n = Var("n")
    params = (
        ArrayParam("a", dtype, (n, n), _SPAN),
        ArrayParam("row", dtype, (n,), _SPAN),
        ArrayParam("column", dtype, (n,), _SPAN),
    )
    return SourceTree("close", params, ("n",), (), (_loop(k, "n", *body),), None, (), _SPAN)


def _panel_tree(ring: Semiring, dtype: DType) -> SourceTree:
    """The steps k of the square on the square first, then on the panel, each with predecessors."""
    b, n = Var("b"), Var("n")
    body: list[Node] = [
        _loop(
            Var("i_column"),
            "b",
            _copy(Access("column", (column_i,), dtype), Access("square", (column_i, k), dtype)),
        )
    ]
    for number, (matrix, before, size) in enumerate((("square", "kept", "b"), ("a", "pred", "n"))):
        at, along = Var(f"i_{number}"), Var(f"j_{number}")
        copied = Var(f"c_{number}")
        body.append(
            _loop(
                copied,
                size,
                _copy(Access("row", (copied,), dtype), Access(matrix, (k, copied), dtype)),
                _copy(
                    Access("before", (copied,), PREDECESSOR),
                    Access(before, (k, copied), PREDECESSOR),
                ),
            )
        )
        old, of = Access(matrix, (at, along), dtype), Access(before, (at, along), PREDECESSOR)
        column = Access("column", (at,), dtype).load()
        product = ring.times_expr(dtype, column, Access("row", (along,), dtype).load())
        other = Access("before", (along,), PREDECESSOR).load()
        better = Binary(_better(ring), product, old.load())
        body.append(
            _loop(
                at,
                "b",
                _loop(
                    along,
                    size,
                    Assign(of, Select(better, other, of.load()), _SPAN),
                    Assign(old, ring.plus_expr(dtype, old.load(), product), _SPAN),
                ),
            )
        )
    params = (
        ArrayParam("square", dtype, (b, b), _SPAN),
        ArrayParam("kept", PREDECESSOR, (b, b), _SPAN),
        ArrayParam("a", dtype, (b, n), _SPAN),
        ArrayParam("pred", PREDECESSOR, (b, n), _SPAN),
        ArrayParam("row", dtype, (Var("m"),), _SPAN),
        ArrayParam("before", PREDECESSOR, (Var("m"),), _SPAN),
        ArrayParam("column", dtype, (b,), _SPAN),
    )
    return SourceTree(
        "panel", params, ("b", "n", "m"), (), (_loop(k, "b", *body),), None, (), _SPAN
    )


def _better(ring: Semiring) -> str:
    """The comparison that says that an element is better than another."""
    return {"min": "lt", "max": "gt", "or": "gt"}[str(ring.plus)]


def _copy(target: Access, source: Access) -> Node:
    return Assign(target, source.load(), _SPAN)


def _loop(var: Var, size: str, *body: Node) -> Node:
    stop: Expr = Var(size)
    return ForLoop(var.name, Const(0), stop, 1, body, _SPAN)


def _run(make: partial[SourceTree], name: tuple[object, ...], arrays: tuple[Array, ...]) -> None:
    """Run the loops of a tree on arrays in the order of its parameters, on the caller's thread."""
    layout = tuple((x.dtype, x.shape, x.strides) for x in arrays)
    bound = _bound.get((*name, layout))
    if bound is None:
        bound = _bound[*name, layout] = _compiled(make(), arrays)
    bound(*arrays)


def _compiled(tree: SourceTree, arrays: tuple[Array, ...]) -> BoundKernel:
    given = {param.name: array for param, array in zip(tree.params, arrays, strict=True)}
    strides = {name: element_strides(array) for name, array in given.items()}
    # All are C-contiguous. Strides of arrays with one element tell nothing, and other kernels would
    # be compiled for them.
    nominal = {name: (0, 1)[-array.ndim :] for name, array in given.items()}
    unit, machine = short_strides(nominal), target_machine()
    key = f"{summary_key(tree, reassoc=True)} {sorted(unit)} {machine.content_hash}"

    def nest() -> LoopNest:
        # lazy: isl, for new kernels only
        from loopwright.calls.polyhedral_function import PolyhedralFunction

        function = PolyhedralFunction(tree, reassoc=True)
        return function.compiled(machine, 1, None, unit).nest

    kernel = nest_kernel(f"step of a closure {key}", nest, f"'{tree.name}' of a closure")
    sizes = {
        extent.name: size
        for param in tree.params
        if isinstance(param, ArrayParam)
        for extent, size in zip(param.shape, given[param.name].shape, strict=True)
        if isinstance(extent, Var)
    }
    assert kernel.buffers == tuple(given), "buffers come in the order of the parameters"
    table = np.zeros(0, dtype=np.int64)
    return kernel.bind(sizes | stride_values(strides), table, 1, thread_pool)
