"""`loopwright athread run`: output, profile, faults, and what is refused before anything runs."""

from pathlib import Path

import pytest

from loopwright.cli import main
from needed_tools import needs_compiler

TESTS = Path(__file__).parent.parent / "athread"
HOST = [str(TESTS / "runs" / f"host_{side}.c") for side in ("master", "slave")]
STREAM = [str(TESTS / "runs" / f"stream_{side}.c") for side in ("master", "slave")]
BUG = [str(TESTS / "programs" / f"{name}.c") for name in ("master", "early_read")]


@needs_compiler
def test_the_program_speaks_and_has_its_status(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["athread", "run", *HOST, "--seed", "4", "--", "--seed"]) == 3
    first = capfd.readouterr().out.splitlines()[0]
    assert first == "10 of 64 marks, 10 threads, helper 2, argument --seed"


@needs_compiler
def test_profile(capfd: pytest.CaptureFixture[str]) -> None:
    sizes = ["-D", "LENGTH=4096", "-D", "BLOCK=1024", "-D", "GAP=128"]
    assert main(["athread", "run", *STREAM, *sizes, "--profile"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == "1"
    cells = ["line", "kind", "requests", "blocks", "bytes", "gap", "cycles", "GB/s"]
    assert lines[2].split() == cells
    assert lines[3].split()[1:] == ["get", "512", "4", "1024", "128", "418", "14.2"]
    told = {line[:14].strip(): line[15:] for line in lines[5:]}
    assert told["teams"] == "1"
    assert told["DMA"] == "1024 requests, 4096 blocks, 4194304 bytes"
    assert told["direct access"] == "128 to main memory"
    assert told["bound by"].startswith("the queue of DMA requests (9")
    assert "messages" not in told


@needs_compiler
def test_a_fault_shows_its_line(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["athread", "run", *BUG, "-D", "BAD"]) == 2
    told = capfd.readouterr().err
    first, second = told.splitlines()
    assert first.startswith(f"loopwright: error: {BUG[1]}:16: CPE ")
    assert first.endswith(f"by the athread_get of {BUG[1]}:10: it has not waited for its reply")
    assert second == "    rows[i][j] *= 2; /* fault */"


def test_refusals(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["athread", "run", "no.c", "none.c"]) == 2
    assert capfd.readouterr().err == "loopwright: error: there is no file 'no.c'\n"
    assert main(["athread", "run", *HOST, "--machine", "zen4"]) == 2
    assert "no processor of core groups is named 'zen4'" in capfd.readouterr().err
    assert main(["athread", "run", *HOST[:1]]) == 2
    assert "usage: loopwright athread run MASTER.c SLAVE.c" in capfd.readouterr().err
