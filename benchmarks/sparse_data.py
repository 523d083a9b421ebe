"""Sparse matrices to measure with: structural twins of well-known ones, and files where they exist.

A twin has the size, the number of entries and the diagonals of a matrix of the SuiteSparse
collection, found as a stencil on a grid; its values are random. Files are looked for in a directory
that is named by the caller, by MATRICES_DIR, or in shared/matrices beside the project.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from loopwright.sparse import frostt, matrix_market
from loopwright.sparse.tensor import SparseTensor, index_dtype, sparse_tensor

__all__ = ["TWINS", "Twin", "diagonals", "file_names", "load", "matrices_directory", "twin"]

PROJECT = Path(__file__).resolve().parent.parent
VARIABLE = "MATRICES_DIR"
_ENDINGS = (".mtx.gz", ".mtx", ".tns.gz", ".tns")

Point = tuple[int, ...]


@dataclass(frozen=True)
class Twin:
    """A matrix whose rows are the points of a grid and whose entries join neighbours."""

    sizes: Point  # of the grid, the last index moves fastest
    stencil: tuple[Point, ...]  # steps to the neighbours, the point itself included
    rows: int  # what the original has, checked when the twin is made
    stored: int
    diagonals: int
    zeros: int = 0  # stored entries with the value 0
    inner_edges: bool = False  # no entry joins two different points of the boundary


def star(rank: int, reach: int = 1) -> tuple[Point, ...]:
    """The point and its neighbours up to `reach` steps along each axis."""
    steps = [
        tuple(step if axis == at else 0 for axis in range(rank))
        for at in range(rank)
        for step in range(-reach, reach + 1)
        if step
    ]
    return ((0,) * rank, *steps)


_CORNERS = tuple(itertools.product((-1, 1), repeat=2))

TWINS: Mapping[str, Twin] = MappingProxyType(
    {
        "ecology1": Twin((1000, 1000), star(2), 1_000_000, 4_996_000, 5),
        "Lin": Twin((40, 80, 80), star(3), 256_000, 1_766_400, 7),
        "atmosmodd": Twin((58, 148, 148), star(3), 1_270_432, 8_814_880, 7),
        "Baumann": Twin((101, 101, 11), star(3), 112_211, 760_631, 7, zeros=12_300),
        "chem_master1": Twin((201, 201), star(2), 40_401, 201_201, 5),
        # Those below exist as files too, which proves the formulas.
        "jnlbrng1": Twin((200, 200), star(2), 40_000, 199_200, 5),
        "obstclae": Twin((200, 200), star(2), 40_000, 197_608, 5, inner_edges=True),
        "denormal": Twin((300, 298), (*star(2, 2), *_CORNERS), 89_400, 1_156_224, 13),
    }
)


def twin(name: str, seed: int = 0) -> SparseTensor:
    """The twin of a matrix as sorted coordinates with random values."""
    made = TWINS[name]
    rows, columns = _entries(made)
    count = int(np.prod(made.sizes))
    values = np.random.default_rng(seed).uniform(0.5, 1.5, len(rows))
    values[np.random.default_rng(seed + 1).permutation(len(rows))[: made.zeros]] = 0.0
    tensor = sparse_tensor("scoo", (count, count), {"row": rows, "col": columns}, values)
    found = (count, len(rows), len(diagonals(tensor)), int((values == 0).sum()))
    expected = (made.rows, made.stored, made.diagonals, made.zeros)
    assert found == expected, f"twin of {name}: {found}, expected {expected}"
    return tensor


def _entries(made: Twin) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Rows and columns in order, found neighbour by neighbour for all points at once."""
    count = int(np.prod(made.sizes))
    strides = [int(np.prod(made.sizes[axis + 1 :])) for axis in range(len(made.sizes))]
    steps = sorted(made.stencil, key=lambda step: np.dot(step, strides))
    points = np.unravel_index(np.arange(count), made.sizes)
    boundary = _is_boundary(made.sizes, points)
    dtype = index_dtype(count)
    columns = np.empty((count, len(steps)), dtype)
    exists = np.empty((count, len(steps)), np.bool_)
    for n, step in enumerate(steps):
        moved = [point + by for point, by in zip(points, step, strict=True)]
        inside = np.ones(count, np.bool_)
        for position, size in zip(moved, made.sizes, strict=True):
            inside &= (position >= 0) & (position < size)
        neighbour = np.arange(count) + int(np.dot(step, strides))
        if made.inner_edges and any(step):
            inside &= ~(boundary & boundary[np.clip(neighbour, 0, count - 1)])
        columns[:, n] = np.where(inside, neighbour, 0)
        exists[:, n] = inside
    rows = np.repeat(np.arange(count, dtype=dtype), exists.sum(axis=1))
    return rows, columns[exists]


def _is_boundary(sizes: Point, points: Sequence[NDArray[np.intp]]) -> NDArray[np.bool_]:
    found = np.zeros(len(points[0]), np.bool_)
    for point, size in zip(points, sizes, strict=True):
        found |= (point == 0) | (point == size - 1)
    return found


def diagonals(tensor: SparseTensor) -> NDArray[np.int64]:
    """The offsets of the diagonals that hold an entry of a matrix of coordinates."""
    difference = tensor.arrays["col"].astype(np.int64) - tensor.arrays["row"]
    seen = np.zeros(sum(tensor.shape), np.bool_)
    seen[difference + tensor.shape[0]] = True
    return np.flatnonzero(seen) - tensor.shape[0]


def matrices_directory(given: str | os.PathLike[str] | None = None) -> Path | None:
    """The directory of real matrices, None where there is none; one that was asked for must be."""
    wanted = given or os.environ.get(VARIABLE)
    if wanted:
        if not Path(wanted).is_dir():
            raise FileNotFoundError(f"no directory of matrices: {wanted}")
        return Path(wanted)
    beside = PROJECT.parent / "shared" / "matrices"
    return beside if beside.is_dir() else None


def file_names(directory: Path) -> tuple[str, ...]:
    """The names, without ending, of the matrices and tensors of a directory."""
    return tuple(sorted({name for name, _ in _files(directory)}))


def _files(directory: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(directory.iterdir()):
        ending = next((e for e in _ENDINGS if path.name.endswith(e)), None)
        if ending is not None:
            yield path.name.removesuffix(ending), path


def load(directory: Path, name: str) -> SparseTensor:
    """Read one of them as coordinates, symmetric ones expanded."""
    paths = [path for found, path in _files(directory) if found == name]
    if not paths:
        raise FileNotFoundError(f"no matrix {name} in {directory}")
    read: Callable[[Path], SparseTensor] = (
        frostt.read if ".tns" in paths[0].name else matrix_market.read
    )
    return read(paths[0])
