"""`loopwright cache`: the full text of each action on a sound, a damaged and a refused cache."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from loopwright import options
from loopwright.cli import cache_command, main
from loopwright.runtime.code_memory import code_state
from loopwright.runtime.disk_cache import DiskCache, Entry
from outside.campaigns.failing_resources import failing

MAPPINGS = "mappings   3 in this process, limit 65530; a kernel takes 2\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache directory of this test alone, not yet made."""
    directory = tmp_path / "cache"
    maps, most = tmp_path / "maps", tmp_path / "max_map_count"
    maps.write_text("one\ntwo\nthree\n", encoding="ascii")
    most.write_text("65530\n", encoding="ascii")
    monkeypatch.setattr(cache_command, "_MAPPINGS", maps)
    monkeypatch.setattr(cache_command, "_MOST_MAPPINGS", most)
    with options.override(cache_dir=str(directory), cache_limit=5000, code_limit=7 << 40):
        yield directory


def _memory() -> str:
    """What is loaded in this process, which other tests share."""
    state = code_state()
    count = f"{state.kernels} kernel{'' if state.kernels == 1 else 's'}"
    return f"{count} in this process ({state.bytes} bytes), limit 7696581394432 bytes"


def _fill(place: Path) -> int:
    """Store two entries and return their bytes."""
    cache = DiskCache(place)
    assert cache.put("a" * 8, Entry({"symbol": "f"}, b"code"))
    assert cache.put("b" * 8, Entry({"symbol": "g"}, b"other"))
    return sum(file.stat().st_size for file in place.glob("*.lwo"))


def test_info_before_first_use(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache"]) == 0
    assert capsys.readouterr().out == (
        f"directory  {place}\n"
        "state      in use from the first kernel on\n"
        "entries    0 (0 bytes)\n"
        "limit      5000 bytes\n"
        "oldest     none\n"
        "damaged    0\n"
        f"memory     {_memory()}\n" + MAPPINGS
    )
    assert not place.exists()


def test_info(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = _fill(place)
    os.utime(place / f"{'b' * 8}.lwo", (10**9, 10**9))
    assert main(["cache", "info"]) == 0
    assert capsys.readouterr().out == (
        f"directory  {place}\nstate      in use\nentries    2 ({size} bytes)\n"
        f"limit      5000 bytes\noldest     used 2001-09-09 01:46:40 UTC\ndamaged    0\n"
        f"memory     {_memory()}\n" + MAPPINGS
    )


def test_switched_off(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with options.override(cache=False):
        assert main(["cache"]) == 0
    assert "\nstate      switched off by LOOPWRIGHT_CACHE\n" in capsys.readouterr().out


def test_check_passes_and_leaves_nothing(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _fill(place)
    before = sorted(place.iterdir())
    assert main(["cache", "check"]) == 0
    assert capsys.readouterr().out.endswith(
        f"damaged    0\nmemory     {_memory()}\n{MAPPINGS}check passed\n"
    )
    assert sorted(place.iterdir()) == before


def test_check_tells_damage(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _fill(place)
    victim = next(place.glob("a*.lwo"))
    victim.write_bytes(victim.read_bytes()[:-1] + b"!")
    assert main(["cache", "check"]) == 1
    assert capsys.readouterr().out.endswith(
        f"damaged    1\nmemory     {_memory()}\n{MAPPINGS}"
        "problem: 1 of the entries cannot be used and will be rebuilt\n"
        "try: loopwright cache clear, or another LOOPWRIGHT_CACHE_DIR\n"
    )


def test_check_tells_an_open_directory(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place.mkdir()
    place.chmod(0o777)
    assert main(["cache", "check"]) == 1
    out = capsys.readouterr().out
    assert "\nstate      not used: the directory can be written by others\n" in out
    assert out.endswith(
        "problem: the directory can be written by others\n"
        "try: loopwright cache clear, or another LOOPWRIGHT_CACHE_DIR\n"
    )


def test_check_tells_a_disk_that_keeps_nothing(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DiskCache, "put", lambda self, key, entry: False)
    assert main(["cache", "check"]) == 1
    assert "problem: a probe could not be written and read back\n" in capsys.readouterr().out


def test_check_leaves_nothing_where_no_file_can_be_opened(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place.mkdir()
    with failing("open", 1, lasting=True) as uses:
        assert main(["cache", "check"]) == 1
    assert uses.failed
    assert list(place.iterdir()) == []
    assert "problem: a probe could not be written and read back\n" in capsys.readouterr().out
    assert main(["cache", "check"]) == 0


def test_check_where_no_directory_can_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    with options.override(cache_dir=str(tmp_path / "file" / "cache")):
        assert main(["cache", "check"]) == 1
    assert "problem: " in capsys.readouterr().out


def test_clear(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _fill(place)
    assert main(["cache", "clear"]) == 0
    assert capsys.readouterr().out == f"removed 2 files from {place}\n"
    assert DiskCache(place).state().entries == 0
    assert main(["cache", "clear"]) == 0
    assert capsys.readouterr().out == f"removed 0 files from {place}\n"


def test_mappings_are_counted_where_the_system_says(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_command, "_MOST_MAPPINGS", place / "none")
    assert main(["cache"]) == 0
    assert capsys.readouterr().out.endswith("mappings   not known on this system\n")
