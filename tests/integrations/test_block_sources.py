"""Files and functions as sources of dealt arrays."""

import gzip

import numpy as np
import pytest

from integrations.thread_ranks import run_ranks
from loopwright.diagnostics import SourceError, UsageError
from loopwright.integrations.mpi import MtxSource, NpySource, gather, open_source
from loopwright.integrations.mpi.block_cyclic import read_blocks
from loopwright.integrations.mpi.block_layout import BlockLayout, ProcessGrid
from loopwright.semirings import make_semiring, maximum, semiring

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


def test_symmetric_and_pattern_files(tmp_path) -> None:
    path = mtx(tmp_path / "s.mtx", "3 3 2\n2 1 7\n3 3 1\n", "coordinate integer symmetric")
    absent = np.iinfo(np.int64).max
    expected = np.full((3, 3), absent)
    expected[1, 0] = expected[0, 1] = 7
    expected[2, 2] = 1
    assert np.array_equal(read(MtxSource(path, MIN_PLUS), ranks=2, block=1), expected)
    path = mtx(tmp_path / "p.mtx", "2 2 1\n2 1\n", "coordinate pattern general")
    assert np.array_equal(read(MtxSource(path, OR_AND)), [[False, False], [True, False]])
    path = mtx(tmp_path / "d.mtx", "2 2\n1\n2\n3\n4\n", "array real general")
    assert np.array_equal(read(MtxSource(path, MIN_PLUS)), [[1, 3], [2, 4]])


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
