"""Block-cyclic layouts, their sources, and the model of runs on several ranks."""

import gzip
import itertools

import numpy as np
import pytest

from integrations.thread_ranks import run_ranks
from loopwright.diagnostics import SourceError, UsageError
from loopwright.integrations.mpi import MtxSource, NpySource, open_source
from loopwright.integrations.mpi.block_cyclic import gather, read_blocks, write_npy
from loopwright.integrations.mpi.block_layout import (
    BlockedDimension,
    BlockLayout,
    ProcessGrid,
    grid_for,
)
from loopwright.integrations.mpi.block_sources import ArraySource
from loopwright.integrations.mpi.calibrate_ranks import scaling_table
from loopwright.integrations.mpi.communication_model import (
    KernelTimes,
    Link,
    NodeModel,
    fit_kernels,
    fit_link,
)
from loopwright.semirings import make_semiring, maximum, semiring


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


MIN_PLUS, OR_AND = semiring("min_plus"), semiring("or_and")
INF = np.inf


def read(source, ranks: int = 4, block: int = 2):
    grid = ProcessGrid(2, ranks // 2)

    def work(world):
        layout = BlockLayout.matrix(grid, source.shape, block)
        return gather(read_blocks(layout, world, source), world)

    return run_ranks(ranks, work)[0]


def mtx(path, lines: str, banner: str = "coordinate real general"):
    path.write_text(f"%%MatrixMarket matrix {banner}\n{lines}", encoding="ascii")
    return path


def test_npy_files(tmp_path) -> None:
    whole = np.random.default_rng(0).integers(0, 50, (7, 7)).astype(">i4")
    np.save(tmp_path / "a.npy", whole)
    source = open_source(tmp_path / "a.npy", MIN_PLUS)
    assert source.dtype.isnative
    assert np.array_equal(read(source), whole)
    floats = read(open_source(tmp_path / "a.npy", MIN_PLUS, np.float32, absent=3))
    assert np.array_equal(floats, np.where(whole == 3, INF, whole).astype("f4"))
    edges = read(open_source(tmp_path / "a.npy", OR_AND))
    assert edges.dtype == bool
    assert np.array_equal(edges, whole != 0)


def test_mtx_files(tmp_path) -> None:
    path = mtx(tmp_path / "a.mtx", "3 3 4\n1 2 5\n3 1 2.5\n1 2 4\n2 2 0\n")
    expected = np.full((3, 3), INF)
    expected[0, 1], expected[2, 0], expected[1, 1] = 4, 2.5, 0
    assert np.array_equal(read(MtxSource(path, MIN_PLUS), block=1), expected)
    packed = tmp_path / "a.mtx.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert np.array_equal(read(open_source(packed, MIN_PLUS)), expected)
    assert np.array_equal(read(open_source(path, OR_AND)), np.isfinite(expected))
    expected[1, 1] = INF
    assert np.array_equal(read(open_source(path, MIN_PLUS, absent=0)), expected)


def test_faults_of_a_file_are_told_by_all_ranks(tmp_path) -> None:
    path = mtx(tmp_path / "a.mtx", "3 3 2\n1 2 5\n9 1 1\n")
    with pytest.raises(SourceError, match="row 9 is outside 1 to 3"):
        read(MtxSource(path, MIN_PLUS))
    users = make_semiring("users_min", lambda x, y: -maximum(-x, -y), lambda x, y: x + y, INF, 0)
    path = mtx(tmp_path / "b.mtx", "3 3 2\n1 2 5\n1 2 6\n")
    with pytest.raises(UsageError, match="entries of a file are repeated, and plus is a user's"):
        read(MtxSource(path, users))
    (tmp_path / "c.npy").write_bytes(b"no array")
    with pytest.raises(UsageError, match=r"c\.npy is no \.npy file of numbers"):
        NpySource(tmp_path / "c.npy")
    with pytest.raises(UsageError, match=r"unknown kind of file: .*\ntry: \*.npy, \*.mtx"):
        open_source(tmp_path / "a.txt", MIN_PLUS)


def test_fingerprints_are_of_contents_whatever_the_ranks(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("loopwright.integrations.mpi.block_sources._SLICE", 64)
    whole = np.arange(100.0).reshape(10, 10)
    np.save(tmp_path / "a.npy", whole)

    def prints(ranks: int) -> set[str]:
        source = open_source(tmp_path / "a.npy", MIN_PLUS)
        return set(run_ranks(ranks, source.fingerprint))

    before = prints(1)
    assert prints(3) == before
    assert len(before) == 1
    whole[5, 5] += 1
    np.save(tmp_path / "a.npy", whole)
    assert prints(2) != before


KERNELS = KernelTimes(call=2e-3, element=1e-9, pair=2e-10, closing=1e-9)
INSIDE, BETWEEN = Link(5e-6, 2e-10), Link(2e-6, 1e-10)
ONE = ProcessGrid(1, 1)


def node(cores: int = 16, contention: float = 0.0) -> NodeModel:
    return NodeModel(KERNELS, INSIDE, BETWEEN, contention, cores)


def test_fits_give_back_what_made_the_times() -> None:
    shapes = [(256, 32), (512, 64), (512, 128), (768, 64), (1024, 64), (1024, 192), (1536, 128)]
    runs = [(n, b, node().closure(n, b, ONE, 8, 1).total) for n, b in shapes]
    fitted = fit_kernels([(n, b, t) for n, b, t in runs if n % b == 0])
    for found, true in (
        (fitted.call, KERNELS.call),
        (fitted.element, KERNELS.element),
        (fitted.pair, KERNELS.pair),
        (fitted.closing, KERNELS.closing),
    ):
        assert found == pytest.approx(true, rel=1e-6)
    link = fit_link([(size, INSIDE.alpha + INSIDE.beta * size) for size in (8, 1000, 10**6)])
    assert (link.alpha, link.beta) == pytest.approx((INSIDE.alpha, INSIDE.beta))


def test_predictions_reach_a_thousand_nodes_and_stay_below_linear() -> None:
    lines = scaling_table(node(), 2048, 8, 1000)
    rows = [line.replace("|", " ").split() for line in lines[2:]]
    assert [int(row[0]) for row in rows] == [1, 2, 4, 8, 16, 32, 64, 125, 250, 500, 1000]
    speed_ups = np.array([float(row[3]) for row in rows])
    nodes = np.array([int(row[0]) for row in rows])
    assert (np.diff(speed_ups) > 0).all()
    assert (speed_ups <= nodes * 1.01).all()
    assert lines[0].startswith("prediction, 16 ranks to a node, network 2 us and 10 GB/s")
