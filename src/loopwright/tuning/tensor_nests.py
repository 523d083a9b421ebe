"""Nests of common tensor operations: the trees that tuning starts from.

Every function gives the loops as one would write them down, untiled: the dimensions of the result
and then those that are summed, with the innermost dimension of the result last where there is one
(m, k, n of a matrix product), and the nest that writes the result where sums are kept apart from
it. Arrays are contiguous, of constant shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import FLOAT32, DType
from loopwright.ir.expr import Binary, Const, Expr, Load, Var, cast
from loopwright.ir.program import Access, Array, Role
from loopwright.ir.visit import rewrite
from loopwright.tuning.loop_tree import LoopTree, TreeLoop, TreeNest, TreeStatement

__all__ = [
    "ELEMENT",
    "concatenation_tree",
    "contraction_tree_of",
    "convolution_tree",
    "elementwise_tree",
    "matmul_tree",
    "pooling_tree",
    "transposition_tree",
]

# The variable that stands for an operand's element in a pre-operation, and for the sum in a
# post-operation.
ELEMENT = "element"

Dims = Sequence[tuple[str, int]]


def nest_of(dims: Dims, write: Access, value: Expr, plus: str | None = None) -> TreeNest:
    """A nest with one loop for each dimension, in their order."""
    loops = tuple(TreeLoop(name, extent) for name, extent in dims)
    return TreeNest(TreeStatement(tuple(dims), write, value, plus), loops)


def matmul_tree(
    m: int, n: int, k: int, dtype: DType = FLOAT32, *, reassoc: bool = True, writes: bool = True
) -> LoopTree:
    """`out[m, n] = sum of A[m, k] * B[k, n]`: loops m, k, n, as LoopTune starts."""
    sizes = {"m": m, "n": n, "k": k}
    return contraction_tree_of("mk,kn->mn", sizes, dtype, reassoc=reassoc, writes=writes)


def contraction_tree_of(
    subscripts: str,
    sizes: Mapping[str, int],
    dtype: DType = FLOAT32,
    *,
    plus: str = "add",
    times: str = "mul",
    before: Sequence[Expr | None] = (),
    after: Expr | None = None,
    reassoc: bool = True,
    writes: bool = False,
) -> LoopTree:
    """An einsum of any rank and number of operands, with operations before and after.

    `before` gives what is done to the elements of each operand and `after` to sums, as expressions
    over Var(ELEMENT); None: nothing. With `writes`, or an operation after, sums are kept in an
    array of their own and a second nest writes the result.
    """
    left, arrow, result = subscripts.replace(" ", "").partition("->")
    terms = left.split(",")
    if not arrow or len(terms) > 26 or not set(result) <= set(left):
        raise UsageError("subscripts must be of the form mk,kn->mn", subscripts)
    letters = "".join(dict.fromkeys(left.replace(",", "")))
    arrays = [_array(chr(ord("A") + at), dtype, term, sizes) for at, term in enumerate(terms)]
    value: Expr | None = None
    for at, term in enumerate(terms):
        factor: Expr = _access(arrays[at], term).load()
        if at < len(before) and (done := before[at]) is not None:
            factor = filled(done, factor)
        value = factor if value is None else Binary(times, value, factor)
    assert value is not None
    out = _array("out", dtype, result, sizes, Role.OUT)
    reduced = [c for c in letters if c not in result]
    dims = [(c, sizes[c]) for c in (*result[:-1], *reduced, *result[-1:])]
    if not (reduced and (writes or after is not None)):
        if after is not None:
            value = filled(after, value)
        accumulates = plus if reduced else None
        nest = nest_of(dims, _access(out, result), value, accumulates)
        return LoopTree("contraction", (*arrays, out), (nest,), reassoc)
    sums = _array("sums", dtype, result, sizes, Role.LOCAL)
    total: Expr = _access(sums, result).load()
    total = total if after is None else filled(after, total)
    nests = (
        nest_of(dims, _access(sums, result), value, plus),
        nest_of([(c, sizes[c]) for c in result], _access(out, result), total),
    )
    return LoopTree("contraction", (*arrays, sums, out), nests, reassoc)


def elementwise_tree(
    shape: Sequence[int], value: Expr, operands: Mapping[str, str], dtype: DType = FLOAT32
) -> LoopTree:
    """`out[i, j, ...] = value` over Var(name) of operands, each with the letters that it varies.

    An operand that lacks a letter is broadcast along it.
    """
    letters = "ijklmn"[: len(shape)]
    sizes = dict(zip(letters, shape, strict=True))
    arrays = [_array(name, dtype, term, sizes) for name, term in operands.items()]
    elements = {a.name: _access(a, operands[a.name]).load() for a in arrays}
    out = _array("out", dtype, letters, sizes, Role.OUT)
    done = rewrite(value, lambda e: elements.get(e.name, e) if isinstance(e, Var) else e)
    nest = nest_of(list(sizes.items()), _access(out, letters), done)
    return LoopTree("elementwise", (*arrays, out), (nest,))


def transposition_tree(shape: Sequence[int], order: Sequence[int], dtype: DType) -> LoopTree:
    """`numpy.transpose(A, order)`."""
    letters = "ijklmn"[: len(shape)]
    sizes = dict(zip(letters, shape, strict=True))
    result = "".join(letters[at] for at in order)
    source = _array("A", dtype, letters, sizes)
    out = _array("out", dtype, result, sizes, Role.OUT)
    dims = [(c, sizes[c]) for c in result]
    nest = nest_of(dims, _access(out, result), _access(source, letters).load())
    return LoopTree("transposition", (source, out), (nest,))


def concatenation_tree(rows: Sequence[int], columns: int, dtype: DType = FLOAT32) -> LoopTree:
    """The rows of A, then those of B, ...: one nest for each array."""
    arrays, nests, first = [], [], 0
    out = Array("out", dtype, (Const(sum(rows)), Const(columns)), Role.OUT)
    for at, count in enumerate(rows):
        sizes = {"i": count, "j": columns}
        part = _array(chr(ord("A") + at), dtype, "ij", sizes)
        write = Access("out", (Var("i") + first, Var("j")), dtype)
        arrays.append(part)
        nests.append(nest_of(list(sizes.items()), write, _access(part, "ij").load()))
        first += count
    return LoopTree("concatenation", (*arrays, out), tuple(nests))


def pooling_tree(
    shape: tuple[int, int, int], window: int, stride: int, plus: str = "max", dtype: DType = FLOAT32
) -> LoopTree:
    """`out[c, i, j] = max of A[c, i*stride + p, j*stride + q]` over a window."""
    channels, height, width = shape
    rows, columns = ((x - window) // stride + 1 for x in (height, width))
    source = Array("A", dtype, tuple(map(Const, shape)), Role.IN)
    out = Array("out", dtype, tuple(map(Const, (channels, rows, columns))), Role.OUT)
    c, i, j, p, q = map(Var, "cijpq")
    dims = [("c", channels), ("i", rows), ("j", columns), ("p", window), ("q", window)]
    value = Load("A", (c, i * stride + p, j * stride + q), dtype)
    nest = nest_of(dims, Access("out", (c, i, j), dtype), value, plus)
    return LoopTree("pooling", (source, out), (nest,), reassoc=plus in ("add", "mul"))


def convolution_tree(
    shape: tuple[int, int, int],
    filters: tuple[int, int],
    stride: int = 1,
    dtype: DType = FLOAT32,
    *,
    reassoc: bool = True,
) -> LoopTree:
    """`out[o, i, j] = sum of A[c, i*stride + p, j*stride + q] * B[o, c, p, q]`.

    `shape` is that of A, `filters` the number of outputs and the side of a window.
    """
    channels, height, width = shape
    outputs, side = filters
    rows, columns = ((x - side) // stride + 1 for x in (height, width))
    source = Array("A", dtype, tuple(map(Const, shape)), Role.IN)
    kernel = Array("B", dtype, tuple(map(Const, (outputs, channels, side, side))), Role.IN)
    out = Array("out", dtype, tuple(map(Const, (outputs, rows, columns))), Role.OUT)
    o, i, j, c, p, q = map(Var, "oijcpq")
    dims = [("o", outputs), ("i", rows), ("c", channels)]
    dims += [("p", side), ("q", side), ("j", columns)]
    element = Load("A", (c, i * stride + p, j * stride + q), dtype)
    value = Binary("mul", element, Load("B", (o, c, p, q), dtype))
    nest = nest_of(dims, Access("out", (o, i, j), dtype), value, "add")
    return LoopTree("convolution", (source, kernel, out), (nest,), reassoc)


def filled(operation: Expr, element: Expr) -> Expr:
    """An operation with the element in place of Var(ELEMENT)."""

    def fill(expr: Expr) -> Expr:
        return cast(element, expr.dtype) if isinstance(expr, Var) and expr.name == ELEMENT else expr

    return rewrite(operation, fill)


def _array(
    name: str, dtype: DType, letters: str, sizes: Mapping[str, int], role: Role = Role.IN
) -> Array:
    return Array(name, dtype, tuple(Const(sizes[c]) for c in letters), role)


def _access(array: Array, letters: str) -> Access:
    return Access(array.name, tuple(Var(c) for c in letters), array.dtype)
