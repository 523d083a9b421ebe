"""Files of tensors: saved, found by their endings, whole or not at all."""

import errno
import gzip
import json
import os
import stat
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from loopwright.diagnostics import UsageError
from loopwright.sparse import files
from loopwright.sparse.files import line_blocks, replacing
from loopwright.sparse.tensor import same, sparse_tensor
from loopwright.sparse.tensor_files import (
    load,
    read_tensor,
    save,
    write_tensor,
)
from sparse_builders import of_dense

ARRAY = np.array([[1, 0, 2, 0], [0, 0, 0, 0], [3, 4, 0, 5]])


@pytest.mark.parametrize("format", ["coo", "csr", "dia", "ell(column)", "bcsr(2,3)", "sell(2,2)"])
def test_saved_is_loaded_again(tmp_path: Path, format: str) -> None:
    path = tmp_path / "a.npz"
    tensor = of_dense(format, ARRAY)
    save(path, tensor)
    assert same(load(path), tensor)
    before = path.read_bytes()
    save(path, tensor)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_indices_in_a_file_are_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    arrays = {"rowptr": np.array([0, 1, 2]), "col": np.array([0, 7])}
    save(path, sparse_tensor("csr", (2, 2), arrays, np.ones(2)))
    with pytest.raises(UsageError, match=r"csr: col\[1\] = 7 is outside its range"):
        load(path)
    assert load(path, check=False).nnz == 2


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "dia", "bsr"])
def test_files_of_scipy(tmp_path: Path, format: str) -> None:
    path = tmp_path / "a.npz"
    scipy.sparse.save_npz(path, getattr(scipy.sparse, f"{format}_array")(ARRAY))
    assert load(path).to_dense().tolist() == ARRAY.tolist()


def test_faulty_files(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with pytest.raises(UsageError, match=r"a.npz: cannot be read: No such file"):
        load(path)
    path.write_bytes(b"not a zip file")
    with pytest.raises(UsageError, match=r"a.npz: not a sound .npz file"):
        load(path)
    np.savez(path, x=np.zeros(2))
    with pytest.raises(UsageError, match="no sparse tensor is in the file"):
        load(path)
    np.savez(path, loopwright=np.frombuffer(b"{}", np.uint8), values=np.zeros(2))
    with pytest.raises(UsageError, match="the note in the file is damaged, or of another version"):
        load(path)
    np.savez(path, loopwright=np.frombuffer(b"{", np.uint8), values=np.zeros(2))
    with pytest.raises(UsageError, match="not a sound"):
        load(path)
    save(path, of_dense("csr", ARRAY))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UsageError, match="not a sound"):
        load(path)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("loopwright.npy", b"\x93NUMPY")
    with pytest.raises(UsageError, match="not a sound"):
        load(path)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("shape", None),
        ("shape", "ab"),
        ("shape", [2.5, 4]),
        ("shape", [10**30, 4]),
        ("symbols", [1]),
        ("symbols", {"NNZ": "x"}),
        ("symbols", {"NNZ": 10**30}),
        ("format", 5),
        ("version", 2),
    ],
)
def test_lying_notes(tmp_path: Path, part: str, value: Any) -> None:
    path = tmp_path / "a.npz"
    save(path, of_dense("csr", ARRAY))
    with np.load(path) as members:
        arrays = dict(members)
    note = json.loads(bytes(arrays["loopwright"])) | {part: value}
    np.savez(path, **arrays | {"loopwright": np.frombuffer(json.dumps(note).encode(), np.uint8)})
    with pytest.raises(UsageError, match=r"a.npz: the note in the file is damaged, or of another"):
        load(path)


@pytest.mark.parametrize("ending", ["mtx", "mtx.gz", "tns", "tns.gz", "npz"])
def test_pipes_are_read_and_written(tmp_path: Path, ending: str) -> None:
    plain, pipe, copy = (tmp_path / f"{name}.{ending}" for name in ("plain", "pipe", "copy"))
    write_tensor(plain, ARRAY)
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        told: list[int] = []
        done = pool.submit(pipe.write_bytes, plain.read_bytes())
        found = read_tensor(pipe, progress=lambda done, total: told.append(done))
        done.result()
        assert found.to_dense().tolist() == ARRAY.tolist()
        assert told == []
        later = pool.submit(pipe.read_bytes)
        write_tensor(pipe, found)
        copy.write_bytes(later.result())
    assert read_tensor(copy).to_dense().tolist() == ARRAY.tolist()
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@given(st.lists(st.binary(max_size=12)), st.integers(1, 30), st.booleans())
def test_blocks_are_whole_lines(
    folder: Path, lines: list[bytes], block: int, is_packed: bool
) -> None:
    text = b"\n".join(line.replace(b"\n", b".") for line in lines)
    path = folder / "a.txt"
    path.write_bytes(gzip.compress(text) if is_packed or text[:2] == b"\x1f\x8b" else text)
    found = list(line_blocks(path, block=block))
    assert b"".join(found) == text
    assert all(part.endswith(b"\n") for part in found[:-1])


def test_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"absent.mtx: cannot be read: No such file"):
        list(line_blocks(tmp_path / "absent.mtx"))
    packed = gzip.compress(b"1 2 3\n" * 1000)
    path = tmp_path / "cut.gz"
    path.write_bytes(packed[:-20])
    with pytest.raises(UsageError, match=r"cut.gz: the packed file is damaged or was cut off"):
        list(line_blocks(path))
    path.write_bytes(packed[:15] + b"?" * 10 + packed[25:])
    with pytest.raises(UsageError, match="damaged"):
        list(line_blocks(path))
    monkeypatch.setattr(files, "_LONGEST_LINE", 100)
    path.write_bytes(b"1" * 1000)
    with pytest.raises(UsageError, match="a line is longer than 100 bytes"):
        list(line_blocks(path, block=10))


def interrupted() -> Iterator[bytes]:
    yield b"half"
    raise ZeroDivisionError


@pytest.mark.parametrize("name", ["a.mtx", "a.mtx.gz"])
def test_file_appears_whole(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with replacing(path) as file:
        file.write(b"first\n")
        assert not path.exists()
    assert b"".join(line_blocks(path)) == b"first\n"
    before = path.read_bytes()
    with pytest.raises(ZeroDivisionError), replacing(path) as file:
        file.writelines(interrupted())
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    with replacing(path) as file:
        file.write(b"first\n")
    assert path.read_bytes() == before


def test_permissions_are_those_of_the_file_before(tmp_path: Path) -> None:
    path = tmp_path / "a.mtx"
    path.touch(0o600)
    path.chmod(0o640)
    with replacing(path) as file:
        file.write(b"new\n")
        (waiting,) = set(tmp_path.iterdir()) - {path}
        assert stat.S_IMODE(waiting.stat().st_mode) == 0o640
    assert (stat.S_IMODE(path.stat().st_mode), path.read_bytes()) == (0o640, b"new\n")
    before = os.umask(0o027)
    try:
        with replacing(tmp_path / "b.mtx"):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "b.mtx").stat().st_mode) == 0o640


@pytest.mark.parametrize("is_there", [True, False], ids=["file", "no file yet"])
def test_links_stay(tmp_path: Path, is_there: bool) -> None:
    target = tmp_path / "there" / "data"
    target.parent.mkdir()
    if is_there:
        target.write_bytes(b"old")
    link = tmp_path / "a.mtx.gz"
    link.symlink_to(Path("there") / "data")
    with replacing(link) as file:
        file.write(b"new\n")
        assert sorted(tmp_path.iterdir()) == [link, target.parent]
    assert link.is_symlink()
    assert gzip.decompress(target.read_bytes()) == b"new\n"
    assert list(target.parent.iterdir()) == [target]


def test_what_cannot_be_replaced(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written: Is a directory"), replacing(tmp_path):
        pass
    with (
        pytest.raises(UsageError, match=r"a.mtx: cannot be written: No space left"),
        replacing(tmp_path / "a.mtx"),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert list(tmp_path.iterdir()) == []


def test_writers_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "a.mtx"
    texts = [bytes([65 + n]) * 100_000 for n in range(8)]

    def write(text: bytes) -> None:
        with replacing(path) as file:
            for first in range(0, len(text), 1000):
                file.write(text[first : first + 1000])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, texts))
    assert path.read_bytes() in texts
    assert list(tmp_path.iterdir()) == [path]


def test_a_format_of_ones_own_must_be_passed(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    tensor = of_dense("csr", ARRAY)
    own = replace(tensor, format=replace(tensor.format, name="mine"))
    save(path, own)
    with pytest.raises(
        UsageError, match=r"a.npz: unknown format 'mine' in .*\n.*format="
    ) as caught:
        load(path)
    assert "read_tensor" in caught.value.hint
    assert same(read_tensor(path, format=own.format), own)
    assert same(load(path, own.format), own)
    with pytest.raises(UsageError, match="the format mine has changed since the file was written"):
        load(path, tensor.format)
