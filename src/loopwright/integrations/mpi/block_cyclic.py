"""`BlockCyclic`: an array dealt over the ranks of a grid; read from sources, gathered, written."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from loopwright.integrations.mpi.block_layout import BlockLayout, Segment
from loopwright.integrations.mpi.block_sources import BlockSource
from loopwright.integrations.mpi.communicator import Communicator, agree
from loopwright.lazy_dataclass import dataclass
from loopwright.runtime.array_arguments import Array

__all__ = ["BlockCyclic", "filled", "gather", "read_blocks", "write_npy"]


@dataclass(frozen=True, slots=True, eq=False)
class BlockCyclic:
    """The part of a dealt array that one rank has."""

    layout: BlockLayout
    rank: int
    local: Array  # all blocks of the rank side by side, C-contiguous

    def __post_init__(self) -> None:
        assert self.local.shape == self.layout.local_shape(self.rank), "the shape of the layout"
        assert self.local.flags.c_contiguous, "blocks side by side in memory"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole array."""
        return self.layout.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.local.dtype

    def place_of(self, position: tuple[int, ...]) -> tuple[int, ...]:
        """Where an element of the local array lies in the whole one."""
        at = self.layout.grid.place(self.rank)
        found = []
        for local, dim in zip(position, self.layout.dimensions, strict=True):
            if dim.axis is None:
                found.append(local)
                continue
            block, rest = divmod(local, dim.block)
            found.append((block * self.layout.grid.count(dim.axis) + at[dim.axis]) * dim.block)
            found[-1] += rest
        return tuple(found)


def filled(layout: BlockLayout, rank: int, dtype: np.dtype[Any], value: Any) -> BlockCyclic:
    """An array with the same value everywhere."""
    return BlockCyclic(layout, rank, np.full(layout.local_shape(rank), value, dtype))


def read_blocks(layout: BlockLayout, world: Communicator, source: BlockSource) -> BlockCyclic:
    """The array of a source, each rank reading its own blocks; a collective call."""
    assert source.shape == layout.shape, "the shape of the source"
    local = np.empty(layout.local_shape(world.rank), source.dtype)
    array = BlockCyclic(layout, world.rank, local)
    source.fill(layout, world, local)
    return array


def gather(array: BlockCyclic, world: Communicator, root: int = 0) -> Array | None:
    """The whole array on the root, None on other ranks; a collective call.

    The root receives from one rank after the other, so that it needs the whole array and the part
    of one rank.
    """
    layout = array.layout
    if world.rank != root:
        if layout.owners(world.rank) == world.rank:
            world.send(array.local, root)
        return None
    whole = np.empty(layout.shape, array.dtype)
    for rank in range(layout.grid.size):
        if layout.owners(rank) != rank:
            continue
        local = array.local
        if rank != root:
            local = np.empty(layout.local_shape(rank), array.dtype)
            world.receive(local, rank)
        for piece in layout.pieces(rank):
            whole[_in_whole(piece)] = local[_in_local(piece)]
    return whole


def write_npy(array: BlockCyclic, world: Communicator, path: str | os.PathLike[str]) -> None:
    """Write the whole array to a .npy file, each rank its own blocks; a collective call.

    The file is on a disk that all ranks reach. It gets its name when it is whole.
    """
    name = os.fspath(path)
    beside = f"{name}.part"

    def create() -> None:
        if world.rank == 0:
            whole = np.lib.format.open_memmap(beside, "w+", array.dtype, array.shape)
            del whole

    def write() -> None:
        if array.layout.owners(world.rank) != world.rank:
            return
        for piece in array.layout.pieces(world.rank):
            # Mapped anew for each piece: pages of a mapped file count as memory of the process.
            whole = np.load(beside, mmap_mode="r+")
            whole[_in_whole(piece)] = array.local[_in_local(piece)]
            whole.flush()
            del whole

    agree(world, create)
    agree(world, write)
    if world.rank == 0:
        os.replace(beside, name)
    world.barrier()


def _in_whole(piece: tuple[Segment, ...]) -> tuple[slice, ...]:
    return tuple(slice(part.start, part.start + part.length) for part in piece)


def _in_local(piece: tuple[Segment, ...]) -> tuple[slice, ...]:
    return tuple(slice(part.local, part.local + part.length) for part in piece)
