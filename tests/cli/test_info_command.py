"""`loopwright info`: complete, machine-readable, and useful when something is broken."""

import json
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from loopwright import options
from loopwright.cli import info_command, main
from loopwright.diagnostics import UsageError
from loopwright.machines.host import host


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


def test_options_in_force(capsys: pytest.CaptureFixture[str]) -> None:
    with options.override(num_threads=3, dump=("c",)):
        assert main(["info"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "threads         3" in lines
    assert "  LOOPWRIGHT_NUM_THREADS=3" in lines
    assert "  LOOPWRIGHT_DUMP=c" in lines
    assert "  LOOPWRIGHT_CHECK=1" in lines


def test_broken_llvm_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "loopwright.runtime.llvm_engine", None)
    assert info_command.collect()["llvm"].startswith("cannot be loaded: ")


def test_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(info_command, "PACKAGES", ("no-such-package-of-ours",))
    assert info_command.collect()["packages"] == {"no-such-package-of-ours": "not installed"}


def test_unknown_machine_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise UsageError("no description fits this processor")

    monkeypatch.setattr(info_command, "target_machine", refuse)
    machine = info_command.collect()["machine"]
    assert (machine["name"], machine["caches"]) == ("unknown", [])
    assert machine["description"] == "no description fits this processor"


def test_cache_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    place = tmp_path / "kept"

    def state(**changes: bool) -> dict[str, object]:
        with options.override(cache_dir=str(place), **changes):
            report = info_command.collect()["cache"]
        assert isinstance(report, dict)
        return report

    assert state()["state"] == "not there yet"
    place.mkdir(mode=0o700)
    (place / "kernel.lwo").write_bytes(b"12345")
    assert state() == {"directory": "~/kept", "state": "ready", "entries": 1, "bytes": 5}
    place.chmod(0o777)
    assert state()["state"] == "can be written by others"
    assert state(cache=False)["state"] == "switched off"
