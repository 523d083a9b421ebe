"""Where the blocks of an array come from: arrays in memory, functions, .npy and .mtx files.

Every rank fills its own part; no rank ever has the whole array (but for arrays in memory, which the
caller has). A source has a fingerprint of its contents, by which a checkpoint knows its problem.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from loopwright.diagnostics import LoopwrightError, UsageError
from loopwright.integrations.mpi.block_layout import BlockLayout
from loopwright.integrations.mpi.communicator import Communicator, agree
from loopwright.paths.graph_input import UFUNCS, absent_value
from loopwright.runtime.array_arguments import Array
from loopwright.semirings.named import Semiring
from loopwright.sparse.matrix_market import Triplets, iterate_triplets, read_header

__all__ = ["ArraySource", "BlockSource", "CallbackSource", "MtxSource", "NpySource", "open_source"]

_SLICE = 1 << 22  # bytes of a file that are hashed at a time
_ENTRIES = 1 << 22  # bytes of a .mtx file that are parsed at a time


class BlockSource(Protocol):
    """An array of which each rank can get its part."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def fill(self, layout: BlockLayout, world: Communicator, local: Array) -> None:
        """Write this rank's part to `local`; a collective call."""

    def fingerprint(self, world: Communicator) -> str:
        """A digest of what the source holds, the same on all ranks; a collective call."""


class CallbackSource:
    """An array made by a function: `read(slices)` returns the elements of a box."""

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: Any,
        read: Callable[[tuple[slice, ...]], Array],
        name: str = "",
    ) -> None:
        """`name` tells one array from another to a checkpoint, since a function has no contents."""
        self.shape = shape
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self._read = read
        self._name = name

    def fill(self, layout: BlockLayout, world: Communicator, local: Array) -> None:
        def read() -> None:
            for piece in layout.pieces(world.rank):
                box = tuple(slice(part.start, part.start + part.length) for part in piece)
                place = tuple(slice(part.local, part.local + part.length) for part in piece)
                local[place] = self._read(box)

        agree(world, read)

    def fingerprint(self, world: Communicator) -> str:
        return _digest(["callback", self._name, self.shape, self.dtype.str])


class ArraySource(CallbackSource):
    """An array that every rank has in memory: for tests, and for small operands."""

    def __init__(self, array: Array) -> None:
        self._array = np.asarray(array)
        super().__init__(self._array.shape, self._array.dtype, self._array.__getitem__)

    def fingerprint(self, world: Communicator) -> str:
        content = hashlib.blake2b(np.ascontiguousarray(self._array).tobytes()).hexdigest()
        return _digest(["array", self.shape, self.dtype.str, content])


class NpySource(CallbackSource):
    """A .npy file, mapped to memory block by block."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        try:
            header = np.load(self._path, mmap_mode="r")
        except ValueError as error:
            raise UsageError(f"{self._path} is no .npy file of numbers", found=str(error)) from None
        if not isinstance(header, np.memmap):
            raise UsageError(f"{self._path} holds several arrays", hint="a .npy file")
        super().__init__(header.shape, header.dtype.newbyteorder("="), self.box)

    def box(self, box: tuple[slice, ...]) -> Array:
        """The elements of a box."""
        # Mapped anew for each box: pages that were read count as memory of the process.
        return np.array(np.load(self._path, mmap_mode="r")[box])

    def fingerprint(self, world: Communicator) -> str:
        return _file_digest(self._path, world)


class MtxSource:
    """A matrix in a file of MatrixMarket, parsed in blocks by one rank and handed to the others.

    Places without an entry hold the absent value of the semiring; several entries at one place are
    combined by plus, as in `lw.paths`. Over or_and every entry is True.
    """

    def __init__(
        self, path: str | os.PathLike[str], ring: Semiring, dtype: Any = None, absent: Any = None
    ) -> None:
        self._path = os.fspath(path)
        header = read_header(self._path)
        self.shape: tuple[int, ...] = (header.rows, header.columns)
        given = np.dtype(bool) if ring.plus == "or" else header.dtype
        self.dtype: np.dtype[Any] = given if dtype is None else np.dtype(dtype)
        self._is_array = header.layout == "array"
        self._ring = ring
        self._absent = absent

    def fill(self, layout: BlockLayout, world: Communicator, local: Array) -> None:
        local[...] = absent_value(self._ring, self.dtype)
        plus = UFUNCS.get(self._ring.plus)
        seen = np.zeros(local.shape, bool) if plus is None else None
        for rows, columns, values in self._parts(world):
            kept, places = _own(layout, world.rank, (rows, columns))
            weights = self._weights(values[kept])
            if self._absent is not None:
                is_edge = values[kept] != self._absent
                places, weights = tuple(p[is_edge] for p in places), weights[is_edge]
            repeated = False
            if plus is not None:
                plus.at(local, places, weights)
            elif seen is not None:
                flat = np.ravel_multi_index(places, local.shape)
                repeated = bool(seen[places].any()) or len(np.unique(flat)) < len(flat)
                seen[places] = True
                local[places] = weights
            if plus is None and world.reduce_all(np.array([int(repeated)]), "max")[0]:
                raise UsageError(
                    "entries of a file are repeated, and plus is a user's function",
                    found=self._path,
                    hint="combine them first",
                )

    def fingerprint(self, world: Communicator) -> str:
        content = _file_digest(self._path, world)
        return _digest(["mtx", content, self.dtype.str, repr(self._absent)])

    def _weights(self, values: Array) -> Array:
        if self._ring.plus == "or" and not self._is_array:
            return np.ones(len(values), self.dtype)
        return values.astype(self.dtype)

    def _parts(self, world: Communicator) -> Iterator[tuple[Array, Array, Array]]:
        """All entries of the file, on every rank, a block at a time."""
        parts = self._parsed() if world.rank == 0 else iter(())
        while True:
            found: Triplets | LoopwrightError | OSError | None = None
            if world.rank == 0:
                found = next(parts, None)
            found = world.share(found)
            if found is None:
                return
            if isinstance(found, Triplets):
                yield found.rows, found.columns, found.values
            else:
                raise found

    def _parsed(self) -> Iterator[Triplets | LoopwrightError | OSError]:
        # Errors are values here: all ranks have to hear of them.
        try:
            yield from iterate_triplets(self._path, block=_ENTRIES, expand=True)
        except (LoopwrightError, OSError) as error:
            yield error


def open_source(
    path: str | os.PathLike[str], ring: Semiring, dtype: Any = None, absent: Any = None
) -> BlockSource:
    """The source of a file, by its ending."""
    name = os.fspath(path)
    if name.endswith((".mtx", ".mtx.gz")):
        return MtxSource(name, ring, dtype, absent)
    if not name.endswith(".npy"):
        raise UsageError(f"unknown kind of file: {name}", hint="*.npy, *.mtx, *.mtx.gz")
    source = NpySource(name)
    if dtype is None and absent is None and not (ring.plus == "or" and source.dtype.kind in "iu"):
        return source
    return _ConvertedSource(source, ring, dtype, absent)


class _ConvertedSource(CallbackSource):
    """The array of a file in another type, or with another value for "no edge"."""

    def __init__(self, source: NpySource, ring: Semiring, dtype: Any, absent: Any) -> None:
        given = np.dtype(bool) if ring.plus == "or" else source.dtype
        super().__init__(source.shape, given if dtype is None else dtype, self._converted)
        self._source = source
        self._ring = ring
        self._absent = absent

    def _converted(self, box: tuple[slice, ...]) -> Array:
        values, absent = self._source.box(box), self._absent
        missing = None
        if absent is not None:
            missing = np.isnan(values) if absent != absent else values == absent
        if self._ring.plus == "or":
            return np.asarray(values != 0 if missing is None else ~missing).astype(self.dtype)
        made = values.astype(self.dtype)
        if missing is not None:
            made[missing] = absent_value(self._ring, self.dtype)
        return made

    def fingerprint(self, world: Communicator) -> str:
        content = self._source.fingerprint(world)
        return _digest([content, self.dtype.str, repr(self._absent)])


def _own(
    layout: BlockLayout, rank: int, places: tuple[Array, ...]
) -> tuple[Array, tuple[Array, ...]]:
    """Which of some places are a rank's, and where in its local array."""
    at = layout.grid.place(rank)
    kept = np.ones(len(places[0]), bool)
    for index, dim in zip(places, layout.dimensions, strict=True):
        if dim.axis is not None:
            kept &= index // dim.block % layout.grid.count(dim.axis) == at[dim.axis]
    local = []
    for index, dim in zip(places, layout.dimensions, strict=True):
        mine = index[kept].astype(np.int64)
        if dim.axis is not None:
            mine = mine // (dim.block * layout.grid.count(dim.axis)) * dim.block + mine % dim.block
        local.append(mine)
    return kept, tuple(local)


def _file_digest(path: str, world: Communicator) -> str:
    """A digest of a file's bytes, of which each rank reads a part."""

    def part() -> list[str]:
        size = os.path.getsize(path)
        digests = []
        with open(path, "rb") as file:
            # Slices are numbered: the digest does not depend on how many ranks read them.
            for number in range(world.rank, -(-size // _SLICE), world.size):
                file.seek(number * _SLICE)
                digests.append((number, hashlib.blake2b(file.read(_SLICE)).hexdigest()))
        return [f"{number}:{digest}" for number, digest in digests]

    mine = agree(world, part)
    return _digest(sorted(line for lines in world.collect(mine) for line in lines))


def _digest(values: list[Any]) -> str:
    return hashlib.blake2b(repr(values).encode(), digest_size=16).hexdigest()
