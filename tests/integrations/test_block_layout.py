"""Block-cyclic layouts: every element is somewhere once, and where the layout says."""

import itertools

import numpy as np
import pytest

from integrations.thread_ranks import run_ranks
from loopwright.diagnostics import UsageError
from loopwright.integrations.mpi.block_cyclic import gather, read_blocks, write_npy
from loopwright.integrations.mpi.block_layout import (
    BlockedDimension,
    BlockLayout,
    ProcessGrid,
    grid_for,
)
from loopwright.integrations.mpi.block_sources import ArraySource


def layouts() -> list[BlockLayout]:
    random = np.random.default_rng(3)
    made = []
    for _ in range(60):
        grid = ProcessGrid(*map(int, random.integers(1, 4, 2)))
        axes = [(0, 1), (1, 0), (None, 0), (1, None), (None, None), (0, None, 1), (0,)]
        chosen = axes[random.integers(len(axes))]
        dimensions = tuple(
            BlockedDimension(int(random.integers(0, 14)), int(random.integers(1, 6)), axis)
            for axis in chosen
        )
        made.append(BlockLayout(grid, dimensions))
    return made


def test_each_element_has_one_owner_among_those_that_differ() -> None:
    for layout in layouts():
        seen = np.zeros(layout.shape, int)
        for rank in range(layout.grid.size):
            local = np.zeros(layout.local_shape(rank), int)
            for piece in layout.pieces(rank):
                local[tuple(slice(p.local, p.local + p.length) for p in piece)] += 1
                if layout.owners(rank) == rank:
                    seen[tuple(slice(p.start, p.start + p.length) for p in piece)] += 1
            assert (local == 1).all(), (layout, rank)
        assert (seen == 1).all(), layout


def test_blocks_are_found_where_segments_say() -> None:
    for layout in layouts():
        for dim in layout.dimensions:
            count = layout.grid.count(dim.axis)
            for block in range(dim.blocks):
                owner, place = dim.find(block, count)
                start = block * dim.block
                home = next(
                    s for s in dim.segments(owner, count) if s.start <= start < s.start + s.length
                )
                assert place.start == home.local + start - home.start
                assert place.stop - place.start == dim.size_of(block)


@pytest.mark.parametrize("layout", layouts()[::6], ids=str)
def test_arrays_are_dealt_and_brought_together(layout: BlockLayout, tmp_path) -> None:
    whole = np.arange(int(np.prod(layout.shape))).reshape(layout.shape)

    def deal(world):
        array = read_blocks(layout, world, ArraySource(whole))
        for place in itertools.islice(np.ndindex(array.local.shape), 5):
            assert whole[array.place_of(place)] == array.local[place]
        if whole.size:
            write_npy(array, world, tmp_path / "whole.npy")
        return gather(array, world)

    gathered = run_ranks(layout.grid.size, deal)
    assert np.array_equal(gathered[0], whole)
    assert gathered[1:] == [None] * (layout.grid.size - 1)
    if whole.size:
        assert np.array_equal(np.load(tmp_path / "whole.npy"), whole)
        assert not (tmp_path / "whole.npy.part").exists()


def test_grids() -> None:
    assert [str(grid_for(n)) for n in (1, 2, 4, 6, 7, 12, 16)] == [
        "1x1", "1x2", "2x2", "2x3", "1x7", "3x4", "4x4",
    ]  # fmt: skip
    assert grid_for(6, "3x2") == ProcessGrid(3, 2)
    with pytest.raises(UsageError) as caught:
        grid_for(6, "2x2")
    assert str(caught.value) == (
        "a grid of 2x2 has 4 processes\nnote: found 6 ranks\ntry: mpirun -n 4, or a grid of 2x3"
    )
    with pytest.raises(UsageError) as caught:
        grid_for(4, "four")
    assert str(caught.value) == (
        "a grid is written as rows x columns\nnote: found 'four'\ntry: 2x3"
    )


def test_layouts_that_cannot_be_are_refused() -> None:
    twice = tuple(BlockedDimension(4, 2, 0) for _ in range(2))
    with pytest.raises(UsageError, match="an axis of the grid takes one dimension of an array"):
        BlockLayout(ProcessGrid(2, 2), twice)
    with pytest.raises(UsageError, match="blocks have at least one element"):
        BlockLayout(ProcessGrid(2, 2), (BlockedDimension(4, 0),))
