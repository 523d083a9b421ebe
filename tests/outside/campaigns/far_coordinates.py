"""Tensors of few entries in large shapes, and what formats need for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from loopwright.sparse.format import Format
from loopwright.sparse.format_symbols import fixed_symbols
from loopwright.sparse.tensor import SparseTensor, sparse_tensor
from loopwright.sparse.uf import evaluate, symbols

FORMATS = (
    "coo", "scoo", "mcoo2", "csr", "csr_unsorted", "csc", "dia", "ell", "ell(column)", "bcsr(2,2)",
    "bcsr(3,2)", "dcsr", "lil", "csf", "hicoo(2)", "hicoo(8)", "alto", "sell(2,4)", "sell(4,8)",
)  # fmt: skip


def room_of(format: Format, shape: Sequence[int], counts: int = 8) -> int:
    """The elements of the longest array that the sizes alone make long, counts being small."""
    known = fixed_symbols(format, list(shape))
    terms = [format.places, *(extent for index in format.indices for extent in index.extents)]
    sized = [term for term in terms if symbols(term) & known.keys()]
    return max(
        (evaluate(t, dict.fromkeys(symbols(t), counts) | known, {}) for t in sized), default=0
    )


def far_tensor(shape: tuple[int, ...], dtype: Any = np.int64) -> SparseTensor:
    """A list of entries at both ends and in the middle of each dimension, two of them repeated."""
    ends = [sorted({0, min(5, n - 1), n // 2, max(n - 2, 0), n - 1}) for n in shape]
    rng = np.random.default_rng(1)
    chosen = [tuple(int(rng.choice(axis)) for axis in ends) for _ in range(7)]
    chosen += [tuple(n - 1 for n in shape), (0,) * len(shape)]
    return listed(shape, chosen, dtype)


def listed(shape: Sequence[int], at: Sequence[Sequence[int]], dtype: Any) -> SparseTensor:
    """The list of the entries at some coordinates, with the values 1, 2, 3, ..."""
    columns = np.array(at, dtype).reshape(len(at), len(shape)).T
    arrays = dict(zip(("row", "col", "tube"), map(np.ascontiguousarray, columns), strict=False))
    return sparse_tensor("coo", tuple(shape), arrays, np.arange(1.0, len(at) + 1))


def sum_of_repeated(tensor: SparseTensor) -> dict[tuple[int, ...], float]:
    """The entries of a list of coordinates, those of equal ones added."""
    found: dict[tuple[int, ...], float] = {}
    columns = [array.tolist() for array in tensor.arrays.values()]
    for at, value in zip(zip(*columns, strict=True), tensor.values.tolist(), strict=True):
        found[at] = found.get(at, 0.0) + value
    return found


def entries_of(tensor: SparseTensor) -> dict[tuple[int, ...], float]:
    """The entries of a tensor by its descriptor, those of equal coordinates added."""
    entries = tensor.entries()
    found: dict[tuple[int, ...], float] = {}
    columns = [column.tolist() for column in entries.coordinates]
    for at, place in zip(zip(*columns, strict=True), entries.places.tolist(), strict=True):
        found[at] = found.get(at, 0.0) + float(tensor.values[place])
    return found
