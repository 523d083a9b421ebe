"""Blocks of lines from plain and packed files; files that appear whole or not at all."""

import errno
import gzip
import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.diagnostics import UsageError
from loopwright.sparse import files
from loopwright.sparse.files import line_blocks, replacing


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


def test_progress_reaches_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"1 2 3\n" * 1000)
    told: list[tuple[int, int]] = []
    list(line_blocks(path, block=600, progress=lambda done, total: told.append((done, total))))
    assert told == sorted(told)
    assert told[-1] == (6000, 6000)
    assert len(told) > 5


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


def test_target_that_cannot_be_written(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match=r"a.mtx: cannot be written: No such file"),
        replacing(tmp_path / "absent" / "a.mtx"),
    ):
        pass


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
