"""`loopwright info`, `machines`, `cache`: complete, and useful when something is broken."""

import json
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from loopwright import options
from loopwright.cli import cache_command, info_command, main
from loopwright.diagnostics import UsageError
from loopwright.machines import load_machine, machine_names
from loopwright.machines.host import host
from loopwright.machines.load import machine_from_json
from loopwright.machines.load_gpu import gpu_names
from loopwright.machines.load_mesh import load_mesh, mesh_from_json, mesh_names
from loopwright.runtime.code_memory import code_state
from loopwright.runtime.disk_cache import DiskCache, Entry
from outside.campaigns.failing_resources import failing


def test_json_holds_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["loopwright"] == version("loopwright")
    assert report["packages"]["numpy"] == version("numpy")
    assert report["llvm"].count(".") == 2
    assert report["machine"]["name"] == host().name
    assert [cache["level"] for cache in report["machine"]["caches"]][:1] == [1]
    assert report["threads"] >= 1
    assert report["cache"]["state"] in ("ready", "not there yet")
    assert report["options"].keys() == {
        "LOOPWRIGHT_CACHE_DIR",
        "LOOPWRIGHT_CHECK",
        "LOOPWRIGHT_COMPILE_SECONDS",
        "LOOPWRIGHT_DATA_DIR",
        "LOOPWRIGHT_RACE",
        "LOOPWRIGHT_STRICT",
    }
    assert report["faults"] == {"count": 0, "last": ""}


def test_text(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    caches = [
        {"level": 1, "size": 65536, "ways": 4, "line": 64, "shared_by": 1},
        {"level": 2, "size": 1048576, "ways": 8, "line": 64, "shared_by": 2},
    ]
    report = {
        "loopwright": "0.1.0",
        "python": "CPython 3.11.7",
        "platform": "Linux-6.1-aarch64",
        "packages": {"numpy": "2.4.6", "islpy": "not installed"},
        "llvm": "20.1.8",
        "machine": {"name": "neoverse-n1", "description": "Arm server core", "caches": caches},
        "threads": 2,
        "cache": {"directory": "~/.cache/loopwright", "state": "ready", "entries": 3, "bytes": 9},
        "faults": {"count": 2, "last": "plan_marks of 'f': AssertionError"},
        "options": {},
    }
    monkeypatch.setattr(info_command, "collect", lambda: report)
    assert main(["info"]) == 0
    assert capsys.readouterr().out == (
        "loopwright      0.1.0\n"
        "python          CPython 3.11.7\n"
        "platform        Linux-6.1-aarch64\n"
        "numpy           2.4.6\n"
        "islpy           not installed\n"
        "LLVM            20.1.8\n"
        "machine         neoverse-n1: Arm server core\n"
        "  L1 cache      64 KiB, 4 ways, lines of 64 bytes\n"
        "  L2 cache      1024 KiB, 8 ways, lines of 64 bytes, shared by 2\n"
        "threads         2\n"
        "kernel cache    ~/.cache/loopwright (ready, 3 entries, 9 bytes)\n"
        "faults of ours  2 passed over, the last: plan_marks of 'f': AssertionError\n"
        "options         all as by default\n"
    )


def test_broken_llvm_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "loopwright.runtime.llvm_engine", None)
    assert info_command.collect()["llvm"].startswith("cannot be loaded: ")


def test_unknown_machine_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise UsageError("no description fits this processor")

    monkeypatch.setattr(info_command, "target_machine", refuse)
    machine = info_command.collect()["machine"]
    assert (machine["name"], machine["caches"]) == ("unknown", [])
    assert machine["description"] == "no description fits this processor"


def test_both_latencies_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["machines", "neoverse-n1"]) == 0
    text = capsys.readouterr().out
    assert "\nfma float32            4 (2)     2" in text
    assert text.endswith("\n(n): cycles from the addend to the result\n")


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["machines", "zen3", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert machine_from_json(data, "zen3") == load_machine("zen3")
    assert main(["machines", "--json"]) == 0
    names = [item["name"] for item in json.loads(capsys.readouterr().out)]
    assert names == [*machine_names(), *gpu_names(), *mesh_names()]


def test_gpus_and_meshes(capsys: pytest.CaptureFixture[str]) -> None:
    """Each kind in its table, and every field of one with its source."""
    assert main(["machines"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "GPU SMs GHz threads shared L2 GB/s Tflop/s f32 f64" in lines
    assert "sm_80 108 1.41 2048 164 KiB 40 MiB 2039 19.5 9.75" in lines
    assert "mesh groups cores GHz bits scratchpad GB/s Gflop/s f64" in lines
    assert "sw26010 4 8 x 8 1.45 256 64 KiB 34.1 742.4" in lines
    assert main(["machines", "sw26010pro"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "sw26010pro: Sunway SW26010-Pro (SW39000), 6 core groups of 1 + 64 cores"
    assert "block_cycles unknown not published" in lines
    assert main(["machines", "sm_90"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "sector 32 CUDA C++ Programming Guide: transactions of 32 bytes" in lines
    assert main(["machines", "sw26010", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert mesh_from_json({**data, "format": 1}, "sw26010") == load_mesh("sw26010")


def test_host(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["machines", "host"]) == 0
    assert capsys.readouterr().out.startswith(f"{host().name}: {host().description}\n")


def test_unknown_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["machines", "zen33"]) == 2
    assert capsys.readouterr().err == (
        "loopwright: error: no machine is named 'zen33'\n"
        "try: one of zen3, zen4, or the path of a JSON file\n"
    )


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
