"""Tensors in .npz files, and files chosen by their endings."""

import json
import os
import stat
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from loopwright.diagnostics import UsageError
from loopwright.sparse.tensor import same, sparse_tensor
from loopwright.sparse.tensor_files import (
    ENDINGS,
    check_ending,
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


def test_an_array_of_numpy_is_no_archive(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with path.open("wb") as file:
        np.save(file, ARRAY)
    with pytest.raises(UsageError, match=r"a.npz: not a sound .npz file"):
        load(path)


@pytest.mark.parametrize("ending", [".mtx", ".tns", ".npz"])
def test_whatever_can_be_converted_can_be_written(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a{ending}"
    for given in (ARRAY, scipy.sparse.lil_array(ARRAY), of_dense("dia", ARRAY)):
        write_tensor(path, given)
        found = read_tensor(path)
        assert found.to_dense().tolist() == ARRAY.tolist()


@pytest.mark.parametrize("format", ["dia", "bcsr(2,2)"])
@pytest.mark.parametrize("ending", [".mtx", ".tns"])
def test_padding_is_not_written(tmp_path: Path, ending: str, format: str) -> None:
    path = tmp_path / f"a{ending}"
    write_tensor(path, of_dense(format, ARRAY))
    assert read_tensor(path).nnz == np.count_nonzero(ARRAY)


@pytest.mark.parametrize("ending", sorted(ENDINGS))
def test_endings(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"A{ending.upper()}" if ending == ".mtx" else tmp_path / f"a{ending}"
    assert check_ending(path) == ending
    told: list[Any] = []
    tensor = of_dense("csr", ARRAY.astype(np.float64))
    write_tensor(path, tensor, progress=lambda *done: told.append(done))
    found = read_tensor(path, progress=lambda *done: told.append(done))
    assert found.to_dense().tolist() == ARRAY.tolist()
    assert (found.format.name == "csr") == ENDINGS[ending][2]


def test_options_of_other_files_are_refused(tmp_path: Path) -> None:
    for name, option in (("a.mtx", {"base": 0}), ("a.npz", {"shape": (3,)})):
        write_tensor(tmp_path / name, ARRAY)
        with pytest.raises(UsageError, match=r"says nothing about .*\n.*it is for \*\.tns"):
            read_tensor(tmp_path / name, **option)
    with pytest.raises(UsageError, match=r"'format' says nothing about \.mtx files"):
        read_tensor(tmp_path / "a.mtx", format="csr")


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


def test_a_scipy_file_from_a_pipe(tmp_path: Path) -> None:
    scipy.sparse.save_npz(tmp_path / "a.npz", scipy.sparse.csr_array(ARRAY))
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor(1) as pool:
        pool.submit((tmp_path / "pipe").write_bytes, (tmp_path / "a.npz").read_bytes())
        found = read_tensor(tmp_path / "pipe", kind="npz")
    assert found.to_dense().tolist() == ARRAY.tolist()


def test_unknown_ending() -> None:
    with pytest.raises(UsageError, match=r"a.txt: the ending does not say what the file holds"):
        read_tensor("a.txt")
