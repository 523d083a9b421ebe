"""What a run says at its start and its end."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from run_report import expected

FILE = """
import pytest

@pytest.mark.parametrize("case", range(3))
def test_works(case): pass

@pytest.mark.skip(reason="no accelerator")
def test_device(): pass

@pytest.mark.parametrize("case", range(2))
def test_needs(case):
    pytest.skip("no compiler")

@pytest.mark.only_in_all("takes minutes")
def test_long(): pass

@pytest.mark.drawn(3)
@pytest.mark.parametrize("case", range(12))
def test_cases(case): pass
"""
REPORT = """8 tests on one core
........ [100%]

skipped, 3 tests:
     2  no compiler
     1  no accelerator

left to longer runs (docs/testing.md), 11 tests:
    10  cases of which a part is drawn
     1  takes minutes

"""


@pytest.mark.parametrize(
    ("level", "cores", "is_whole", "line"),
    [
        ("test", 2, True, "11,409 tests on 2 cores: about 18 minutes if they are quiet"),
        ("test", 1, True, "11,409 tests on one core: about 36 minutes if it is quiet"),
        ("test", 64, True, "11,409 tests on 64 cores: about 1 minute if they are quiet"),
        ("all", 4, True, "11,409 tests on 4 cores: about 30 minutes if they are quiet"),
        ("hunt", 2, True, "11,409 tests on 2 cores: hours"),
        ("test", 2, False, "11,409 tests on 2 cores"),
    ],
)
def test_the_line_at_the_start(
    level: str, cores: int, is_whole: bool, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("run_report.MINUTES", {"test": 18, "all": 60})
    assert expected(11_409, level, cores, is_whole=is_whole) == line


@pytest.mark.parametrize("workers", ["1"])
def test_report(workers: str, tmp_path: Path) -> None:
    """The whole output, by the process that runs the tests and by the one that leads a worker."""
    file = tmp_path / "test_some.py"
    file.write_text(FILE, encoding="utf-8")
    paths = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "conftest", "-p", "no:cacheprovider",
         "--report", "-n", workers, file.name],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": paths, "TEST_LEVEL": "test"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    begin, end = done.stdout.split("slowest tests")
    begin = re.sub(r"bringing up nodes.*\n+", "", begin)
    assert re.sub(r"[.s]+ +\[100%\]", "........ [100%]", begin) == REPORT
    title, *lines = end.splitlines()
    assert title == ", in seconds, with their fixtures:"
    assert all(re.fullmatch(r" +[0-9.]+  test_some.py::\w+(\[\d\])?", line) for line in lines[:8])
    assert re.fullmatch(r" +\d+  all tests together", lines[8])
    assert re.match(r"5 passed, 3 skipped(, 11 deselected)? in ", lines[-1])
