"""Emitted code is what the record says: a part of `scripts/replay.py check`."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent.parent / "scripts"
RECORDS = sorted((SCRIPTS / "data" / "replay").glob("*.txt"))


def run(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPTS / "replay.py"), *args]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)


@pytest.mark.only_in_all("replays emitted code")
def test_emitted_code_is_as_recorded() -> None:
    done = run("check", "--quick")
    told = "emitted code has changed; where that is meant: python scripts/replay.py record"
    assert done.returncode == 0, f"{told}\n{done.stdout}{done.stderr[-2000:]}"


def test_stages_of_an_entry_are_shown() -> None:
    done = run("show", "sparse.spmv.csr", "--machine", "neoverse-n1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("== loops ==\n")
    assert "@kernel_call(" in done.stdout.partition("== llvm ==\n")[2]


@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.stem)
def test_record_is_sorted(record: Path) -> None:
    names = [line.split()[0] for line in record.read_text(encoding="utf-8").splitlines()]
    assert len(names) > 500
    assert names == sorted(set(names))
