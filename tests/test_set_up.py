"""The set-up script: what it installs, and what is printed where a machine lacks something."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / ".ci" / "set_up.py"
RUNNING = "Installing NumPy, SciPy, islpy and llvmlite into {}: about half a minute.\n"


def _set_up(directory: Path, prelude: str, purpose: str) -> "subprocess.CompletedProcess[str]":
    """Run the script in a fresh interpreter after `prelude` has changed that interpreter."""
    program = f"import runpy, sys; {prelude}; runpy.run_path(sys.argv[0], run_name='__main__')"
    argv = (str(SCRIPT), str(directory), purpose)
    start = f"import sys; sys.argv = {list(argv)!r}; {program}"
    return subprocess.run(
        [sys.executable, "-c", start], cwd=ROOT, capture_output=True, text=True, check=False
    )


def _environment(directory: Path, install: str) -> None:
    """A virtual environment whose `pip install` is lines of a shell."""
    python = directory / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\ntest "$3" = -V && exit 0\n{install}\n')
    python.chmod(0o700)


@pytest.mark.parametrize(("purpose", "target"), [("running", "demo"), ("developing", "test")])
def test_old_python(tmp_path: Path, purpose: str, target: str) -> None:
    done = _set_up(tmp_path / "venv", "sys.version_info = (3, 9, 2)", purpose)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "set-up: Python 3.11 or newer is needed, this is 3.9.2\n"
        f"try: make PYTHON=python3.12 {target}\n"
    )


def test_missing_ensurepip(tmp_path: Path) -> None:
    done = _set_up(tmp_path / "venv", "sys.modules['ensurepip'] = None", "developing")
    major, minor = sys.version_info[:2]
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "set-up: this Python can create no virtual environment (venv or ensurepip is missing)\n"
        f"try: install the package python{major}.{minor}-venv, "
        "or name another Python: make PYTHON=... test\n"
    )


@pytest.mark.parametrize(
    ("stamp", "purpose"),
    [(".running", "running"), (".installed", "developing"), (".installed", "running")],
)
def test_nothing_to_do(tmp_path: Path, stamp: str, purpose: str) -> None:
    (tmp_path / stamp).touch()
    done = _set_up(tmp_path, "sys.version_info = (3, 9, 2)", purpose)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("stamp", [".running", ".installed"])
def test_packages_changed_since(tmp_path: Path, stamp: str) -> None:
    _environment(tmp_path, "exit 0")
    (tmp_path / stamp).touch()
    os.utime(tmp_path / stamp, (0, 0))
    done = _set_up(tmp_path, "pass", "running")
    assert (done.returncode, done.stdout) == (0, RUNNING.format(tmp_path))


def test_pip_is_quoted_where_it_fails(tmp_path: Path) -> None:
    _environment(tmp_path, 'for k in $(seq 30); do echo "line $k" >&2; done; exit 1')
    done = _set_up(tmp_path, "pass", "running")
    assert (done.returncode, done.stdout) == (1, RUNNING.format(tmp_path))
    assert done.stderr == (
        "".join(f"line {k}\n" for k in range(11, 31))
        + f"set-up: pip could not install the packages; all that it printed is in {tmp_path}"
        "/set-up.log\ntry: mend what pip names (a network is needed once), then make demo\n"
    )
    assert not (tmp_path / ".running").exists()
