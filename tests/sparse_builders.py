"""Slow builders of every built-in format, by hand from its description, to test against."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from loopwright.sparse.curves import CURVES
from loopwright.sparse.format import Format
from loopwright.sparse.formats import find
from loopwright.sparse.formats.coordinates import names
from loopwright.sparse.tensor import SparseTensor, sparse_tensor

Entry = tuple[tuple[int, ...], Any]  # coordinates and value
Shape = tuple[int, ...]
Built = tuple[dict[str, Any], list[Any]]  # index arrays and values


def build(
    format: str | Format, shape: Sequence[int], entries: Sequence[Entry], dtype: Any = np.float64
) -> SparseTensor:
    """The tensor with these entries; all but coo and csr_unsorted sum what is repeated."""
    sizes = tuple(shape)
    descriptor = find(format, len(sizes))
    family = descriptor.name.split("(")[0]
    parameters = [
        int(w) if w.isdigit() else w for w in descriptor.name[:-1].split("(")[-1].split(",")
    ]
    if "(" not in descriptor.name:
        parameters = []
    given = list(entries) if not descriptor.is_unique else summed(entries)
    arrays, values = BUILDERS[family](sizes, given, *parameters)
    widths = {index.name: index.dtype or "int32" for index in descriptor.indices}
    typed = {name: np.asarray(array, widths[name]) for name, array in arrays.items()}
    for index in descriptor.indices:  # an empty list does not know its other dimensions
        if typed[index.name].ndim != index.rank:
            typed[index.name] = typed[index.name].reshape(
                (0,) * (index.rank - 1) + (-1,) if typed[index.name].size else (sizes[0], 0)
            )
    return sparse_tensor(descriptor, sizes, typed, np.asarray(values, dtype))


def of_dense(format: str | Format, array: Any) -> SparseTensor:
    """The tensor of the entries of an array that are not 0."""
    whole = np.asarray(array)
    entries = [(tuple(map(int, at)), whole[tuple(at)]) for at in np.argwhere(whole != 0)]
    return build(format, whole.shape, entries, whole.dtype)


def summed(entries: Sequence[Entry]) -> list[Entry]:
    """One entry per coordinate, in lexicographic order."""
    total: dict[tuple[int, ...], Any] = {}
    for at, value in entries:
        total[at] = total[at] + value if at in total else value
    return sorted(total.items())


def coo(shape: Shape, entries: list[Entry]) -> Built:
    columns = names(len(shape))
    arrays = {name: [at[m] for at, _ in entries] for m, name in enumerate(columns)}
    return arrays, [value for _, value in entries]


def scoo(shape: Shape, entries: list[Entry]) -> Built:
    return coo(shape, sorted(entries, key=lambda entry: entry[0]))


def mcoo(shape: Shape, entries: list[Entry]) -> Built:
    return coo(shape, sorted(entries, key=lambda entry: morton(entry[0])))


def morton(at: Sequence[int]) -> int:
    """The bits of the coordinates in turn, written as text: nothing shared with the package."""
    bits = [format(x, "064b") for x in at]
    return int("".join(b for group in zip(*bits, strict=True) for b in group), 2)


def alto(shape: Shape, entries: list[Entry]) -> Built:
    keyed = sorted((int(CURVES["ALTO"](*at, *shape)), value) for at, value in entries)
    return {"alto": [key for key, _ in keyed]}, [value for _, value in keyed]


def pointers(keys: Sequence[int], count: int) -> list[int]:
    return [sum(key < n for key in keys) for n in range(count + 1)]


def csr(shape: Shape, entries: list[Entry]) -> Built:
    ordered = sorted(entries, key=lambda entry: entry[0])
    rows = [at[0] for at, _ in ordered]
    arrays = {"rowptr": pointers(rows, shape[0]), "col": [at[1] for at, _ in ordered]}
    return arrays, [value for _, value in ordered]


def csr_unsorted(shape: Shape, entries: list[Entry]) -> Built:
    ordered = sorted(entries, key=lambda entry: entry[0][0])
    rows = [at[0] for at, _ in ordered]
    arrays = {"rowptr": pointers(rows, shape[0]), "col": [at[1] for at, _ in ordered]}
    return arrays, [value for _, value in ordered]


def csc(shape: Shape, entries: list[Entry]) -> Built:
    ordered = sorted(entries, key=lambda entry: entry[0][::-1])
    columns = [at[1] for at, _ in ordered]
    arrays = {"colptr": pointers(columns, shape[1]), "row": [at[0] for at, _ in ordered]}
    return arrays, [value for _, value in ordered]


def dcsr(shape: Shape, entries: list[Entry]) -> Built:
    rows = sorted({at[0] for at, _ in entries})
    arrays, values = csr(shape, entries)
    kept = [arrays["rowptr"][row] for row in rows] + [len(values)]
    return {"rowidx": rows, "rptr": kept, "col": arrays["col"]}, values


def lil(shape: Shape, entries: list[Entry]) -> Built:
    arrays, values = csr(shape, entries)
    start = arrays["rowptr"]
    lengths = [b - a for a, b in itertools.pairwise(start)]
    return {"start": start, "len": lengths, "lcol": arrays["col"]}, values


def csf(shape: Shape, entries: list[Entry]) -> Built:
    rank = len(shape)
    arrays: dict[str, Any] = {}
    for m in range(rank):
        prefixes = sorted({at[: m + 1] for at, _ in entries})
        arrays[f"idx{m}"] = [prefix[m] for prefix in prefixes]
        if m + 1 < rank:
            longer = sorted({at[: m + 2] for at, _ in entries})
            parents = [prefixes.index(prefix[:-1]) for prefix in longer]
            arrays[f"ptr{m}"] = pointers(parents, len(prefixes))
    return arrays, [value for _, value in entries]


def dia(shape: Shape, entries: list[Entry]) -> Built:
    offsets = sorted({at[1] - at[0] for at, _ in entries})
    values = [0] * (len(offsets) * shape[0])
    for (i, j), value in entries:
        values[len(offsets) * i + offsets.index(j - i)] = value
    return {"off": offsets}, values


def rows_of(shape: Shape, entries: list[Entry]) -> list[list[tuple[int, Any]]]:
    return [sorted((j, v) for (i, j), v in entries if i == row) for row in range(shape[0])]


def ell(shape: Shape, entries: list[Entry], layout: str) -> Built:
    rows = rows_of(shape, entries)
    width = max(map(len, rows), default=0)
    columns = [[j for j, _ in row] + [-1] * (width - len(row)) for row in rows]
    data = [[v for _, v in row] + [0] * (width - len(row)) for row in rows]
    index, values = np.reshape(columns, (shape[0], width)), np.reshape(data, (shape[0], width))
    if layout == "column":
        index, values = index.T, values.T
    return {"rlen": list(map(len, rows)), "ecol": index}, list(values.ravel())


def sell(shape: Shape, entries: list[Entry], height: int, window: int) -> Built:
    rows = rows_of(shape, entries)
    perm: list[int] = []
    for first in range(0, shape[0], window):
        part = range(first, min(first + window, shape[0]))
        perm += sorted(part, key=lambda row: -len(rows[row]))
    clen, cptr, scol, values = [], [0], [], []
    for first in range(0, shape[0], height):
        members = perm[first : first + height]
        clen.append(max(len(rows[row]) for row in members))
        for w in range(clen[-1]):
            for r in range(height):
                row = rows[members[r]] if r < len(members) else []
                scol.append(row[w][0] if w < len(row) else -1)
                values.append(row[w][1] if w < len(row) else 0)
        cptr.append(len(scol))
    lengths = list(map(len, rows))
    arrays = {"perm": perm, "rlen": lengths, "clen": clen, "cptr": cptr, "scol": scol}
    return arrays, values


def bcsr(shape: Shape, entries: list[Entry], rows: int, columns: int) -> Built:
    blocks = sorted({(i // rows, j // columns) for (i, j), _ in entries})
    values = [0] * (rows * columns * len(blocks))
    for (i, j), value in entries:
        block = blocks.index((i // rows, j // columns))
        values[rows * columns * block + columns * (i % rows) + j % columns] = value
    count = -(-shape[0] // rows)
    return {
        "browptr": pointers([b[0] for b in blocks], count),
        "bcol": [b[1] for b in blocks],
    }, values


def hicoo(shape: Shape, entries: list[Entry], side: int) -> Built:
    letters = "ijkl"[: len(shape)]
    ordered = sorted(entries, key=lambda entry: morton(entry[0]))
    of_entry = [tuple(x // side for x in at) for at, _ in ordered]
    blocks = list(dict.fromkeys(of_entry))
    arrays: dict[str, Any] = {"bptr": pointers([blocks.index(b) for b in of_entry], len(blocks))}
    for m, letter in enumerate(letters):
        arrays[f"b{letter}"] = [block[m] for block in blocks]
        arrays[f"e{letter}"] = [at[m] % side for at, _ in ordered]
    return arrays, [value for _, value in ordered]


BUILDERS: dict[str, Callable[..., Built]] = {
    "coo": coo,
    "scoo": scoo,
    "mcoo2": mcoo,
    "mcoo3": mcoo,
    "alto": alto,
    "csr": csr,
    "csr_unsorted": csr_unsorted,
    "csc": csc,
    "dcsr": dcsr,
    "lil": lil,
    "csf": csf,
    "dia": dia,
    "ell": ell,
    "sell": sell,
    "bcsr": bcsr,
    "hicoo": hicoo,
}
