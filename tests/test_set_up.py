"""The set-up script: what a machine that lacks something is told."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / ".ci" / "set_up.py"


def _set_up(directory: Path, prelude: str) -> "subprocess.CompletedProcess[str]":
    """Run the script in a fresh interpreter after `prelude` has changed that interpreter."""
    program = f"import runpy, sys; {prelude}; runpy.run_path(sys.argv[0], run_name='__main__')"
    argv = (str(SCRIPT), str(directory), str(directory / "stamp"))
    start = f"import sys; sys.argv = {list(argv)!r}; {program}"
    return subprocess.run(
        [sys.executable, "-c", start], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_old_python(tmp_path: Path) -> None:
    done = _set_up(tmp_path / "venv", "sys.version_info = (3, 9, 2)")
    assert done.returncode == 1
    assert done.stderr == (
        "set-up: Python 3.11 or newer is needed, this is 3.9.2\ntry: make PYTHON=python3.12 test\n"
    )


def test_missing_ensurepip(tmp_path: Path) -> None:
    done = _set_up(tmp_path / "venv", "sys.modules['ensurepip'] = None")
    major, minor = sys.version_info[:2]
    assert done.returncode == 1
    assert done.stderr == (
        "set-up: this Python can create no virtual environment (venv or ensurepip is missing)\n"
        f"try: install the package python{major}.{minor}-venv, "
        "or name another Python: make PYTHON=... test\n"
    )


def test_nothing_to_do(tmp_path: Path) -> None:
    (tmp_path / "stamp").touch()
    done = _set_up(tmp_path, "sys.version_info = (3, 9, 2)")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
